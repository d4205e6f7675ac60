"""Where each port stands, from real branches, merges and notes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from typer.testing import CliRunner

from porttool.account import tool_version
from porttool.cli import app
from porttool.evidence import Basis
from porttool.git.commits import CommitId
from porttool.git.publish import NOTES
from porttool.git.repo import open_repository
from porttool.overview import age, ages, standing_verdict
from porttool.plan.plan import load_plan
from porttool.record import find_report, store_report
from porttool.report import Report, Verdict
from porttool.status import PortStatus, port_statuses

EXPERIMENT = "e" * 40
PLAN = f"name: {{name}}\nexperiment: {{{{branch: x/y, commits: ['{EXPERIMENT}']}}}}\n"
PRECONDITION = """\
precondition:
  config: big.yaml
  any:
    - {all: [{key: network.size, at_least: 8}]}
"""
VARIANT = """\
variants:
  - {path: big.yaml, from: small.yaml, set: {network.size: 8}}
"""
MESSAGE = f"port it\n\nPorted-from: {EXPERIMENT}\nPort: {{name}}\nPort-plan: d\n"


class Ports:
    """A repository with plans under `patches/`, kept out of its history."""

    def __init__(self, work: Any) -> None:
        self.work = work
        (work.path / ".git" / "info" / "exclude").write_text("patches/\n")

    def plan(self, name: str, more: str = "") -> None:
        folder = self.work.path / "patches" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "port.yaml").write_text(PLAN.format(name=name) + more)

    def branch(self, name: str, verdict: Verdict | None = "ready") -> str:
        """Make port/NAME with one commit on main and store a report with it."""
        onto = self.work.id("main")
        self.work.switch(f"port/{name}", "main")
        tip = self.work.commit({f"{name}.py": "x = 1\n"}, MESSAGE.format(name=name))
        self.work.switch("main")
        if verdict:
            digest = load_plan(self.work.path / "patches" / name / "port.yaml").digest
            report = Report(name, digest, "0", (), "main", onto, f"port/{name}", tip)
            with open_repository(self.work.path) as repo:
                store_report(repo, dataclasses.replace(report, verdict=verdict))
        return str(tip)

    def statuses(self, onto: str | None = None) -> list[PortStatus]:
        with open_repository(self.work.path) as repo:
            return list(port_statuses(repo, onto))

    def status(self) -> PortStatus:
        (found,) = self.statuses()
        return found


@pytest.fixture
def ports(make_repo: Callable[..., Any]) -> Ports:
    return Ports(make_repo({"small.yaml": "network: {size: 2}\n"}))


def test_a_repository_without_ports_has_no_statuses(ports: Ports) -> None:
    assert ports.statuses() == []


def test_a_port_without_a_branch_is_not_applied(ports: Ports) -> None:
    ports.plan("alpha")
    found = ports.status()
    assert (found.state, found.next) == ("not applied", "porttool apply alpha --onto main")


@pytest.mark.parametrize(
    ("verdict", "state", "next_command"),
    [
        ("unverified", "on a branch", "porttool verify alpha"),
        ("ready", "on a branch", "git merge --no-ff port/alpha"),
        ("failed", "on a branch", "porttool review alpha"),
        ("parked", "parked", "porttool review alpha"),
        (
            None,
            "on a branch",
            "git branch -m port/alpha port/alpha-mine && porttool apply alpha --onto main",
        ),
    ],
)
def test_a_branch_is_as_its_report_says(
    ports: Ports, verdict: Verdict | None, state: str, next_command: str
) -> None:
    ports.plan("alpha")
    tip = ports.branch("alpha", verdict)
    found = ports.status()
    assert (found.state, found.next) == (state, next_command)
    assert (found.commit, found.ahead, found.stale) == (tip, 1, 0)
    assert found.detail == f"1 commit ahead of main, {verdict or 'no report'}"


def test_a_branch_is_stale_by_what_onto_gained(ports: Ports) -> None:
    ports.plan("alpha")
    ports.branch("alpha")
    for number in range(3):
        ports.work.commit({"other.py": f"x = {number}\n"}, "go on")
    found = ports.status()
    assert (found.ahead, found.stale) == (1, 3)
    assert found.detail == "1 commit ahead of main, stale by 3, ready"
    assert found.next == "porttool refresh alpha"
    assert ages(found, date(2023, 11, 16)) == "branch: 2 days old"
    dated = dataclasses.replace(found, experiment_date="2023-11-15", branch_date="2023-11-16")
    assert ages(dated, date(2023, 11, 16)) == "branch: today; experiment: 1 day old"


def test_a_changed_plan_asks_for_a_new_branch(ports: Ports) -> None:
    ports.plan("alpha")
    ports.branch("alpha")
    ports.plan("alpha", "onto: main\n")
    found = ports.status()
    assert found.detail == "1 commit ahead of main, ready, port.yaml or a patch has changed since"
    assert found.next == "porttool refresh alpha"


def test_a_merged_port_names_the_commit_that_brought_it(ports: Ports) -> None:
    ports.plan("alpha")
    tip = ports.branch("alpha")
    ports.work.git("merge", "--no-ff", "-m", "merge", "port/alpha")
    found = ports.status()
    assert (found.state, found.commit, found.next) == ("merged", tip, "")
    assert found.detail == f"main has it since {tip[:12]} port it"
    ports.work.git("branch", "-D", "port/alpha")
    assert ports.status() == found


def test_a_reverted_port_is_not_merged(ports: Ports) -> None:
    ports.plan("alpha")
    tip = ports.branch("alpha")
    ports.work.git("merge", "--ff-only", "port/alpha")
    ports.work.git("revert", "--no-edit", tip)
    ports.work.git("branch", "-D", "port/alpha")
    assert ports.status().state == "not applied"


@pytest.mark.parametrize(
    ("files", "more", "state"),
    [
        ({"big.yaml": "network: {size: 7}\n"}, PRECONDITION, "parked"),
        ({"big.yaml": "network: {size: 8}\n"}, PRECONDITION, "not applied"),
        ({}, PRECONDITION, "not applied"),
        ({}, PRECONDITION + VARIANT, "not applied"),
        ({}, PRECONDITION + VARIANT.replace("8}", "7}"), "parked"),
        (
            {"big.yaml": "network: {size: 9}\n"},
            PRECONDITION + VARIANT.replace("8}", "7}"),
            "parked",
        ),
    ],
)
def test_a_port_below_its_threshold_is_parked_before_there_is_a_branch(
    ports: Ports, files: dict[str, str], more: str, state: str
) -> None:
    if files:
        ports.work.commit(files)
    ports.plan("alpha", more)
    found = ports.status()
    assert found.state == state
    if state == "parked":
        assert found.detail == ("big.yaml does not meet the precondition: network.size >= 8 (is 7)")


def test_a_broken_plan_hides_no_other(ports: Ports) -> None:
    ports.plan("alpha", "colour: red\n")
    ports.plan("beta")
    ports.plan("gamma", "onto: gone\n")
    alpha, beta, gamma = ports.statuses()
    assert (alpha.state, beta.state, gamma.state) == ("unusable", "not applied", "unusable")
    assert "colour" in alpha.detail
    assert "there is no branch or commit `gone`" in gamma.detail
    assert [found.state for found in ports.statuses("main")] == [
        *("unusable", "not applied", "not applied")
    ]


def test_status_writes_nothing(ports: Ports) -> None:
    ports.plan("alpha", PRECONDITION + VARIANT)
    ports.branch("alpha")
    before = ports.work.git_folder()
    ports.statuses()
    assert ports.work.git_folder() == before
    assert ports.work.id(NOTES) in ports.work.git("for-each-ref")


RENAME = "git branch -m port/alpha port/alpha-mine && porttool apply alpha --onto main"


def test_a_branch_with_a_persons_commit_is_made_anew_with_it(ports: Ports) -> None:
    ports.plan("alpha")
    ports.branch("alpha")
    ports.work.switch("port/alpha")
    ports.work.commit({"alpha.py": "x = 2\n"}, "mend by hand")
    ports.work.switch("main")
    assert ports.status().next == "porttool verify alpha"
    ports.work.commit({"other.py": "x = 1\n"}, "go on")
    found = ports.status()
    assert (found.detail, found.next) == (
        "2 commits ahead of main, stale by 1, unverified",
        "porttool refresh alpha --keep",
    )


def test_a_persons_commits_without_a_report_are_kept_too(ports: Ports) -> None:
    ports.plan("alpha")
    ports.branch("alpha", None)
    ports.work.switch("port/alpha")
    ports.work.commit({"alpha.py": "x = 2\n"}, "mend by hand")
    assert ports.status().next == RENAME
    ports.work.switch("main")
    ports.work.git("branch", "port/alpha-mine", "main")
    assert "port/alpha port/alpha-mine1 && " in ports.status().next


def test_onto_merged_into_the_branch_is_noticed(ports: Ports) -> None:
    ports.plan("alpha")
    ports.branch("alpha")
    for number in range(2):
        ports.work.commit({"other.py": f"x = {number}\n"}, "go on")
    ports.work.switch("port/alpha")
    ports.work.git("merge", "-m", "catch up", "main")
    found = ports.status()
    assert (found.stale, found.next) == (0, RENAME)
    assert found.detail == "2 commits ahead of main, 2 commits of main merged into it, unverified"


def test_a_branch_on_another_onto_than_the_plans_is_measured_there(ports: Ports) -> None:
    ports.plan("alpha")
    ports.work.git("branch", "release")
    tip = ports.branch("alpha", None)
    digest = load_plan(ports.work.path / "patches" / "alpha" / "port.yaml").digest
    report = Report(
        "alpha", digest, "0", (), "release", ports.work.id("release"), "port/alpha", tip
    )
    with open_repository(ports.work.path) as repo:
        store_report(repo, dataclasses.replace(report, verdict="ready"))
    ports.work.commit({"other.py": "x = 1\n"}, "go on")
    found = ports.status()
    assert (found.onto, found.stale, found.detail) == (
        "release",
        0,
        "1 commit ahead of release, ready",
    )
    assert found.next == "git switch release && git merge --no-ff port/alpha"


def basis(ports: Ports, **changes: str) -> Basis:
    """Return what a verdict on port/alpha, given now, is about."""
    digest = load_plan(ports.work.path / "patches" / "alpha" / "port.yaml").digest
    trees = (ports.work.id(f"{ref}^{{tree}}") for ref in ("main", "port/alpha"))
    found = Basis(*trees, digest, tool_version(), "s", "2026-01-02T03:04:05+00:00")
    return dataclasses.replace(found, **changes)


def verified(ports: Ports, **changes: str) -> PortStatus:
    """Store a verdict with its basis, and return the status."""
    with open_repository(ports.work.path) as repo:
        report = find_report(repo, CommitId(ports.work.id("port/alpha")), "alpha")
        assert report is not None
        store_report(repo, dataclasses.replace(report, basis=basis(ports, **changes)))
    return ports.status()


def test_a_verdict_holds_while_what_it_is_about_is_there(ports: Ports) -> None:
    ports.plan("alpha")
    ports.branch("alpha")
    found = ports.status()
    assert (found.holds, found.why_not) == (False, "what it is about was not kept")
    found = verified(ports)
    assert (found.holds, found.why_not, found.asks) == (True, "", 0)
    assert found.verified == "2026-01-02T03:04:05+00:00"
    assert found.branch_date == "2023-11-14"
    ports.work.commit({"other.py": "x = 1\n"}, "go on")
    found = ports.status()
    assert (found.holds, found.why_not) == (False, "main has moved on since")
    ports.work.git("revert", "--no-edit", "HEAD")
    found = ports.status()
    assert (found.stale, found.holds) == (2, True)  # the trees are the same once more
    assert standing_verdict(found) == "ready, holds"


@pytest.mark.parametrize(
    ("changes", "why_not"),
    [
        ({"tree": "other"}, "the branch has changed since"),
        ({"digest": "other"}, "port.yaml or a patch has changed since"),
        ({"version": "other"}, "another version of porttool gave it"),
    ],
)
def test_what_a_verdict_is_about_has_changed(
    ports: Ports, changes: dict[str, str], why_not: str
) -> None:
    ports.plan("alpha")
    ports.branch("alpha", "failed")
    found = verified(ports, **changes)
    assert (found.holds, standing_verdict(found)) == (False, f"failed, but {why_not}")


def test_several_ports_are_a_table(ports: Ports) -> None:
    ports.plan("alpha")
    ports.branch("alpha")
    ports.plan("beta")
    ports.plan("gamma", "colour: red\n")
    assert [port.holds for port in ports.statuses()] == [False, None, None]
    done = CliRunner().invoke(app, ["status", "--repo", str(ports.work.path)])
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        *("port", "state", "behind", "branch", "experiment", "asks", "verdict")
    ]
    assert [line.split()[0] for line in lines[1:4]] == ["alpha", "beta", "gamma"]
    assert "ready, but what it is about was not kept" in lines[1]
    assert lines[4] == "alpha: on a branch"
    assert "  verdict: ready, but what it is about was not kept" in lines


def test_ages_are_counted_in_days() -> None:
    assert age("2026-01-02", date(2026, 1, 2)) == "today"
    assert age("2026-01-01", date(2026, 1, 2)) == "1 day"
    assert age("2025-01-02", date(2026, 1, 2)) == "365 days"
    assert age("", date(2026, 1, 2)) == ""
