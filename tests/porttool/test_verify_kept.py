"""A verdict is taken as it was kept only while all that it rests on is the same."""

from __future__ import annotations

import dataclasses
import json
import os
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from porttool.cli import app
from porttool.errors import RepositoryError
from porttool.git.commits import CommitId
from porttool.git.publish import NOTES
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan
from porttool.proving.proof import FileProof, Proof
from porttool.record import find_report, load_report, store_report
from porttool.report import Report
from porttool.verifying.checks import surroundings_of
from porttool.verifying.verdict import Verified
from porttool.verifying.verify import verify

EXPERIMENT = "e" * 40
PLAN = f"""\
name: compile-it
experiment: {{branch: experiments/compile, commits: [{EXPERIMENT}]}}
verify:
  timeout_s: 60
  checks:
    - {{name: count, command: [python, -c, "COUNT"]}}
"""
PRECONDITION = """\
precondition:
  config: big.yaml
  any:
    - {all: [{key: size, at_least: 8}]}
"""
HOLDS = Proof(True, "syntax", (FileProof("a.py", "identical tree", ""),), ())
BRANCH = "port/compile-it"


class Port:
    """A branch with a stored report, and a check that writes down every time that it runs."""

    def __init__(self, work: Any, ran: Path) -> None:
        self.work = work
        self.ran = ran
        self.path = work.path / "patches" / "compile-it" / "port.yaml"

    def verify(self, **options: Any) -> Verified:
        with open_repository(self.work.path) as repo:
            return verify(
                repo,
                load_plan(self.path),
                prove=lambda onto, tip: HOLDS,
                progress=lambda step: None,
                **options,
            )

    def runs(self) -> int:
        """Return how often the check has run."""
        return len(self.ran.read_text()) if self.ran.exists() else 0

    def report(self) -> Report:
        with open_repository(self.work.path) as repo:
            return load_report(repo, load_plan(self.path))

    def store(self, **changes: Any) -> None:
        with open_repository(self.work.path) as repo:
            store_report(repo, dataclasses.replace(self.report(), **changes))


MakePort = Callable[..., Port]


@pytest.fixture
def make(make_repo: Callable[..., Any], tmp_path: Path) -> MakePort:
    def start(more: str = "", *, ending: str = "", config: str = "size: 8\n") -> Port:
        work = make_repo({"a.py": "x = 1\n", "big.yaml": config})
        onto = work.id("main")
        ran = tmp_path / "ran"
        port = Port(work, ran)
        port.path.parent.mkdir(parents=True)
        (work.path / ".git" / "info" / "exclude").write_text("patches/\n")
        code = f"open({str(ran)!r}, 'a').write('x'); {ending}".replace('"', "'")
        port.path.write_text(PLAN.replace("COUNT", code) + more)
        work.switch(BRANCH, "main")
        tip = work.commit({"a.py": "x = 2\n"}, f"it\n\nPorted-from: {EXPERIMENT}\nPort: compile-it")
        work.switch("main")
        digest = load_plan(port.path).digest
        report = Report("compile-it", digest, "0", (), "main", onto, BRANCH, tip)
        with open_repository(work.path) as repo:
            store_report(repo, report)
        return port

    return start


def test_a_second_verdict_of_the_same_trees_is_the_first(make: MakePort) -> None:
    port = make()
    first = port.verify()
    assert (first.exit_code, first.kept, port.runs()) == (0, "", 1)
    note = port.work.id(NOTES)
    again = port.verify()
    assert (again.exit_code, port.runs(), port.work.id(NOTES)) == (0, 1, note)
    assert again.report == first.report
    assert again.kept == first.report.basis.date
    assert again.message == (
        f"{first.message}; kept from {again.kept[:10]} {again.kept[11:16]} UTC, of the same trees, "
        "plan, tool and interpreter: --fresh runs it anew"
    )
    assert (port.verify(fresh=True).kept, port.runs()) == ("", 2)


def test_a_main_that_moved_on_is_said_and_runs_nothing(make: MakePort) -> None:
    """The branch is compared with what it was made on; that it is stale is no part of a verdict."""
    port = make()
    port.verify()
    port.work.commit({"b.py": "x = 1\n"}, "go on")
    again = port.verify()
    assert (port.runs(), again.standing.stale) == (1, 1)
    assert "stale by 1 commit; kept from" in again.message
    assert again.next == "porttool refresh compile-it && porttool verify compile-it"


