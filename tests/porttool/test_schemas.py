"""The JSON schemas of `port.yaml` and of reports: today's, and they tell good from bad."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from typer.testing import CliRunner

from porttool.cli import app
from porttool.plan.plan import load_plan, plan_schema
from porttool.schemas import DESCRIPTIONS, port_schema, report_schema

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(__file__).parent / "cases"
PLANS = [ROOT / "patches/torch-compile/port.yaml", CASES / "gate/port.yaml"]
EXTRAS = sorted((CASES / "ports").glob("*/port_extra.yaml"))
PORT = Draft202012Validator(port_schema())
REPORT = Draft202012Validator(report_schema())


def plan():
    return YAML(typ="safe").load(PLANS[0])


@pytest.mark.parametrize(("name", "schema"), [("port", port_schema()), ("report", report_schema())])
def test_the_schemas_in_docs_are_todays(name, schema):
    written = json.loads((ROOT / f"docs/schema/{name}.schema.json").read_text(encoding="utf-8"))
    assert written == schema, "python scripts/schemas.py writes them anew"
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.parent.name)
def test_real_plans_are_valid(path):
    assert [error.message for error in PORT.iter_errors(YAML(typ="safe").load(path))] == []


@pytest.mark.parametrize("path", EXTRAS, ids=lambda path: path.parent.name)
def test_the_cases_parts_of_plans_are_valid(path):
    whole = {"name": "x", "experiment": {"branch": "b", "commits": ["0" * 40]}}
    assert list(PORT.iter_errors({**whole, **YAML(typ="safe").load(path)})) == []


def parts_of_plans():
    """Return the parts of `port.yaml` that the pages show, each with its page's name."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```yaml[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            found = YAML(typ="safe").load(block)
            if set(found) <= set(port_schema()["properties"]) - {"name"}:
                yield pytest.param(block, id=f"{page.name}-{next(iter(found))}")


def test_the_pages_show_parts_of_plans():
    assert len(list(parts_of_plans())) >= 4


@pytest.mark.parametrize("block", list(parts_of_plans()))
def test_what_the_pages_show_of_plans_is_valid(block, tmp_path):
    text = f"name: x\nexperiment: {{branch: b, commits: [{'a' * 40}]}}\n{block}"
    assert list(PORT.iter_errors(YAML(typ="safe").load(text))) == []
    (tmp_path / "port.yaml").write_text(text, encoding="utf-8")
    assert load_plan(tmp_path / "port.yaml").name == "x"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"swich": {}}, "'swich' was unexpected"),
        ({"name": "a b"}, "does not match"),
        ({"name": None}, "is not of type 'string'"),
        ({"experiment": {"branch": "b"}}, "'commits' is a required property"),
        ({"experiment": {"branch": "b", "commits": ["05cc02a"]}}, "does not match"),
        ({"experiment": {"branch": "b", "commits": []}}, "should be non-empty"),
        ({"answers": {"k": "maybe"}}, "is not one of ['rewrite', 'skip']"),
        ({"switch": {"idiom": "yaml", "name": "x"}}, "is not valid under any"),
        ({"switch": {"idiom": "env"}}, "is not valid under any"),
        ({"verify": {"timeout_s": 0}}, "less than the minimum"),
        (
            {"precondition": {"config": "c", "any": [{"all": [{"key": "k"}]}]}},
            "is not valid under any of the given schemas",
        ),
    ],
)
def test_a_broken_plan_is_not(change, words):
    broken = {**plan(), **change}
    messages = [error.message for error in PORT.iter_errors(broken)]
    assert any(words in message for message in messages), messages


def test_every_key_of_port_yaml_is_described():
    found = {name: set(part["properties"]) for name, part in plan_schema()["$defs"].items()}
    found["PlanDocument"] = set(plan_schema()["properties"])
    assert {name: set(words) for name, words in DESCRIPTIONS.items()} == found


def test_an_editor_is_told_what_a_key_is_for():
    experiment = port_schema()["$defs"]["ExperimentPlan"]
    assert re.match("Full commit ids", experiment["properties"]["commits"]["description"])
    assert "title" not in json.dumps(experiment)


def test_a_real_report_is_valid_and_a_broken_one_is_not(make_port):
    repo = make_port()
    with contextlib.chdir(repo.path):
        made = CliRunner().invoke(app, ["apply", "--json"])
        shown = CliRunner().invoke(app, ["review", "--json"])
    report = json.loads(shown.stdout)
    assert made.exit_code == 0
    assert [error.message for error in REPORT.iter_errors(report)] == []
    assert list(REPORT.iter_errors(json.loads(made.stdout)["report"])) == []
    for change, words in (
        (("schema", 99), "was expected"),
        (("verdict", "fine"), "is not one of"),
        (("sites", [{}]), "is a required property"),
        (("tip", 1), "is not of type 'string'"),
        (("mood", "good"), "unexpected"),
    ):
        broken = copy.deepcopy(report)
        broken[change[0]] = change[1]
        assert any(words in error.message for error in REPORT.iter_errors(broken)), change


def test_the_command_prints_what_the_docs_hold():
    for name in ("port", "report"):
        printed = CliRunner().invoke(app, ["schema", name]).stdout
        assert json.loads(printed) == json.loads(
            (ROOT / f"docs/schema/{name}.schema.json").read_text(encoding="utf-8")
        )
