"""How `apply` ends when main has the experiment already, a part of it, or no place for it."""

import json

import pytest

from porttool.apply import apply
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan
from porttool.report import yaml_text

BASE = """import torch
from torch import nn

from config import Config


class Learner:
    def __init__(self, config: Config):
        self.policy = nn.Linear(config.n_in, config.n_out)
        self.critic = nn.Linear(config.n_in, 1)

    def save(self):
        return {"policy": self.policy.state_dict(), "critic": self.critic.state_dict()}
"""
HELPER = """def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


"""
WRAPS = {
    "nn.Linear(config.n_in, config.n_out)": "torch.compile(nn.Linear(config.n_in, config.n_out))",
    "nn.Linear(config.n_in, 1)": "torch.compile(nn.Linear(config.n_in, 1))",
}
ROUTES = {
    "self.policy.state_dict()": "_clean_state_dict(self.policy)",
    "self.critic.state_dict()": "_clean_state_dict(self.critic)",
}
NOTES = "one\ntwo\nthree\nfour\nfive\n"
PUSH = "\n    def push(self, queue):\n        queue.put(self.policy.state_dict())\n"
CONFIG = """from dataclasses import dataclass


@dataclass
class Config:
    n_in: int = 3
    n_out: int = 3
"""
SWITCH = """switch:
  module: config.py
  root: Config
  key: compile
  class: CompileConfig
  gate: compile.trainer.enabled
  sections:
    - key: trainer
      class: CompileTrainer
      fields:
        - {name: enabled, type: bool, default: false}
"""


def changed(text, *changes):
    """Return the text with the experiment's helper, and some of what the experiment does."""
    for one in changes:
        for old, new in one.items():
            text = text.replace(old, new)
    return text.replace("class Learner", f"{HELPER}class Learner")


EXPERIMENT = {"a.py": changed(BASE, WRAPS, ROUTES), "notes.txt": NOTES.replace("one", "ONE")}


@pytest.fixture
def port(make_repo):
    """Return `port(switch="", experiment=EXPERIMENT)`: a port on a main that has not moved."""

    def make(switch="", experiment=EXPERIMENT):
        repo = make_repo({"a.py": BASE, "notes.txt": NOTES, "config.py": CONFIG})
        repo.switch("exp", "main")
        commit = repo.commit(experiment, "Compile the networks")
        repo.switch("main")
        plan = f"name: x\nexperiment: {{branch: exp, commits: [{commit}]}}\n{switch}"
        repo.commit({"patches/x/port.yaml": plan}, "a port")
        return repo

    return make


def run(repo, **options):
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        return apply(opened, plan, **{"onto": "main", "progress": str, **options})


def outcomes(applied):
    return [(entry.path, entry.after, entry.outcome) for entry in applied.report.ledger]


@pytest.mark.parametrize("switch", ["", SWITCH])
def test_picked_by_hand(port, switch):
    repo = port(switch)
    repo.git("cherry-pick", "exp")
    picked = repo.id("main")
    repo.commit({"b.py": "x = 1\n"}, "later")
    refs = repo.git("show-ref")
    applied = run(repo)
    assert (applied.outcome, applied.exit_code) == ("already-applied", 0)
    first, *rest = applied.message.splitlines()
    assert first == (
        "main has everything of x already, without porttool's trailers, "
        f"since {picked} (Compile the networks); no branch was made"
    )
    gate = "main has it unconditionally: compile.trainer.enabled is not in front of it"
    assert rest == ([gate] if switch else [])
    assert {outcome for *_, outcome in outcomes(applied)} == {"already there"}
    assert repo.git("show-ref") == refs


def test_written_again_by_somebody_else(port):
    repo = port()
    spaced = EXPERIMENT["a.py"].replace(
        "_clean_state_dict(self.policy)", "_clean_state_dict(\n self.policy)"
    )
    repo.commit(EXPERIMENT | {"a.py": spaced}, "compile", author="Bob <bob@example.org>")
    applied = run(repo)
    assert applied.outcome == "already-applied"
    assert "since" not in applied.message


def test_picked_and_reverted_is_ported(port):
    repo = port()
    repo.git("cherry-pick", "exp")
    repo.git("revert", "--no-edit", "HEAD")
    assert run(repo).outcome == "created"


def test_empty_after_port(port):
    repo = port(experiment={"a.py": EXPERIMENT["a.py"]})
    repo.commit({"a.py": "class Learner:\n    pass\n"}, "no networks any more")
    applied = run(repo)
    assert (applied.outcome, applied.exit_code) == ("empty", 0)
    assert applied.message.splitlines() == [
        "main has no place left that x would change; no branch was made",
        "  a.py: onto needs no _clean_state_dict from here",
        "  a.py: main no longer constructs `self.policy` of `Learner.__init__`: nothing to wrap",
        "  a.py: main no longer constructs `self.critic` of `Learner.__init__`: nothing to wrap",
        "  a.py: onto does not have this place any more",
    ]
    assert repo.try_git("rev-parse", "--verify", "port/x").returncode


