from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from porttool.errors import NeedsPerson, PlanError
from porttool.gating.settings import (
    declare_key,
    declare_yaml,
    derive_yaml,
    evaluate_precondition,
    plain_values,
)
from porttool.gating.switch import declare_config
from porttool.plan.plan import Plan, load_plan
from porttool.plan.switch import SwitchPlan
from porttool.source.layout import line_length
from porttool.source.syntax import parse_source

CASES = Path(__file__).parent / "cases" / "gate"
ROOT = Path(__file__).parents[2]
CONFIG = "src/lab/config.py"


@pytest.fixture
def plan() -> Plan:
    return load_plan(CASES / "port.yaml")


@pytest.fixture
def switch(plan: Plan) -> SwitchPlan:
    assert plan.switch is not None
    return plan.switch


def declared(switch: SwitchPlan, text: str, width: int = 100) -> str:
    source = parse_source(switch.module, text.encode())
    result = declare_config(source, switch, line_length=width)
    again = declare_config(parse_source(switch.module, result), switch, line_length=width)
    assert again == result, "declaring twice changes nothing"
    return result.decode()


def flat(switch: SwitchPlan, **changes: object) -> SwitchPlan:
    """Return a switch with one section of two options."""
    raw = switch.model_dump(by_alias=True)
    fields = [
        {"name": "enabled", "type": "bool", "default": False},
        {"name": "mode", "type": 'Literal["a", "b"]', "default": "a"},
    ]
    raw |= {
        "sections": [{"key": "trainer", "class": "CompileTrainerConfig", "fields": fields}],
        "options": ["mode"],
        **changes,
    }
    return SwitchPlan.model_validate(raw)


@pytest.mark.parametrize(
    ("value", "fits"), [(64, True), (0.5, True), (None, True), ("big", False), (True, False)]
)
def test_a_variant_keeps_the_kind_of_a_value(value: object, fits: bool) -> None:
    base = b"network:\n  hidden_size: 512\n"
    if fits:
        expected = "null" if value is None else str(value)
        assert derive_yaml(base, {"network.hidden_size": value}, "").endswith(
            f"hidden_size: {expected}\n".encode()
        )
        return
    with pytest.raises(PlanError) as caught:
        derive_yaml(base, {"network.hidden_size": value}, "", path="a.yaml")
    assert caught.value.what == (
        f"variant key `network.hidden_size` is set to {value!r}, and 512 is there"
    )
    assert caught.value.where == "a.yaml"


def test_a_config_that_has_the_switch_keeps_its_bytes(switch: SwitchPlan) -> None:
    data = (CASES / "branch" / CONFIG).read_bytes()
    assert declare_config(parse_source(CONFIG, data), switch, line_length=100) == data


def test_pydantic_dataclasses_are_declared_as_the_sections_are(switch: SwitchPlan) -> None:
    onto = (CASES / "onto" / CONFIG).read_text()
    assert declared(switch, onto) == (CASES / "branch" / CONFIG).read_text()


