"""Which commits are an experiment: chains, picks, merges, roots, and what is more than text."""

import pytest
from typer.testing import CliRunner

from porttool.apply import apply, prove_branch
from porttool.cli import app
from porttool.errors import CannotLearn, PlanError, RepositoryError
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan

BASE = """import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.policy = nn.Linear(cfg.n_in, cfg.n_out)
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {"policy": self.policy.state_dict(), "opt": self.opt.state_dict()}


class Schedule:
    def __init__(self, first, last, num_steps):
        self.first = first
        self.last = last
        self.num_steps = num_steps

    def at(self, step):
        share = min(step, self.num_steps) / self.num_steps
        return self.first + share * (self.last - self.first)
"""
HELPER = """def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


"""
PUSH = "\n    def push(self, queue):\n        queue.put(self.policy.state_dict())\n"
MOVED = BASE.replace("\n\nclass Schedule", f"{PUSH}\n\nclass Schedule")


def helped(text):
    return text.replace("class Learner", f"{HELPER}class Learner")


def routed(text):
    return text.replace("self.policy.state_dict()", "_clean_state_dict(self.policy)")


def wrapped(text):
    call = "nn.Linear(cfg.n_in, cfg.n_out)"
    return text.replace(call, f"torch.compile({call})")


def whole(text):
    return wrapped(routed(helped(text)))


def tuned(text):
    return text.replace("share = min(step,", "share = max(0, step,")


def write_plan(repo, *commits, more=""):
    """Write a plan beside a main that has moved on."""
    names = ", ".join(commits)
    plan = f"name: x\nexperiment:\n  branch: exp\n  commits: [{names}]\n{more}"
    repo.write({"patches/x/port.yaml": plan})


def run(repo, **options):
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        return apply(opened, plan, **{"onto": "main", "progress": str, **options})


def ported(repo):
    run(repo)
    return repo.show("port/x", "a.py").decode()


@pytest.fixture
def repo(make_repo):
    return make_repo({"a.py": BASE, "notes.txt": "one\n"})


def on_main(repo):
    repo.switch("main")
    repo.commit({"a.py": MOVED}, "moved on")


def test_commits_with_others_between_are_picked_onto_each_other(repo):
    repo.switch("exp", "main")
    first = repo.commit({"a.py": routed(helped(BASE))}, "route")
    repo.commit({"a.py": tuned(routed(helped(BASE))), "notes.txt": "two\n"}, "unrelated")
    second = repo.commit({"a.py": tuned(whole(BASE)), "notes.txt": "two\n"}, "compile")
    on_main(repo)
    write_plan(repo, first, second)
    assert ported(repo) == whole(MOVED)
    assert repo.show("port/x", "notes.txt") == b"one\n"
    assert repo.git("log", "--format=%s", "main..port/x") == "compile"


def test_commits_whose_neighbours_change_the_same_place_are_refused(repo):
    repo.switch("exp", "main")
    first = repo.commit({"notes.txt": "two\n", "a.py": helped(BASE)}, "route")
    between = repo.commit({"notes.txt": "three\n"}, "not of the experiment")
    second = repo.commit({"notes.txt": "four\n", "a.py": whole(BASE)}, "compile")
    on_main(repo)
    write_plan(repo, first, second)
    with pytest.raises(RepositoryError) as caught:
        run(repo)
    assert caught.value.what == f"the experiment's commit {second} cannot be picked onto {first}"
    assert caught.value.where == "notes.txt"
    assert f"{between} not of the experiment" in caught.value.why
    write_plan(repo, first, between, second)
    assert ported(repo) == whole(MOVED)
    assert repo.show("port/x", "notes.txt") == b"four\n"


