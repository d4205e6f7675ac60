"""The radar, on real branches: what git itself does with each commit is what the radar says."""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from porttool.cli import app
from porttool.git.commits import CommitId
from porttool.git.merge import merge_trees
from porttool.git.picks import Pick, pick_many
from porttool.git.quarantine import Quarantine
from porttool.git.repo import open_repository
from porttool.radar.page import page
from porttool.radar.scan import scan
from porttool.radar.terminal import why
from porttool.radar.values import BranchState, CommitState, Radar

MakeRepo = Callable[..., Any]
LINES = [f"line {number}\n" for number in range(12)]
TEXT = "".join(LINES)


def with_line(number: int, line: str, text: str = TEXT) -> str:
    lines = text.splitlines(keepends=True)
    lines[number] = f"{line}\n"
    return "".join(lines)


def look(work: Any, onto: str = "main") -> Radar:
    with open_repository(work.path) as repo:
        return scan(repo, onto, lambda step: None)


def look_without(work: Any, branch: str) -> Radar:
    work.switch("main")
    work.git("branch", "-D", branch)
    return look(work)


def only(radar: Radar) -> BranchState:
    (branch,) = radar.branches
    return branch


def states(branch: BranchState) -> list[str]:
    return [commit.state for commit in branch.commits]


def by_name(radar: Radar) -> dict[str, BranchState]:
    return {branch.name: branch for branch in radar.branches}


def one(work: Any) -> CommitState:
    (commit,) = only(look(work)).commits
    return commit


def test_without_branches_there_is_nothing_to_see(make_repo: MakeRepo) -> None:
    found = look(make_repo({"a": TEXT}))
    assert (found.branches, found.line, found.left_out) == ((), (), ())


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_a_commit_is_picked_onto_the_tip(make_repo: MakeRepo, object_format: str) -> None:
    work = make_repo({"a": TEXT, "b": TEXT}, object_format=object_format)
    work.switch("x", "main")
    first = work.commit({"a": with_line(1, "theirs")}, "one")
    second = work.commit({"b": with_line(1, "theirs")}, "two")
    work.switch("main")
    work.commit({"c": "new\n"}, "go on")
    blamed = work.commit({"b": with_line(1, "ours")}, "break it")
    work.commit({"c": "newer\n"}, "go on still")
    branch = only(look(work))
    assert [(c.id, c.subject, c.state) for c in branch.commits] == [
        (first, "one", "ports clean"),
        (second, "two", "conflicts"),
    ]
    clash = branch.commits[1]
    assert [(c.kind, c.paths) for c in clash.clashes] == [("content", ("b",))]
    assert clash.since is not None
    assert (clash.since.id, clash.since.subject) == (blamed, "break it")
    assert (branch.state, branch.behind, branch.since) == ("conflicts", 3, clash.since)
    assert branch.counts == {"ports clean": 1, "conflicts": 1}


def test_what_builds_on_the_commits_before_it_is_picked_with_them(make_repo: MakeRepo) -> None:
    work = make_repo({"a": TEXT, "b": TEXT})
    work.switch("x", "main")
    work.commit({"a": with_line(3, "first")}, "one")
    work.commit({"a": with_line(3, "second")}, "two")
    work.switch("main")
    work.commit({"b": with_line(1, "ours")}, "go on")
    branch = only(look(work))
    assert states(branch) == ["ports clean", "ports clean"]
    assert [commit.with_earlier for commit in branch.commits] == [0, 1]
    blamed = work.commit({"a": with_line(3, "ours")}, "break it")
    branch = only(look(work))
    assert states(branch) == ["conflicts", "conflicts"]
    assert {commit.since.id for commit in branch.commits if commit.since} == {blamed}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("port it\n\nPorted-from: {id}\nPort: p\nPort-plan: d\n", "ported by {onto} port it"),
        ("by hand\n\n(cherry picked from commit {id})\n", "picked by {onto} by hand"),
        ("by hand\n", "the same patch as {onto} by hand"),
    ],
)
def test_what_main_has_already_is_told_though_main_went_on(
    make_repo: MakeRepo, message: str, reason: str
) -> None:
    work = make_repo({"a": TEXT})
    work.switch("x", "main")
    id = work.commit({"a": with_line(1, "theirs")}, "one")
    work.switch("main")
    work.commit({"a": with_line(11, "ours")}, "go on")
    text = with_line(1, "theirs", with_line(11, "ours"))
    onto = work.commit({"a": text}, message.format(id=id))
    work.commit({"a": with_line(1, "other", text)}, "the same line again")
    found = one(work)
    assert (found.state, found.reasons) == ("already there", (reason.format(onto=onto[:12]),))
    work.git("revert", "--no-edit", "HEAD")
    work.git("revert", "--no-edit", onto)
    assert one(work).state == "ports clean"  # reverted, it is not there any more


