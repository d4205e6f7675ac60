"""Conflicts that no rule can solve: told by kind and cause, opened, answered, and remembered."""

import itertools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from porttool.apply import apply
from porttool.cli import app
from porttool.errors import NeedsPerson, PlanError
from porttool.git.publish import read_note
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan
from porttool.report import from_json
from porttool.resolving.conflicts import Unresolved
from porttool.resolving.resolve import abort, keep_answers, open_conflicts, sides_taken

BASE = """import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.policy = nn.Linear(cfg.n_in, cfg.n_out)

    def save(self):
        return {"policy": self.policy.state_dict()}
"""
EXPERIMENT = BASE.replace(
    "nn.Linear(cfg.n_in, cfg.n_out)", "torch.compile(nn.Linear(cfg.n_in, cfg.n_out))"
).replace("self.policy.state_dict()", "getattr(self.policy, '_orig_mod', self.policy).state_dict()")
PUSH = "\n    def push(self, queue):\n        queue.put(self.policy.state_dict())\n"
LONG = "".join(f"line {number}\n" for number in range(20))
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{:064}\nsize 12\n"


@pytest.fixture
def port(make_repo):
    """Return `port(base, experiment, main)`: three states beside a port that has no conflict.

    A state is a dict of changes, or a function that makes them in the working tree.
    """

    def make(base, experiment, main):
        repo = make_repo({"a.py": BASE})
        _make(repo, base, "before", "a.py", BASE)
        repo.switch("exp", "main")
        commit = _make(repo, experiment, "Compile it", "a.py", EXPERIMENT)
        repo.switch("main")
        _make(repo, main, "main changes it", "a.py", BASE + PUSH)
        plan = f"name: x\nexperiment: {{branch: exp, commits: [{commit}]}}\n"
        repo.write({"patches/x/port.yaml": plan})
        repo.git("add", "patches")
        repo.commit_staged("a port")
        return repo

    return make


def _make(repo, state, message, *own):
    repo.write(dict([own]))
    repo.git("add", *own[:1])
    if callable(state):
        state(repo)
        return repo.commit_staged(message)
    return repo.commit(state, message)


def run(repo, **options):
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        return apply(opened, plan, **{"onto": "main", "progress": str, **options})


def opened(repo):
    with open_repository(repo.path) as there:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        return open_conflicts(there, plan, onto="main", progress=str)


def done(repo, *, ours=(), theirs=(), delete=()):
    with open_repository(repo.path) as there:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        return keep_answers(there, plan, takes=sides_taken(ours, theirs, delete), progress=str)


def git_contents(repo):
    """Return .git without times: git gives an object that it needs again a new one."""
    return {name: (mode, data) for name, (mode, _, data) in repo.git_folder().items()}


def give_up(repo):
    with open_repository(repo.path) as there:
        return abort(there, load_plan(repo.path / "patches/x/port.yaml"))


def index(*entries):
    """Return a state in which these entries (mode, content or id, path) are staged."""

    def stage(repo):
        for mode, content, path in entries:
            id = content
            if mode != "160000":
                id = repo.git("hash-object", "-w", "--stdin", input=content.encode())
            repo.git("update-index", "--add", "--cacheinfo", f"{mode},{id},{path}")

    return stage


