"""Files that name nothing of a port and are read all the same, because decisions rest on them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from textwrap import dedent

import pytest

from porttool.deciding.dataflow import analyse
from porttool.deciding.decide import decide, place_seeds
from porttool.deciding.further import Listing, further_files
from porttool.learning.learn import Wrapper, learn
from porttool.source.syntax import parse_source

BASE = """
import torch
from torch import nn


class Learner:
    def __init__(self):
        self.net = nn.Linear(2, 2)
        self.plain = nn.Linear(2, 2)

    def save(self):
        return self.net.state_dict()
"""
EXPERIMENT = BASE.replace("self.net = nn.Linear(2, 2)", "self.net = torch.compile(nn.Linear(2, 2))")
EXPERIMENT = EXPERIMENT.replace("self.net.state_dict()", "clean(self.net)").replace(
    "\n\nclass", "\n\ndef clean(net):\n    return net._orig_mod.state_dict()\n\n\nclass"
)


def wanted(files: dict[str, str], known: Iterable[str]) -> list[str]:
    """Return the files that are asked for when only some are known."""
    texts = {"learner.py": BASE, **{path: dedent(text) for path, text in files.items()}}
    lesson = learn({"learner.py": BASE.encode()}, {"learner.py": EXPERIMENT.encode()}, Wrapper())
    sources = {path: parse_source(path, texts[path].encode()) for path in ("learner.py", *known)}
    placed, asks = place_seeds(sources, lesson)
    flow = analyse(sources, placed, lesson, asks)
    decide(sources, lesson, placed, flow)

    def naming(words: Iterable[str]) -> list[str]:
        pattern = re.compile("|".join(rf"\b{word}\b" for word in sorted(words)))
        return [path for path, text in texts.items() if pattern.search(text)]

    return sorted(further_files(flow, Listing(texts), naming, set()))


IN_BETWEEN = {
    "who made it": (
        "from store import held\n\nheld().state_dict()\n",
        {"store.py": "HELD = None\n\ndef held():\n    return HELD\n", "other.py": "x = 1\n"},
        ["store.py"],
    ),
    "through a star import": (
        "from pkg import held\n\nheld().state_dict()\n",
        {"pkg/__init__.py": "from .store import *\n", "pkg/store.py": "def held(): ...\n"},
        ["pkg/__init__.py"],
    ),
    "who calls it": (
        "def send(net):\n    net.state_dict()\n\n\nsend(1)\n",
        {"glue.py": "from push import send\n", "far.py": "def send(): ...\n"},
        ["glue.py"],
    ),
    "who is given a wrapped one": (
        "import files\nfrom learner import Learner\n\nfiles.dump(Learner().net)\n",
        {"files.py": "def dump(net): ...\n"},
        ["files.py"],
    ),
    "nobody for a plain one": (
        "import files\nfrom learner import Learner\n\nfiles.dump(Learner().plain)\n",
        {"files.py": "def dump(net): ...\n"},
        [],
    ),
    "nobody for what is known": (
        "from learner import Learner\n\nLearner().net.state_dict()\n",
        {"config.py": "SIZE = 2\n"},
        [],
    ),
}


@pytest.mark.parametrize("kind", IN_BETWEEN)
def test_files_in_between_are_asked_for(kind: str) -> None:
    text, others, expected = IN_BETWEEN[kind]
    assert wanted({"push.py": text, **others}, ["push.py"]) == expected


def test_a_star_import_is_followed_once_the_package_is_known() -> None:
    _, others, _ = IN_BETWEEN["through a star import"]
    files = {"push.py": IN_BETWEEN["through a star import"][0], **others}
    assert wanted(files, ["push.py", "pkg/__init__.py"]) == ["pkg/store.py"]


def test_a_name_is_looked_for_in_all_its_packages() -> None:
    listing = Listing(["a/__init__.py", "a/b.py", "src/a/b/c.py", "c.py", "x/b.py"])
    assert list(listing.modules("a.b.c", "use.py")) == [
        "src/a/b/c.py",
        "a/b.py",
        "a/__init__.py",
    ]