def test_the_declared_config_runs_and_is_off(switch: SwitchPlan, tmp_path: Path) -> None:
    (tmp_path / "config.py").write_bytes((CASES / "branch" / CONFIG).read_bytes())
    script = (
        "from config import LabConfig\n"
        "c = LabConfig().compile\n"
        "print(c.trainer.enabled, c.trainer.mode, c.inference_server.enabled, "
        "c.inference_server.dynamic)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False default False True\n"


def test_standard_dataclasses_get_the_imports_that_are_missing(switch: SwitchPlan) -> None:
    onto = (
        "from __future__ import annotations\n\n"
        "from dataclasses import dataclass\n\n\n"
        "@dataclass\nclass NetworkConfig:\n    size: int = 3\n\n\n"
        "@dataclass\nclass LabConfig:\n    network: NetworkConfig | None = None"
    )
    assert declared(flat(switch), onto, 88) == (
        "from __future__ import annotations\n\n"
        "from dataclasses import dataclass, field\n"
        "from typing import Literal\n\n\n"
        "@dataclass\nclass NetworkConfig:\n    size: int = 3\n\n\n"
        "@dataclass\nclass CompileTrainerConfig:\n"
        "    enabled: bool = False\n"
        '    mode: Literal["a", "b"] = "a"\n\n\n'
        "@dataclass\nclass CompileConfig:\n"
        "    trainer: CompileTrainerConfig = field(default_factory=CompileTrainerConfig)\n\n\n"
        "@dataclass\nclass LabConfig:\n    network: NetworkConfig | None = None\n"
        "    compile: CompileConfig = field(default_factory=CompileConfig)\n"
    )


def test_names_are_spelled_as_the_file_spells_them(switch: SwitchPlan) -> None:
    onto = (
        "import dataclasses\nimport typing as t\n\n\n"
        "@dataclasses.dataclass(slots=True)\nclass LabConfig:\n"
        '    kind: t.Literal["x"] = "x"\n'
    )
    result = declared(flat(switch), onto)
    assert '    mode: t.Literal["a", "b"] = "a"\n' in result
    assert "    trainer: CompileTrainerConfig = dataclasses.field(" in result
    assert result.count("@dataclasses.dataclass(slots=True)\n") == 3
    assert result.count("import") == 2


def test_pydantic_models_take_over_bases_and_model_config(switch: SwitchPlan) -> None:
    onto = (
        "from typing import Any\n\nfrom pydantic import BaseModel, ConfigDict, Field\n\n\n"
        "class NetworkConfig(BaseModel):\n"
        '    model_config = ConfigDict(extra="forbid")\n\n'
        "    size: int = 3\n    more: Any = None\n\n\n"
        "class LabConfig(BaseModel):\n"
        '    model_config = ConfigDict(extra="forbid")\n\n'
        "    network: NetworkConfig = Field(default_factory=NetworkConfig)\n"
    )
    result = declared(flat(switch), onto)
    assert "from typing import Any, Literal\n" in result
    assert (
        "class CompileTrainerConfig(BaseModel):\n"
        '    model_config = ConfigDict(extra="forbid")\n\n'
        "    enabled: bool = False\n"
    ) in result
    assert result.endswith("    compile: CompileConfig = Field(default_factory=CompileConfig)\n")


def test_models_with_plain_calls_as_defaults_get_one_more(switch: SwitchPlan) -> None:
    onto = (
        "from typing import Literal\n\nfrom pydantic import BaseModel\n\n\n"
        "class NetworkConfig(BaseModel):\n    size: int = 3\n\n\n"
        "class LabConfig(BaseModel):\n    network: NetworkConfig = NetworkConfig()\n"
    )
    result = declared(flat(switch), onto)
    assert "    trainer: CompileTrainerConfig = CompileTrainerConfig()\n" in result
    assert result.endswith("    compile: CompileConfig = CompileConfig()\n")


def test_an_import_that_grows_too_long_is_broken(switch: SwitchPlan) -> None:
    names = "Annotated, Any, ClassVar, Final, NamedTuple, TypedDict"
    onto = (
        f"from dataclasses import dataclass, field\nfrom typing import {names}\n\n\n"
        "@dataclass\nclass LabConfig:\n    size: int = 3\n"
    )
    assert (
        "from typing import (\n    Annotated,\n    Any,\n    ClassVar,\n    Final,\n    Literal,\n"
        "    NamedTuple,\n    TypedDict,\n)\n"
    ) in declared(flat(switch), onto, 78)


def test_carriage_returns_and_a_byte_order_mark_survive(switch: SwitchPlan) -> None:
    onto = "from dataclasses import dataclass, field\r\nfrom typing import Literal\r\n\r\n\r\n"
    onto += "@dataclass\r\nclass LabConfig:\r\n    size: int = 3\r\n"
    data = declare_config(parse_source(CONFIG, b"\xef\xbb\xbf" + onto.encode()), flat(switch))
    assert data.startswith(b"\xef\xbb\xbffrom dataclasses")
    assert data.count(b"\n") == data.count(b"\r\n") == 19


@pytest.mark.parametrize(
    ("onto", "message"),
    [
        ("class Other:\n    pass\n", "root class LabConfig is not in"),
        ("class LabConfig:\n    size: int = 3\n", "not an idiom that is known"),
        (
            "from dataclasses import dataclass, field\nfrom typing import Literal\n"
            "from elsewhere import CompileConfig\n\n\n"
            "@dataclass\nclass LabConfig:\n    a: int = 3\n",
            "has a CompileConfig of another shape",
        ),
        (
            "from dataclasses import dataclass\nfrom typing import Literal\n\n\n"
            "@dataclass\nclass CompileTrainerConfig:\n    enabled: bool = True\n"
            '    mode: str = "a"\n'
            "\n\n@dataclass\nclass LabConfig:\n    a: int = 3\n",
            "it has `enabled: bool = True` where the plan plans `enabled: bool = False`",
        ),
        (
            "from dataclasses import dataclass\nfrom typing import Literal\n\n\n"
            "@dataclass\nclass LabConfig:\n    compile: bool = False\n",
            "the key `compile` is taken in LabConfig\n  where: src/lab/config.py:7\n"
            "  why:   it is `compile: bool = False`, and the switch's section needs the name\n"
            "  next:  choose another switch.key in port.yaml, such as compile_switch,",
        ),
    ],
)
def test_what_does_not_fit_is_refused(switch: SwitchPlan, onto: str, message: str) -> None:
    with pytest.raises(NeedsPerson) as refusal:
        declared(flat(switch), onto)
    assert message in str(refusal.value)


GROWN = """\
from dataclasses import dataclass, field
from typing import Literal


@dataclass
class CompileTrainerConfig:
    buckets: {buckets}
    enabled: bool = False
    mode: Literal["a", "b"] = "a"


@dataclass
class LabConfig:
    size: int = 3
"""


def test_a_class_that_main_has_added_to_is_the_switchs_still(switch: SwitchPlan) -> None:
    after = declared(flat(switch), GROWN.format(buckets='str = "none"'))
    assert after.count("class CompileTrainerConfig:") == 1
    assert '    buckets: str = "none"\n    enabled: bool = False\n' in after
    with pytest.raises(NeedsPerson, match=r"its `buckets: str` has no default"):
        declared(flat(switch), GROWN.format(buckets="str"))


def test_settings_that_have_the_section_keep_their_bytes(switch: SwitchPlan) -> None:
    data = (CASES / "branch/configs/default.yaml").read_bytes()
    assert declare_yaml(data, switch) == data


def test_the_section_goes_behind_the_others_in_their_style(switch: SwitchPlan) -> None:
    onto = (CASES / "onto/configs/default.yaml").read_bytes()
    result = declare_yaml(onto, switch)
    assert result == (CASES / "branch/configs/default.yaml").read_bytes()
    assert result.startswith(onto)


def test_trailing_comments_tight_sections_and_line_ends_are_kept(switch: SwitchPlan) -> None:
    onto = b"network:\r\n    size: 3  # units\r\n    depth: 2  # layers\r\nrun:\r\n    seed: 1"
    assert declare_yaml(onto, switch).decode() == (
        "network:\r\n    size: 3  # units\r\n    depth: 2  # layers\r\nrun:\r\n    seed: 1\r\n"
        "compile:\r\n    trainer:\r\n        enabled: false\r\n        mode: default\r\n"
        "        fullgraph: false  # safer to start False; may flip True after stabilization\r\n"
        "        dynamic: false  # trainer batches are fixed shape\r\n"
        "    inference_server:\r\n        enabled: false\r\n        mode: default\r\n"
        "        fullgraph: false\r\n        dynamic: true  # batch dim varies up to max_batch\r\n"
    )


def test_words_that_yaml_1_1_reads_otherwise_are_quoted(switch: SwitchPlan) -> None:
    fields = [
        {"name": "enabled", "type": "bool", "default": False},
        {"name": "mode", "type": "str", "default": "off"},
        {"name": "rate", "type": "float", "default": 1e-7},
    ]
    sections = [{"key": "trainer", "class": "CompileTrainerConfig", "fields": fields}]
    result = declare_yaml(b"a: 1\n", flat(switch, sections=sections)).decode()
    assert result.endswith('    mode: "off"\n    rate: 1.0e-07\n')


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{a: 1}\n", "flow style"),
        (b"- 1\n", "not a mapping"),
        (b"a: [1\n", "not YAML"),
        (b"compile:\n  trainer:\n    enabled: true\n", "lacks mode, fullgraph, dynamic"),
    ],
)
def test_settings_of_another_shape_are_refused(
    switch: SwitchPlan, data: bytes, message: str
) -> None:
    with pytest.raises(NeedsPerson) as refusal:
        declare_yaml(data, switch, path="configs/a.yaml")
    assert message in str(refusal.value)
    assert (refusal.value.where, refusal.value.exit_code) == ("configs/a.yaml", 3)
    assert refusal.value.next


