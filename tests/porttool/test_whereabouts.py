"""What main has moved is found where it is now, and a helper goes where its users can import it."""

import ast

import pytest

from porttool.apply import apply, prove_branch
from porttool.errors import NeedsPerson
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan

LEARNER = """import torch
from torch import nn

from config import Config


class Learner:
    def __init__(self, config: Config):
        self.policy = nn.Linear(config.n_in, config.n_out)
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {"policy": self.policy.state_dict(), "opt": self.opt.state_dict()}
"""
HELPER = """def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()
"""
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


def routed(text):
    return text.replace("self.policy.state_dict()", "_clean_state_dict(self.policy)")


def wrapped(text):
    call = "nn.Linear(config.n_in, config.n_out)"
    return routed(text).replace(call, f"torch.compile({call})")


def with_helper(text, helper=HELPER):
    return text.replace("class Learner", f"{helper}\n\nclass Learner")


@pytest.fixture
def port(make_repo):
    """Return `port(base, experiment, main, switch="")`, each the whole tree but config.py."""

    def make(base, experiment, main, switch=""):
        repo = make_repo({"config.py": CONFIG, **base})
        repo.switch("exp", "main")
        gone = dict.fromkeys(base.keys() - experiment.keys())
        commit = repo.commit({**experiment, **gone}, "Compile")
        repo.switch("main")
        gone = dict.fromkeys(base.keys() - main.keys())
        plan = f"name: x\nexperiment: {{branch: exp, commits: [{commit}]}}\n{switch}"
        repo.commit({**main, **gone, "patches/x/port.yaml": plan}, "moved on")
        return repo

    return make


def run(repo):
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        return apply(opened, plan, onto="main", progress=str)


def proven_again(repo):
    with open_repository(repo.path) as opened:
        prove = prove_branch(opened, load_plan(repo.path / "patches/x/port.yaml"), str)
        return prove(repo.id("main"), repo.id("port/x"))


CIRCLE = {
    "base": {
        "learner.py": LEARNER.replace("import Config", "import Config\nfrom workers import num"),
        "workers.py": "num = 2\n",
    },
    "main": {
        "learner.py": LEARNER.replace(
            "import Config", "import Config\nfrom workers import num, put"
        )
        + "\n    def share(self):\n        return put(self.policy)\n",
        "workers.py": "num = 2\n\n\ndef put(policy):\n    return policy.state_dict()\n",
    },
}


@pytest.mark.parametrize("moved", ["renamed", "circle", "helper's file gone"])
def test_what_was_moved_is_proven_where_it_is_now(port, moved):
    if moved == "renamed":
        base, main = {"learner.py": LEARNER}, {"lab/agent.py": LEARNER + PUSH}
        experiment = {"learner.py": with_helper(wrapped(LEARNER))}
        at = "lab/agent.py"
    elif moved == "circle":
        base, main = CIRCLE["base"], CIRCLE["main"]
        experiment = base | {"learner.py": with_helper(wrapped(base["learner.py"]))}
        at = "workers.py"
    else:
        base = {"learner.py": LEARNER, "tools.py": "def unused():\n    return 1\n"}
        main = {"learner.py": LEARNER + PUSH}
        imported = wrapped(LEARNER).replace(
            "import Config\n", "import Config\nfrom tools import _clean_state_dict\n"
        )
        experiment = {"learner.py": imported, "tools.py": f"{base['tools.py']}\n\n{HELPER}"}
        at = "learner.py"
    repo = port(base, experiment, main, SWITCH)
    applied = run(repo)
    assert applied.report.proof.holds
    assert proven_again(repo).holds
    made = repo.listing("port/x")
    homes = [path for path, data in made.items() if b"def _clean_state_dict" in data]
    assert homes == [at]
    gone = base.keys() - main.keys()
    assert not gone & made.keys()
    if moved == "renamed":
        told = {(entry.outcome, entry.why) for entry in applied.report.ledger}
        assert ("applied", "rule state_dict, in lab/agent.py, its name on onto") in told
        assert {example.path for rule in applied.report.rules for example in rule.examples} == {
            "learner.py"
        }
        assert [site.known for site in applied.report.sites] == [True, True, False]


def test_no_module_of_the_port_imports_itself_through_another(port):
    """The circle that an import of the helper from its own file would close is not there."""
    base, main = CIRCLE["base"], CIRCLE["main"]
    experiment = base | {"learner.py": with_helper(wrapped(base["learner.py"]))}
    repo = port(base, experiment, main)
    run(repo)
    imports = {
        path: {
            node.module
            for node in ast.parse(repo.show("port/x", path)).body
            if isinstance(node, ast.ImportFrom)
        }
        for path in ("learner.py", "workers.py")
    }
    assert "workers" in imports["learner.py"]
    assert "learner" not in imports["workers.py"]


