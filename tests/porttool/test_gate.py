from __future__ import annotations

import ast
from pathlib import Path

import pytest

from porttool.deciding.sites import Decision, PlacedSeed
from porttool.gating.config_scope import Unclear, config_expression
from porttool.gating.gate import gate_edits
from porttool.learning.lesson import Lesson, Seed, SeedKind, Wrapper
from porttool.plan.plan import load_plan
from porttool.plan.switch import SwitchPlan
from porttool.source.syntax import (
    Source,
    Span,
    apply_edits,
    enclosing_scope,
    line_of,
    parents,
    parse_source,
    qualname,
    span_of,
)

CASES = Path(__file__).parent / "cases"
LESSON = Lesson(Wrapper(), (), (), (), (), {}, (), (), ())
BUILD = "build_network(config).to(self._device)"

GUARD = """\
        if config.compile.trainer.enabled:
            compile_kwargs = dict(
                mode=config.compile.trainer.mode,
                fullgraph=config.compile.trainer.fullgraph,
                dynamic=config.compile.trainer.dynamic,
            )
            self._advantage_networks = [
                torch.compile(net, **compile_kwargs) for net in self._advantage_networks
            ]
            self._strategy_network = torch.compile(self._strategy_network, **compile_kwargs)
"""


@pytest.fixture
def switch() -> SwitchPlan:
    found = load_plan(CASES / "gate" / "port.yaml").switch
    assert found is not None
    return found


def bare(switch: SwitchPlan, module: str = "conf.py", root: str = "RunModel") -> SwitchPlan:
    """Return a switch without options, so that a guard is two lines."""
    raw = switch.model_dump(by_alias=True)
    fields = [{"name": "enabled", "type": "bool", "default": False}]
    raw |= {"module": module, "root": root, "options": []}
    raw["sections"] = [{"key": "trainer", "class": "CompileTrainerConfig", "fields": fields}]
    return SwitchPlan.model_validate(raw)


def place(
    source: Source,
    value: str,
    target: str | None,
    kind: SeedKind,
    call: str = "torch.compile($X)",
    *,
    nth: int = 0,
) -> PlacedSeed:
    """Return the seed at the nth occurrence of a value's text."""
    start = -1
    for _ in range(nth + 1):
        start = source.text.index(value, start + 1)
    span = Span(start, start + len(value))
    statements = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.stmt) and span_of(source, node).contains(span)
    ]
    binding = min(
        statements, key=lambda node: span_of(source, node).end - span_of(source, node).start
    )
    above = parents(source.tree)
    scope = qualname(enclosing_scope(binding, above), above)
    seed = Seed(source.path, scope, target, kind, value, call, line_of(binding), 0)
    return PlacedSeed(
        seed,
        source.path,
        scope,
        line_of(binding),
        span_of(source, binding),
        span,
        target,
        kind,
        call,
    )


def gated(
    switch: SwitchPlan, text: str, *seeds: tuple[str, str | None, SeedKind], width: int = 100
) -> tuple[str, tuple[Decision, ...]]:
    source = parse_source("train.py", text.encode())
    counts: dict[str, int] = {}
    placed = []
    for value, target, kind in seeds:
        placed.append(place(source, value, target, kind, nth=counts.get(value, 0)))
        counts[value] = counts.get(value, 0) + 1
    edits, asks = gate_edits(source, placed, switch, LESSON, line_length=width)
    return apply_edits(source, edits).decode(), asks


def method(body: str, parameters: str = "config: RunModel") -> str:
    """Return a file with one class whose constructor has a body."""
    lines = "".join(f"        {line}\n" if line else "\n" for line in body.splitlines())
    return (
        "import torch\nfrom conf import RunModel\nfrom torch import nn\n\n\n"
        f"class Trainer:\n    def __init__(self, {parameters}):\n{lines}"
    )


def sample(name: str) -> Source:
    path = "src/lab/trainer.py"
    return parse_source(path, (CASES / "gate" / name / path).read_bytes())


def test_no_seed_is_no_edit(switch: SwitchPlan) -> None:
    assert gate_edits(sample("onto"), [], switch, LESSON) == ((), ())


