"""Wrappers as rows of a table: completed from a plan, known by every name, and what they break."""

from __future__ import annotations

from pathlib import Path

import pytest

from porttool.deciding.dataflow import analyse
from porttool.deciding.decide import decide, place_seeds
from porttool.errors import CannotLearn, PlanError
from porttool.learning.learn import check_replay, for_gated_port, learn
from porttool.plan.plan import load_plan
from porttool.source.syntax import parse_source
from porttool.verifying.trial import prefix_name
from porttool.wrappers import KEYED_METHODS, TABLE, Wrapper, known_wrapper

DATA_PARALLEL = known_wrapper("torch.nn.DataParallel")
EMA = Wrapper(callee="project.ema.EMA", unwrap="model", prefix="model.")
COMMIT = "a" * 40


def _wrapper(folder: Path, text: str) -> Wrapper:
    path = folder / "port.yaml"
    path.write_text(f"name: x\nexperiment: {{branch: exp, commits: [{COMMIT}]}}\n{text}")
    return load_plan(path).wrapper.wrapper()


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.callee)
def test_a_callee_alone_brings_its_row(row: Wrapper, tmp_path: Path) -> None:
    assert _wrapper(tmp_path, f"wrapper: {{callee: {row.callee}}}\n") == row


def test_no_wrapper_in_the_plan_is_torch_compile(tmp_path: Path) -> None:
    assert _wrapper(tmp_path, "") == Wrapper()
    assert (Wrapper().callee, Wrapper().prefix) == ("torch.compile", "_orig_mod.")


def test_another_name_of_a_callee_is_the_same_row(tmp_path: Path) -> None:
    text = "wrapper: {callee: torch.nn.parallel.DataParallel}\n"
    assert _wrapper(tmp_path, text) == DATA_PARALLEL


def test_what_the_plan_says_counts_before_the_row(tmp_path: Path) -> None:
    text = "wrapper: {callee: torch.nn.DataParallel, methods: [state_dict], prefix: m.}\n"
    found = _wrapper(tmp_path, text)
    assert (found.methods, found.prefix, found.unwrap) == (("state_dict",), "m.", "module")


def test_a_wrapper_of_the_project_is_described_by_the_plan(tmp_path: Path) -> None:
    found = _wrapper(tmp_path, "wrapper: {callee: ema.EMA, unwrap: shadow, prefix: shadow.}\n")
    assert (found.callee, found.unwrap, found.prefix) == ("ema.EMA", "shadow", "shadow.")
    assert (found.methods, found.types, found.hides) == (KEYED_METHODS, ("EMA",), False)