SUB = [f"{number:040}" for number in (1, 2, 3)]
KINDS = {
    "content": ({"n": "1\n"}, {"n": "2\n"}, {"n": "3\n"}, ["n"]),
    "add/add": ({}, {"n": "2\n"}, {"n": "3\n"}, ["n"]),
    "binary": ({"n": b"\0\1"}, {"n": b"\0\2"}, {"n": b"\0\3"}, ["n"]),
    "LFS pointer": (
        {"n": POINTER.format(1)},
        {"n": POINTER.format(2)},
        {"n": POINTER.format(3)},
        ["n"],
    ),
    "modify/delete": ({"n": LONG}, {"n": LONG + "more\n"}, {"n": None}, ["n"]),
    "rename/rename": (
        {"n": LONG},
        {"n": None, "t": LONG},
        {"n": None, "o": LONG},
        ["n", "o", "t"],
    ),
    "rename/delete": ({"n": LONG}, {"n": None, "t": LONG}, {"n": None}, ["n", "t"]),
    "mode": ({}, index(("100755", "n\n", "n")), index(("100644", "n\n", "n")), ["n"]),
    "submodule": (
        index(("160000", SUB[0], "n")),
        index(("160000", SUB[1], "n")),
        index(("160000", SUB[2], "n")),
        ["n"],
    ),
    "file/directory": ({}, {"n/inside": "2\n"}, {"n": "3\n"}, ["n", "n~onto"]),
    "directory rename": (
        {"old/a": LONG, "old/b": LONG + "b\n"},
        {"old/c": "c\n"},
        {"old/a": None, "old/b": None, "new/a": LONG, "new/b": LONG + "b\n"},
        ["new/c", "old/c"],
    ),
}
CHOSEN = [kind for kind in KINDS if kind not in ("content", "add/add")]
CHOSEN = [kind for kind in CHOSEN if kind not in ("file/directory", "directory rename")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_conflict_is_told_by_its_kind_and_its_cause_and_leaves_nothing(port, kind):
    *sides, paths = KINDS[kind]
    repo = port(*sides)
    cause = repo.id("main^")
    before = git_contents(repo)
    with pytest.raises(Unresolved) as caught:
        run(repo)
    (question,) = caught.value.questions
    assert (question.kind, sorted(question.paths)) == (kind, paths)
    assert [commit.id for commit in question.causes] == [cause]
    assert f"changed on main by {cause[:12]} main changes it" in str(caught.value)
    assert caught.value.exit_code == 3
    told = caught.value.as_dict()["conflicts"]
    assert told == [
        {
            "kind": kind,
            "paths": list(question.paths),
            "commits": [{"id": cause, "subject": "main changes it"}],
        }
    ]
    if question.is_open:
        assert caught.value.next == "porttool resolve x"
    else:
        assert "in the experiment as main does" in caught.value.next
        with pytest.raises(Unresolved):
            opened(repo)
    assert git_contents(repo) == before


def test_all_conflicts_are_told_at_once_with_the_commits_through_a_rename(port):
    repo = port(
        {"n": LONG, "k": "1\n"},
        {"n": LONG.replace("line 3", "theirs"), "k": "2\n"},
        {"n": LONG.replace("line 3", "ours"), "k": "3\n"},
    )
    first = repo.id("main^")
    repo.git("mv", "n", "moved")
    second = repo.commit_staged("move it")
    with pytest.raises(Unresolved) as caught:
        run(repo)
    told = {question.paths: question for question in caught.value.questions}
    assert list(told) == [("k",), ("moved",)]
    assert [commit.id for commit in told["k",].causes] == [first]
    assert [commit.id for commit in told["moved",].causes] == [second, first]


def test_an_edited_file_is_kept_and_used(port):
    repo = port({"n.txt": "1\n"}, {"n.txt": "2\n"}, {"n.txt": "3\n"})
    before = git_contents(repo)
    resolving = opened(repo)
    file = resolving.folder / "n.txt"
    assert file.read_bytes() == (
        b"<<<<<<< onto\n3\n||||||| base of the experiment\n1\n=======\n2\n>>>>>>> experiment\n"
    )
    assert [path.name for path in resolving.folder.iterdir()] == ["n.txt"]
    assert str(resolving.folder) in resolving.message
    assert git_contents(repo) == before
    assert repo.git("status", "--porcelain") == ""
    file.write_bytes(b"2 and 3\r\n")
    kept = done(repo)
    assert not resolving.folder.exists()
    (name,) = kept.kept
    assert name.startswith("resolutions/n.txt-")
    assert repo.git("status", "--porcelain", "-uall").splitlines() == [
        "?? patches/x/resolutions/.gitattributes",
        f"?? patches/x/{name}",
    ]
    applied = run(repo)
    assert applied.outcome == "created"
    assert repo.show("port/x", "n.txt") == b"2 and 3\r\n"
    with open_repository(repo.path) as there:
        report = from_json(read_note(there, applied.report.tip))
    (entry,) = [entry for entry in report.ledger if entry.path == "n.txt"]
    assert entry.outcome == "adapted"
    assert entry.why == f"it conflicted with onto, and a person decided: {name}"
    (conflict,) = [one for one in report.conflicts if one.path == "n.txt" and name in one.resolved]
    assert conflict.kind == "content"


def test_an_answer_is_part_of_what_the_port_is_made_from(port):
    repo = port({"n": "1\n"}, {"n": "2\n"}, {"n": "3\n"})
    plan = repo.path / "patches/x/port.yaml"
    without = load_plan(plan).digest
    tips = []
    for text in ("4\n", "5\n", "4\n"):
        (opened(repo).folder / "n").write_text(text)
        done(repo)
        assert load_plan(plan).digest != without
        tips.append(run(repo, replace_branch=True).report.tip)
        for file in (repo.path / "patches/x/resolutions").iterdir():
            file.unlink()
    assert tips[0] != tips[1]
    assert tips[0] == tips[2]
    assert load_plan(plan).digest == without


@pytest.mark.parametrize(
    ("kind", "side"),
    [
        *[("content", side) for side in ("ours", "theirs", "delete")],
        *zip(CHOSEN, itertools.cycle(("theirs", "ours"))),
        ("rename/rename", "delete"),
        ("submodule", "delete"),
    ],
)
def test_one_side_can_be_taken_whole(port, kind, side):
    *sides, paths = KINDS[kind]
    repo = port(*sides)
    opened(repo)
    done(repo, **{side: [paths[0]]})
    run(repo)
    listing = {}
    for revision in ("port/x", "main", "exp"):
        lines = repo.git("ls-tree", revision, "--", *paths).splitlines()
        listing[revision] = {line.split("\t")[1]: line.split("\t")[0] for line in lines}
    wanted = {"ours": listing["main"], "theirs": listing["exp"], "delete": {}}[side]
    assert listing["port/x"] == wanted


@pytest.mark.parametrize("kind", CHOSEN)
def test_what_has_no_lines_to_edit_needs_a_side(port, kind):
    *sides, paths = KINDS[kind]
    repo = port(*sides)
    resolving = opened(repo)
    assert list(resolving.folder.iterdir()) == []
    with pytest.raises(NeedsPerson, match="has no answer") as caught:
        done(repo)
    assert "--theirs" in caught.value.next
    assert resolving.folder.is_dir()
    assert not (repo.path / "patches/x/resolutions").exists()
    with pytest.raises(PlanError, match="is in no open conflict"):
        done(repo, theirs=["a.py"])
    with pytest.raises(PlanError, match="two answers"):
        done(repo, theirs=[paths[0]], ours=[paths[-1]] if len(paths) > 1 else paths)


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("n.txt", "a\n<<<<<<< onto\nb\n", "conflict markers are left at n.txt:2"),
        ("n.txt", "a\n=======\nb\n>>>>>>> experiment\n", "left at n.txt:2, n.txt:4"),
        ("n.txt", "a\n||||||| base of the experiment\n", "left at n.txt:2"),
        ("n.txt", "a\r\n=======\r\n", "left at n.txt:2"),
        ("n.py", "def f(:\n", "does not parse: n.py:1"),
        ("n.json", '{"a": }', "does not parse: n.json: Expecting value"),
        ("n.toml", "a = \n", "does not parse: n.toml"),
    ],
)
def test_what_is_not_resolved_is_not_kept(port, path, text, why):
    plain = {"n.json": '{{"a": {}}}', "n.toml": "a = {}\n"}.get(path, "a = {}\n")
    repo = port(*({path: plain.format(number)} for number in (1, 2, 3)))
    resolving = opened(repo)
    with pytest.raises(NeedsPerson, match="is not resolved yet"):
        done(repo)
    (resolving.folder / path).write_bytes(text.encode())
    with pytest.raises(NeedsPerson) as caught:
        done(repo)
    assert why in caught.value.why
    assert caught.value.where == str(resolving.folder / path)
    assert not (repo.path / "patches/x/resolutions").exists()
    (resolving.folder / path).unlink()
    with pytest.raises(NeedsPerson, match="has no answer"):
        done(repo)