def test_what_is_gated_already_is_left_alone(switch: SwitchPlan) -> None:
    source = sample("branch")
    seeds = [
        place(source, BUILD, "self._advantage_networks", "list"),
        place(source, BUILD, "self._strategy_network", "object", nth=1),
    ]
    assert gate_edits(source, seeds, switch, LESSON) == ((), ())
    called = method("self.a = _gated(torch.compile, make(), config.compile.trainer.enabled)")
    assert gated(bare(switch), called, ("make()", "self.a", "object")) == (called, ())


def test_the_guard_is_the_plans_own_and_stands_behind_the_optimizers(switch: SwitchPlan) -> None:
    source = sample("onto")
    seeds = [
        place(source, BUILD, "self._advantage_networks", "list"),
        place(source, BUILD, "self._strategy_network", "object", nth=1),
    ]
    edits, asks = gate_edits(source, seeds, switch, LESSON, line_length=100)
    assert asks == ()
    assert [edit.text for edit in edits] == [GUARD]
    before, after = source.text[: edits[0].start], source.text[edits[0].start :]
    assert before.splitlines()[-1].startswith("        self._strategy_optimizer = ")
    assert after.startswith("\n        self._log = [")
    branch = sample("branch")
    assert GUARD in branch.text


def test_options_of_the_site_stay_and_those_of_the_config_win(switch: SwitchPlan) -> None:
    source = sample("onto")
    call = "torch.compile($X, mode='max-autotune', backend='inductor')"
    seed = place(source, BUILD, "self._strategy_network", "object", call, nth=1)
    edits, asks = gate_edits(source, [seed], switch, LESSON, line_length=100)
    assert asks == ()
    assert edits[0].text.endswith(
        "            self._strategy_network = torch.compile(\n"
        "                self._strategy_network, backend='inductor', **compile_kwargs\n"
        "            )\n"
    )


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("torch.compile($X, **options)", "behind ** in"),
        ("torch.compile($X, options={'a': 1})", "exclude each other"),
        ("torch.compile($X, backend=pick())", "is computed at the call"),
        ("wrap($X)(1)", "is not a plain call"),
    ],
)
def test_calls_that_cannot_be_combined_with_the_config_ask(
    switch: SwitchPlan, call: str, reason: str
) -> None:
    source = sample("onto")
    seed = place(source, BUILD, "self._strategy_network", "object", call, nth=1)
    edits, (ask,) = gate_edits(source, [seed], switch, LESSON)
    assert edits == ()
    assert ask.action == "ask"
    assert reason in ask.reasons[0]
    assert ask.key == f"src/lab/trainer.py::Trainer.__init__::{BUILD}"


def test_a_capture_in_front_of_an_optimizer_ends_the_room(switch: SwitchPlan) -> None:
    text = method(
        "self.net = make()\nself.net.to('cpu')\nself.eval = Evaluator(self.net)\n"
        "self.opt = Adam(self.net.parameters())"
    )
    result, asks = gated(bare(switch), text, ("make()", "self.net", "object"))
    assert asks == ()
    assert (
        "        self.net.to('cpu')\n"
        "        if config.compile.trainer.enabled:\n"
        "            self.net = torch.compile(self.net)\n"
        "        self.eval = Evaluator(self.net)\n"
    ) in result


@pytest.mark.parametrize(
    "capture", ["Evaluator(self)", "self.reach()", "self.inherited()", "lambda: self.net(1)"]
)
def test_what_may_reach_the_object_through_self_is_a_capture(
    switch: SwitchPlan, capture: str
) -> None:
    text = method(f"self.net = make()\nself.x = {capture}\nself.o = Adam(self.net.parameters())")
    text += "\n    def reach(self):\n        return self.deeper()\n"
    text += "\n    def deeper(self):\n        return self.net\n"
    text += "\n    def harmless(self):\n        return self.size\n"
    result, _ = gated(bare(switch), text, ("make()", "self.net", "object"))
    lines = [line.strip() for line in result.splitlines()]
    guard = lines.index("if config.compile.trainer.enabled:")
    assert lines[guard - 1] == "self.net = make()"
    harmless = text.replace(capture, "self.harmless()")
    result, _ = gated(bare(switch), harmless, ("make()", "self.net", "object"))
    lines = [line.strip() for line in result.splitlines()]
    assert lines[lines.index("if config.compile.trainer.enabled:") - 1].startswith("self.o = ")