def test_a_variant_changes_values_where_they_stand(plan: Plan) -> None:
    (variant,) = plan.variants
    base = (CASES / "branch/configs/default.yaml").read_bytes()
    result = derive_yaml(base, variant.changes, variant.header)
    assert result == (CASES / "branch/configs/large.yaml").read_bytes()
    assert derive_yaml(base, {}, "") == base


def test_a_variant_keeps_trailing_comments_quotes_and_line_ends() -> None:
    base = b'a:\r\n  b: "x"  # why\r\n  c: [1, 2]\r\n  d: null\r\n'
    result = derive_yaml(base, {"a.b": "on", "a.d": 0.5}, "")
    assert result == b'a:\r\n  b: "on"  # why\r\n  c: [1, 2]\r\n  d: 0.5\r\n'


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("network.hidden_sise", "under `set:` in port.yaml, write `hidden_size` for `hidden_sise`"),
        ("network", "set a key inside it, such as network.hidden_size"),
        ("optimization.steps.more", "remove optimization.steps.more from `set:` in port.yaml"),
    ],
)
def test_a_variant_of_a_key_that_is_not_there_is_refused(key: str, message: str) -> None:
    base = (CASES / "onto/configs/default.yaml").read_bytes()
    with pytest.raises(PlanError) as refusal:
        derive_yaml(base, {key: 1}, "", path="configs/default.yaml")
    assert message in str(refusal.value.next)
    assert (refusal.value.where, refusal.value.exit_code) == ("configs/default.yaml", 2)
    assert refusal.value.what.startswith(f"variant key `{key}` is ")


