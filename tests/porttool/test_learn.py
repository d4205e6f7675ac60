"""What is learned from an experiment, and that the lesson makes the experiment again."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porttool.errors import CannotLearn, NeedsPerson
from porttool.learning.learn import (
    Lesson,
    Wrapper,
    check_replay,
    for_gated_port,
    helper_edits,
    learn,
    replay,
)
from porttool.source.syntax import apply_edits, parse_source

PORTS = Path(__file__).parent / "cases" / "ports"
CASES = sorted(case.name for case in PORTS.iterdir() if (case / "experiment").is_dir())
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


def _rules(lesson: Lesson) -> list[tuple[str, str, bool]]:
    return [(rule.before, rule.after, rule.neutral) for rule in lesson.rules]


def _seeds(lesson: Lesson) -> list[tuple[str, str | None, str, str, str]]:
    return [(s.scope, s.target, s.kind, s.constructor, s.call) for s in lesson.seeds]


def _residual(lesson: Lesson) -> str:
    data = lesson.residual["pkg/learner.py"]
    assert data is not None
    return data.decode()


@pytest.mark.parametrize("case", CASES)
def test_every_port_case_replays_to_the_very_bytes(case: str) -> None:
    parent, experiment = _files(PORTS / case / "base"), _files(PORTS / case / "experiment")
    lesson = learn(parent, experiment, WRAPPER)
    assert replay(lesson, parent) == experiment
    assert lesson.residual == {}
    kinds = {hunk.kind for hunk in lesson.hunks}
    assert kinds <= {"seed", "rule", "helper"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sides", [("base", "main"), ("main", "base"), ("experiment", "main")])
def test_a_change_without_any_rule_replays_from_its_residual(
    case: str, sides: tuple[str, str]
) -> None:
    parent, changed = (_files(PORTS / case / side) for side in sides)
    lesson = learn(parent, changed, Wrapper("no.such", "_none", "_none.", ()))
    check_replay(lesson, parent, changed)
    assert (lesson.rules, lesson.seeds) == ((), ())


def test_there_are_24_port_cases() -> None:
    assert len(CASES) == 24


def test_the_first_case_teaches_two_rules_two_seeds_and_a_helper() -> None:
    case = PORTS / "01_reindented_block"
    lesson = learn(_files(case / "base"), _files(case / "experiment"), WRAPPER)
    assert _rules(lesson) == [
        ("$X.state_dict()", "_clean_state_dict($X)", True),
        (
            "$X.load_state_dict($ARGS)",
            'getattr($X, "_orig_mod", $X).load_state_dict($ARGS)',
            True,
        ),
    ]
    assert [len(rule.examples) for rule in lesson.rules] == [2, 2]
    assert lesson.rules[1].examples[1].before == "c.load_state_dict(sd)"
    assert lesson.rules[0].requires == ("_clean_state_dict",)
    assert _seeds(lesson) == [
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
            "list",
            "nn.Linear(cfg.n_in, 1)",
            "torch.compile($X)",
        ),
    ]
    assert [(seed.line, seed.key) for seed in lesson.seeds] == [(12, 0), (13, 1)]
    (helper,) = lesson.helpers
    assert (helper.name, helper.after, helper.before) == ("_clean_state_dict", None, "Learner")
    assert [(n.line, n.text) for n in lesson.negatives] == [
        (17, "self.policy_opt.state_dict()"),
        (24, 'self.policy_opt.load_state_dict(blob["policy_opt"])'),
        (29, "actor.load_state_dict(weights)"),
    ]
    assert [(h.line_before, h.line_after, h.kind, h.by) for h in lesson.hunks] == [
        (0, 5, "helper", "_clean_state_dict"),
        (8, 12, "seed", "self.policy"),
        (9, 13, "seed", "self.critics"),
        (15, 19, "rule", "state_dict"),
        (16, 20, "rule", "state_dict"),
        (21, 25, "rule", "load_state_dict"),
        (23, 27, "rule", "load_state_dict"),
    ]


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


TRAINER = """
import torch

from pkg.networks import build_network


