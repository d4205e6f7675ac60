"""The command line from outside: what it prints where, its exit codes, and how soon it answers."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from porttool.cli import app
from porttool.console import progress_lines
from porttool.report import from_json
from porttool.review.text import LINE

CONFIG = '''\
"""Settings."""

from dataclasses import dataclass, field


@dataclass
class Network:
    size: int = 4


@dataclass
class Config:
    network: Network = field(default_factory=Network)
'''
LEARNER = '''\
"""One network and its optimizer."""

import torch

from config import Config


class Learner:
    def __init__(self, config: Config) -> None:
        self.net = torch.nn.Linear(3, config.network.size)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def save(self, path: str) -> None:
        torch.save({"net": self.net.state_dict()}, path)

    def load(self, path: str) -> None:
        self.net.load_state_dict(torch.load(path, weights_only=True)["net"])
'''
EXPERIMENT = (
    LEARNER.replace(
        "torch.nn.Linear(3, config.network.size)",
        "torch.compile(torch.nn.Linear(3, config.network.size))",
    )
    .replace('"net": self.net.state_dict()', '"net": _clean(self.net.state_dict())')
    .replace("self.net.load_state_dict", 'getattr(self.net, "_orig_mod", self.net).load_state_dict')
    .replace(
        "class Learner",
        "def _clean(state: dict) -> dict:\n"
        '    return {key.removeprefix("_orig_mod."): value for key, value in state.items()}\n\n\n'
        "class Learner",
    )
)
MOVED_ON = (
    LEARNER
    + """
    def push(self, queue) -> None:
        queue.put(self.net.state_dict())
"""
)
PLAN = """\
name: compile-it
experiment: {{branch: experiments/compile, commits: ["{experiment}"]}}
switch:
  module: src/config.py
  root: Config
  key: compile
  class: CompileConfig
  gate: compile.trainer.enabled
  sections:
    - key: trainer
      class: CompileTrainer
      fields:
        - {{name: enabled, type: bool, default: false}}
  yaml: [big.yaml]
precondition:
  config: big.yaml
  any:
    - {{all: [{{key: network.size, at_least: 8}}]}}
verify:
  pythonpath: [src]
  timeout_s: 600
  checks:
    - {{name: imports, command: [python, -c, {code}]}}
"""


class Shell:
    """Gives porttool's commands in a repository with one port, in this process to start it once."""

    def __init__(self, work: Any, experiment: str) -> None:
        self.work = work
        self._experiment = experiment
        self.check("import config; print(config.Config().compile.trainer.enabled)")

    def check(self, code: str) -> None:
        """Write the plan with one check that runs this code."""
        plan = self.work.path / "patches" / "compile-it" / "port.yaml"
        plan.parent.mkdir(parents=True, exist_ok=True)
        plan.write_text(PLAN.format(experiment=self._experiment, code=json.dumps(code)))

    def __call__(self, *words: str, folder: Path | None = None) -> Result:
        with contextlib.chdir(folder or self.work.path):
            result = CliRunner().invoke(app, words)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def refs(self) -> str:
        return str(self.work.git("for-each-ref"))


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from porttool.cli import main; main()", *words]


@pytest.fixture
def porttool(make_repo: Callable[..., Any]) -> Shell:
    work = make_repo(
        {
            "src/config.py": CONFIG,
            "src/learner.py": LEARNER,
            "big.yaml": "network:\n  size: 8\n",
            ".gitignore": "patches/\n",
        }
    )
    work.switch("experiments/compile", "main")
    experiment = work.commit({"src/learner.py": EXPERIMENT}, "compile it")
    work.switch("main")
    work.commit({"src/learner.py": MOVED_ON}, "push to workers")
    return Shell(work, experiment)


def test_from_apply_to_merged(porttool: Shell) -> None:
    assert "compile-it: not applied" in porttool("status").stdout
    before = porttool.work.git("status", "--porcelain")

    applied = porttool("apply", "--onto", "main")
    assert applied.exit_code == 0, applied.stderr
    assert "created port/compile-it with 2 commits" in applied.stdout
    assert "next: porttool verify compile-it" in applied.stdout
    assert re.search(
        r"^  src/learner\.py\n(?:    .*\n)*"
        r"    new site learner\.py:\d+: `self\.net\.state_dict\(\)`",
        applied.stdout,
        re.M,
    )
    assert applied.stderr.count("\n") >= 4
    assert porttool.work.git("status", "--porcelain") == before

    again = porttool("apply")
    assert (again.exit_code, again.stdout) == (
        0,
        "port/compile-it is already what this port gives on main\n",
    )
    assert "porttool verify compile-it" in porttool("status").stdout

    verified = porttool("verify")
    assert verified.exit_code == 0, verified.stdout + verified.stderr
    assert (
        "port/compile-it ready: 3 checks passed, 1 skipped, no run was compared\n"
        in verified.stdout
    )
    assert "next: git merge --no-ff port/compile-it" in verified.stdout
    assert "imports" in verified.stderr

    body = porttool("review", "--markdown").stdout
    assert body.startswith("# Port `compile-it` onto `main`\n\n**Verdict: ready.**")
    assert "ready" in porttool("review", "compile-it").stdout
    report = from_json(porttool("review", "--json").stdout)
    assert report.tip == porttool.work.id("port/compile-it")
    assert [s.known for s in report.sites if s.action == "rewrite"].count(False) == 1

    porttool.work.git("merge", "--no-ff", "-m", "merge it", "port/compile-it")
    merged = porttool("apply")
    assert merged.exit_code == 0
    assert "compile-it is already ported: main has it since" in merged.stdout
    assert "compile-it: merged" in porttool("status").stdout