def test_a_squash_leaves_nothing_to_pick(make_repo: MakeRepo) -> None:
    work = make_repo({"a": TEXT})
    work.switch("x", "main")
    work.commit({"a": with_line(1, "theirs")}, "one")
    work.commit({"a": with_line(8, "theirs", with_line(1, "theirs"))}, "two")
    work.switch("main")
    work.commit({"a": with_line(8, "theirs", with_line(1, "theirs"))}, "both")
    branch = only(look(work))
    assert states(branch) == ["already there", "already there"]
    assert branch.commits[0].reasons == ("picking it changes nothing",)


def test_binary_files_are_told_apart_by_what_they_hold(make_repo: MakeRepo) -> None:
    work = make_repo({"a": b"\0one"})
    work.switch("x", "main")
    work.commit({"a": b"\0two"}, "one")
    work.switch("main")
    work.commit({"a": b"\0three"}, "another")
    found = one(work)
    assert (found.state, [clash.kind for clash in found.clashes]) == ("conflicts", ["binary"])


MODULE = """\
import torch


class Learner:
    def __init__(self):
        self.net = torch.nn.Linear(1, 1)

    def more(self):
        return 1
"""
WRAPPED = MODULE.replace("torch.nn.Linear(1, 1)", "torch.compile(torch.nn.Linear(1, 1))")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (MODULE, WRAPPED, "a.py wraps with torch.compile"),
        (MODULE, MODULE + "\n\n@torch.compile\ndef f(x):\n    return x\n", "torch.compile"),
        (
            MODULE,
            MODULE + "\n\nfast = functools.partial(torch.compile, dynamic=True)\n",
            "",  # functools is not imported: a name that nothing binds wraps nothing
        ),
        (
            "import functools\n" + MODULE,
            "import functools\n" + MODULE + "\n\nfast = functools.partial(torch.compile)\n",
            "a.py wraps with torch.compile",
        ),
        (
            WRAPPED,
            WRAPPED.replace("return 1", "return self.net.state_dict()"),
            "a.py calls state_dict, whose result torch.compile changes there",
        ),
        (MODULE, MODULE.replace("return 1", "return self.net.state_dict()"), ""),
        (WRAPPED, WRAPPED.replace("return 1", "return 2"), ""),
        (WRAPPED, MODULE, ""),
        (MODULE, MODULE.replace("return 1", 'return __import__("re").compile("a")'), ""),
        (MODULE, MODULE.replace("return 1", "return isinstance(1, torch.compile)"), ""),
        (MODULE, MODULE.replace("return 1", "return ("), ""),
    ],
)
def test_a_clean_pick_that_wraps_needs_rules(
    make_repo: MakeRepo, before: str, after: str, reason: str
) -> None:
    work = make_repo({"a.py": before})
    work.switch("x", "main")
    work.commit({"a.py": after}, "one")
    work.switch("main")
    work.commit({"notes": "no Python here\n"}, "notes")
    assert one(work).state == "ports clean"  # nothing that could read what is wrapped is new
    work.commit({"b.py": "import a\n"}, "go on")
    found = one(work)
    assert found.state == ("needs rules" if reason else "ports clean")
    assert reason in "".join(found.reasons)


def test_a_port_names_its_commits_and_its_own_wrapper(make_repo: MakeRepo) -> None:
    work = make_repo({"a.py": "import ema\n\nnet = 1\n", "b.py": "x = 1\n"})
    work.switch("x", "main")
    id = work.commit({"a.py": "import ema\n\nnet = ema.EMA(1)\n"}, "average")
    work.switch("main")
    work.commit({"b.py": "x = 2\n"}, "go on")
    assert one(work).state == "ports clean"
    plan = f"name: p\nexperiment: {{branch: x, commits: ['{id}']}}\n"
    plan += "wrapper: {callee: ema.EMA, unwrap: module, prefix: module.}\n"
    work.write({"patches/p/port.yaml": plan, "patches/q/port.yaml": "colour: red\n"})
    found = one(work)
    assert (found.state, found.port, found.port_branch) == ("needs rules", "p", "")
    [branch] = look(work).branches
    assert why(branch)[-1] == "porttool apply p"
    work.git("branch", "port/p", "main")
    assert one(work).port_branch == "port/p"
    [branch] = look(work).branches
    assert why(branch)[-1] == "porttool refresh p"


