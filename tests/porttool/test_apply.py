"""`apply` from end to end on real repositories: what lands, and what never happens."""

import json
from pathlib import Path

import pytest

from porttool.apply import apply
from porttool.errors import CannotLearn, NeedsPerson, PlanError, RepositoryError
from porttool.git.publish import read_note
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan
from porttool.report import from_json, yaml_text

CASES = Path(__file__).parent / "cases" / "ports"
NAMES = sorted(path.name for path in CASES.iterdir() if (path / "experiment").is_dir())
PLAN = "name: x\nexperiment: {{branch: exp, commits: [{commits}]}}\n"

BASE = """import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = nn.Linear(cfg.n_in, cfg.n_out)
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {"policy": self.policy.state_dict(), "opt": self.opt.state_dict()}
"""
HELPER = """def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()
"""
EXPERIMENT = (
    BASE.replace("nn.Linear(cfg.n_in, cfg.n_out)", "torch.compile(nn.Linear(cfg.n_in, cfg.n_out))")
    .replace("self.policy.state_dict()", "_clean_state_dict(self.policy)")
    .replace(
        "\n\nclass Learner",
        f"\n\n{HELPER}\n\nclass Learner",
    )
)
PUSH = "\n    def push(self, queue):\n        queue.put(self.policy.state_dict())\n"


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def stale(make_repo, base, experiment, main, *, plan=PLAN):
    """Make a repository whose main has moved on from the experiment's base, with a port on it."""
    repo = make_repo(base)
    repo.switch("exp", "main")
    gone = dict.fromkeys(base.keys() - experiment.keys())
    commit = repo.commit({**experiment, **gone}, "Compile the networks\n\nAll of them.\n")
    repo.switch("main")
    gone = dict.fromkeys(base.keys() - main.keys())
    repo.commit({**main, **gone, "patches/x/port.yaml": plan.format(commits=commit)}, "moved on")
    return repo


def run(repo, **options):
    options = {"onto": "main", "progress": lambda step: None, **options}
    plan = load_plan(repo.path / "patches/x/port.yaml")
    with open_repository(repo.path) as opened:
        return apply(opened, plan, **options)


def asked_again(repo, report, answer):
    """Return the questions that an answer is offered for, and that are asked again all the same."""
    offered = [ask.key for ask in report.asks if answer in ask.answer]
    plan = repo.path / "patches/x/port.yaml"
    text = plan.read_text()
    answers = [f"  {yaml_text(key)}: {answer}\n" for key in offered]
    plan.write_text(f"{text}\nanswers:\n{''.join(answers)}" if answers else text)
    try:
        asked = {ask.key for ask in run(repo, dry_run=True).report.asks}
    except NeedsPerson:
        asked = set()  # stopped later on, for another reason
    plan.write_text(text)
    return asked & set(offered)


def flat(text):
    return " ".join(text.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_case_ports_as_expected_or_asks(make_repo, name):
    folder = CASES / name
    main, expected = files_of(folder / "main"), files_of(folder / "expected")
    extra = folder / "port_extra.yaml"
    text = extra.read_text() if extra.exists() else ""
    plan = PLAN + text.replace("{", "{{").replace("}", "}}")
    base, experiment = files_of(folder / "base"), files_of(folder / "experiment")
    repo = stale(make_repo, base, experiment, main, plan=plan)
    applied = run(repo)
    asked = sorted(flat(ask.text) for ask in applied.report.asks)
    if (folder / "expect.json").exists():
        wanted = json.loads((folder / "expect.json").read_text())
        assert asked == sorted(flat(text) for text in wanted["asks"])
        reported = sorted(flat(hazard.text) for hazard in applied.report.hazards)
        assert reported == sorted(flat(text) for text in wanted["hazards"])
        if "rewritten" in wanted:
            rewritten = [flat(s.text) for s in applied.report.sites if s.action == "rewrite"]
            assert sorted(rewritten) == wanted["rewritten"]
    else:
        wanted = json.loads((folder / "expect_properties.json").read_text())
        rewritten = {flat(s.text) for s in applied.report.sites if s.action == "rewrite"}
        assert {flat(text) for text in wanted["leak"]} <= rewritten | set(asked)
        assert not {flat(text) for text in wanted["clean"]} & (rewritten | set(asked))
    if asked:
        assert (applied.outcome, applied.exit_code) == ("asked", 3)
        assert repo.try_git("rev-parse", "--verify", "port/x").returncode
        assert not asked_again(repo, applied.report, "rewrite")
        assert not asked_again(repo, applied.report, "skip")
    elif main == expected:
        assert applied.outcome in ("already-applied", "empty", "nothing-to-do")
    else:
        assert applied.outcome == "created"
        ported = {path: repo.show("port/x", path) for path in expected}
        assert ported == expected


def test_the_branch_is_the_only_thing_that_changes(make_repo):
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + PUSH})
    repo.write({"a.py": "dirty = True\n", "new.txt": "untracked\n"})
    repo.git("add", "new.txt")
    status = repo.git("status", "--porcelain")
    before = repo.git_folder()
    applied = run(repo)
    after = repo.git_folder()
    assert applied.outcome == "created"
    assert repo.git("status", "--porcelain") == status
    added = {name for name in after if before.get(name) != after[name]}
    assert {name for name in added if not name.startswith(("objects/", "logs/"))} == {
        "refs/heads/port/x",
        "refs/notes/porttool",
    }
    assert before.keys() <= after.keys()