def test_lines_that_look_like_markers_and_are_text_stay(port):
    title = "Title\n=======\n<<<<<<< quoted\n"
    repo = port(*({"n.rst": f"{title}{number}\n"} for number in (1, 2, 3)))
    (opened(repo).folder / "n.rst").write_text(f"{title}2 and 3\n")
    done(repo)
    run(repo)
    assert repo.show("port/x", "n.rst").decode() == f"{title}2 and 3\n"


def test_what_did_not_parse_before_need_not_parse_now(port):
    repo = port(*({"n.json": f"// {number}\n{{}}\n"} for number in (1, 2, 3)))
    (opened(repo).folder / "n.json").write_text("// 2, 3\n{}\n")
    done(repo)
    run(repo)
    assert repo.show("port/x", "n.json") == b"// 2, 3\n{}\n"


def test_sites_in_a_resolved_file_are_decided_as_everywhere(port):
    """A person's lines hold a leak, in the file that the experiment wraps in."""
    note = "\n\nNOTE = {}\n"
    repo = port({}, {"a.py": EXPERIMENT + note.format(2)}, {"a.py": BASE + PUSH + note.format(3)})
    file = opened(repo).folder / "a.py"
    text = file.read_text()
    assert "torch.compile" not in text
    head, _, _ = text.partition("<<<<<<<")
    pull = "    def pull(self):\n        return self.policy.state_dict()\n"
    file.write_text(f"{head}{PUSH.strip(chr(10))}\n\n{pull}{note.format(23)}")
    done(repo)
    run(repo)
    ported = repo.show("port/x", "a.py").decode()
    assert ported.count("getattr(self.policy, '_orig_mod', self.policy).state_dict()") == 3
    assert "NOTE = 23" in ported


