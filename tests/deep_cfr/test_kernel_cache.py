"""A kernel is never older than what it calls, in whichever file that stands."""

import os
import subprocess
import sys
from pathlib import Path

from coolrl_lost_cities.games.classic import kernel_cache

INNER = "from numba import njit\n\n@njit(cache=True)\ndef inner(x):\n    return x + {number}\n"
OUTER = (
    "from numba import njit\nfrom {package}.inner import inner\n\n"
    "@njit(cache=True)\ndef outer(x):\n    return inner(x)\n"
)


def test_a_change_in_a_called_file_reaches_the_kernel(tmp_path):
    package = tmp_path / "kernels"
    package.mkdir()
    cache = Path(kernel_cache.__file__).read_text()
    (package / "kernel_cache.py").write_text(cache)
    (package / "__init__.py").write_text(
        "from kernels.kernel_cache import keep_kernels_by_source\n\nkeep_kernels_by_source()\n"
    )
    (package / "outer.py").write_text(OUTER.format(package="kernels"))
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    answers = []
    for number in (1, 1, 2):
        (package / "inner.py").write_text(INNER.format(number=number))
        done = subprocess.run(
            [sys.executable, "-c", "from kernels.outer import outer; print(outer(0))"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(done.stdout.strip())
    assert answers == ["1", "1", "2"]
    assert len(list((tmp_path / "cache" / "lost-cities").iterdir())) == 2


def test_a_folder_that_the_user_chose_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kernel_cache.keep_kernels_by_source()
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path)


def test_only_the_newest_folders_are_kept(monkeypatch, tmp_path):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    base = tmp_path / "lost-cities"
    for number in range(12):
        (base / f"old{number:02}").mkdir(parents=True)
        os.utime(base / f"old{number:02}", (number, number))
    kernel_cache.keep_kernels_by_source()
    kept = {path.name for path in base.iterdir()}
    assert kept == {kernel_cache.sources_digest(), *(f"old{number:02}" for number in range(5, 12))}