class Trainer:
    def __init__(self, config):
        self._advantage_networks = [build_network(config) for _ in range(2)]
        self._strategy_network = build_network(config)
        self._optimizer = torch.optim.Adam(self._strategy_network.parameters())

    def checkpoint(self):
        return {
            "advantage": [network.state_dict() for network in self._advantage_networks],
            "strategy": self._strategy_network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }

    def payload(self):
        weights = []
        for network in self._advantage_networks:
            weights.append(network.state_dict())
        return weights

    def restore(self, state):
        for network, weights in zip(self._advantage_networks, state["advantage"], strict=True):
            network.load_state_dict(weights)
        self._strategy_network.load_state_dict(state["strategy"])
"""

CLEANED = """
import torch

from pkg.networks import build_network


def _clean_state_dict(state_dict):
    return {key.removeprefix("_orig_mod."): value for key, value in state_dict.items()}


class Trainer:
    def __init__(self, config):
        self._advantage_networks = [torch.compile(build_network(config)) for _ in range(2)]
        self._strategy_network = torch.compile(build_network(config))
        self._optimizer = torch.optim.Adam(self._strategy_network.parameters())

    def checkpoint(self):
        return {
            "advantage": [
                _clean_state_dict(network.state_dict()) for network in self._advantage_networks
            ],
            "strategy": _clean_state_dict(self._strategy_network.state_dict()),
            "optimizer": self._optimizer.state_dict(),
        }

    def payload(self):
        weights = []
        for network in self._advantage_networks:
            weights.append(_clean_state_dict(network.state_dict()))
        return weights

    def restore(self, state):
        for network, weights in zip(self._advantage_networks, state["advantage"], strict=True):
            network._orig_mod.load_state_dict(weights)
        self._strategy_network._orig_mod.load_state_dict(state["strategy"])
"""


def test_a_helper_that_takes_the_state_dict_keeps_the_call_inside() -> None:
    lesson = _learn(TRAINER, CLEANED)
    assert _rules(lesson) == [
        ("$X.state_dict()", "_clean_state_dict($X.state_dict())", True),
        ("$X.load_state_dict($ARGS)", "$X._orig_mod.load_state_dict($ARGS)", False),
    ]
    assert [len(rule.examples) for rule in lesson.rules] == [3, 2]
    assert [negative.text for negative in lesson.negatives] == ["self._optimizer.state_dict()"]
    assert lesson.residual == {}


def test_a_bare_unwrapping_is_offered_in_its_neutral_form() -> None:
    rules = for_gated_port(_learn(TRAINER, CLEANED)).rules
    assert [(rule.after, rule.neutral, rule.adapted) for rule in rules] == [
        ("_clean_state_dict($X.state_dict())", True, False),
        ('getattr($X, "_orig_mod", $X).load_state_dict($ARGS)', True, True),
    ]


def test_a_bare_unwrapping_inside_a_helper_is_made_neutral_too() -> None:
    lesson = _learn(
        "def f(a):\n    return a.state_dict()\n",
        """
        def clean(net):
            # what torch.compile holds
            return net._orig_mod.state_dict()


        def f(a):
            return clean(a)
        """,
    )
    assert _rules(lesson) == [("$X.state_dict()", "clean($X)", False)]
    gated = for_gated_port(lesson)
    assert _rules(gated) == [("$X.state_dict()", "clean($X)", True)]
    assert gated.rules[0].adapted
    assert gated.helpers[0].text == (
        "def clean(net):\n"
        "    # what torch.compile holds\n"
        '    return getattr(net, "_orig_mod", net).state_dict()\n'
    )


MIXED = """
import torch as th

LIMIT = 3


def scale(a):
    return a


class A:
    def __init__(self, cfg):
        self.net = build(cfg)
        self.other = 1

    def save(self, path):
        th.save({"net": self.net.state_dict(keep_vars=True), "n": 1}, path)
        log("saved")

    def load(self, blob):
        self.net.load_state_dict(
            blob["net"],  # the network
        )
        if blob:
            self.loaded = 1
"""

MIXED_AFTER = """
from collections import OrderedDict

import torch as th

LIMIT = 4
PREFIX = "_orig_mod."


def _strip(weights):
    out = OrderedDict()
    for k, v in weights.items():
        if k.startswith(PREFIX):
            k = k[len(PREFIX) :]
        out[k] = v
    return out