def test_what_was_left_out_is_listed_up_to_a_limit(repo):
    repo.switch("exp", "main")
    first = repo.commit({"notes.txt": "first\n"}, "first")
    for number in range(12):
        repo.commit({"notes.txt": f"{number}\n"}, f"between {number}")
    second = repo.commit({"notes.txt": "second\n", "a.py": whole(BASE)}, "second")
    on_main(repo)
    write_plan(repo, first, second)
    with pytest.raises(RepositoryError, match="and 4 more") as caught:
        run(repo)
    assert "between 7" in caught.value.why
    assert "between 8" not in caught.value.why


@pytest.mark.parametrize("order", ["reversed", "twice", "two branches"])
def test_commits_out_of_order_are_refused(repo, order):
    repo.switch("other", "main")
    other = repo.commit({"notes.txt": "two\n"}, "other")
    repo.switch("exp", "main")
    first = repo.commit({"a.py": helped(BASE)}, "first")
    second = repo.commit({"a.py": whole(BASE)}, "second")
    on_main(repo)
    commits = {
        "reversed": (second, first),
        "twice": (first, first, second),
        "two branches": (other, second),
    }[order]
    write_plan(repo, *commits)
    with pytest.raises(RepositoryError, match="not one chain, and not one branch's"):
        run(repo)


@pytest.fixture
def merge(repo):
    """Make a merge of a feature branch into `exp`, both sides with changes; return its id."""
    repo.switch("feature", "main")
    repo.commit({"a.py": helped(BASE)}, "helper")
    repo.commit({"a.py": whole(BASE)}, "compile")
    repo.switch("exp", "main")
    repo.commit({"notes.txt": "two\n"}, "elsewhere")
    repo.git("merge", "-q", "--no-ff", "-m", "Merge feature", "feature")
    merged = repo.id("exp")
    on_main(repo)
    return merged


def test_a_merge_needs_a_mainline_and_its_parents_are_named(repo, merge):
    write_plan(repo, merge)
    with pytest.raises(RepositoryError) as caught:
        run(repo)
    first, second = repo.id("exp^1"), repo.id("exp^2")
    assert caught.value.what == f"the experiment's commit {merge} is a merge of 2 parents"
    assert f"1: {first[:12]} elsewhere; 2: {second[:12]} compile" in caught.value.why
    assert "write `mainline: 1`" in caught.value.next
    assert caught.value.exit_code == 2


def test_a_mainline_picks_the_parent(repo, merge):
    write_plan(repo, merge, more="  mainline: 1\n")
    assert ported(repo) == whole(MOVED)
    assert repo.show("port/x", "notes.txt") == b"one\n"
    plan = load_plan(repo.path / "patches/x/port.yaml")
    with open_repository(repo.path) as opened:
        prove = prove_branch(opened, plan, str)
        assert prove(repo.id("main"), repo.id("port/x")).files
    write_plan(repo, merge, more="  mainline: 2\n")
    run(repo, replace_branch=True)
    assert repo.show("port/x", "a.py").decode() == MOVED
    assert repo.show("port/x", "notes.txt") == b"two\n"


def test_mainline_on_the_command_line_goes_before_the_plans(repo, merge):
    write_plan(repo, merge, more="  mainline: 2\n")
    command = ["apply", "x", "--repo", str(repo.path)]
    done = CliRunner().invoke(app, [*command, "--mainline", "1"])
    assert (done.exit_code, "created port/x" in done.stdout) == (0, True)
    assert repo.show("port/x", "a.py").decode() == whole(MOVED)
    written = load_plan(repo.path / "patches/x/port.yaml").digest
    assert f"Port-plan: {written}" not in repo.git("log", "-1", "--format=%B", "port/x")
    # What the plan says gives another branch, and that is told.
    assert CliRunner().invoke(app, command).exit_code == 2


@pytest.mark.parametrize(("mainline", "many"), [(3, "2 parents"), (2, "1 parent")])
def test_a_mainline_that_is_not_there_is_refused(repo, merge, mainline, many):
    commit = merge if mainline == 3 else repo.id("feature")
    write_plan(repo, commit, more=f"  mainline: {mainline}\n")
    with pytest.raises(RepositoryError) as caught:
        run(repo)
    assert caught.value.what == f"mainline {mainline}: the experiment's commit {commit} has {many}"