def test_an_answer_that_does_not_fit_any_more_stops_as_before(port):
    repo = port({"n": "1\n"}, {"n": "2\n"}, {"n": "3\n"})
    (opened(repo).folder / "n").write_text("4\n")
    (name,) = done(repo).kept
    repo.commit({"n": "33\n"}, "main moves on")
    with pytest.raises(Unresolved) as caught:
        run(repo)
    assert caught.value.unfit == (name,)
    assert f"{name} does not fit any more" in str(caught.value)
    assert f"{name} does not fit any more" in opened(repo).message
    repo.commit({"n": "2\n"}, "main does it as well")
    with pytest.raises(PlanError, match="answers a conflict that there is not"):
        run(repo)
    (repo.path / "patches/x" / name).unlink()
    assert run(repo).outcome == "created"


def test_answers_to_other_conflicts_than_those_that_were_opened_are_not_kept(port):
    repo = port({"n": "1\n"}, {"n": "2\n"}, {"n": "3\n"})
    folder = opened(repo).folder
    (folder / "n").write_text("4\n")
    repo.commit({"n": "33\n"}, "main moves on")
    with pytest.raises(NeedsPerson, match="not those that the folder was made for"):
        done(repo)
    assert (folder / "n").read_text() == "4\n"
    with pytest.raises(NeedsPerson, match="are open already"):
        opened(repo)
    assert (folder / "n").read_text() == "4\n"
    assert give_up(repo).message == f"removed {folder.parent}"
    assert not folder.exists()
    assert give_up(repo).message == "no conflict of x was open"
    with pytest.raises(NeedsPerson, match="no conflict of x is open"):
        done(repo)
    assert b"33" in (opened(repo).folder / "n").read_bytes()


def test_nothing_to_resolve(port):
    repo = port({}, {}, {})
    assert opened(repo).message.startswith("nothing of x conflicts with main")


def test_what_a_killed_run_left_beside_the_folder_is_removed(port):
    repo = port({"n": "1\n"}, {"n": "2\n"}, {"n": "3\n"})
    folder = opened(repo).folder.parent
    left = folder.with_name("porttool-scratch-dead")
    left.mkdir(mode=0o700)
    (left / "files").mkdir()
    give_up(repo)
    assert not left.exists()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda data: b"", "its head is not complete"),
        (lambda data: data.replace(b'"n"', b'"../n"'), "its path '../n' is not one of a file"),
        (lambda data: data.replace(b'"n"', b'".git/n"'), "reaches into the repository's own .git"),
        (lambda data: data.replace(b'"n"', b"7"), "it is no text"),
        (lambda data: data.replace(b'"n"', b'"a.py"'), "it is about a.py, the conflict n"),
        (lambda data: data.replace(b"take: edit", b"take: run"), "`take: run` is none of"),
        (lambda data: data.replace(b"resolution: 1", b"resolution: 2"), "format 2"),
        (lambda data: data.replace(b"kind:", b"more: x\nkind:"), "its head has more"),
        (lambda data: data.replace(b"\n\n4\n", b"\n\n<<<<<<< onto\n4\n"), "markers are left"),
    ],
)
def test_an_answer_is_not_taken_on_trust(port, spoil, why):
    repo = port({"n": "1\n"}, {"n": "2\n"}, {"n": "3\n"})
    (opened(repo).folder / "n").write_text("4\n")
    (name,) = done(repo).kept
    file = repo.path / "patches/x" / name
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(PlanError) as caught:
        run(repo)
    assert why in caught.value.why
    assert caught.value.where == str(file)