def test_an_answer_wraps_the_whole_of_what_main_constructs(make_repo):
    main = BASE.replace("nn.Linear(cfg.n_in, cfg.n_out)", "nn.Sequential(nn.Linear(cfg.n_in, 2))")
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": main})
    asked = run(repo).report.asks
    assert asked[0].text == "nn.Sequential(nn.Linear(cfg.n_in, 2))"
    plan = repo.path / "patches/x/port.yaml"
    plan.write_text(f"{plan.read_text()}answers:\n  {json.dumps(asked[0].key)}: rewrite\n")
    assert run(repo).outcome == "created"
    wrapped = "self.policy = torch.compile(nn.Sequential(nn.Linear(cfg.n_in, 2)))"
    assert wrapped in repo.show("port/x", "a.py").decode()


def test_the_commit_is_the_authors_with_trailers_and_the_users_as_committer(make_repo):
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + PUSH})
    experiment = repo.id("exp")
    digest = load_plan(repo.path / "patches/x/port.yaml").digest
    run(repo)
    assert repo.git("log", "--format=%an|%cn|%s", "main..port/x") == (
        "Ada Lovelace|Grace Hopper|Compile the networks"
    )
    assert repo.git("log", "-1", "--format=%ad", "port/x") == repo.git(
        "log", "-1", "--format=%ad", "exp"
    )
    assert repo.git("log", "-1", "--format=%B", "port/x").rstrip() == (
        "Compile the networks\n\nAll of them.\n\n"
        f"(cherry picked from commit {experiment})\n"
        f"Ported-from: {experiment}\nPort: x\nPort-plan: {digest}"
    )


def test_every_commit_of_the_experiment_is_named_on_what_is_ported(make_repo):
    repo = make_repo({"a.py": BASE})
    repo.switch("exp", "main")
    helper = BASE.replace("\n\nclass Learner", f"\n\n{HELPER}\n\nclass Learner")
    picked = [
        repo.commit({"a.py": helper}, "A helper\n"),
        repo.commit({"a.py": EXPERIMENT}, "Use it\n"),
    ]
    repo.switch("main")
    plan = PLAN.format(commits=", ".join(picked))
    repo.commit({"a.py": BASE + PUSH, "patches/x/port.yaml": plan}, "moved on")
    run(repo)
    digest = load_plan(repo.path / "patches/x/port.yaml").digest
    assert repo.git("log", "-1", "--format=%B", "port/x").rstrip() == (
        "Use it\n\n"
        + "".join(f"(cherry picked from commit {id})\n" for id in picked)
        + "".join(f"Ported-from: {id}\n" for id in picked)
        + f"Port: x\nPort-plan: {digest}"
    )
    repo.git("merge", "--ff-only", "port/x")
    with open_repository(repo.path) as opened:
        found = [opened.find_ported(repo.id("main"), id, "x") for id in picked]
    assert found == [repo.id("main")] * 2


def test_equal_inputs_give_equal_ids(make_repo):
    sides = {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + PUSH}
    tips = []
    for name in ("one", "two"):
        repo = stale(lambda files, name=name: make_repo(files, name=name), *sides)
        tips.append(run(repo).report.tip)
    assert tips[0] == tips[1]