@pytest.mark.parametrize(
    ("keys", "missing"),
    [
        ("", "unwrap: and prefix: is not given"),
        (", unwrap: shadow", "prefix: is not given"),
        (", prefix: ''", "unwrap: is not given"),
    ],
)
def test_an_unknown_callee_has_to_be_described(keys: str, missing: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        _wrapper(tmp_path, f"wrapper: {{callee: ema.EMA{keys}}}\n")
    assert "nothing is known of `ema.EMA`" in str(caught.value)
    assert missing in str(caught.value)
    assert "add under wrapper: `unwrap:`" in str(caught.value)


@pytest.mark.parametrize(
    ("origin", "wraps"),
    [
        ("project.ema.EMA", True),
        (".ema.EMA", True),
        ("..ema.EMA", True),
        (".EMA", True),  # the package hands it on
        ("ema.EMA", False),
        ("other.ema.EMA", False),
        (".schema.EMA", False),
        (None, False),
    ],
)
def test_a_wrapper_is_known_by_its_name_in_full(origin: str | None, wraps: bool) -> None:
    assert EMA.is_called(origin) is wraps


def test_a_definition_is_the_wrapper_where_its_path_says_so() -> None:
    assert EMA.is_defined("project/ema.py", "EMA")
    assert EMA.is_defined("src/project/ema.py", "EMA")
    assert EMA.is_defined("project/ema/__init__.py", "EMA")
    assert not EMA.is_defined("project/schema.py", "EMA")
    assert not EMA.is_defined("project/ema.py", "Other.EMA")


def test_without_a_prefix_checkpoints_are_compared_by_their_keys() -> None:
    script = known_wrapper("torch.jit.script")
    assert script is not None
    assert prefix_name(script) == "the same keys in every checkpoint"
    assert prefix_name(Wrapper()) == "no _orig_mod. in any checkpoint"


NET = """from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(width, width)

    def act(self, x):
        return self.body(x).argmax(-1)


class Trainer:
    def __init__(self, cfg):
        self.net = Net(cfg.width)
        self.plain = Net(cfg.width)

    def save(self):
        return self.net.state_dict()
"""
HELPER = """def bare(net):
    return {body}


class Trainer"""


def _experiment(saved: str, helper: str = "", wrap: str = "nn.DataParallel(Net(cfg.width))") -> str:
    text = NET.replace("self.net = Net(cfg.width)", f"self.net = {wrap}")
    text = text.replace("self.net.state_dict()", saved)
    return text.replace("class Trainer", HELPER.format(body=helper)) if helper else text


@pytest.mark.parametrize(
    ("helper", "neutral"),
    [
        ("net.module if isinstance(net, nn.DataParallel) else net", True),
        ("net.module if isinstance(net, (nn.DataParallel, DDP)) else net", False),
        ('net.module if hasattr(net, "module") else net', True),
        ('getattr(net, "module", net)', True),
        ("net.module if not isinstance(net, Net) else net", False),
    ],
)
def test_the_usual_helpers_are_known_to_change_nothing(helper: str, neutral: bool) -> None:
    parent = {"a.py": NET.encode()}
    experiment = {"a.py": _experiment("bare(self.net).state_dict()", helper).encode()}
    assert DATA_PARALLEL is not None
    lesson = learn(parent, experiment, DATA_PARALLEL)
    check_replay(lesson, parent, experiment)
    assert [(rule.before, rule.after) for rule in lesson.rules] == [
        ("$X.state_dict($ARGS)", "bare($X).state_dict($ARGS)")
        if "$ARGS" in lesson.rules[0].before
        else ("$X.state_dict()", "bare($X).state_dict()")
    ]
    assert lesson.rules[0].neutral is neutral


def test_a_helper_that_asks_for_the_class_stays_as_it_is_behind_a_switch() -> None:
    text = "net.module if isinstance(net, nn.DataParallel) else net"
    experiment = {"a.py": _experiment("bare(self.net).state_dict()", text).encode()}
    assert DATA_PARALLEL is not None
    lesson = for_gated_port(learn({"a.py": NET.encode()}, experiment, DATA_PARALLEL))
    assert lesson.helpers[0].text == f"def bare(net):\n    return {text}\n"


def _reported(main: str, saved: str = "self.net.module.state_dict()") -> list[tuple[str, str, str]]:
    assert DATA_PARALLEL is not None
    parent, experiment = {"a.py": NET.encode()}, {"a.py": _experiment(saved).encode()}
    lesson = learn(parent, experiment, DATA_PARALLEL)
    onto = {"a.py": parse_source("a.py", main.encode())}
    placed, asks = place_seeds(onto, lesson)
    flow = analyse(onto, placed, lesson, asks)
    return [
        (found.text, found.action, found.reasons[0])
        for found in decide(onto, lesson, placed, flow)
        if found.rule is None
    ]


def test_what_a_wrapper_hides_is_reported_of_wrapped_objects_only() -> None:
    main = NET + (
        "\n    def play(self, x):\n"
        "        self.net.eval()\n"
        "        return self.net.act(x), self.plain.act(x), self.net.body, self.net.module.act(x)\n"
    )
    assert _reported(main) == [
        (
            "self.net.act",
            "hazard",
            "`act` is not reached through `DataParallel`: read it of .module.act",
        ),
        (
            "self.net.body",
            "hazard",
            "`body` is not reached through `DataParallel`: read it of .module.body",
        ),
    ]


def test_a_module_with_the_name_that_unwrapping_goes_by_is_asked() -> None:
    main = NET.replace("self.body = nn", "self.body = self.module = nn")
    asking = 'getattr(self.net, "module", self.net).state_dict()'
    (found,) = _reported(main, asking)
    assert found[:2] == ("self.body = self.module = nn.Linear(width, width)", "ask")
    assert "`Net` has a `module` of its own" in found[2]
    # One that is taken as wrapped for certain is never asked for the attribute.
    assert _reported(main) == []


def test_wrapping_twice_is_reported_in_the_words_of_the_row() -> None:
    main = NET + "\n    def again(self):\n        self.twice = nn.DataParallel(self.net)\n"
    assert _reported(main) == [
        (
            "nn.DataParallel(self.net)",
            "hazard",
            "wrapped twice: the keys carry `module.` twice, and one unwrapping does not reach "
            "the module",
        )
    ]


def test_the_guide_has_every_row() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "wrappers.md"
    rows = [
        tuple(cell.strip(" `") for cell in line.strip("|").split("|"))
        for line in guide.read_text().splitlines()
        if line.startswith("| `")
    ]
    assert rows == [
        (
            row.callee,
            row.unwrap or "-",
            row.prefix or "-",
            "hidden" if row.hides else "handed on",
        )
        for row in TABLE
    ]


def test_an_experiment_of_another_wrapper_is_told_which_row_to_name() -> None:
    experiment = {"a.py": _experiment("self.net.module.state_dict()").encode()}
    with pytest.raises(CannotLearn) as caught:
        learn({"a.py": NET.encode()}, experiment, Wrapper())
    assert caught.value.what == (
        "the experiment wraps nothing in torch.compile, but calls torch.nn.DataParallel"
    )
    assert caught.value.where == "a.py:15 (experiment)"
    assert caught.value.next == "write `wrapper: {callee: torch.nn.DataParallel}` in port.yaml"