def test_a_file_that_leads_out_of_the_folder_is_not_read(port, tmp_path):
    repo = port({"n": "1\n"}, {"n": "2\n"}, {"n": "3\n"})
    file = opened(repo).folder / "n"
    file.unlink()
    (tmp_path / "secret").write_text("4\n")
    file.symlink_to(tmp_path / "secret")
    with pytest.raises(NeedsPerson, match="leads out of the folder"):
        done(repo)


def test_awkward_paths_and_bytes_survive(port):
    path = "dir with space/-ü \"'\\.txt"
    repo = port(*({path: f"{number}\n"} for number in (1, 2, 3)))
    (opened(repo).folder / path).write_bytes(b"\xff\xfe\r\n\n\n4")
    (name,) = done(repo).kept
    head = (repo.path / "patches/x" / name).read_bytes().partition(b"\n\n")[0].decode("ascii")
    assert json.loads(head.split("path: ")[1].split("\n")[0]) == path
    run(repo)
    assert repo.show("port/x", path) == b"\xff\xfe\r\n\n\n4"


def test_an_executable_stays_one(port):
    repo = port(*(index(("100755", f"{number}\n", "n")) for number in (1, 2, 3)))
    repo.git("checkout", "-q", "--", "n")
    (opened(repo).folder / "n").write_text("4\n")
    done(repo)
    run(repo)
    assert repo.git("ls-tree", "port/x", "--", "n").startswith("100755 ")
    assert repo.show("port/x", "n") == b"4\n"


def test_the_folder_of_answers_may_not_be_a_link(port, tmp_path):
    repo = port({"n": "1\n"}, {"n": "2\n"}, {"n": "3\n"})
    (opened(repo).folder / "n").write_text("4\n")
    (tmp_path / "outside").mkdir()
    Path(repo.path / "patches/x/resolutions").symlink_to(tmp_path / "outside")
    with pytest.raises(PlanError, match="resolutions is a link"):
        done(repo)
    assert list((tmp_path / "outside").iterdir()) == []


def test_the_command_line_opens_keeps_and_gives_up(port):
    repo = port({"n": "1\n", "b": b"\0"}, {"n": "2\n", "b": b"\0\2"}, {"n": "3\n", "b": b"\0\3"})

    def typed(*words):
        done = CliRunner().invoke(app, [*words, "x", "--repo", str(repo.path)])
        return done.exit_code, done.stdout, done.stderr

    code, _, told = typed("apply")
    assert code == 3
    assert "next:  porttool resolve x" in told
    code, said, _ = typed("resolve")
    assert code == 0
    folder = Path(said.split("edit the files in ")[1].split("\n")[0])
    assert "next: porttool resolve x --done --ours b" in said
    assert typed("resolve")[0] == 3
    assert typed("resolve", "--done")[0] == 3
    (folder / "n").write_text("4\n")
    code, _, told = typed("resolve", "--done", "--theirs", "b", "--ours", "b")
    assert (code, "two answers were given" in told) == (2, True)
    for words in (("--ours", "b"), ("--done", "--abort"), ("--done", "--onto", "main")):
        code, _, told = typed("resolve", *words)
        assert (code, "go with --done" in told) == (2, True)
    code, said, _ = typed("resolve", "--done", "--theirs", "b", "--json")
    answer = json.loads(said)
    assert (code, answer["outcome"], len(answer["kept"])) == (0, "kept", 2)
    assert typed("resolve", "--json")[1].count("2 conflicts of x on main, all answered") == 1
    assert typed("resolve", "--abort")[:2] == (0, "no conflict of x was open\n")
    assert typed("apply")[0] == 0
    assert repo.show("port/x", "b") == b"\0\2"


def test_refused_data_names_every_conflict(port):
    repo = port({"n": "1\n"}, {"n": "2\n"}, {"n": "3\n"})
    done = CliRunner().invoke(app, ["apply", "x", "--repo", str(repo.path), "--json"])
    answer = json.loads(done.stdout)
    assert (answer["error"], answer["exit_code"]) == ("Unresolved", 3)
    assert [conflict["kind"] for conflict in answer["conflicts"]] == ["content"]
    assert answer["conflicts"][0]["commits"][0]["subject"] == "main changes it"
