"""A branch made again on today's main: it moves whole, keeps what people added, or stays."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from porttool.cli import app
from porttool.errors import NeedsPerson, RepositoryError
from porttool.git.commits import CommitId
from porttool.git.publish import RefCheckedOut, RefMoved, read_note
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan
from porttool.record import find_report
from porttool.refresh import refresh
from porttool.report import from_json
from porttool.series import Applied

MakePort = Callable[[], Any]
PORT = "compile-it"
BRANCH = f"port/{PORT}"
PLAN = f"patches/{PORT}/port.yaml"
PULL = """
    def pull(self):
        return self.net.state_dict()
"""


def porttool(*words: str) -> Any:
    return CliRunner().invoke(app, words)


def again(work: Any, **options: Any) -> Applied:
    progress = options.pop("progress", lambda step: None)
    with open_repository(work.path) as repo:
        return refresh(repo, load_plan(work.path / PLAN), progress=progress, **options)


@pytest.fixture
def ported(make_port: MakePort) -> Any:
    """Return a repository whose port has a branch."""
    work = make_port()
    done = porttool("apply", "--repo", str(work.path))
    assert done.exit_code == 0, done.output
    return work


def go_on(work: Any) -> str:
    """Let main gain a place that reads the network's weights."""
    learner = work.show("main", "src/learner.py").decode()
    return str(work.commit({"src/learner.py": learner + PULL}, "pull weights"))


def on_top(work: Any, changes: dict[str, str], message: str = "mend by hand") -> str:
    work.switch(BRANCH)
    commit = work.commit(changes, message, author="Lin Lee <lin@example.org>")
    work.switch("main")
    return str(commit)


def from_scratch(work: Any, tmp_path: Path) -> str:
    """Return what `apply` gives in a clone that has no such branch."""
    clone = tmp_path / "clone"
    work.git("clone", "--quiet", "--no-local", str(work.path), str(clone))
    work.git("-C", str(clone), "fetch", "--quiet", "origin", "experiments/compile")
    done = porttool("apply", "--repo", str(clone))
    assert done.exit_code == 0, done.output
    return str(work.git("-C", str(clone), "rev-parse", f"refs/heads/{BRANCH}"))


def test_where_nothing_has_changed_nothing_is_written(ported: Any) -> None:
    before = ported.git_folder()
    applied = again(ported)
    assert (applied.outcome, applied.exit_code, applied.moved) == ("unchanged", 0, None)
    assert applied.message == (
        f"{BRANCH} stays as it is: main, port.yaml and porttool are what it was made from"
    )
    assert ported.git_folder() == before


def test_on_a_main_that_moved_on_it_is_what_apply_would_make(ported: Any, tmp_path: Path) -> None:
    old = ported.id(BRANCH)
    onto = go_on(ported)
    applied = again(ported)
    new = ported.id(BRANCH)
    assert (applied.outcome, applied.exit_code) == ("moved", 0)
    assert applied.moved is not None
    assert (applied.moved.old, applied.moved.new, applied.moved.kept) == (old, new, ())
    assert new == from_scratch(ported, tmp_path)
    assert ported.git("merge-base", new, "main") == onto
    assert "return _clean(self.net.state_dict())" in ported.show(new, "src/learner.py").decode()
    assert "pull" in applied.moved.range_diff
    assert [
        line.split()[2] for line in applied.moved.range_diff.splitlines() if line[0] != " "
    ] == [
        "!",
        "=",
    ]
    with open_repository(ported.path) as repo:
        note = read_note(repo, CommitId(new))
    assert note is not None
    assert (from_json(note).onto_id, from_json(note).tip) == (onto, new)
    assert again(ported).outcome == "unchanged"


def test_a_changed_plan_moves_it_though_main_did_not(ported: Any) -> None:
    old = ported.id(BRANCH)
    plan = ported.path / PLAN
    plan.write_text(plan.read_text() + "# a remark\n")
    applied = again(ported)
    assert applied.outcome == "moved"
    assert ported.id(f"{BRANCH}^{{tree}}") == ported.id(f"{old}^{{tree}}")
    with open_repository(ported.path) as repo:
        report = find_report(repo, CommitId(ported.id(BRANCH)), PORT)
        assert report is not None
        assert report.digest == load_plan(plan).digest


