"""Helpers that an experiment brings along, put into files that need them."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from porttool.errors import NeedsPerson
from porttool.learning.definitions import helpers_at_home, wrong_call
from porttool.learning.learn import (
    Lesson,
    Wrapper,
    check_replay,
    helper_edits,
    learn,
)
from porttool.learning.lesson import Helper
from porttool.source.syntax import apply_edits, parse_source

PORTS = Path(__file__).parent / "cases" / "ports"
WRAPPER = Wrapper()


def _files(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def _text(text: str) -> bytes:
    return dedent(text).lstrip("\n").encode()


def _learn(before: str, after: str) -> Lesson:
    """Learn from one file and hold the lesson against the experiment."""
    parent, experiment = {"pkg/learner.py": _text(before)}, {"pkg/learner.py": _text(after)}
    lesson = learn(parent, experiment, WRAPPER)
    check_replay(lesson, parent, experiment)
    return lesson


EXAMPLES = Path(__file__).parent / "cases" / "learning"
TRAINER = (EXAMPLES / "trainer.py").read_text()
CLEANED = (EXAMPLES / "trainer_cleaned.py").read_text()
MIXED = (EXAMPLES / "mixed.py").read_text()
MIXED_AFTER = (EXAMPLES / "mixed_after.py").read_text()
HELPER = """def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()
"""


def _first_case() -> Lesson:
    case = PORTS / "01_reindented_block"
    return learn(_files(case / "base"), _files(case / "experiment"), WRAPPER)


def _with_helper(path: str, text: str) -> str:
    source = parse_source(path, _text(text))
    edits = helper_edits(source, _first_case(), ["_clean_state_dict"])
    return apply_edits(source, edits).decode()


def test_a_helper_is_put_where_the_experiment_has_it() -> None:
    text = _with_helper("learner.py", "import torch\n\nX = 1\n\n\nclass Learner:\n    pass\n")
    assert text == f"import torch\n\nX = 1\n\n\n{HELPER}\n\nclass Learner:\n    pass\n"


def test_a_helper_that_is_there_is_left() -> None:
    text = f"import torch\n\n\n{HELPER}"
    assert _with_helper("learner.py", text) == text


def test_another_thing_of_the_helpers_name_needs_a_person() -> None:
    with pytest.raises(NeedsPerson, match=r"another _clean_state_dict.*\n.*learner\.py:1"):
        _with_helper("learner.py", "def _clean_state_dict(x):\n    return x\n")
    with pytest.raises(NeedsPerson, match="another _clean_state_dict"):
        _with_helper("learner.py", "import x as _clean_state_dict\n")


@pytest.mark.parametrize(
    ("path", "text", "imported"),
    [
        ("dist.py", "from learner import Learner\n", "from learner import Learner, _clean"),
        ("dist.py", "import torch\n", "import torch\nfrom learner import _clean"),
    ],
)
def test_another_file_imports_the_helper(path: str, text: str, imported: str) -> None:
    assert _with_helper(path, text) == f"{imported}_state_dict\n"


def test_another_package_imports_the_helper_as_it_imports_its_neighbours() -> None:
    lesson = _learn(TRAINER, CLEANED)

    def imported(path: str, text: str) -> str:
        source = parse_source(path, text.encode())
        return apply_edits(source, helper_edits(source, lesson, ["_clean_state_dict"])).decode()

    assert imported("pkg/sub/push.py", "from ..networks import build\n") == (
        "from ..networks import build\nfrom ..learner import _clean_state_dict\n"
    )
    assert imported("tools/push.py", "from pkg.networks import build\n") == (
        "from pkg.learner import _clean_state_dict\nfrom pkg.networks import build\n"
    )
    with pytest.raises(NeedsPerson, match=r"tools/push\.py needs a name from pkg/learner\.py"):
        imported("tools/push.py", "import os\n")


def test_a_helper_brings_what_it_needs() -> None:
    lesson = _learn(MIXED, MIXED_AFTER)
    source = parse_source("pkg/learner.py", b"import torch\n\nLIMIT = 9\n\n\nclass A:\n    pass\n")
    text = apply_edits(source, helper_edits(source, lesson, ["_strip"])).decode()
    tree = ast.parse(text)
    names = [getattr(node, "name", None) for node in tree.body]
    assert [type(node).__name__ for node in tree.body][:2] == ["Import", "ImportFrom"]
    assert names.count("_strip") == 1
    assert 'PREFIX = "_orig_mod."\n' in text
    scope: dict[str, object] = {}
    exec(text.replace("import torch\n", ""), scope)
    strip = scope["_strip"]
    assert callable(strip)
    assert strip({"_orig_mod.a": 1, "b": 2}) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("signature", "call", "fits"),
    [
        ("network", "clean(net)", True),
        ("network", "clean(network=net)", True),
        ("network", "clean()", False),
        ("network", "clean(net, prefix='a')", False),
        ("network", "clean(net, 1)", False),
        ("network, prefix", "clean(net)", False),
        ("network, prefix", "clean(net, *rest)", True),
        ("network, prefix", "clean(net, **options)", True),
        ("network, prefix=''", "clean(net)", True),
        ("network, /, prefix=''", "clean(network=net)", False),
        ("network, *, prefix", "clean(net)", False),
        ("network, *, prefix", "clean(net, prefix='a')", True),
        ("network, *args, **kwargs", "clean(net, 1, 2, prefix='a')", True),
        ("network, **kwargs", "clean(net, 1)", False),
    ],
)
def test_a_call_that_a_helper_does_not_take_is_told(signature: str, call: str, fits: bool) -> None:
    helper = f"def clean({signature}):\n    return network.state_dict()\n"
    lesson = _lesson_with("clean", helper)
    wanted = None if fits else f"`{call}` is no call that `clean` takes"
    assert wrong_call(lesson, f"dict({call})") == wanted


def _lesson_with(name: str, text: str, path: str = "keys.py") -> Lesson:
    helper = Helper(name, path, text, None, None)
    return Lesson(WRAPPER, (), (), (helper,), (), {}, (), (), ())


@pytest.mark.parametrize(
    ("decorator", "signature", "call", "fits"),
    [
        ("", "self, network", "self.clean(net)", True),
        ("", "self, network", "self.clean(net, 1)", False),
        ("@staticmethod\n", "network", "self.clean(net)", True),
        ("@staticmethod\n", "network", "self.clean()", False),
        ("@classmethod\n", "cls, network", "cls.clean(net)", True),
    ],
)
def test_a_method_that_helps_has_its_receiver_already(
    decorator: str, signature: str, call: str, fits: bool
) -> None:
    text = f"{decorator}def clean({signature}):\n    return network\n"
    assert (wrong_call(_lesson_with("A.clean", text), call) is None) is fits


def test_a_helper_is_at_home_for_everybody_who_imports_it() -> None:
    lesson = _lesson_with("clean", "def clean(x):\n    return x\n", "src/pkg/keys.py")
    home, other = (parse_source(path, b"") for path in ("src/pkg/keys.py", "src/pkg/save.py"))
    assert helpers_at_home(home, lesson, ["pkg.keys.clean"]) == ["clean"]
    assert helpers_at_home(home, lesson, ["clean", "pkg.keys.clean"]) == ["clean"]
    assert helpers_at_home(home, lesson, ["other.clean", "pkg.keys.other"]) == []
    assert helpers_at_home(other, lesson, ["clean"]) == []