def test_a_part_is_there_and_the_rest_has_no_place(port):
    repo = port(experiment={"a.py": EXPERIMENT["a.py"]})
    gone = BASE.replace("        self.critic = nn.Linear(config.n_in, 1)\n", "").replace(
        ', "critic": self.critic.state_dict()', ""
    )
    repo.commit({"a.py": changed(gone, WRAPS, ROUTES)}, "no critic any more")
    applied = run(repo)
    assert applied.outcome == "nothing-to-do"
    assert "  a.py: main wraps it already (a.py:13)" in applied.message.splitlines()
    assert "  a.py: onto does not have this place any more" in applied.message.splitlines()


def test_partly_applied(port):
    """Main has one seed, one route, the helper and the notes; it has gained a leak."""
    repo = port()
    first = [dict([next(iter(one.items()))]) for one in (WRAPS, ROUTES)]
    main = changed(BASE, *first) + PUSH
    repo.commit({"a.py": main, "notes.txt": EXPERIMENT["notes.txt"]}, "by hand")
    applied = run(repo)
    assert applied.outcome == "created"
    assert repo.show("port/x", "a.py").decode() == changed(BASE + PUSH, WRAPS, ROUTES)
    assert sorted(outcomes(applied)) == sorted(
        [
            ("a.py", HELPER.strip(), "already there"),
            ("a.py", WRAPS["nn.Linear(config.n_in, config.n_out)"], "already there"),
            ("a.py", WRAPS["nn.Linear(config.n_in, 1)"], "applied"),
            ("a.py", ROUTES["self.policy.state_dict()"], "already there"),
            ("a.py", ROUTES["self.critic.state_dict()"], "applied"),
            ("notes.txt", "", "already there"),
        ]
    )


def test_partly_applied_with_a_switch_says_what_stays_unconditional(port):
    repo = port(SWITCH, {"a.py": EXPERIMENT["a.py"]})
    first = [dict([next(iter(one.items()))]) for one in (WRAPS, ROUTES)]
    repo.commit({"a.py": changed(BASE, *first)}, "by hand")
    applied = run(repo)
    assert applied.outcome == "created"
    there = [entry for entry in applied.report.ledger if entry.outcome == "already there"]
    assert [entry.why for entry in there if "torch.compile" in entry.after] == [
        "main wraps it already (a.py:13), not behind compile.trainer.enabled"
    ]


ODD = """
    def odd(self, name):
        return getattr(self, name).state_dict()

    def odder(self, name):
        found = getattr(self, "ü: #1 'x' \\\\ \\U0001f600" + name)
        return found.state_dict(), vars(self)["policy"].state_dict()
"""


@pytest.mark.parametrize("there", ["", "answers: {}\n", "answers: {}\nonto: main\n", "answers: "])
def test_the_printed_answers_paste_as_they_are(port, there):
    repo = port()
    odd = ODD.replace("\\U0001f600", "\U0001f600")
    names = {
        "a.py": BASE + odd,
        "ünï # {x}: 'y'.py": "import a\n" + (BASE + odd).split("\n\n\n")[1],
    }
    repo.commit(names, "odd places")
    plan = repo.path / "patches/x/port.yaml"
    text = plan.read_text()
    given = ""
    if there == "answers: ":
        first = run(repo).report.asks[0].key
        there, given = f"answers: {{{yaml_text(first)}: skip}}\n", first
    plan.write_text(text + there)
    applied = run(repo)
    assert applied.outcome == "asked"
    message, lines = applied.message.split("run the same command again\n")
    line = 1 + (text + there).count("\n", 0, (text + there).index("answers")) if there else 0
    assert (f"in place of `answers` in {plan}, line {line}" in message) == bool(there)
    plan.write_text(f"{text}{lines}\n".replace(": rewrite  # or: skip", ": skip  # or: rewrite"))
    answers = load_plan(plan).answers
    assert set(answers) == {ask.key for ask in applied.report.asks} | ({given} if given else set())
    assert len(answers) > 3
    assert run(repo).outcome == "created"


def test_an_answer_that_cannot_be_written_is_asked_again_with_its_reason(port):
    repo = port()
    more = "\n    def more(self):\n        return self.policy.state_dict(keep_vars=True)\n"
    repo.commit({"a.py": BASE + more}, "other arguments")
    asked = run(repo)
    (ask,) = asked.report.asks
    plan = repo.path / "patches/x/port.yaml"
    text = plan.read_text()
    plan.write_text(f"{text}answers:\n  {json.dumps(ask.key)}: rewrite\n")
    again = run(repo)
    assert again.outcome == "asked"
    assert "no edit of the experiment says what becomes of `state_dict`" in again.message
    assert again.message.count(yaml_text(ask.key)) == 1