def test_each_branch_is_there_once_and_what_is_left_out_is_said(make_repo: MakeRepo) -> None:
    work = make_repo({"a": TEXT})
    work.switch("x", "main")
    tip = work.commit({"a": with_line(1, "theirs")}, "one")
    work.switch("main")
    work.git("update-ref", "refs/remotes/origin/x", tip)
    work.switch("y", "x")
    later = work.commit({"a": with_line(2, "later")}, "two")
    work.switch("main")
    work.git("update-ref", "refs/remotes/origin/z", later)
    work.git("branch", "-D", "y")
    work.git("update-ref", "refs/remotes/origin/main", tip)
    work.git("update-ref", "refs/heads/port/x", later)
    work.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    work.git("switch", "--quiet", "--orphan", "pages")
    work.commit({"index.html": "<p>\n"}, "pages")
    work.switch("main")
    found = look(work)
    assert {branch.name: branch.also for branch in found.branches} == {
        "x": ("origin/x",),
        "origin/z": (),
    }
    assert {left.name: left.why.partition(":")[0] for left in found.left_out} == {
        "origin/main": "it is main itself, as seen elsewhere",
        "port/x": "a review branch",
        "pages": "its history and main's have nothing in common",
    }


def test_merges_are_counted_and_the_latest_place_is_where_a_branch_left(
    make_repo: MakeRepo,
) -> None:
    work = make_repo({"a": TEXT, "b": TEXT})
    work.switch("x", "main")
    work.commit({"a": with_line(1, "theirs")}, "one")
    work.switch("main")
    fork = work.commit({"b": with_line(1, "ours")}, "go on")
    work.switch("x")
    work.git("merge", "--quiet", "-m", "catch up", "main")
    work.commit({"b": with_line(1, "theirs")}, "two")
    work.switch("main")
    branch = only(look(work))
    assert (branch.num_merges, branch.fork, branch.behind) == (1, fork, 0)
    assert states(branch) == ["ports clean", "ports clean"]


def test_a_branch_that_left_a_branch_that_was_merged(make_repo: MakeRepo) -> None:
    """Main's own commits beside the one that was left can be to blame, merged with it or before."""
    work = make_repo({"a": TEXT, "b": TEXT})
    work.switch("side", "main")
    fork = work.commit({"b": with_line(1, "side")}, "side")
    work.switch("x", "side")
    work.commit({"a": with_line(1, "theirs")}, "one")
    work.switch("main")
    blamed = work.commit({"a": with_line(1, "ours")}, "conflicts already")
    work.git("merge", "--quiet", "--no-ff", "-m", "merge side", "side")
    work.git("branch", "-D", "side")
    work.switch("old", "main^^")
    work.commit({"c": "new\n"}, "from before the line of the other one begins")
    found = look(work)
    for radar in (found, look_without(work, "old")):
        branch = by_name(radar)["x"]
        (commit,) = branch.commits
        assert (branch.fork, branch.behind) == (fork, 2)
        assert commit.since is not None
        assert (commit.state, commit.since.id) == ("conflicts", blamed)


