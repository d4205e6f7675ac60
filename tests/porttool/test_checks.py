"""The project's programs: their surroundings, their ends, and that nothing outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from porttool.verifying.checks import (
    TAIL_LINES,
    Finished,
    Processes,
    Workplace,
    as_check,
    find_python,
    workplace,
)

PYTHON = Path(sys.executable)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return workplace(tmp_path, PYTHON, pythonpath=("src",), variables={"OMP_NUM_THREADS": "1"})


def run(place: Workplace, *command: str, timeout_s: float = 60) -> Finished:
    with Processes() as processes:
        return processes.run(command, place, timeout_s=timeout_s)


def run_code(place: Workplace, code: str, timeout_s: float = 60) -> Finished:
    return run(place, "python", "-c", code, timeout_s=timeout_s)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def test_exit_code_and_output(place: Workplace) -> None:
    good = run_code(place, "import sys; print('out'); print('err', file=sys.stderr)")
    assert (good.exit_code, good.passed, good.detail) == (0, True, "exit code 0")
    assert set(good.tail) == {"out", "err"}
    bad = run_code(place, "raise SystemExit(3)")
    assert (bad.exit_code, bad.passed, bad.detail) == (3, False, "exit code 3")


def test_git_variables_and_what_weakens_a_check_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        *("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "PYTHONOPTIMIZE", "PYTEST_ADDOPTS"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV"),
    ):
        monkeypatch.setenv(name, "1")
    place = workplace(tmp_path, PYTHON, pythonpath=("src", "lib"), variables={"X": "y"})
    seen = run_code(place, "import os\nfor n in sorted(os.environ): print(n + '=' + os.environ[n])")
    variables = dict(line.split("=", 1) for line in seen.tail if "=" in line)
    assert not any(name.startswith("GIT_DIR") or name in ("GIT_INDEX_FILE",) for name in variables)
    assert not {"PYTHONOPTIMIZE", "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE"} & set(variables)
    assert "VIRTUAL_ENV" not in variables
    assert variables["PYTHONPATH"] == f"{tmp_path / 'src'}:{tmp_path / 'lib'}"
    assert variables["PATH"].startswith(f"{PYTHON.parent}:")
    assert variables["X"] == "y"


def test_imports_come_from_the_checkout(place: Workplace, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mine.py").write_text("WHERE = __file__")
    assert run_code(place, "import mine; print(mine.WHERE)").tail == (
        str(tmp_path / "src" / "mine.py"),
    )


def test_python_means_the_projects_interpreter(place: Workplace) -> None:
    seen = run_code(place, "import sys; print(sys.executable)")
    assert seen.tail == (str(PYTHON),)
    assert seen.command[0] == "python"


def test_a_program_that_is_not_there_is_an_answer(place: Workplace) -> None:
    done = run(place, "no-such-program-here", "x")
    assert done.exit_code == 127
    assert done.detail == "`no-such-program-here` cannot be started: No such file or directory"
    check = as_check("lint", done)
    assert (check.status, check.detail) == ("failed", done.detail)


def test_only_the_end_of_the_output_is_kept(place: Workplace) -> None:
    done = run_code(place, "for n in range(1000): print('line', n)\nprint('x' * 5000, end='')")
    assert len(done.tail) == TAIL_LINES
    assert done.tail[-2] == "line 999"
    assert len(done.tail[-1]) == 400
    assert done.tail[-1].endswith("x...")


def test_progress_bars_and_colours_become_plain_lines(place: Workplace) -> None:
    code = r"print('10%\r50%\r\x1b[32m100%\x1b[0m\r'); print('\x1b]0;title\x07done')"
    assert run_code(place, code).tail == ("100%", "done")


def test_undecodable_output_is_shown_somehow(place: Workplace) -> None:
    assert run_code(place, r"import os; os.write(1, b'caf\xe9\n')").tail == ("caf\ufffd",)


def test_a_program_past_its_limit_ends_with_everything_it_started(
    place: Workplace, tmp_path: Path
) -> None:
    code = (
        "import subprocess, sys, time, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    done = run_code(place, code, timeout_s=2)
    assert done.exit_code is None
    assert done.detail == "ended after its time limit of 2 s"
    assert wait_for(lambda: not is_alive(int(done.tail[0])))


def test_what_a_program_leaves_behind_is_ended_and_does_not_hold_us(place: Workplace) -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid)\n"
    )
    done = run_code(place, code)
    assert done.exit_code == 0
    assert done.seconds < 60
    assert wait_for(lambda: not is_alive(int(done.tail[0])))


def test_leaving_the_block_ends_what_runs_and_starts_nothing_more(
    place: Workplace, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    code = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    results: list[Finished] = []
    processes = Processes()
    thread = threading.Thread(
        target=lambda: results.append(processes.run(["python", "-c", code], place, timeout_s=600))
    )
    with processes:
        thread.start()
        assert wait_for(lambda: mark.exists() and mark.read_text() != "")
    thread.join(20)
    assert not is_alive(int(mark.read_text()))
    assert results[0].detail == "killed by SIGTERM"
    late = processes.run(["python", "-c", "print(1)"], place, timeout_s=60)
    assert (late.exit_code, late.tail) == (None, ())
    assert late.detail == "not started: the others were ended"


def test_a_crash_is_named(place: Workplace) -> None:
    done = run_code(place, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (done.exit_code, done.passed, done.detail) == (-11, False, "killed by SIGSEGV")


def test_standard_input_is_empty(place: Workplace) -> None:
    assert run_code(place, "import sys; print(repr(sys.stdin.read()))").tail == ("''",)


def test_the_interpreter_is_the_active_one_then_the_repositorys_then_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    active, own = tmp_path / "active", tmp_path / "repo" / ".venv"
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert find_python(tmp_path / "repo") == PYTHON
    for home in (own, active):
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(home)], check=True
        )
    assert find_python(tmp_path / "repo") == own / "bin" / "python"
    monkeypatch.setenv("VIRTUAL_ENV", str(active))
    assert find_python(tmp_path / "repo") == active / "bin" / "python"
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    assert find_python(tmp_path / "repo") == own / "bin" / "python"


def test_an_interpreter_of_an_environment_keeps_its_packages(tmp_path: Path) -> None:
    home = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    place = workplace(tmp_path, home / "bin" / "python", pythonpath=(), variables={})
    assert run_code(place, "import sys; print(sys.prefix)").tail == (str(home),)


def test_what_is_running_ends_even_when_the_tool_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "pids"
    child = (
        "import os, subprocess, sys, time\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(mark)!r}, 'w').write(f'{{os.getpid()}} {{other.pid}} .')\n"
        "time.sleep(600)\n"
    )
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from porttool.verifying.checks import Processes, workplace\n"
        "place = workplace(Path(sys.argv[1]), Path(sys.executable), pythonpath=(), variables={})\n"
        "with Processes() as processes:\n"
        "    processes.run(('python', '-c', sys.argv[2]), place, timeout_s=600)\n"
    )
    tool = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), child])
    assert wait_for(lambda: mark.exists() and mark.read_text().endswith("."))
    tool.send_signal(signal.SIGKILL)
    tool.wait()
    pids = [int(word) for word in mark.read_text().split()[:2]]
    assert wait_for(lambda: not any(map(is_alive, pids)))