def scale(a, b=2):
    return a


class A:
    def __init__(self, cfg):
        self.net = th.compile(build(cfg, 7), mode="default")
        self.extra = th.compile(build(cfg, 8))
        self.other = 2

    def save(self, path):
        th.save({"net": _strip(self.net.state_dict(keep_vars=True)), "n": 1, "c": True}, path)
        log("saved", path)

    def load(self, blob):
        getattr(self.net, "_orig_mod", self.net).load_state_dict(
            blob["net"],  # the network
        )
        if blob:
            self.loaded = 1
        else:
            self.loaded = 0
"""

MIXED_RESIDUAL = """
import torch as th

LIMIT = 4


def scale(a, b=2):
    return a


class A:
    def __init__(self, cfg):
        self.net = build(cfg, 7)
        self.extra = build(cfg, 8)
        self.other = 2

    def save(self, path):
        th.save({"net": self.net.state_dict(keep_vars=True), "n": 1, "c": True}, path)
        log("saved", path)

    def load(self, blob):
        self.net.load_state_dict(
            blob["net"],  # the network
        )
        if blob:
            self.loaded = 1
        else:
            self.loaded = 0
"""


def test_what_no_rule_explains_is_the_parents_file_with_that_alone() -> None:
    lesson = _learn(MIXED, MIXED_AFTER)
    assert _residual(lesson) == MIXED_RESIDUAL.lstrip("\n")
    assert _rules(lesson) == [
        ("$X.state_dict($ARGS)", "_strip($X.state_dict($ARGS))", True),
        (
            "$X.load_state_dict($ARGS)",
            'getattr($X, "_orig_mod", $X).load_state_dict($ARGS)',
            True,
        ),
    ]
    assert [seed.call for seed in lesson.seeds] == [
        'torch.compile($X, mode="default")',
        "torch.compile($X)",
    ]
    assert [(helper.name, helper.needs, helper.imports) for helper in lesson.helpers] == [
        ("PREFIX", (), ()),
        ("_strip", ("PREFIX",), ("from collections import OrderedDict",)),
    ]
    assert [edit.statement for edit in lesson.imports] == ["from collections import OrderedDict"]


def test_line_ends_of_the_parent_survive_next_to_a_residual() -> None:
    before, after = (dedent(text).replace("\n", "\r\n").encode() for text in (MIXED, MIXED_AFTER))
    lesson = learn({"a.py": before}, {"a.py": after}, WRAPPER)
    check_replay(lesson, {"a.py": before}, {"a.py": after})
    assert lesson.residual["a.py"] == MIXED_RESIDUAL.replace("\n", "\r\n").encode()


def test_new_deleted_and_other_files_are_residual_whole() -> None:
    parent = {"gone.py": b"x = 1\n", "notes.txt": b"old\n", "same.py": b"y = 1\n"}
    experiment = {"new.py": b"import torch\n", "notes.txt": b"new\n", "same.py": b"y = 1\n"}
    lesson = learn(parent, experiment, WRAPPER)
    check_replay(lesson, parent, experiment)
    assert lesson.residual == {"gone.py": None, "new.py": b"import torch\n", "notes.txt": b"new\n"}
    assert lesson.touched == ("gone.py", "new.py", "notes.txt")
    assert replay(lesson, parent) == {"new.py": b"import torch\n", "notes.txt": b"new\n"}
    assert [hunk.by for hunk in lesson.hunks] == [
        "a deleted file",
        "a new file",
        "not a Python file",
    ]


def test_nothing_changed_teaches_nothing() -> None:
    lesson = learn({"a.py": b"x = 1\n"}, {"a.py": b"x = 1\n"}, WRAPPER)
    assert (lesson.rules, lesson.seeds, lesson.hunks, lesson.touched) == ((), (), (), ())


def test_a_comment_alone_is_told_and_not_carried() -> None:
    parent, experiment = {"a.py": b"x = 1\n"}, {"a.py": b"x = 1  # one\n"}
    lesson = learn(parent, experiment, WRAPPER)
    (hunk,) = lesson.hunks
    assert (hunk.after, hunk.line_after, hunk.by) == (
        "# one",
        1,
        "a comment alone, not carried over",
    )
    assert replay(lesson, parent) == parent


def test_an_edit_that_has_nothing_to_do_with_the_wrapper_is_residual() -> None:
    lesson = _learn(
        "def f(logger, a):\n    logger.info(a)\n",
        "def f(logger, a):\n    logger.debug(a)\n",
    )
    assert lesson.rules == ()
    assert _residual(lesson) == "def f(logger, a):\n    logger.debug(a)\n"
    assert lesson.hunks[0].by == "it is not about the wrapper"


def test_a_template_with_a_local_name_is_no_rule() -> None:
    lesson = _learn(
        "def f(net, p):\n    return net.state_dict()\n",
        "def f(net, p):\n    return {k: v for k, v in net.state_dict().items() if k != p}\n",
    )
    assert lesson.rules == ()
    assert lesson.hunks[0].by == "it uses the local name p"


def test_a_method_as_helper_is_named_with_its_class() -> None:
    lesson = _learn(
        """
        class A:
            def save(self):
                return self.net.state_dict()
        """,
        """
        class A:
            def save(self):
                return self._clean(self.net.state_dict())

            def _clean(self, weights):
                return {k.replace("_orig_mod.", ""): v for k, v in weights.items()}
        """,
    )
    assert _rules(lesson) == [("$X.state_dict()", "self._clean($X.state_dict())", True)]
    assert lesson.rules[0].requires == ("A._clean",)
    assert [(helper.name, helper.after) for helper in lesson.helpers] == [("A._clean", "save")]


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


def test_two_ways_for_one_pattern_are_refused() -> None:
    message = _refusal(
        "def f(a, b):\n    return [a.state_dict(), b.state_dict()]\n",
        "def c(x):\n    return x._orig_mod.state_dict()\n\n\n"
        "def f(a, b):\n    return [c(a), b._orig_mod.state_dict()]\n",
    )
    assert "the experiment rewrites `$X.state_dict()` in two ways" in message
    assert "pkg/learner.py:2 and pkg/learner.py:2" in message
    assert "`a.state_dict()` becomes `c(a)`" in message
    assert "`b.state_dict()` becomes `b._orig_mod.state_dict()`" in message


def test_a_special_case_that_the_general_rule_would_do_otherwise_is_refused() -> None:
    message = _refusal(
        'def f(a, b, w):\n    a.load_state_dict(w)\n    b.load_state_dict("best")\n',
        "def reload(net):\n    net._orig_mod.load_state_dict(best())\n\n\n"
        "def f(a, b, w):\n    a._orig_mod.load_state_dict(w)\n    reload(b)\n",
    )
    assert 'the experiment rewrites `$X.load_state_dict("best")` in two ways' in message


def test_two_edits_in_one_call_overlap() -> None:
    message = _refusal(
        "def swap(a, b): ...\ndef f(a, b):\n    swap(a, b)\n",
        "def swap(a, b): ...\ndef f(a, b):\n    swap(a._orig_mod, b._orig_mod)\n",
    )
    assert "two edits overlap in `swap(a, b)`" in message
    assert "both `a` and `b` are rewritten in one call" in message


@pytest.mark.parametrize(
    ("before", "after", "side"),
    [("def f(:\n", "x = 1\n", "the parent's side"), ("x = 1\n", "def f(:\n", "the experiment's")],
)
def test_a_side_that_does_not_parse_is_refused(before: str, after: str, side: str) -> None:
    message = _refusal(before, after)
    assert f"cannot learn from pkg/learner.py: {side}" in message
    assert "pkg/learner.py:1" in message


def test_wrapping_out_of_reach_of_a_switch_is_refused() -> None:
    message = _refusal(
        "import torch\nclass A:\n    def __init__(self):\n        self.net = b()\n",
        "import torch\nclass A:\n    def __init__(self):\n        self.net = b()\n"
        "        self._go()\n\n    def _go(self):\n        self.net = torch.compile(self.net)\n",
    )
    assert "the experiment uses `torch.compile` inside of an edit that cannot be" in message
    assert "pkg/learner.py:8 (experiment)" in message


@pytest.mark.parametrize(
    "added",
    ["\n\n@torch.compile\ndef step(x):\n    return x\n", "nets = map(torch.compile, nets)\n"],
)
def test_a_wrapper_that_is_named_and_not_called_is_not_overlooked(added: str) -> None:
    before = "import torch\nnets = make()\n"
    assert "uses `torch.compile` inside of an edit" in _refusal(before, before + added)


def test_a_lesson_of_another_experiment_does_not_replay() -> None:
    parent = {"pkg/learner.py": _text(TRAINER)}
    lesson = _learn(TRAINER, CLEANED)
    other = {"pkg/learner.py": _text(CLEANED.replace("for _ in range(2)", "for _ in range(3)"))}
    with pytest.raises(CannotLearn) as refusal:
        check_replay(lesson, parent, other)
    assert "pkg/learner.py:12 (experiment)" in str(refusal.value)
    assert "the experiment has `3`, the replay `2`" in str(refusal.value)


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
        "from pkg.networks import build\nfrom pkg.learner import _clean_state_dict\n"
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


NAMES = st.sampled_from(
    ["net", "self.policy", "nets[0]", "self.nets[i]", 'd["a"].net', "pool.get(k)"]
)
ARGUMENTS = st.sampled_from(["", "w", "w, strict=False", "*a, **k", 'blob["é"]', "(x for x in w)"])


@st.composite
def _programs(draw: st.DrawFn) -> tuple[str, str]:
    """A program and its experiment: some sites wrapped, some left alone, some other edits."""
    before: list[str] = []
    after: list[str] = []
    for number in range(draw(st.integers(1, 6))):
        receiver, arguments = draw(NAMES), draw(ARGUMENTS)
        form = draw(st.sampled_from(["save", "load", "seed", "plain", "change", "both"]))
        old, new = f"log({number})", f"log({number})"
        if form == "save":
            old, new = f"out = {receiver}.state_dict()", f"out = clean({receiver}.state_dict())"
        elif form == "load":
            old = f"{receiver}.load_state_dict({arguments})"
            new = f'getattr({receiver}, "_orig_mod", {receiver}).load_state_dict({arguments})'
        elif form == "seed":
            old = f"self.m{number} = build({arguments})"
            new = f"self.m{number} = torch.compile(build({arguments}), dynamic=True)"
        elif form == "change":
            new = f"log({number}, 'more')"
        elif form == "both":
            old = f"send(1, {receiver}.state_dict())"
            new = f"send(2, clean({receiver}.state_dict()), flush=True)"
        before.append(old)
        after.append(new)
        if draw(st.booleans()):
            after.append(f"extra({number})")
        if draw(st.integers(0, 5)) == 0:
            before.append(f"gone({number})")
    indent = draw(st.sampled_from(["    ", "\t", "  "]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    head = ["import torch", "class T:", f"{indent}def run(self, w, k, blob, *a):"]
    helper = ["def clean(d):", f'{indent}return {{k.removeprefix("_orig_mod."): d[k] for k in d}}']

    def text(lines: list[str], top: list[str]) -> str:
        body = [indent * 2 + line for line in lines]
        return newline.join([head[0], *top, *head[1:], *body, ""])

    return text(before, []), text(after, helper)


@settings(max_examples=80, deadline=None)
@given(_programs())
def test_random_wrappings_of_random_receivers_replay_exactly(programs: tuple[str, str]) -> None:
    before, after = (program.encode() for program in programs)
    lesson = learn({"t.py": before}, {"t.py": after}, WRAPPER)
    check_replay(lesson, {"t.py": before}, {"t.py": after})
    made = replay(lesson, {"t.py": before})["t.py"]
    assert made.count(b"\r\n") == (made.count(b"\n") if b"\r" in before else 0)
    sites = after.count(b"clean(") - 1 + after.count(b"getattr(")
    assert sum(len(rule.examples) for rule in lesson.rules) == sites
    assert len(lesson.seeds) == after.count(b"torch.compile(")
    explained = lesson.residual.get("t.py", before)
    assert explained is not None
    assert b"_orig_mod" not in explained
    assert b"compile" not in explained