def test_it_conflicts_since_git_says_so(make_repo: MakeRepo) -> None:
    """A real pick onto the commit before is clean, and onto the one that is blamed it stops."""
    chance = random.Random(3)
    names = [f"f{number}" for number in range(4)]
    texts = dict.fromkeys(names, TEXT)
    work = make_repo(texts)
    leaving = {chance.randrange(16): f"x{number}" for number in range(5)}
    for number in range(18):
        if number in leaving:
            work.switch(leaving[number], "main")
            for step in range(2):
                name = chance.choice(names)
                line = with_line(chance.randrange(12), f"x {number} {step}", texts[name])
                work.commit({name: line}, f"x {number} {step}")
            work.switch("main")
        name = chance.choice(names)
        texts[name] = with_line(chance.randrange(12), f"main {number}", texts[name])
        if number == 12:
            name = names[0]
            names[0] = "renamed"
            texts["renamed"] = texts.pop(name)
            work.commit({name: None, "renamed": texts["renamed"]}, "rename")
        else:
            work.commit({name: texts[name]}, f"main {number}")
    found = look(work)
    stopped = [c for b in found.branches for c in b.commits if c.state == "conflicts"]
    alone = [commit for commit in stopped if not commit.with_earlier]
    assert len(alone) >= 3
    for commit in alone:
        assert commit.since is not None
        for start, code in ((f"{commit.since.id}^", 0), (commit.since.id, 1)):
            work.git("checkout", "--quiet", "--detach", start)
            done = work.try_git("cherry-pick", "--allow-empty", commit.id)
            assert done.returncode == code, (commit, done)
            work.try_git("cherry-pick", "--abort")


CHANGES: list[tuple[Mapping[str, bytes | str | None], Mapping[str, bytes | str | None]]] = [
    ({"d/a": with_line(1, "x")}, {"d/a": with_line(1, "y")}),
    ({"d/a": with_line(1, "x")}, {"d/b": with_line(1, "y")}),
    ({"d/a": with_line(1, "x")}, {"d/a": None}),
    ({"d/a": None}, {"d/a": with_line(1, "y")}),
    ({"d/a": None, "e": TEXT}, {"d/a": with_line(1, "y")}),
    ({"d/a": with_line(1, "x")}, {"d/a": None, "e": with_line(5, "y")}),
    ({"new": "x\n"}, {"new": "y\n"}),
    ({"d/new": "x\n"}, {"d/a": None, "d/b": None, "g/a": TEXT, "g/b": TEXT + "b\n"}),
    ({"n": "x\n"}, {"n/x": "y\n"}),
    ({"d/a": with_line(9, "x")}, {"d/a": with_line(1, "y")}),
]


def test_many_picks_at_once_are_what_each_would_be_by_itself(make_repo: MakeRepo) -> None:
    work = make_repo({"d/a": TEXT, "d/b": TEXT + "b\n"})
    pairs = []
    for number, (theirs, ours) in enumerate(CHANGES):
        work.switch(f"x{number}", "main")
        commit = work.commit(theirs, "theirs")
        work.switch(f"y{number}", "main")
        pairs.append((commit, work.commit(ours, "ours")))
    base = CommitId(work.id("main"))
    with open_repository(work.path) as repo, Quarantine(repo) as quarantine:
        picks = [
            Pick(base, CommitId(commit), quarantine.tree_of(CommitId(onto)))
            for commit, onto in pairs
        ]
        told, untold = (pick_many(quarantine, picks, told=told) for told in (True, False))
        for number, pick in enumerate(picks):
            tree = quarantine.commit(pick.commit).tree
            alone = merge_trees(
                quarantine, base=quarantine.tree_of(base), ours=pick.onto, theirs=tree
            )
            found = [(clash.kind, clash.paths) for clash in told[number].conflicts]
            assert found == [
                (clash.kind, tuple(dict.fromkeys(path.partition("~")[0] for path in clash.paths)))
                for clash in alone.conflicts
            ], number
            assert told[number].changes == (alone.tree != pick.onto), number
            assert untold[number].clean == alone.clean, number
    assert sum(picked.clean for picked in told) not in (0, len(CHANGES))


def test_words_that_git_adds_about_submodules_are_no_merge(make_repo: MakeRepo) -> None:
    work = make_repo({"a": TEXT})
    others = [work.id("main")]
    others += [work.commit({"n": f"{number}\n"}, "other") for number in range(2)]

    def link(branch: str, other: str, message: str) -> str:
        work.switch(branch, "linked") if branch != "main" else work.switch("main")
        work.git("update-index", "--add", "--cacheinfo", f"160000,{other},sub")
        return str(work.commit_staged(message))

    work.git("branch", "linked")
    link("main", others[0], "link")
    work.git("branch", "-f", "linked", "main")
    link("x", others[1], "theirs")
    work.switch("y", "linked")
    work.git("update-index", "--add", "--cacheinfo", f"160000,{others[0]},sub")
    work.write({"a": with_line(1, "theirs")})
    work.git("add", "a")
    work.commit_staged("fine")
    link("main", others[2], "ours")
    found = by_name(look(work))
    (clash,) = found["x"].commits
    assert (clash.state, {c.kind for c in clash.clashes}) == ("conflicts", {"submodule"})
    assert states(found["y"]) == ["ports clean"]