def test_objects_captured_one_by_one_get_guards_of_their_own(switch: SwitchPlan) -> None:
    text = method("self.a = make(1)\nkeep(self.a)\nself.b = make(2)\nkeep(self.b)")
    result, asks = gated(
        bare(switch), text, ("make(1)", "self.a", "object"), ("make(2)", "self.b", "object")
    )
    assert asks == ()
    assert result.count("if config.compile.trainer.enabled:") == 2
    assert result.index("self.a = torch.compile(self.a)") < result.index("keep(self.a)")
    assert result.index("self.b = torch.compile(self.b)") < result.index("keep(self.b)")


@pytest.mark.parametrize(
    ("body", "seeds", "line"),
    [
        (
            "self.heads = {k: make(k) for k in 'ab'}",
            [("make(k)", "self.heads", "dict")],
            "self.heads = {key: torch.compile(head) for key, head in self.heads.items()}",
        ),
        (
            "self.critics = [make(1), make(2)]",
            [("make(1)", "self.critics", "list"), ("make(2)", "self.critics", "list")],
            "self.critics = [torch.compile(critic) for critic in self.critics]",
        ),
        (
            "self.nets = []\nfor i in range(3):\n    self.nets.append(make(i))",
            [("make(i)", "self.nets", "list")],
            "self.nets = [torch.compile(net) for net in self.nets]",
        ),
        (
            "net = 3\nself.nets = [make(i) for i in range(net)]",
            [("make(i)", "self.nets", "list")],
            "self.nets = [torch.compile(network) for network in self.nets]",
        ),
    ],
)
def test_collections_are_rebound_element_by_element(
    switch: SwitchPlan, body: str, seeds: list[tuple[str, str, SeedKind]], line: str
) -> None:
    result, asks = gated(bare(switch), method(body), *seeds)
    assert asks == ()
    assert f"        if config.compile.trainer.enabled:\n            {line}\n" in result
    assert method(body).rstrip("\n") in result


def test_names_that_are_taken_are_passed_over(switch: SwitchPlan) -> None:
    text = method("compile_kwargs = 1\nself.net = make(compile_kwargs)")
    result, _ = gated(
        SwitchPlan.model_validate(
            switch.model_dump(by_alias=True) | {"module": "conf.py", "root": "RunModel"}
        ),
        text,
        ("make(compile_kwargs)", "self.net", "object"),
    )
    assert "            compile_options = dict(\n" in result
    assert "torch.compile(self.net, **compile_options)" in result


def test_both_arms_of_a_branch_share_a_guard_behind_it(switch: SwitchPlan) -> None:
    body = "if config.big:\n    self.net = make(9)\nelse:\n    self.net = make(1)\nself.x = 0"
    both = [("make(9)", "self.net", "object"), ("make(1)", "self.net", "object")]
    result, asks = gated(bare(switch), method(body), *both)  # type: ignore[arg-type]
    assert asks == ()
    assert (
        "            self.net = make(1)\n"
        "        if config.compile.trainer.enabled:\n"
        "            self.net = torch.compile(self.net)\n"
        "        self.x = 0\n"
    ) in result
    one, _ = gated(bare(switch), method(body), ("make(9)", "self.net", "object"))
    assert (
        "            self.net = make(9)\n"
        "            if config.compile.trainer.enabled:\n"
        "                self.net = torch.compile(self.net)\n"
        "        else:\n"
    ) in one


def test_a_module_list_keeps_its_type_by_the_call_form(switch: SwitchPlan) -> None:
    body = "self.nets = nn.ModuleList([make(i) for i in range(2)])"
    result, asks = gated(bare(switch), method(body), ("make(i)", "self.nets", "list"))
    assert asks == ()
    assert (
        "nn.ModuleList([_gated(torch.compile, make(i), config.compile.trainer.enabled)"
        " for i in range(2)])"
    ) in result


