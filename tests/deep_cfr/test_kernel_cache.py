"""A kernel is never older than what it calls, in whichever file that stands."""

import os
import subprocess
import sys
from pathlib import Path

from coolrl_lost_cities.games.classic import kernel_cache

INNER = "from numba import njit\n\n@njit(cache=True)\ndef inner(x):\n    return x + {number}\n"
OUTER = (
    "from numba import njit\nfrom {package}.inner import inner\n"
    "from {package} import (\n    plain,\n)\n"
    "\n@njit(cache=True)\ndef outer(x):\n    return inner(x) + plain.ADDED\n"
)


def written_package(folder: Path) -> Path:
    package = folder / "kernels"
    package.mkdir()
    (package / "kernel_cache.py").write_text(Path(kernel_cache.__file__).read_text())
    (package / "__init__.py").write_text(
        "from kernels.kernel_cache import keep_kernels_by_source\n\nkeep_kernels_by_source()\n"
    )
    (package / "outer.py").write_text(OUTER.format(package="kernels"))
    (package / "inner.py").write_text(INNER.format(number=1))
    (package / "plain.py").write_text("from kernels.deeper import ADDED\n")
    (package / "deeper.py").write_text("ADDED = 10\n")
    (package / "unrelated.py").write_text("from kernels import outer\n")
    return package


def answer(folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", "from kernels.outer import outer; print(outer(0))"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_change_of_anything_that_a_kernel_imports_reaches_it_and_no_other_change(tmp_path):
    package = written_package(tmp_path)
    cache = tmp_path / "cache" / "lost-cities"
    assert answer(tmp_path) == "11"
    (package / "unrelated.py").write_text("from kernels import outer, inner\n")
    assert answer(tmp_path) == "11"
    assert len(list(cache.iterdir())) == 1  # nothing to compile: only kernels' sources count
    (package / "inner.py").write_text(INNER.format(number=2))
    assert answer(tmp_path) == "12"
    (package / "deeper.py").write_text("ADDED = 20\n")
    assert answer(tmp_path) == "22"
    assert len(list(cache.iterdir())) == 3


def test_a_folder_is_marked_once_all_is_compiled(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not kernel_cache.is_compiled()
    kernel_cache.mark_compiled()
    assert kernel_cache.is_compiled()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "missing"))
    kernel_cache.mark_compiled()  # cannot be written, and need not be
    assert not kernel_cache.is_compiled()


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