def test_a_dry_run_writes_no_ref_and_no_object(make_repo):
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + PUSH})
    before = repo.git_folder()
    applied = run(repo, dry_run=True)
    assert (applied.outcome, len(applied.report.series)) == ("dry-run", 1)
    assert repo.git_folder() == before


def test_a_second_run_changes_nothing(make_repo):
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + PUSH})
    run(repo)
    before = repo.git_folder()
    assert run(repo).outcome == "unchanged"
    assert repo.git_folder() == before


def test_the_report_is_stored_with_the_branch(make_repo):
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + PUSH})
    report = run(repo).report
    with open_repository(repo.path) as opened:
        stored = from_json(read_note(opened, report.tip))
    assert stored == report
    assert [(site.text, site.action, site.known) for site in report.sites] == [
        ("self.policy.state_dict()", "rewrite", True),
        ("self.opt.state_dict()", "skip", True),
        ("self.policy.state_dict()", "rewrite", False),
    ]
    assert {entry.outcome for entry in report.ledger} == {"applied"}


@pytest.mark.parametrize("how", ["merge", "squash"])
def test_a_merged_port_is_not_made_again(make_repo, how):
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + PUSH})
    run(repo)
    if how == "merge":
        repo.git("merge", "--no-ff", "-q", "-m", "merge", "port/x")
        landed = repo.id("port/x")
    else:
        repo.git("merge", "--squash", "-q", "port/x")
        repo.git("commit", "-q", "--no-edit")
        landed = repo.id("main")
    repo.commit({"b.py": "x = 1\n"}, "later")
    applied = run(repo)
    assert (applied.outcome, applied.exit_code) == ("already-ported", 0)
    assert landed in applied.message


def test_main_moves_and_the_branch_is_replaced_only_on_demand(make_repo):
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + PUSH})
    first = run(repo).report.tip
    repo.commit({"a.py": BASE + PUSH + PUSH.replace("push", "again")}, "moved again")
    with pytest.raises(RepositoryError, match="exists, made from other inputs") as caught:
        run(repo)
    assert caught.value.next == "porttool refresh x"
    assert repo.id("port/x") == first
    applied = run(repo, replace_branch=True)
    assert applied.outcome == "created"
    assert applied.message.startswith("made port/x anew with 1 commit; it was at " + first)
    assert repo.id("port/x") != first


def test_a_branch_for_another_onto_is_replaced_only_on_demand(make_repo):
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + PUSH})
    run(repo)
    repo.git("branch", "release", "main~1")
    with pytest.raises(RepositoryError, match="exists, made from other inputs") as caught:
        run(repo, onto="release")
    assert caught.value.why == "it was made on main, this would be on release"
    assert caught.value.next == "porttool apply x --onto release --replace"
    assert run(repo, onto="release", replace_branch=True).report.onto == "release"


def test_a_branch_with_a_persons_commit_is_never_replaced(make_repo):
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + PUSH})
    run(repo)
    repo.switch("port/x")
    mine = repo.commit({"mine.py": "x = 1\n"}, "mine")
    repo.switch("main")
    repo.commit({"b.py": "x = 1\n"}, "later")
    with pytest.raises(RepositoryError, match="holds 1 commit that porttool did not") as caught:
        run(repo, replace_branch=True)
    assert caught.value.where == f"{mine[:12]} mine"
    assert caught.value.next == "porttool refresh x --keep"
    assert repo.id("port/x") == mine


def test_a_residual_that_conflicts_stops_everything(make_repo):
    repo = stale(
        make_repo,
        {"a.py": BASE, "notes.txt": "speed: 1\n"},
        {"a.py": EXPERIMENT, "notes.txt": "speed: 2\n"},
        {"a.py": BASE + PUSH, "notes.txt": "speed: 3\n"},
    )
    before = repo.git_folder()
    with pytest.raises(NeedsPerson, match="no rule explains conflicts") as caught:
        run(repo)
    assert caught.value.where == "notes.txt"
    assert caught.value.exit_code == 3
    assert repo.git_folder() == before


def test_a_residual_that_merges_is_carried_over(make_repo):
    repo = stale(
        make_repo,
        {"a.py": BASE, "notes.txt": "one\ntwo\nthree\nfour\n"},
        {"a.py": EXPERIMENT, "notes.txt": "ONE\ntwo\nthree\nfour\n"},
        {"a.py": BASE + PUSH, "notes.txt": "one\ntwo\nthree\nFOUR\n"},
    )
    run(repo)
    assert repo.show("port/x", "notes.txt") == b"ONE\ntwo\nthree\nFOUR\n"