def test_a_dry_run_writes_no_ref_and_json_is_all_there_is(porttool: Shell) -> None:
    before = porttool.refs()
    done = porttool("apply", "--dry-run", "--json")
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["outcome"], answer["exit_code"]) == ("dry-run", 0)
    assert answer["report"]["proof"]["holds"] is True
    assert {site["action"] for site in answer["report"]["sites"]} == {"rewrite"}
    assert porttool.refs() == before
    shown = porttool("apply", "--dry-run")
    assert "Sites: 3 sites" in shown.stdout
    assert "no ref was written" in shown.stdout


def test_a_parked_port_makes_no_branch_and_exits_with_5(porttool: Shell) -> None:
    porttool.work.commit({"big.yaml": "network:\n  size: 7\n"})
    before = porttool.refs()
    for words in (("apply",), ("verify",)):
        done = porttool(*words)
        assert done.exit_code == 5, done.stderr
        assert "parked" in done.stdout
    assert porttool.refs() == before
    assert json.loads(porttool("verify", "--json").stdout)["verdict"] == "parked"
    assert "compile-it: parked" in porttool("status").stdout

    assert porttool("apply", "--despite-precondition").exit_code == 0
    assert porttool("verify").exit_code == 5
    forced = porttool("verify", "--despite-precondition", "--json")
    answer = json.loads(forced.stdout)
    assert (forced.exit_code, answer["verdict"]) == (5, "parked")
    statuses = {check["name"]: check["status"] for check in answer["report"]["checks"]}
    assert (statuses["precondition"], statuses["imports"]) == ("failed", "passed")