@pytest.mark.parametrize("text", ["0", "first", "1.0"])
def test_a_mainline_is_a_number_from_one(repo, merge, text):
    write_plan(repo, merge, more=f"  mainline: {text}\n")
    with pytest.raises(PlanError, match="mainline"):
        run(repo)


def test_a_mainline_of_one_holds_for_plain_commits_too(repo, merge):
    write_plan(repo, repo.id("feature^"), repo.id("feature"), more="  mainline: 1\n")
    assert ported(repo) == whole(MOVED)


def test_a_commit_without_a_parent_is_refused(repo):
    repo.git("checkout", "-q", "--orphan", "exp")
    root = repo.commit({"a.py": whole(BASE)}, "a history of its own")
    on_main(repo)
    write_plan(repo, root)
    with pytest.raises(RepositoryError, match="has no parent") as caught:
        run(repo)
    assert f"git rev-list --reverse {root}..exp" in caught.value.next


def test_a_file_that_is_renamed_and_changed_at_once_is_refused(repo):
    repo.switch("exp", "main")
    repo.git("mv", "a.py", "b.py")
    first = repo.commit({}, "rename")
    second = repo.commit({"b.py": whole(BASE)}, "compile")
    on_main(repo)
    write_plan(repo, first, second)
    with pytest.raises(CannotLearn, match=r"renames a\.py to b\.py and changes it") as caught:
        run(repo)
    assert "list only the commits after that one" in caught.value.next
    # The advice: main has the file under its old name, where the port finds it.
    write_plan(repo, second)
    assert ported(repo) == whole(MOVED)
    assert repo.try_git("cat-file", "-e", "port/x:b.py").returncode


def test_a_file_that_is_only_renamed_takes_mains_changes_along(repo):
    repo.commit({"c.py": "".join(f"x{n} = {n}\n" for n in range(9))}, "another file")
    repo.switch("exp", "main")
    repo.git("mv", "c.py", "d.py")
    commit = repo.commit({"a.py": whole(BASE)}, "compile, and rename another file")
    repo.switch("main")
    repo.commit({"c.py": repo.show("main", "c.py") + b"y = 1\n"}, "moved on")
    write_plan(repo, commit)
    assert ported(repo) == whole(BASE)
    assert repo.show("port/x", "d.py").endswith(b"y = 1\n")
    assert repo.try_git("cat-file", "-e", "port/x:c.py").returncode


def test_modes_links_and_submodules_come_along(repo):
    repo.commit({"run.sh": "echo\n", "old": "k\n"}, "more")
    repo.switch("exp", "main")
    (repo.path / "run.sh").chmod(0o755)
    repo.write({"a.py": whole(BASE), "new.sh": "echo\n"})
    (repo.path / "new.sh").chmod(0o755)
    (repo.path / "link").symlink_to("a.py")
    (repo.path / "old").unlink()
    (repo.path / "old").symlink_to("run.sh")
    repo.git("add", "-A")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    commit = repo.commit_staged("compile, and more")
    repo.git("rm", "-q", "--cached", "sub")
    repo.switch("main")
    repo.write({"a.py": MOVED})
    repo.git("add", "a.py")
    repo.commit_staged("moved on")
    write_plan(repo, commit)
    applied = run(repo)
    listed = repo.git("ls-tree", "port/x").splitlines()
    modes = {line.split("\t")[1]: line.split()[0] for line in listed}
    assert {name: modes[name] for name in ("run.sh", "new.sh", "link", "old", "sub")} == {
        "run.sh": "100755",
        "new.sh": "100755",
        "link": "120000",
        "old": "120000",
        "sub": "160000",
    }
    assert repo.show("port/x", "a.py").decode() == whole(MOVED)
    told = {entry.path: entry.outcome for entry in applied.report.ledger if not entry.after}
    assert told == dict.fromkeys(("link", "new.sh", "old", "run.sh", "sub"), "applied")