def test_whatever_it_rests_on_makes_it_run_anew(make: MakePort) -> None:
    port = make()
    basis = port.verify().report.basis
    parts = ("onto_tree", "tree", "digest", "version", "surroundings")
    for num_runs, part in enumerate(parts, start=2):
        port.store(basis=dataclasses.replace(basis, **{part: "other"}))
        assert (port.verify().kept, port.runs()) == ("", num_runs), part
    assert port.verify().kept


def test_a_commit_on_top_makes_it_run_anew(make: MakePort) -> None:
    port = make()
    port.verify()
    port.work.switch(BRANCH)
    tip = port.work.commit({"a.py": "x = 3\n"}, "mend by hand")
    port.work.switch("main")
    with open_repository(port.work.path) as repo:
        report = find_report(repo, CommitId(tip), "compile-it")
    assert report is not None
    assert (report.basis, report.verdict) == (None, "unverified")
    assert (port.verify().kept, port.runs()) == ("", 2)


def test_a_failure_is_kept_as_the_failure_that_it_is(make: MakePort) -> None:
    port = make(ending="raise SystemExit(3)")
    first = port.verify()
    again = port.verify()
    assert (first.exit_code, again.exit_code, port.runs()) == (4, 4, 1)
    assert again.report.verdict == "failed"
    assert again.kept


@pytest.mark.parametrize(
    ("ending", "limit", "detail"),
    [
        ("import time; time.sleep(60)", "1", "ended after its time limit of 1 s"),
        ("import os; os.kill(os.getpid(), 9)", "60", "killed by SIGKILL"),
    ],
)
def test_what_was_ended_is_not_kept(make: MakePort, ending: str, limit: str, detail: str) -> None:
    port = make(ending=ending)
    port.path.write_text(port.path.read_text().replace("timeout_s: 60", f"timeout_s: {limit}"))
    port.store(digest=load_plan(port.path).digest)
    found = port.verify()
    assert (found.exit_code, found.report.basis) == (4, None)
    assert found.report.checks[-1].detail == detail
    assert (port.verify().kept, port.runs()) == ("", 2)


def test_a_parked_port_answers_for_what_was_not_run_by_running_it(make: MakePort) -> None:
    port = make(PRECONDITION, config="size: 7\n")
    assert (port.verify().exit_code, port.verify().exit_code, port.runs()) == (5, 5, 0)
    assert port.verify().kept
    despite = port.verify(despite_precondition=True)
    assert (despite.exit_code, despite.kept, port.runs()) == (5, "", 1)
    assert port.verify(despite_precondition=True).kept
    assert port.verify().kept


def test_an_interpreter_is_told_by_what_is_installed_for_it(tmp_path: Path) -> None:
    venv.create(tmp_path / "one", symlinks=True)
    python = tmp_path / "one" / "bin" / "python"
    bare = surroundings_of(python)
    assert bare == surroundings_of(python) != ""
    (packages,) = (tmp_path / "one" / "lib").glob("python*/site-packages")
    (packages / "thing-1.0.dist-info").mkdir()
    assert surroundings_of(python) not in (bare, "")
    assert surroundings_of(tmp_path / "none") == ""


def test_the_command_says_what_it_kept(make_port: Callable[[], Any]) -> None:
    work = make_port()

    def porttool(*words: str) -> Any:
        return CliRunner().invoke(app, [*words, "--repo", str(work.path)])

    assert porttool("apply").exit_code == 0
    first = json.loads(porttool("verify", "--json").stdout)
    again = json.loads(porttool("verify", "--json").stdout)
    assert (first["kept"], again["kept"]) == ("", first["report"]["basis"]["date"])
    assert again["report"] == first["report"]
    assert json.loads(porttool("verify", "--json", "--fresh").stdout)["kept"] == ""
    assert "kept from" in porttool("verify").stdout


def test_without_an_identity_nothing_is_run_for_nothing(
    make: MakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = make()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with pytest.raises(RepositoryError, match="git does not know who you are") as caught:
        port.verify()
    assert caught.value.next == (
        'git config --global user.name "Your Name" && '
        'git config --global user.email "you@example.org"'
    )
    assert port.runs() == 0