def test_nothing_is_written_and_nothing_is_run(
    make_repo: MakeRepo, watch: Any, tmp_path: Path
) -> None:
    work = make_repo({"a": TEXT, ".gitattributes": "a merge=mine diff=mine filter=mine\n"})
    mark = tmp_path / "ran"
    for name in ("merge.mine.driver", "diff.mine.command", "diff.mine.textconv"):
        work.git("config", name, f"touch {mark}")
    hook = work.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    work.git("-c", "core.hooksPath=/dev/null", "switch", "--quiet", "-c", "x")
    work.git("config", "core.hooksPath", "/dev/null")
    work.commit({"a": with_line(1, "theirs")}, "one")
    work.switch("main")
    work.commit({"a": with_line(1, "ours")}, "two")
    work.git("config", "--unset", "core.hooksPath")
    watched = watch(work)
    objects = watched.objects()
    assert only(look(work)).state == "conflicts"
    assert (watched.harm(), watched.objects(), mark.exists()) == ([], objects, False)


HOSTILE = "x/<script>alert(1)</script>&\u202egpj"


def hostile(make_repo: MakeRepo) -> Any:
    work = make_repo({"a": TEXT, "<b>\x1b[31m": TEXT})
    work.switch(HOSTILE, "main")
    work.commit(
        {"<b>\x1b[31m": with_line(1, "theirs")},
        "<img src=x onerror=alert(1)>\x1b]0;owned\x07 " + "long " * 2000,
    )
    work.switch("main")
    work.commit({"<b>\x1b[31m": with_line(1, "ours")}, "</title><script>alert(2)</script>")
    return work


def test_a_page_shows_hostile_names_as_text(make_repo: MakeRepo) -> None:
    shown = page(look(hostile(make_repo)))
    assert set(re.findall(r"<(\w+)", shown)) <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "table"),
        *("thead", "tbody", "tr", "th", "td", "a", "details", "summary", "span", "code", "br"),
    }
    assert html.escape("x/<script>alert(1)</script>&\\u202egpj") in shown
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    assert "characters more" in shown
    assert set(re.findall(r'href="#(\w+)"', shown)) == set(re.findall(r' id="(\w+)"', shown))


def porttool(*words: str) -> Any:
    return CliRunner().invoke(app, words)


def test_the_command_shows_a_table_json_and_a_page(make_repo: MakeRepo, tmp_path: Path) -> None:
    work = hostile(make_repo)
    table = porttool("radar", "--repo", str(work.path))
    assert table.exit_code == 0, table.output
    assert "\x1b" not in table.stdout
    assert "conflicts" in table.stdout
    assert table.stdout.rstrip().endswith(
        f"1 unmerged branch on main {work.id('main')[:12]}: 1 in conflict"
    )
    answer = porttool("radar", "--repo", str(work.path), "--json")
    data = json.loads(answer.stdout)
    (branch,) = data["branches"]
    assert (branch["name"], branch["state"], branch["counts"]) == (
        HOSTILE,
        "conflicts",
        {"conflicts": 1},
    )
    assert branch["commits"][0]["clashes"] == [{"kind": "content", "paths": ["<b>\x1b[31m"]}]
    assert branch["since"]["id"] == work.id("main")
    file = tmp_path / "radar.html"
    written = porttool("radar", "--repo", str(work.path), "--html", str(file))
    assert (written.exit_code, file.read_text().startswith("<!doctype html>")) == (0, True)
    refused = porttool("radar", "--repo", str(work.path), "--html", str(tmp_path))
    assert (refused.exit_code, "cannot be written" in refused.stderr) == (2, True)


def test_an_onto_that_is_not_there_is_refused(make_repo: MakeRepo) -> None:
    work = make_repo({"a": TEXT})
    work.git("branch", "-m", "main", "trunk")
    refused = porttool("radar", "--repo", str(work.path))
    assert (refused.exit_code, "porttool radar --onto BRANCH" in refused.stderr) == (2, True)
    assert porttool("radar", "--repo", str(work.path), "--onto", "trunk").exit_code == 0