def test_call_form_with_options_is_broken_as_a_formatter_would(switch: SwitchPlan) -> None:
    text = "import torch\nfrom lab.config import LabConfig\n\n\n"
    text += "def build(config: LabConfig):\n    return make(config)\n"
    result, asks = gated(switch, text, ("make(config)", None, "return"))
    assert asks == ()
    assert result == (
        "import torch\nfrom lab.config import LabConfig\n\n\n"
        "def _gated(wrap, module, enabled, **options):\n"
        "    return wrap(module, **options) if enabled else module\n\n\n"
        "def build(config: LabConfig):\n"
        "    return _gated(\n"
        "        torch.compile,\n"
        "        make(config),\n"
        "        config.compile.trainer.enabled,\n"
        "        mode=config.compile.trainer.mode,\n"
        "        fullgraph=config.compile.trainer.fullgraph,\n"
        "        dynamic=config.compile.trainer.dynamic,\n"
        "    )\n"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("net = make()\n", "before there is a config"),
        ("def f(a: RunModel, b: RunModel):\n    net = make()\n", "several objects are a RunModel"),
        ("def f(config):\n    net = make()\n", "`config` is not annotated as RunModel"),
        ("def f(x):\n    net = make()\n", "nothing in scope is known to be a RunModel"),
        (
            "def f():\n    net = make()\n    config = RunModel()\n    return net\n",
            "`config` is not there yet",
        ),
        ("def f(c: RunModel):\n    c = other(c)\n    net = make()\n", "nothing in scope"),
        ("def f(c: RunModel | None):\n    net = make()\n", "nothing in scope"),
        ("def f(c: RunModel):\n    net = make(); use(net)\n", "holds several statements"),
    ],
)
def test_what_cannot_be_known_asks(switch: SwitchPlan, text: str, reason: str) -> None:
    full = "import torch\nfrom conf import RunModel\n\n\n" + text
    result, (ask,) = gated(bare(switch), full, ("make()", "net", "object"))
    assert result == full
    assert reason in ask.reasons[0]


def test_a_decorator_has_no_plain_value_and_asks(switch: SwitchPlan) -> None:
    text = method("self.net = make()")
    result, (ask,) = gated(bare(switch), text, ("make()", "self.net", "decorator"))
    assert result == text
    assert "a seed of the kind decorator" in ask.reasons[0]


def test_the_config_is_found_through_self_and_closures(switch: SwitchPlan) -> None:
    text = method("self._config = config") + (
        "\n    def build(self):\n        return make()\n"
        "\n    def other(self, config: RunModel):\n        return make()\n"
        "\n    def outer(self):\n        def inner():\n            return make()\n"
    )
    source = parse_source("train.py", text.encode())
    found = {
        node.name: config_expression(source, node, bare(switch))
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef)
    }
    assert found["__init__"] == "config"
    assert found["build"] == found["inner"] == "self._config"
    assert isinstance(found["other"], Unclear)


TRAIN = "import torch\nfrom torch import nn\nfrom conf import RunModel\n\n\n"


def test_an_ungated_call_on_a_pydantic_model_takes_the_call_form(switch: SwitchPlan) -> None:
    text = TRAIN + "def build(config: RunModel):\n"
    text += "    return torch.compile(nn.Linear(config.width, 3))\n"
    value = "torch.compile(nn.Linear(config.width, 3))"
    result, asks = gated(bare(switch), text, (value, None, "return"), width=88)
    assert asks == ()
    assert result == TRAIN + (
        "def _gated(wrap, module, enabled):\n    return wrap(module) if enabled else module\n\n\n"
        "def build(config: RunModel):\n    return _gated(\n"
        "        torch.compile, nn.Linear(config.width, 3), config.compile.trainer.enabled\n    )\n"
    )


@pytest.mark.parametrize(
    ("head", "name", "reason"),
    [
        ("def main(args):\n", "args", "`args` is not annotated"),
        ("def main(cfg: DictConfig):\n", "cfg", "`cfg` is not annotated"),
        ("def main(cfg, args):\n", "cfg", "`cfg`, `args` could each hold the switch"),
    ],
)
def test_argparse_hydra_and_two_configs_ask(
    switch: SwitchPlan, head: str, name: str, reason: str
) -> None:
    text = f"import torch\nfrom torch import nn\n\n\n{head}"
    text += f"    net = torch.compile(nn.Linear({name}.width, 3))\n    return net\n"
    value = f"torch.compile(nn.Linear({name}.width, 3))"
    result, (ask,) = gated(bare(switch), text, (value, "net", "object"))
    assert result == text
    assert reason in ask.reasons[0]
