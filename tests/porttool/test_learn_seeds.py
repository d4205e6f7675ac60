"""Where an experiment wraps objects, as seeds."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from porttool.errors import CannotLearn
from porttool.learning.learn import (
    Lesson,
    Wrapper,
    check_replay,
    learn,
)

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


def _seeds(lesson: Lesson) -> list[tuple[str, str | None, str, str, str]]:
    return [(s.scope, s.target, s.kind, s.constructor, s.call) for s in lesson.seeds]


@pytest.mark.parametrize(
    ("case", "seeds"),
    [
        (
            "31_rebind_statement_inserted",
            [("Agent.__init__", "self.net", "rebind", "self.net", "torch.compile($X)")],
        ),
        ("33_factory_return", [("build", None, "return", "nn.Linear(n, n)", "torch.compile($X)")]),
        (
            "35_in_place_compile",
            [("Agent.__init__", "self.net", "statement", "self.net", "$X.compile()")],
        ),
        (
            "23_dict_of_modules",
            [
                (
                    "Learner.__init__",
                    "self.policy",
                    "object",
                    "nn.Linear(cfg.n_in, cfg.n_out)",
                    "torch.compile($X)",
                ),
                (
                    "Learner.__init__",
                    "self.critics",
                    "dict",
                    "nn.Linear(cfg.n_in, 1)",
                    "torch.compile($X)",
                ),
            ],
        ),
    ],
)
def test_seeds_are_told_apart_by_kind(case: str, seeds: list[tuple[str, ...]]) -> None:
    lesson = learn(_files(PORTS / case / "base"), _files(PORTS / case / "experiment"), WRAPPER)
    assert _seeds(lesson) == seeds


def test_an_added_statement_is_kept_whole_with_what_it_follows() -> None:
    lesson = _learn(
        """
        import torch
        class A:
            def __init__(self, n):
                self.nets = [build(n) for _ in range(n)]
                self.step = 0
        """,
        """
        import torch
        class A:
            def __init__(self, n):
                self.nets = [build(n) for _ in range(n)]
                for i in range(n):
                    self.nets[i] = torch.compile(self.nets[i], dynamic=False)
                self.step = 0
        """,
    )
    (seed,) = lesson.seeds
    assert seed.statement == (
        "for i in range(n):\n    self.nets[i] = torch.compile(self.nets[i], dynamic=False)\n"
    )
    assert seed.follows == "self.nets = [build(n) for _ in range(n)]"
    assert (seed.kind, seed.target, seed.call) == (
        "rebind",
        "self.nets[i]",
        "torch.compile($X, dynamic=False)",
    )


def test_a_function_that_wraps_its_argument_counts_as_the_wrapper() -> None:
    lesson = _learn(
        """
        import torch


        class A:
            def __init__(self, cfg):
                self.net = build(cfg)
        """,
        """
        import torch


        def compiled(net, mode):
            return torch.compile(net, mode=mode)


        class A:
            def __init__(self, cfg):
                self.net = compiled(build(cfg), cfg.mode)
        """,
    )
    assert [(seed.call, seed.requires) for seed in lesson.seeds] == [
        ("compiled($X, cfg.mode)", ("compiled",))
    ]
    assert [helper.name for helper in lesson.helpers] == ["compiled"]


def test_a_decorator_is_a_seed() -> None:
    lesson = _learn(
        "import torch\n@other\ndef step(x):\n    return x\n",
        'import torch\n@torch.compile(mode="m")\n@other\ndef step(x):\n    return x\n',
    )
    assert _seeds(lesson) == [
        ("", "step", "decorator", "step", 'torch.compile($X, mode="m")'),
    ]
    assert lesson.seeds[0].statement == '@torch.compile(mode="m")\n'


def test_wrapping_in_a_larger_expression_keeps_that_expression() -> None:
    lesson = _learn(
        """
        import torch
        class A:
            def __init__(self, c):
                self.net = build(c)
                self.nets = make(c)
                self.a, self.b = build(c), build(c)
                register(build(c))
        """,
        """
        import torch
        class A:
            def __init__(self, c):
                self.net = torch.compile(build(c)) if c.fast else build(c)
                self.nets = [torch.compile(n) for n in make(c)]
                self.a, self.b = build(c), torch.compile(build(c))
                register(torch.compile(build(c)))
        """,
    )
    assert [(seed.target, seed.kind, seed.call) for seed in lesson.seeds] == [
        ("self.net", "object", "torch.compile($X) if c.fast else $X"),
        ("self.nets", "list", "[torch.compile(n) for n in $X]"),
        ("self.b", "object", "torch.compile($X)"),
        (None, "argument", "torch.compile($X)"),
    ]


def _refusal(before: str, after: str) -> str:
    with pytest.raises(CannotLearn) as refusal:
        _learn(before, after)
    return str(refusal.value)


def test_wrapping_out_of_reach_of_a_switch_is_refused() -> None:
    message = _refusal(
        "import torch\nclass A:\n    def __init__(self):\n        self.net = b()\n",
        "import torch\nclass A:\n    def __init__(self):\n        self.net = b()\n"
        "        self._go()\n\n    def _go(self):\n        self.net = torch.compile(self.net)\n",
    )
    assert "the experiment uses `torch.compile` inside of an edit that cannot be" in message
    assert "pkg/learner.py:8 (experiment)" in message


@pytest.mark.parametrize(
    ("added", "refused"),
    [
        ("\n\n@torch.compile\ndef step(x):\n    return x\n", "uses `torch.compile` inside of an"),
        ("nets = map(torch.compile, nets)\n", "hands on `torch.compile` without calling it"),
        ("wrap = torch.compile if fast else keep\n", "hands on `torch.compile` without calling it"),
        ("nets = tuple(map(torch.compile, nets))\n", "hands on `torch.compile` without calling"),
    ],
)
def test_a_wrapper_that_is_named_and_not_called_is_not_overlooked(added: str, refused: str) -> None:
    before = "import torch\nnets = make()\n"
    message = _refusal(before, before + added)
    assert f"the experiment {refused}" in message
    assert f"pkg/learner.py:{5 if 'def' in added else 3} (experiment)" in message


@pytest.mark.parametrize(
    ("loop", "call"),
    [
        ("for i, net in enumerate(nets):", "[torch.compile(element) for element in $X]"),
        ("for i in range(len(nets)):", "[torch.compile(element) for element in $X]"),
        ("for i in nets:", "{key: torch.compile(element) for key, element in $X.items()}"),
        ("for i, net in nets.items():", "{key: torch.compile(element) for key, element in $X.it"),
    ],
)
def test_a_loop_that_wraps_every_element_is_one_seed_of_the_container(loop: str, call: str) -> None:
    before = "import torch\nnets = make()\n"
    wrapped = "net" if "net in" in loop else "nets[i]"
    added = f"{loop}\n    nets[i] = torch.compile({wrapped})\n"
    lesson = learn({"a.py": before.encode()}, {"a.py": (before + added).encode()}, WRAPPER)
    (seed,) = lesson.seeds
    assert (seed.kind, seed.target, seed.constructor) == ("rebind", "nets", "nets")
    assert seed.call.startswith(call)
    assert seed.statement == added


@pytest.mark.parametrize(
    "added",
    [
        "for i, net in enumerate(others):\n    nets[i] = torch.compile(net)\n",
        "for i, net in enumerate(nets):\n    nets[i] = torch.compile(net, mode=modes[i])\n",
        "for i, net in enumerate(nets):\n    nets[i + 1] = torch.compile(net)\n",
    ],
)
def test_a_loop_that_wraps_otherwise_is_no_seed_of_the_container(added: str) -> None:
    before = "import torch\nnets = make()\nothers, modes = 1, 2\n"
    lesson = learn({"a.py": before.encode()}, {"a.py": (before + added).encode()}, WRAPPER)
    assert all(seed.constructor != "nets" for seed in lesson.seeds)


def test_a_bare_name_behind_a_star_import_is_refused() -> None:
    before = "from torch import *\nnet = make()\n"
    message = _refusal(before, before.replace("make()", "compile(make())"))
    assert "`compile` may be torch.compile here, or the built-in" in message
    assert "pkg/learner.py:2 (experiment)" in message
    assert "write `torch.compile(...)` in the experiment" in message


def test_what_stands_in_front_of_an_added_statement_is_known_whole() -> None:
    before = "import torch\nnet = make(\n    1,\n)\n"
    added = "net = torch.compile(net)\n"
    lesson = learn({"a.py": before.encode()}, {"a.py": (before + added).encode()}, WRAPPER)
    assert lesson.seeds[0].follows == "net = make(\n    1,\n)"


@pytest.mark.parametrize(
    ("decorators", "follows"),
    [
        ("@torch.compile\n", ""),
        ("@one\n@torch.compile\n@two(3)\n", "one\n\ntwo(3)"),
        ("@one\n@two(3)\n@torch.compile\n", "one\ntwo(3)\n"),
    ],
)
def test_a_decorator_keeps_its_place_among_others(decorators: str, follows: str) -> None:
    before = "import torch\n" + decorators.replace("@torch.compile\n", "") + "def f(): pass\n"
    lesson = _learn(before, f"import torch\n{decorators}def f(): pass\n")
    assert [seed.follows for seed in lesson.seeds] == [follows]


def test_a_seed_knows_how_its_names_were_spelled() -> None:
    before = "from torch import nn, compile as c\n\nnet = nn.Linear(1, 2)\n"
    lesson = _learn(before, before.replace("nn.Linear(1, 2)", "c(nn.Linear(1, 2))"))
    assert [(seed.call, seed.spelled) for seed in lesson.seeds] == [
        ("torch.compile($X)", (("torch.compile", "c"),))
    ]
