"""Nobody's commits are lost: what moves a branch asks the notes whose its commits are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from porttool.cli import app
from porttool.git.commits import CommitId
from porttool.git.publish import NOTES, publish, write_note
from porttool.git.quarantine import Quarantine
from porttool.git.repo import open_repository
from porttool.ownership import find_made
from porttool.plan.plan import Plan, load_plan
from porttool.record import find_report, load_report, standing_of, store_report
from porttool.report import to_json

PORT = "compile-it"
BRANCH = f"port/{PORT}"
PLAN = f"patches/{PORT}/port.yaml"
MakePort = Callable[[], Any]


def porttool(work: Any, *words: str) -> Any:
    return CliRunner().invoke(app, [*words, "--repo", str(work.path)])


@pytest.fixture
def ported(make_port: MakePort) -> Any:
    work = make_port()
    assert porttool(work, "apply").exit_code == 0
    return work


def amended(work: Any) -> None:
    work.write({"mine.md": "an afternoon's work\n"})
    work.git("add", "mine.md")
    work.git("commit", "--quiet", "--amend", "--no-edit")


def amended_with_its_note(work: Any) -> None:
    work.git("config", "notes.rewriteRef", NOTES)
    amended(work)
    assert work.try_git("notes", f"--ref={NOTES}", "show", "HEAD").returncode == 0


def rebased(work: Any) -> None:
    work.git("rebase", "--quiet", "main")
    amended(work)


def rewound(work: Any) -> None:
    work.git("reset", "--quiet", "--hard", "HEAD~1")


@pytest.mark.parametrize("change", [amended, amended_with_its_note, rebased, rewound])
def test_a_branch_that_no_note_is_about_is_not_moved(
    ported: Any, change: Callable[[Any], None]
) -> None:
    ported.commit({"docs.md": "more\n"}, "go on")
    ported.switch(BRANCH)
    change(ported)
    ported.switch("main")
    before = ported.git("for-each-ref")
    for words in (("apply", "--replace"), ("refresh",), ("refresh", "--keep")):
        done = porttool(ported, *words)
        assert done.exit_code == 2, words
        assert f"nothing tells which commits of {BRANCH} are porttool's" in done.stderr
        assert f"git branch -m {BRANCH} {BRANCH}-mine && porttool apply {PORT}" in done.stderr
    assert ported.git("for-each-ref") == before


def copied_message(work: Any, plan: Plan) -> None:
    """Commit under the words of porttool's commit, trailers and all."""
    work.write({"mine.md": "mine\n"})
    work.git("add", "mine.md")
    work.git("commit", "--quiet", "--reuse-message=HEAD")


def verified(work: Any, plan: Plan) -> None:
    """Leave a note on a person's commit, as `verify` does."""
    work.commit({"mine.md": "mine\n"}, "mine")
    with open_repository(work.path) as repo:
        store_report(repo, dataclasses.replace(load_report(repo, plan), verdict="ready"))


@pytest.mark.parametrize("change", [copied_message, verified])
def test_commits_on_top_are_seen_whatever_they_look_like(
    ported: Any, change: Callable[[Any, Plan], None]
) -> None:
    made, plan = ported.id(BRANCH), load_plan(ported.path / PLAN)
    ported.switch(BRANCH)
    change(ported, plan)
    ported.switch("main")
    mine = CommitId(ported.id(BRANCH))
    with open_repository(ported.path) as repo:
        found, report = find_made(repo, mine, PORT), find_report(repo, mine, PORT)
        assert found is not None
        assert report is not None
        assert (found.tip, standing_of(repo, plan, report).edited) == (made, True)
    ported.commit({"docs.md": "more\n"}, "go on")
    before = ported.git("for-each-ref")
    for words in (("apply", "--replace"), ("refresh",)):
        done = porttool(ported, *words)
        assert done.exit_code == 2, words
        assert f"{BRANCH} holds 1 commit that porttool did not make" in done.stderr
        assert f"porttool refresh {PORT} --keep" in done.stderr
    assert ported.git("for-each-ref") == before
    assert porttool(ported, "refresh", "--keep").exit_code == 0
    assert ported.show(BRANCH, "mine.md") == b"mine\n"
    assert ported.git("rev-list", "--count", f"main..{BRANCH}") == ported.git(
        "rev-list", "--count", f"main..{mine}"
    )


def test_a_report_of_another_version_is_made_again_by_what_the_message_says(ported: Any) -> None:
    tip = CommitId(ported.id(BRANCH))
    with open_repository(ported.path) as repo, Quarantine(repo) as quarantine:
        report = find_report(repo, tip, PORT)
        assert report is not None
        text = to_json(report).replace('"evidence": null', '"evidence": {"old": 1}').encode()
        note = write_note(repo, quarantine, tip, text, repo.identity().at(1_700_000_000))
        publish(repo, quarantine, [note], reason="an older porttool")
    assert porttool(ported, "apply").stdout == (
        f"{BRANCH} is what this port gives; its report is stored again\n"
    )
    with open_repository(ported.path) as repo, Quarantine(repo) as quarantine:
        note = write_note(repo, quarantine, tip, text, repo.identity().at(1_700_000_000))
        publish(repo, quarantine, [note], reason="an older porttool")
    refused = porttool(ported, "review")
    assert refused.exit_code == 2
    again = f"porttool refresh {PORT}"
    assert f"next:  {again} && porttool verify {PORT}" in refused.stderr
    assert f"next: {again}" in porttool(ported, "status").stdout
    ported.commit({"docs.md": "more\n"}, "go on")
    assert porttool(ported, "apply").exit_code == 2
    done = porttool(ported, "refresh", PORT)
    assert (done.exit_code, f"moved {BRANCH} from {tip[:12]}" in done.stdout) == (0, True)
    assert porttool(ported, "review").exit_code == 0


def test_apply_says_what_is_on_top_where_nothing_else_has_changed(ported: Any) -> None:
    ported.switch(BRANCH)
    ported.commit({"mine.md": "mine\n"}, "mine")
    ported.switch("main")
    done = porttool(ported, "apply")
    assert done.exit_code == 0
    assert done.stdout == (
        f"{BRANCH} is already what this port gives on main, with 1 commit of yours on top\n"
    )
    assert "creating" not in done.stderr