def test_a_failed_check_exits_with_4_and_shows_its_end(porttool: Shell) -> None:
    porttool.check("print('before'); raise SystemExit('not today')")
    assert porttool("apply").exit_code == 0
    done = porttool("verify")
    assert done.exit_code == 4
    assert "end of the output of imports" in done.stdout
    assert "not today" in done.stdout
    assert "next: mend what failed" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("verify",), 2, "there is no branch `port/compile-it` yet"),
        (("review",), 2, "next:  porttool apply compile-it --onto main"),
        (("apply", "compile"), 2, "did you mean `compile-it`?"),
        (("apply", "--onto", "gone"), 2, "there is no branch or commit `gone`"),
        (("apply", "--no-such-option"), 2, "--no-such-option"),
        (("port",), 2, "port"),
        (("status", "--repo", "nowhere"), 2, "there is no such folder"),
    ],
)
def test_a_refusal_says_what_and_what_next_and_changes_nothing(
    porttool: Shell, words: tuple[str, ...], code: int, message: str
) -> None:
    before = porttool.refs()
    done = porttool(*words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert porttool.refs() == before


def test_a_refusal_as_json(porttool: Shell) -> None:
    done = porttool("verify", "--json")
    assert done.exit_code == 2
    answer = json.loads(done.stdout)
    assert (answer["error"], answer["exit_code"]) == ("RepositoryError", 2)
    assert answer["next"] == "porttool apply compile-it --onto main"


def test_another_repository_and_a_port_by_its_path(porttool: Shell, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = porttool.work.path / "patches" / "compile-it"
    folder.rename(elsewhere / "mine")
    repo = ("--repo", str(porttool.work.path))
    done = porttool("apply", "mine", "--dry-run", "--json", *repo, folder=elsewhere)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["branch"] == "port/compile-it"
    assert "there is no port under patches/" in porttool("status", *repo, folder=elsewhere).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_the_check_and_says_one_line(
    porttool: Shell, tmp_path: Path, number: signal.Signals
) -> None:
    mark = tmp_path / "pid"
    porttool.check(
        f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    assert porttool("apply").exit_code == 0
    before = porttool.refs()
    running = subprocess.Popen(
        command("verify"),
        cwd=porttool.work.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(number)
    output, errors = running.communicate(timeout=60)
    assert (running.returncode, output) == (130, "")
    assert errors.splitlines()[-1] == "interrupted; nothing was changed"
    assert "Traceback" not in errors
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
    assert porttool.refs() == before


def test_help_names_the_commands_and_the_exit_codes() -> None:
    done = subprocess.run(command("--help"), capture_output=True, text=True, check=True)
    listed = re.findall(r"^  ([a-z]+)  +[A-Z]", done.stdout, re.M)
    assert listed == [
        *("init", "apply", "verify", "precondition", "review", "record", "publish", "resolve"),
        *("status", "refresh", "radar", "gate", "demo", "schema"),
    ]
    assert "3 a person must decide" in done.stdout
    assert not re.search(r"^  .*\.\.\.$", done.stdout, re.M)


def test_the_version_is_the_installed_one() -> None:
    done = subprocess.run(command("--version"), capture_output=True, text=True, check=True)
    assert re.fullmatch(r"porttool \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize("words", [("--help",), ("apply", "--help"), ("status",)])
def test_nothing_heavy_is_imported_before_it_is_needed(
    words: tuple[str, ...], porttool: Shell
) -> None:
    code = (
        "import sys\nfrom porttool.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=porttool.work.path,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert not {"torch", "numpy", "numba", "libcst"} & loaded
    if words != ("status",):
        own = {name for name in loaded if name.startswith("porttool")}
        own -= {name for name in own if name.startswith("porttool.commands")}
        assert own == {"porttool", "porttool.cli", "porttool.console"}
        assert not {"git", "ruamel"} & loaded


INTERRUPTED = """\
import os, signal, sys
wanted, number = sys.argv.pop(1), int(sys.argv.pop(1))
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Finder())
from porttool.cli import main
main()
"""


@pytest.mark.parametrize(
    ("module", "number", "words"),
    [
        ("shlex", signal.SIGINT, "nothing was changed"),
        ("typer", signal.SIGINT, "nothing was changed"),
        ("porttool.errors", signal.SIGINT, "nothing was changed"),
        ("porttool.git.repo", signal.SIGTERM, "nothing was changed"),
        ("porttool.apply", signal.SIGINT, "no branch was made"),
        ("porttool.review.text", signal.SIGINT, "no branch was made"),
    ],
)
def test_an_interruption_while_it_starts_is_one_line(
    porttool: Shell, module: str, number: signal.Signals, words: str
) -> None:
    before = porttool.refs()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, str(int(number)), "apply"],
        cwd=porttool.work.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"interrupted; {words}\n")
    assert porttool.refs() == before


def test_an_interruption_after_the_branch_was_made_says_so(porttool: Shell) -> None:
    hook = "import porttool.series as s, os, signal\n"
    hook += "publish = s.publish_with_note\n"
    hook += "def late(*a, **k): publish(*a, **k); os.kill(os.getpid(), signal.SIGINT)\n"
    hook += "s.publish_with_note = late\nfrom porttool.cli import main\nmain()\n"
    done = subprocess.run(
        [sys.executable, "-c", hook, "apply"],
        cwd=porttool.work.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == "interrupted; the branch was made before that"
    assert "refs/heads/port/compile-it" in porttool.refs()


@pytest.mark.parametrize("words", [("review",), ("review", "--json"), ("review", "--markdown")])
def test_a_full_disk_is_one_line(porttool: Shell, words: tuple[str, ...]) -> None:
    assert porttool("apply").exit_code == 0
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command(*words),
            cwd=porttool.work.path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        2,
        "the answer cannot be written to standard output: No space left on device\n",
    )


class _Writes(io.StringIO):
    """Keeps each write, as the operating system would see it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def write(self, text: str) -> int:
        self.seen.append(text)
        return super().write(text)


def test_a_line_of_progress_is_one_write() -> None:
    writes = _Writes()
    with contextlib.redirect_stderr(writes), progress_lines() as progress:
        progress("one")
        progress("two\x1b")
    assert writes.seen == ["one\n", "two\\x1b\n"]


def test_the_summary_is_narrow_and_names_a_file_once(porttool: Shell) -> None:
    lines = porttool("apply").stdout.splitlines()
    assert max(map(len, lines)) <= LINE
    assert sum(line.strip() == "src/learner.py" for line in lines) == 1
    assert not any("characters more" in line for line in lines)


def test_verify_with_a_python_that_is_not_there_keeps_the_verdict(porttool: Shell) -> None:
    assert porttool("apply").exit_code == 0
    assert porttool("verify").exit_code == 0
    before = porttool.refs()
    done = porttool("verify", "--python", "/no/such/python")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--python /no/such/python" in done.stderr
    assert porttool.refs() == before
    assert "ready" in porttool("status").stdout


def test_the_demos_folder_is_quoted_for_the_shell(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        done = CliRunner().invoke(app, ["demo", "my demo"])
    assert done.exit_code == 0
    assert "next: cd 'my demo' && porttool apply" in done.stdout