def test_the_precondition_is_met_by_either_bound(plan: Plan) -> None:
    assert plan.precondition is not None
    small = evaluate_precondition(
        (CASES / "onto/configs/default.yaml").read_bytes(), plan.precondition
    )
    assert not small.met
    assert [(clause.text, clause.seen, clause.met) for clause in small.clauses] == [
        ("network.hidden_size >= 1024", "512", False),
        ("network.num_layers >= 6", "3", False),
        (
            "network.kind == color_shared and network.color_attention_layers >= 2",
            "not set in configs/large.yaml, not set in configs/large.yaml",
            False,
        ),
    ]
    large = (CASES / "branch/configs/large.yaml").read_bytes()
    assert evaluate_precondition(large, plan.precondition).met
    deep = b"network: {hidden_size: 64, num_layers: 6}\n"
    assert evaluate_precondition(deep, plan.precondition).met
    attention = b"network: {kind: color_shared, color_attention_layers: 2}\n"
    assert evaluate_precondition(attention, plan.precondition).met


@pytest.mark.parametrize("value", ["true", "'1024'", "null", "[1024]", "{a: 1024}", ".nan"])
def test_what_is_no_number_does_not_meet_a_bound(plan: Plan, value: str) -> None:
    assert plan.precondition is not None
    data = f"network: {{hidden_size: {value}}}\n".encode()
    assert not evaluate_precondition(data, plan.precondition).met


def test_the_line_length_is_the_projects_own() -> None:
    assert line_length(b"[tool.ruff]\nline-length = 100\n") == 100
    assert line_length(b"[tool.black]\nline-length = 79\n") == 79
    assert line_length(b"[project]\n") == line_length(None) == line_length(b"[") == 88


def test_the_trainers_own_files_take_the_switch(switch: SwitchPlan) -> None:
    raw = switch.model_dump(by_alias=True)
    raw["module"] = "src/coolrl_lost_cities/games/classic/deep_cfr/config.py"
    raw["root"] = "DeepCFRConfig"
    own = SwitchPlan.model_validate(raw)
    before = (ROOT / own.module).read_text()
    after = declared(own, before)
    for name in ("CompileTrainerConfig", "CompileInferenceServerConfig", "CompileConfig"):
        assert after.count(f"class {name}:") == 1
    assert after.count("    compile: CompileConfig = field(default_factory=CompileConfig)\n") == 1
    settings = (ROOT / "configs/deep_cfr/default.yaml").read_bytes()
    section = plain_values(declare_yaml(settings, own))["compile"]
    assert (section["trainer"]["enabled"], section["inference_server"]["enabled"]) == (False, False)


@pytest.mark.parametrize(
    ("data", "key", "expected"),
    [
        (b"", "fast", b"fast: false\n"),
        (b"a: 1  # one\n# end", "fast", b"a: 1  # one\n# end\nfast: false\n"),
        (b"b: 2\r\na: 1\r\n", "fast", b"b: 2\r\na: 1\r\nfast: false\r\n"),
        (b"\xef\xbb\xbfa: 1\n...\n", "fast", b"\xef\xbb\xbfa: 1\nfast: false\n...\n"),
        (b"a: 1\n", "on", b'a: 1\n"on": false\n'),
        (b"fast: false  # not yet\na: 1\n", "fast", b"fast: false  # not yet\na: 1\n"),
    ],
)
def test_a_flat_switch_goes_to_the_end_of_a_settings_file(
    data: bytes, key: str, expected: bytes
) -> None:
    assert declare_key(data, key) == expected
    assert declare_key(expected, key) == expected


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"fast: true\n", "`fast` that is not off"),
        (b"fast: 0\n", "`fast` that is not off"),
        (b"- 1\n", "not a mapping"),
        (b"{a: 1}\n", "flow style"),
        (b"a: [\n", "not YAML"),
        (b"a: 1\n--- \nb: 2\n", "not YAML"),
    ],
)
def test_a_settings_file_that_cannot_take_a_flat_switch_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(NeedsPerson, match=told):
        declare_key(data, "fast", path="run.yaml")