def test_a_plan_that_names_another_onto_is_said_to(ported: Any) -> None:
    ported.git("branch", "release")
    plan = ported.path / PLAN
    plan.write_text(plan.read_text().replace("onto: main\n", "") + "onto: release\n")
    applied = again(ported)
    assert (applied.outcome, applied.report.onto) == ("moved", "main")
    assert applied.message.endswith(
        "\nit is on main as before; onto release, as port.yaml has it: "
        f"porttool apply {PORT} --onto release --replace"
    )


def test_another_users_name_is_no_reason_to_move_it(
    ported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_NAME", "Somebody Else")
    monkeypatch.setattr("porttool.refresh.tool_version", lambda: "later")
    before = ported.git_folder()
    applied = again(ported)
    assert (applied.outcome, "commit for commit" in applied.message) == ("unchanged", True)
    assert ported.git_folder() == before


def test_commits_on_top_stop_it_and_are_kept_when_asked(ported: Any) -> None:
    made = ported.id(BRANCH)
    first = on_top(ported, {"docs.md": "why\n"}, "say why\n\nBecause.\n")
    second = on_top(ported, {"big.yaml": "network:\n  size: 9\n"})
    assert again(ported).outcome == "unchanged"  # nothing under them has changed
    go_on(ported)
    before = ported.git_folder()
    with pytest.raises(RepositoryError, match="holds 2 commits that porttool did not make") as no:
        again(ported)
    assert no.value.where == f"{first[:12]} say why; {second[:12]} mend by hand"
    assert no.value.next == f"porttool refresh {PORT} --keep"
    assert ported.git_folder() == before
    applied = again(ported, keep=True)
    assert applied.moved is not None
    assert [commit.subject for commit in applied.moved.kept] == ["say why", "mend by hand"]
    assert applied.moved.dropped == ()
    assert "2 commits kept on top" in applied.message
    shown = ported.git("log", "-2", "--format=%an %ae %ad %cn %s", BRANCH)
    assert shown == ported.git("log", "-2", "--format=%an %ae %ad Grace Hopper %s", second)
    assert ported.git("log", "-1", "--skip=1", "--format=%B", BRANCH) == "say why\n\nBecause."
    assert ported.show(BRANCH, "docs.md") == b"why\n"
    assert ported.id(f"{BRANCH}~2") == applied.report.tip
    assert ported.try_git("merge-base", "--is-ancestor", made, BRANCH).returncode == 1
    with open_repository(ported.path) as repo:
        report = find_report(repo, CommitId(ported.id(BRANCH)), PORT)
    assert report is not None
    assert len(report.series) == len(applied.report.series) + 2
    assert again(ported, keep=True).outcome == "unchanged"


def test_a_commit_that_cannot_be_kept_leaves_everything_as_it_was(ported: Any) -> None:
    mine = on_top(ported, {"big.yaml": "network:\n  size: 9\n"})
    ported.commit({"big.yaml": "network:\n  size: 10\n"}, "main's own size")
    before = ported.git_folder()
    with pytest.raises(NeedsPerson, match="cannot be kept") as no:
        again(ported, keep=True)
    assert (no.value.where, no.value.why, no.value.exit_code) == ("big.yaml", "content", 3)
    assert no.value.next == (
        f"git branch -m {BRANCH} {BRANCH}-mine && porttool apply {PORT} --onto main && "
        f"git switch {BRANCH} && git cherry-pick {ported.id(f'{mine}^')[:12]}..{BRANCH}-mine"
    )
    assert ported.git_folder() == before


def test_a_commit_that_main_has_by_now_is_dropped(ported: Any) -> None:
    mine = on_top(ported, {"docs.md": "why\n"})
    ported.commit({"docs.md": "why\n"}, "the same on main")
    applied = again(ported, keep=True)
    assert applied.moved is not None
    assert ([c.id for c in applied.moved.dropped], applied.moved.kept) == ([mine], ())
    assert f", {mine[:12]} dropped, for it has all of `mend by hand`\n" in applied.message
    assert ported.id(BRANCH) == applied.report.tip


def test_a_merge_on_top_is_refused(ported: Any) -> None:
    ported.commit({"docs.md": "why\n"}, "go on")
    ported.switch(BRANCH)
    ported.git("merge", "--quiet", "-m", "catch up", "main")
    ported.switch("main")
    before = ported.git_folder()
    with pytest.raises(RepositoryError, match="holds a merge, which cannot be kept"):
        again(ported, keep=True)
    assert ported.git_folder() == before


def test_a_branch_whose_commits_nobody_can_tell_apart_is_refused(ported: Any) -> None:
    ported.switch(BRANCH)
    ported.git("commit", "--quiet", "--amend", "--no-edit", "--date=2001-01-01T00:00:00Z")
    ported.switch("main")
    go_on(ported)
    with pytest.raises(RepositoryError, match="nothing tells which commits of port/compile-it"):
        again(ported, keep=True)
    ported.git("branch", "-D", BRANCH)
    with pytest.raises(RepositoryError, match="there is no branch `port/compile-it` yet"):
        again(ported)


def test_without_an_identity_the_commands_that_set_one_are_named(
    ported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_top(ported, {"docs.md": "why\n"})
    go_on(ported)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    before = ported.git_folder()
    for words in (("apply", "--replace"), ("refresh", "--keep")):
        done = porttool(*words, "--repo", str(ported.path))
        assert done.exit_code == 2
        assert 'git config --global user.name "Your Name" && ' in done.stderr
        assert 'git config --global user.email "you@example.org"\n' in done.stderr
    assert ported.git_folder() == before


def test_a_branch_that_a_remote_has_is_not_moved(ported: Any) -> None:
    ported.git("update-ref", f"refs/remotes/origin/{BRANCH}", BRANCH)
    ported.git("branch", "-D", BRANCH)
    with pytest.raises(RepositoryError, match="is not a branch of this repository"):
        again(ported)


def test_a_checked_out_branch_is_not_moved(ported: Any) -> None:
    go_on(ported)
    ported.switch(BRANCH)
    ported.git("checkout", "--quiet", "main", "--", "patches")
    before = ported.git("for-each-ref")
    with pytest.raises(RefCheckedOut) as no:
        again(ported)
    assert no.value.next is not None
    assert no.value.next.endswith(f"and back with: git -C {ported.path} switch {BRANCH}")
    assert ported.git("for-each-ref") == before


def test_a_branch_of_a_working_tree_that_is_gone_says_how_to_forget_it(
    ported: Any, tmp_path: Path
) -> None:
    go_on(ported)
    ported.git("worktree", "add", "--quiet", str(tmp_path / "linked"), BRANCH)
    shutil.rmtree(tmp_path / "linked")
    with pytest.raises(RefCheckedOut, match="git worktree prune"):
        again(ported)
    ported.git("worktree", "prune")
    assert again(ported).outcome == "moved"


def test_a_branch_that_moves_meanwhile_stays_where_it_went(ported: Any) -> None:
    go_on(ported)
    moved = ported.id("main")

    def interfere(step: str) -> None:
        if step == "proving that off means off":
            ported.git("update-ref", f"refs/heads/{BRANCH}", moved)

    notes = ported.id("refs/notes/porttool")
    with pytest.raises(RefMoved):
        again(ported, progress=interfere)
    assert (ported.id(BRANCH), ported.id("refs/notes/porttool")) == (moved, notes)


def test_two_runs_that_make_the_same_are_both_content(ported: Any) -> None:
    on_top(ported, {"docs.md": "why\n"})
    go_on(ported)
    first: list[Applied] = []

    def be_slower(step: str) -> None:
        if step == "proving that off means off" and not first:
            first.append(again(ported, keep=True))

    second = again(ported, keep=True, progress=be_slower)
    assert (first[0].outcome, second.outcome) == ("moved", "unchanged")
    assert second.message.endswith("another run of porttool has made the same meanwhile")


def test_a_dry_run_shows_what_would_change(ported: Any) -> None:
    on_top(ported, {"docs.md": "why\n"})
    go_on(ported)
    before = ported.git_folder()
    applied = again(ported, keep=True, dry_run=True)
    assert (applied.outcome, applied.moved is not None) == ("dry-run", True)
    assert applied.message.endswith("1 commit kept on top; no ref was written")
    assert ported.git_folder() == before
    assert again(ported, keep=True).moved == applied.moved


def test_a_port_that_is_merged_or_stopped_stays(ported: Any) -> None:
    learner = ported.show("main", "src/learner.py").decode()
    gone = learner.replace("self.net = torch.nn.Linear(3, config.network.size)", "self.net = None")
    ported.commit({"src/learner.py": gone}, "no network any more")
    before = ported.git_folder()
    applied = again(ported)
    assert (applied.outcome, applied.exit_code) == ("asked", 3)
    first = f"a person has to decide 3 places; {BRANCH} stays as it was"
    assert applied.message.splitlines()[0] == first
    assert ported.git_folder() == before
    ported.git("reset", "--quiet", "--hard", "HEAD^")
    ported.git("merge", "--quiet", "--no-ff", "-m", "merge it", BRANCH)
    before = ported.git_folder()
    assert again(ported).outcome == "already-ported"
    assert ported.git_folder() == before


def test_nothing_but_the_branch_and_its_note_is_touched(
    ported: Any, watch: Callable[[Any], Any]
) -> None:
    on_top(ported, {"docs.md": "why\n"})
    go_on(ported)
    ported.write({"src/config.py": "dirty\n", "mine.txt": "mine\n"})
    watched = watch(ported)
    assert again(ported, keep=True).outcome == "moved"
    assert watched.harm() == []


def test_a_bare_repository_has_no_ports_to_look_for(ported: Any, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    ported.git("clone", "--quiet", "--bare", "--no-local", str(ported.path), str(bare))
    for words in (("refresh", "--all"), ("refresh",), ("status",)):
        done = porttool(*words, "--repo", str(bare))
        assert (done.exit_code, done.stdout) == (2, "")
        assert "patches/ was not found: this is no working tree" in done.stderr


def test_the_command_refreshes_one_port_or_all(ported: Any) -> None:
    folder = ported.path / "patches" / "second"
    folder.mkdir()
    plan = (ported.path / PLAN).read_text().replace("name: compile-it", "name: second")
    (folder / "port.yaml").write_text(plan)
    (ported.path / "patches" / "broken").mkdir()
    (ported.path / "patches" / "broken" / "port.yaml").write_text("colour: red\n")
    at = ("--repo", str(ported.path))
    data = json.loads(porttool("refresh", "--all", *at, "--json").stdout)
    assert [(port["port"], port["outcome"]) for port in data["ports"]] == [(PORT, "unchanged")]
    assert porttool("apply", "second", *at).exit_code == 0
    go_on(ported)
    on_top(ported, {"docs.md": "why\n"})
    data = json.loads(porttool("refresh", "--all", *at, "--json").stdout)
    kept, second = data["ports"]
    assert (kept["outcome"], kept["exit_code"], kept["moved"]) == ("refused", 2, None)
    assert (second["outcome"], second["exit_code"], data["exit_code"]) == ("moved", 0, 2)
    assert second["moved"]["new"] == ported.id("port/second")
    one = porttool("refresh", PORT, *at, "--keep")
    assert one.exit_code == 0, one.output
    assert "docs.md" not in one.stderr
    assert f"moved {BRANCH} from" in one.stdout
    assert one.stdout.endswith(f"next: porttool verify {PORT}\n")
    assert porttool("refresh", PORT, "--all", *at).exit_code == 2
