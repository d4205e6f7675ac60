"""Calls of torch.compile whose meaning is in another file of the project than their own."""

from __future__ import annotations

import textwrap

import pytest

from porttool.calls.gating import Outcome, gate_files

HEAD = "import torch\nfrom torch import nn\n\n"


def gate(files: dict[str, str]) -> Outcome:
    data = {path: text.encode() for path, text in files.items()}
    return gate_files(data, switch="compile_model", env="COMPILE_MODEL")


def tidy(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


@pytest.mark.parametrize(
    ("common", "text", "expected"),
    [
        pytest.param(
            "from torch import compile as fast\n",
            f"{HEAD}from common import fast\n\nnet = fast(nn.Linear(3, 3))\n",
            "net = _maybe_compile(nn.Linear(3, 3))\n",
            id="under a name that says nothing",
        ),
        pytest.param(
            "from torch import compile, nn\n",
            "from common import compile, nn\n\nnet = compile(nn.Linear(3, 3), dynamic=True)\n",
            "net = _maybe_compile(nn.Linear(3, 3), dynamic=True)\n",
            id="under its own name",
        ),
        pytest.param(
            "import torch\nfrom torch import nn\n",
            "from common import nn, torch\n\nnet = torch.compile(nn.Linear(3, 3))\n",
            "net = _maybe_compile(nn.Linear(3, 3))\n",
            id="torch itself",
        ),
        pytest.param(
            "import torch\nfrom torch import nn\n",
            "import common\n\nnet = common.torch.compile(common.nn.Linear(3, 3))\n",
            "net = _maybe_compile(common.nn.Linear(3, 3))\n",
            id="an attribute of the module",
        ),
        pytest.param(
            "from torch import compile, nn\n",
            "from common import *\n\nnet = compile(nn.Linear(3, 3))\n",
            "net = _maybe_compile(nn.Linear(3, 3))\n",
            id="everything",
        ),
    ],
)
def test_what_another_file_hands_on(common: str, text: str, expected: str) -> None:
    outcome = gate({"common.py": common, "train.py": text})
    assert outcome.findings == ()
    assert list(outcome.changes) == ["train.py"]
    code = outcome.changes["train.py"].decode()
    assert code.endswith(expected)
    assert gate({"common.py": common, "train.py": code}).changes == {}


def test_an_own_function_of_that_name_is_left() -> None:
    text = f"{HEAD}from common import compile\n\nnet = compile(nn.Linear(3, 3))\n"
    outcome = gate({"common.py": "def compile(net):\n    return net\n", "train.py": text})
    assert (dict(outcome.changes), outcome.findings) == ({}, ())


def test_what_another_file_compiles_is_not_compiled_again() -> None:
    """Whether that one is gated or not."""
    models = f"{HEAD}\ndef make():\n    return torch.compile(nn.Linear(3, 3))\n"
    train = f"{HEAD}from models import make\n\nnet = make()\nnet = torch.compile(net)\n"
    outcome = gate({"models.py": models, "train.py": train})
    assert list(outcome.changes) == ["models.py"]
    [finding] = outcome.open
    assert (finding.path, finding.line) == ("train.py", 7)
    assert finding.what.startswith("compiled twice: ")
    gated = outcome.changes["models.py"].decode()
    again = gate({"models.py": gated, "train.py": train})
    assert (dict(again.changes), again.open) == ({}, outcome.open)


def test_what_another_file_compiles_behind_its_own_switch_is_compiled_here() -> None:
    models = HEAD + tidy(
        """
        USE_COMPILE = False


        def make():
            net = nn.Linear(3, 3)
            return torch.compile(net) if USE_COMPILE else net
        """
    )
    train = f"{HEAD}from models import make\n\nnet = torch.compile(make())\n"
    outcome = gate({"models.py": models, "train.py": train})
    assert (list(outcome.changes), outcome.findings) == (["train.py"], ())


def test_what_its_class_compiles_is_not_compiled_again() -> None:
    models = HEAD + tidy(
        """
        class Net(nn.Linear):
            def __init__(self):
                super().__init__(3, 3)
                self.compile()
        """
    )
    train = "import torch\n\nfrom models import Net\n\nnet = torch.compile(Net())\n"
    outcome = gate({"models.py": models, "train.py": train})
    assert list(outcome.changes) == ["models.py"]
    assert [(one.path, one.line) for one in outcome.open] == [("train.py", 5)]
    again = gate({"models.py": outcome.changes["models.py"].decode(), "train.py": train})
    assert (dict(again.changes), again.open) == ({}, outcome.open)


CALLER = """
from models import fast


def main(args, net):
    if args.compile:
        net = fast(net)
    return net
"""


def test_a_function_that_others_call_behind_their_switch_is_gated() -> None:
    models = "import torch\n\n\ndef fast(net):\n    return torch.compile(net)\n"
    outcome = gate({"models.py": models, "train.py": CALLER})
    assert (dict(outcome.changes), outcome.findings) == ({}, ())
    other = "import models\n\nnet = models.fast(3)\n"
    outcome = gate({"models.py": models, "train.py": CALLER, "other.py": other})
    assert list(outcome.changes) == ["models.py"]


def test_a_call_of_its_own_in_a_third_file() -> None:
    files = {
        "models.py": f"{HEAD}\nclass Net(nn.Linear):\n"
        "    def __call__(self, x):\n        return self.forward(x)\n",
        "fast.py": "import torch\n\n\ndef fast(net):\n    return torch.compile(net)\n",
        "train.py": "from fast import fast\nfrom models import Net\n\nnet = fast(Net(3, 3))\n",
    }
    outcome = gate(files)
    assert dict(outcome.changes) == {}
    [finding] = outcome.open
    assert (finding.path, finding.line) == ("fast.py", 5)
    assert "`Net` has a `__call__` of its own" in finding.what