def test_an_answer_settles_an_ask_and_a_stale_one_is_refused(make_repo):
    odd = "\n    def odd(self, name):\n        return getattr(self, name).state_dict()\n"
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": EXPERIMENT}, {"a.py": BASE + odd})
    asked = run(repo)
    assert asked.outcome == "asked"
    key = asked.report.asks[0].key
    plan = repo.path / "patches/x/port.yaml"
    text = plan.read_text()
    plan.write_text(f"{text}answers:\n  {json.dumps(key)}: skip\n")
    applied = run(repo)
    assert applied.outcome == "created"
    assert b"getattr(self, name).state_dict()" in repo.show("port/x", "a.py")
    plan.write_text(f"{text}answers:\n  {json.dumps(key + '#7')}: skip\n")
    with pytest.raises(PlanError, match="names no site"):
        run(repo)


def test_a_folder_that_the_plan_leaves_out_is_counted_and_left_alone(make_repo):
    test = "from a import Learner\n\n\ndef test(cfg):\n    Learner(cfg).policy.state_dict()\n"
    repo = stale(
        make_repo,
        {"a.py": BASE},
        {"a.py": EXPERIMENT},
        {"a.py": BASE + PUSH, "tests/test_a.py": test, "tested.py": test},
        plan=PLAN + "exclude: [tests]\n",
    )
    report = run(repo).report
    assert [(left.folder, left.files) for left in report.excluded] == [("tests", 1)]
    assert {site.path for site in report.sites} == {"a.py", "tested.py"}
    assert repo.show("port/x", "tests/test_a.py").decode() == test
    assert "_clean_state_dict(Learner(cfg).policy)" in repo.show("port/x", "tested.py").decode()


def test_a_file_that_does_not_parse_is_reported(make_repo):
    old = "def save(net):\n    print net.state_dict()\n"
    repo = stale(
        make_repo,
        {"a.py": BASE},
        {"a.py": EXPERIMENT},
        {"a.py": BASE + PUSH, "old.py": old, "other.py": "print 1\n"},
    )
    applied = run(repo)
    assert applied.outcome == "created"
    (hazard,) = applied.report.hazards
    assert (hazard.path, hazard.text) == ("old.py", "the whole file")
    assert "does not parse (old.py:2: " in hazard.reasons[0]
    assert applied.report.look_first[0].path == "old.py"


def test_commits_of_a_chain_are_one_experiment(make_repo):
    repo = make_repo({"a.py": BASE})
    repo.switch("exp", "main")
    only_helper = EXPERIMENT.replace(
        "torch.compile(nn.Linear(cfg.n_in, cfg.n_out))", "nn.Linear(cfg.n_in, cfg.n_out)"
    )
    first = repo.commit({"a.py": only_helper}, "helper")
    second = repo.commit({"a.py": EXPERIMENT}, "compile")
    repo.switch("main")
    plan = PLAN.format(commits=f"{first}, {second}")
    repo.commit({"a.py": BASE + PUSH, "patches/x/port.yaml": plan}, "moved on")
    run(repo)
    ported = repo.show("port/x", "a.py").decode()
    assert ported.count("_clean_state_dict(self.policy)") == 2
    (repo.path / "patches/x/port.yaml").write_text(PLAN.format(commits=f"{second}, {first}"))
    with pytest.raises(RepositoryError, match="not one chain"):
        run(repo)


def test_an_experiment_that_is_nowhere_names_the_fetch(make_repo):
    repo = make_repo({"a.py": BASE, "patches/x/port.yaml": PLAN.format(commits="a" * 40)})
    repo.git("remote", "add", "origin", "nowhere.git")
    with pytest.raises(RepositoryError) as caught:
        run(repo)
    assert caught.value.next == "git fetch origin exp"


def test_a_commit_that_teaches_two_things_at_once_is_refused(make_repo):
    other = EXPERIMENT.replace(
        '"opt": self.opt.state_dict()', '"opt": dict(self.opt.state_dict(), extra=1)'
    ).replace("_clean_state_dict(self.policy)", "self.policy.state_dict(keep_vars=True)")
    repo = stale(make_repo, {"a.py": BASE}, {"a.py": other}, {"a.py": BASE + PUSH})
    before = repo.git_folder()
    with pytest.raises((CannotLearn, NeedsPerson)):
        run(repo)
    assert repo.git_folder() == before