def test_an_import_inside_of_a_function_closes_no_circle(port):
    base = CIRCLE["base"]["learner.py"].replace("from workers import num\n", "")
    late = (
        "\n    def share(self):\n        from workers import put\n\n"
        "        return put(self.policy)\n"
    )
    main = {"learner.py": base + late, "workers.py": CIRCLE["main"]["workers.py"]}
    experiment = {"learner.py": with_helper(wrapped(base)), "workers.py": "num = 2\n"}
    repo = port({"learner.py": base, "workers.py": "num = 2\n"}, experiment, main)
    run(repo)
    assert b"from learner import _clean_state_dict" in repo.show("port/x", "workers.py")


@pytest.mark.parametrize(
    ("helper", "why"),
    [
        (HELPER.replace('"_orig_mod"', "WRAPPED"), "it uses WRAPPED of tools.py"),
        (HELPER, "each of the files that need it is imported by another one of them"),
    ],
)
def test_a_helper_that_no_file_can_hold_is_left_to_a_person(port, helper, why):
    """It uses what its lost file had beside it, or each of its users loads the other."""
    tools = 'WRAPPED = "_orig_mod"\n'
    use = "from tools import _clean_state_dict\n"
    other = LEARNER.replace("Learner", "Other")
    base = {"learner.py": LEARNER, "other.py": other, "tools.py": tools}
    experiment = {
        "learner.py": wrapped(LEARNER).replace("import Config\n", f"import Config\n{use}"),
        "other.py": wrapped(other).replace("import Config\n", f"import Config\n{use}"),
        "tools.py": f"{tools}\n\n{helper}",
    }
    main = {
        "learner.py": LEARNER.replace("import Config\n", "import Config\nimport other\n"),
        "other.py": other.replace("import Config\n", "import Config\nimport learner\n"),
    }
    repo = port(base, experiment, main)
    with pytest.raises(NeedsPerson, match="has no file that it could live in") as caught:
        run(repo)
    assert caught.value.why == why
    assert caught.value.where == "learner.py, other.py"
    assert repo.try_git("rev-parse", "--verify", "port/x").returncode


def test_a_class_that_main_moved_and_changed_is_asked(port):
    """The class is in another file, under another name: nobody knows that it is the same."""
    renamed = LEARNER.replace("Learner", "Agent").replace("self.policy", "self.net")
    experiment = {"learner.py": with_helper(wrapped(LEARNER))}
    again = renamed.replace("self.net", "self.policy")
    repo = port({"learner.py": LEARNER}, experiment, {"learner.py": "", "agent.py": again})
    applied = run(repo)
    assert applied.outcome == "asked"
    (ask,) = [ask for ask in applied.report.asks if "wrap self.policy" in ask.key]
    assert "is no longer constructed there; main has agent.py:9" in ask.reasons[0]


def test_a_method_that_helps_goes_with_its_class(port):
    def helped(text):
        method = (
            "\n    @staticmethod\n    def weights(net):\n"
            '        return getattr(net, "_orig_mod", net).state_dict()\n'
        )
        text = text.replace(
            '"policy": self.policy.state_dict()', '"policy": self.weights(self.policy)'
        )
        return text.replace("\n    def save", f"{method}\n    def save")

    call = "nn.Linear(config.n_in, config.n_out)"
    experiment = helped(LEARNER).replace(call, f"torch.compile({call})")
    left = "from policy import Learner\n\n__all__ = ['Learner']\n"
    repo = port(
        {"learner.py": LEARNER},
        {"learner.py": experiment},
        {"learner.py": left, "policy.py": LEARNER},
    )
    applied = run(repo)
    assert repo.show("port/x", "policy.py").decode() == experiment
    assert repo.show("port/x", "learner.py").decode() == left
    told = {(entry.path, entry.outcome, entry.why) for entry in applied.report.ledger}
    site = "rule state_dict, at policy.py:13, where onto has it now"
    assert ("learner.py", "adapted", site) in told
    moved = "at policy.py:9, moved from learner.py::Learner.__init__"
    assert ("learner.py", "adapted", moved) in told


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        (None, "`from tools import unwrapped` finds no file any more"),
        (
            "def plain(net):\n    return net\n",
            "import unwrapped` finds tools.py without it",
        ),
    ],
)
def test_an_import_that_would_find_nothing_is_refused(port, tools, why):
    """The experiment uses a function that was there all along, and main has it no more."""
    there = 'def unwrapped(net):\n    return getattr(net, "_orig_mod", net)\n'
    experiment = (
        wrapped(LEARNER)
        .replace("_clean_state_dict(self.policy)", "unwrapped(self.policy).state_dict()")
        .replace("import Config\n", "import Config\nfrom tools import unwrapped\n")
    )
    base = {"learner.py": LEARNER, "tools.py": there}
    repo = port(base, base | {"learner.py": experiment}, {"learner.py": LEARNER + PUSH})
    if tools:
        repo.commit({"tools.py": tools}, "no unwrapped any more")
    with pytest.raises(NeedsPerson, match="the port would import `unwrapped`") as caught:
        run(repo)
    assert why in caught.value.why
    assert caught.value.where.startswith("learner.py:")
    repo.commit({"tools.py": there}, "as before")
    assert run(repo).outcome == "created"
