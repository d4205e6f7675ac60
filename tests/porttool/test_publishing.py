"""`porttool publish`: real pushes, over a stand-in for ssh; hosts' programs write down their words.

What stands in for `gh` and `glab` keeps every command line and answers as they do. Nothing else of
them can be had without an account.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from porttool.apply import apply
from porttool.cli import app
from porttool.errors import NeedsPerson, PortError, RepositoryError
from porttool.git.publish import NOTES
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan
from porttool.publishing.hosting import HostError
from porttool.publishing.publish import NotPublished, publish_port
from porttool.publishing.remote import Host, host_of, open_remote, push, tips_there
from porttool.record import find_report, load_report, store_report

PORT = "compile-it"
BRANCH = f"refs/heads/port/{PORT}"
ADDRESS = "https://github.com/lab/project/pull/7"

# ssh, as git calls it: the last word is the command for the other side, which here is a folder.
SSH = """#!/bin/sh
echo "$*" >> '{log}'
for last; do :; done
eval "set -- $last"
cd '{root}' && exec git "${{1#git-}}" "${{2#/}}"
"""
# A host's program: it keeps its command line, and answers what the test has laid down.
PROGRAM = """#!{python}
import json, pathlib, sys
folder = pathlib.Path({folder!r})
with open(folder / "calls", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
answer = folder / ("answer-" + sys.argv[2])
print(answer.read_text() if answer.exists() else "[]")
sys.exit(int((folder / "status").read_text()) if (folder / "status").exists() else 0)
"""


class Lab:
    """A clone with one port, its remote, and the programs of the remote's host."""

    def __init__(self, repo, folder, monkeypatch):
        self.repo, self.folder = repo, folder
        self.bare = folder / "remotes/lab/project.git"
        self.bin = folder / "bin"
        self.bin.mkdir()
        ssh = self.script(
            "ssh",
            SSH.format(root=folder / "remotes", log=folder / "ssh"),
        )
        monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
        git = shutil.which("git")
        monkeypatch.setenv("PATH", f"{self.bin}:{Path(git).parent}:/bin")

    def script(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def address(self, url):
        self.repo.try_git("remote", "remove", "origin")
        self.repo.git("remote", "add", "origin", url)

    def program(self, name):
        self.script(name, PROGRAM.format(python=sys.executable, folder=str(self.folder)))

    def calls(self):
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def there(self):
        """Return every reference of the remote."""
        done = subprocess.run(
            ["git", "for-each-ref", "--format=%(refname) %(objectname)"],
            cwd=self.bare,
            capture_output=True,
            text=True,
            check=True,
        )
        return dict(line.split(" ") for line in done.stdout.splitlines())

    def make(self, *, onto="main", replace=False, verdict="ready"):
        """Make the branch, and let its report say what a verify would have found."""
        with open_repository(self.repo.path) as opened:
            plan = load_plan(self.repo.path / "patches/compile-it/port.yaml")
            if replace:
                apply(opened, plan, onto=onto, replace_branch=True, progress=lambda step: None)
            report = load_report(opened, plan)
            store_report(opened, dataclasses.replace(report, verdict=verdict))
        return report.tip

    def publish(self, **options):
        with open_repository(self.repo.path) as opened:
            plan = load_plan(self.repo.path / "patches/compile-it/port.yaml")
            options = {"progress": lambda step: None, "changed": lambda words: None, **options}
            return publish_port(opened, plan, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder for a clone with its branch, and its remote, which the first test fills."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def lab(make_port, made, tmp_path, monkeypatch):
    repo = make_port()
    if not (made / "repo").exists():
        with open_repository(repo.path) as opened:
            plan = load_plan(repo.path / "patches/compile-it/port.yaml")
            apply(opened, plan, onto="main", progress=lambda step: None)
        bare = made / "remotes/lab/project.git"
        repo.git("clone", "--quiet", "--bare", "--single-branch", ".", str(bare))
        repo.git("remote", "add", "origin", "git@github.com:lab/project.git")
        shutil.copytree(repo.path, made / "repo", symlinks=True)
    shutil.rmtree(repo.path)
    shutil.copytree(made / "repo", repo.path, symlinks=True)
    shutil.copytree(made / "remotes", tmp_path / "remotes", symlinks=True)
    return Lab(repo, tmp_path, monkeypatch)


def test_the_branch_is_pushed_with_its_report_and_nothing_else(lab):
    tip, before = lab.make(), lab.there()
    published = lab.publish()
    assert lab.there() == {**before, BRANCH: tip, NOTES: lab.repo.id(NOTES)}
    assert (published.pushed, published.report, published.outcome) == (True, "pushed", "by hand")
    again = lab.publish()
    assert (again.pushed, again.report) == (False, "there already")


def test_a_reviewer_elsewhere_sees_the_report(lab, tmp_path):
    tip = lab.make()
    lab.publish()
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(lab.bare), str(clone)], check=True)
    subprocess.run(["git", "fetch", "--quiet", "origin", f"{NOTES}:{NOTES}"], cwd=clone, check=True)
    with open_repository(clone) as opened:
        assert find_report(opened, tip, PORT).verdict == "ready"


def test_what_was_made_on_a_remotes_branch_goes_to_that_branch(lab):
    lab.program("gh")
    lab.repo.git("update-ref", "refs/remotes/origin/main", "main~1")
    lab.make(onto="origin/main", replace=True)
    (lab.folder / "answer-create").write_text(f"{ADDRESS}\n")
    published = lab.publish()
    assert published.notes == ()
    create = lab.calls()[-1]
    assert create[create.index("--base") + 1] == "main"


def test_gh_opens_a_pull_request_and_then_updates_it(lab):
    lab.program("gh")
    lab.make()
    (lab.folder / "answer-create").write_text(f"\nCreating\n{ADDRESS}\n")
    opened = lab.publish(draft=True)
    assert (opened.outcome, opened.request) == ("opened", ADDRESS)
    listed, create = lab.calls()
    assert listed[:4] == ["pr", "list", "--repo", "github.com/lab/project"]
    words = dict(zip(create[2::2], create[3::2], strict=False))
    assert create[:2] == ["pr", "create"]
    assert words["--repo"] == "github.com/lab/project"
    assert (words["--head"], words["--base"]) == (f"port/{PORT}", "main")
    assert words["--title"] == "Port compile-it: compile it"
    assert create[-1] == "--draft"
    body = Path(words["--body-file"]).read_text()
    assert body.startswith("#")
    assert "compile.trainer.enabled" in body
    (lab.folder / "answer-list").write_text(json.dumps([{"number": 7, "url": ADDRESS}]))
    updated = lab.publish()
    assert (updated.outcome, updated.request) == ("updated", ADDRESS)
    assert lab.calls()[-1][:3] == ["pr", "edit", "7"]


def test_glab_opens_a_merge_request(lab):
    lab.address("ssh://git@gitlab.lab.example:22/lab/project.git")
    lab.program("glab")
    lab.make()
    lab.publish()
    listed, create = lab.calls()
    assert listed[:2] == ["mr", "list"]
    assert create[:2] == ["mr", "create"]
    words = dict(zip(create[2::2], create[3::2], strict=False))
    assert words["--repo"] == "https://gitlab.lab.example/lab/project"
    assert (words["--source-branch"], words["--target-branch"]) == (f"port/{PORT}", "main")
    assert "compile.trainer.enabled" in words["--description"]


def test_without_a_program_the_command_and_the_words_are_left(lab):
    lab.make()
    published = lab.publish()
    [command] = published.commands
    assert command.startswith("gh pr create --repo github.com/lab/project --head port/compile-it")
    assert published.body_file in command
    assert "compile.trainer.enabled" in Path(published.body_file).read_text()
    assert lab.repo.git("status", "--porcelain") == ""
    assert published.lines[-1] == f"next: {command}"


def test_a_program_that_fails_leaves_the_branch_pushed_and_says_so(lab):
    lab.program("gh")
    (lab.folder / "status").write_text("4")
    tip = lab.make()
    with pytest.raises(HostError, match="the branch was pushed; the pull request was not opened"):
        lab.publish()
    assert lab.there()[BRANCH] == tip


@pytest.mark.parametrize(
    ("verdict", "code", "words", "options"),
    [
        ("failed", 4, "failed its checks", None),
        ("unverified", 2, "was not verified", {"unverified": True}),
        ("parked", 5, "is parked", {"draft": True}),
    ],
)
def test_what_is_not_ready_is_not_published(lab, verdict, code, words, options):
    tip, before = lab.make(verdict=verdict), lab.there()
    with pytest.raises(NotPublished, match=words) as refused:
        lab.publish()
    assert refused.value.exit_code == code
    assert lab.there() == before
    if options is not None:
        lab.publish(**options)
        assert lab.there()[BRANCH] == tip


def test_what_is_merged_is_not_asked_for_again(lab):
    lab.make()
    lab.repo.git("merge", "--quiet", "--no-ff", "-m", "merged", f"port/{PORT}")
    with pytest.raises(NotPublished, match="compile-it is merged: main has it since"):
        lab.publish()
    assert BRANCH not in lab.there()


def test_a_branch_made_again_replaces_the_one_that_was_pushed(lab):
    first = lab.make()
    lab.publish()
    lab.repo.commit({"README.md": "moved on\n"}, "moved on")
    stale = lab.publish()
    assert "main has gained 1 commit since: porttool refresh compile-it" in stale.notes
    second = lab.make(replace=True)
    assert (lab.there()[BRANCH], first != second) == (first, True)
    assert lab.publish().pushed
    assert lab.there()[BRANCH] == second


def commit_elsewhere(lab, folder):
    """Commit on the remote's branch, from another clone."""
    subprocess.run(["git", "clone", "-q", "-b", f"port/{PORT}", str(lab.bare), folder], check=True)
    (folder / "mine.txt").write_text("mine\n")
    for words in (["add", "mine.txt"], ["commit", "-qm", "mine"], ["push", "-q"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return lab.there()[BRANCH]


def test_an_amended_commit_of_porttools_is_somebodys_work(lab):
    """It has porttool's trailers still; no note is about it."""
    lab.make()
    lab.publish()
    lab.repo.switch(f"port/{PORT}")
    lab.repo.write({"mine.md": "mine\n"})
    lab.repo.git("add", "mine.md")
    lab.repo.git("commit", "--quiet", "--amend", "--no-edit")
    theirs = lab.repo.id("HEAD")
    lab.repo.git("push", "--quiet", "--force", str(lab.bare), f"HEAD:{BRANCH}")
    lab.repo.git("reset", "--quiet", "--hard", "HEAD@{1}")
    lab.repo.switch("main")
    with pytest.raises(NeedsPerson, match="somebody has committed on origin's port/compile-it"):
        lab.publish()
    assert lab.there()[BRANCH] == theirs


def test_what_another_clone_made_again_is_replaced(lab):
    """This clone's notes do not know it, the remote's do."""
    tip = lab.make()
    ours = lab.repo.id(NOTES)
    lab.publish()
    lab.repo.commit({"more.md": "more\n"}, "go on")
    again = lab.make(replace=True)
    lab.publish()
    lab.repo.git("update-ref", BRANCH, tip)
    lab.repo.git("update-ref", NOTES, ours)
    assert lab.there()[BRANCH] == again
    assert lab.publish().pushed
    assert lab.there()[BRANCH] == tip


def test_what_somebody_else_committed_is_never_thrown_away(lab, tmp_path):
    lab.make()
    lab.publish()
    theirs = commit_elsewhere(lab, tmp_path / "other")
    with pytest.raises(NeedsPerson, match="that this clone has not seen"):
        lab.publish()
    lab.repo.git("fetch", "--quiet", "origin")
    with pytest.raises(NeedsPerson, match="somebody has committed on origin's port/compile-it"):
        lab.publish()
    assert lab.there()[BRANCH] == theirs


def test_what_was_kept_on_a_branch_made_again_is_no_loss(lab):
    lab.make()
    lab.repo.switch(f"port/{PORT}")
    lab.repo.commit({"mine.txt": "mine\n"}, "mine")
    lab.repo.switch("main")
    lab.publish(unverified=True)
    lab.repo.commit({"README.md": "moved on\n"}, "moved on")
    with contextlib.chdir(lab.repo.path):
        kept = CliRunner().invoke(app, ["refresh", "--keep"])
    assert kept.exit_code == 0, kept.output
    lab.publish(unverified=True)
    assert lab.there()[BRANCH] == lab.repo.id(f"port/{PORT}")
    assert lab.repo.show(f"port/{PORT}", "mine.txt") == b"mine\n"


def test_a_push_between_the_look_and_the_push_is_seen(lab, tmp_path):
    tip = lab.make()
    lab.publish()
    theirs = commit_elsewhere(lab, tmp_path / "other")
    with open_repository(lab.repo.path) as opened:
        remote = open_remote(opened, None)
        with pytest.raises(NeedsPerson, match="has moved on origin; nothing was pushed"):
            push(remote, lab.repo.id("main"), BRANCH, tip)
        assert tips_there(remote, (BRANCH,)) == {BRANCH: theirs}


def test_reports_of_others_are_kept(lab, tmp_path):
    lab.make()
    other = tmp_path / "other"
    subprocess.run(["git", "clone", "-q", str(lab.bare), str(other)], check=True)
    for words in (
        ["notes", f"--ref={NOTES}", "add", "-m", "theirs", "HEAD"],
        ["push", "-q", "origin", NOTES],
    ):
        subprocess.run(["git", *words], cwd=other, check=True)
    assert lab.publish().report == "pushed"
    shown = subprocess.run(
        ["git", "notes", f"--ref={NOTES}", "list"], cwd=lab.bare, capture_output=True, check=True
    )
    assert len(shown.stdout.splitlines()) == 2
    assert lab.there()[NOTES] == lab.repo.id(NOTES)


def test_a_dry_run_says_what_it_would_do_and_does_nothing(lab):
    tip, before = lab.make(), lab.there()
    published = lab.publish(dry_run=True)
    assert lab.there() == before
    assert lab.calls() == []
    push_words, request = published.commands
    assert push_words == f"git push --force-with-lease={BRANCH}: origin {tip}:{BRANCH}"
    assert request.startswith("gh pr create")
    assert not (lab.repo.path / ".git/porttool").exists()


def test_the_command_says_what_was_done_and_what_is_next(lab):
    lab.make()
    with contextlib.chdir(lab.repo.path):
        refused = CliRunner().invoke(app, ["publish", "--remote", "upstream"])
        planned = CliRunner().invoke(app, ["publish", "--dry-run", "--json"])
        done = CliRunner().invoke(app, ["publish", "--quiet"])
    assert (refused.exit_code, refused.stdout) == (2, "")
    answer = json.loads(planned.stdout)
    assert (answer["outcome"], answer["pushed"], len(answer["commands"])) == ("not yet", False, 2)
    assert done.exit_code == 0
    assert done.stdout.startswith(f"pushed to origin: port/{PORT} at ")
    assert done.stdout.count("\n") == 1


def test_nobody_is_asked_for_a_password_where_nobody_is(lab):
    lab.make()
    lab.publish()
    assert "-o BatchMode=yes" in (lab.folder / "ssh").read_text()


def test_the_users_own_hook_may_refuse_the_push(lab):
    hook = lab.repo.path / ".git/hooks/pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not on a friday >&2\nexit 1\n")
    hook.chmod(0o755)
    lab.make()
    with pytest.raises(RepositoryError, match=r"does not take[\s\S]*not on a friday"):
        lab.publish()
    assert BRANCH not in lab.there()


def test_a_remote_that_is_not_there(lab):
    lab.make()
    with pytest.raises(RepositoryError, match=r"no remote `upstream`[\s\S]*--remote origin"):
        lab.publish(remote="upstream")
    lab.address("git@github.com:lab/nothing.git")
    with pytest.raises(RepositoryError, match="the remote origin does not answer"):
        lab.publish()
    lab.repo.git("remote", "remove", "origin")
    with pytest.raises(PortError, match="there is no remote to push to"):
        lab.publish()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("git@github.com:lab/project.git", Host("github.com", "lab/project")),
        ("https://user:secret@GitLab.example/a/b/c.git/", Host("gitlab.example", "a/b/c")),
        ("ssh://git@host:2222/lab/project", Host("host", "lab/project")),
        ("file:///srv/project.git", None),
        ("/srv/project.git", None),
        ("../project", None),
    ],
)
def test_where_a_remote_is(url, host):
    assert host_of(url) == host


def test_the_stand_ins_are_what_runs(lab):
    """No gh or glab of this machine's can answer instead."""
    lab.program("gh")
    assert os.environ["PATH"].split(":")[0] == str(lab.bin)
