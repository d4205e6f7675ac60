"""JSON schemas of `port.yaml` and of reports: for editors, and for whoever reads what we write.

They say what a file looks like; what only several keys together can be wrong about (a gate that
names no field) is said by porttool itself.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from porttool.plan.plan import PLAN_NAME, plan_schema
from porttool.report import COMPUTED, SCHEMA, Report

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PORT_TITLE = f"porttool {PLAN_NAME}"
PORT_ABOUT = (
    "A port: an experiment's commits, the branch that they are ported to, the switch in front of "
    "them, and how the result is checked."
)
REPORT_TITLE = "porttool report"

_COMMIT = "^([0-9a-f]{40}|[0-9a-f]{64})$"
_WORD = "^[A-Za-z_][A-Za-z0-9_]*$"
_DOTTED = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
_KEYS = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"

_PLAIN = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    types.NoneType: "null",
}
_PATTERNS = {
    "PlanDocument": {"name": "^[A-Za-z0-9][A-Za-z0-9._-]*$"},
    "ExperimentPlan": {"commits": _COMMIT},
    "WrapperPlan": {"callee": _DOTTED, "unwrap": _WORD, "methods": _WORD},
    "SwitchPlan": {
        "root": _WORD,
        "key": _WORD,
        "class": _WORD,
        "gate": r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$",
        "options": _WORD,
    },
    "SectionPlan": {"key": _WORD, "class": _WORD},
    "FieldPlan": {"name": _WORD},
    "FlatSwitch": {"name": _WORD, "root": _DOTTED, "env": _WORD},
    "ClausePlan": {"key": _KEYS},
}

# What an editor shows beside a key: what it is for, and what it may hold.
DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "PlanDocument": {
        "name": "The port's name; the folder under patches/ has the same one, and the review "
        "branch is port/NAME.",
        "experiment": "Which commits are ported, and where they are.",
        "onto": "The branch that the experiment is ported to.",
        "wrapper": "What the experiment wraps objects in: torch.compile, where nothing is said.",
        "switch": "The setting, off by default, in front of everything that the experiment wraps. "
        "Without it the experiment is ported as it is, always on.",
        "variants": "Settings files that the port writes, each derived from another one.",
        "precondition": "What has to be true of the targeted settings; not met, the port is "
        "parked and no branch is made.",
        "patches": "Follow-up patches (git format-patch) beside port.yaml, applied in this order, "
        "one commit each.",
        "exclude": "Folders and files in which nothing is rewritten: counted in the report only.",
        "answers": "Answers to what `porttool apply` asked: the site's key, then rewrite or skip.",
        "verify": "How `porttool verify` checks the review branch.",
    },
    "ExperimentPlan": {
        "branch": "The branch that the commits are on; `git fetch` is told to fetch it.",
        "commits": "Full commit ids, oldest first.",
        "mainline": "For a merge commit: the number of the parent that it is compared with, from "
        "1, as in `git cherry-pick -m`.",
        "bundle": "A git bundle beside port.yaml with the commits, for clones that lack them.",
    },
    "WrapperPlan": {
        "callee": "The wrapper's name in full, such as torch.compile or project.ema.EMA.",
        "unwrap": "The attribute of a wrapped object that holds the object inside.",
        "prefix": "What the keys of a wrapped object's state_dict begin with.",
        "methods": "Methods whose results change when the object is wrapped.",
    },
    "SwitchPlan": {
        "module": "The file that declares the project's settings classes.",
        "root": "The class in it that holds all settings, and gets the new section.",
        "key": "The new section's name in that class and in settings files.",
        "class": "The class of the new section.",
        "gate": "What switches the experiment on: KEY.SECTION.FIELD.",
        "options": "Fields of the gate's section that are handed to the wrapper by their names.",
        "sections": "The sections of the new class.",
        "yaml": "Settings files that show the new section, all off.",
    },
    "SectionPlan": {
        "key": "The section's name.",
        "class": "The class that declares it.",
        "fields": "Its fields, in order.",
    },
    "FieldPlan": {
        "name": "The field's name.",
        "type": "Its annotation, as it will be written.",
        "default": "Its default; the gate's is false.",
        "comment": "A comment beside it.",
    },
    "FlatSwitch": {
        "idiom": "How the project declares its other settings.",
        "name": "The setting's name.",
        "module": "The file that declares it; not for env, hydra, or a dict that is loaded.",
        "root": "What declares it: a class, a command's function, a dict, or a parser with the "
        "function that makes it (parse.parser).",
        "env": "For env: the variable that is 1 where the switch is on; NAME in capitals else.",
        "yaml": "Settings files that show the switch, off.",
    },
    "VariantPlan": {
        "path": "The file to be written.",
        "from": "The file that it is derived from.",
        "header": "The comment at its top.",
        "set": "Dotted keys and their values.",
    },
    "PreconditionPlan": {
        "config": "The settings file that is looked at, as it is on the branch.",
        "any": "Conditions, one of which has to hold.",
        "measure": "One more condition, on what a program measures.",
    },
    "ThresholdPlan": {
        "command": "The command; {out} is a fresh folder, {config} the targeted settings.",
        "result": "The JSON file that it leaves in {out}.",
        "timeout_s": "How long it may take, in seconds.",
        "all": "Clauses that have to hold of the result together.",
    },
    "ConditionPlan": {"all": "Clauses that have to hold together."},
    "ClausePlan": {
        "key": "The dotted key of a value.",
        "at_least": "The value's lower bound.",
        "equals": "What the value has to be.",
    },
    "VerifyPlan": {
        "pythonpath": "Folders that the programs find modules in.",
        "timeout_s": "How long a program may take, in seconds.",
        "env": "Environment variables for the programs.",
        "run": "A short seeded run, made on onto and on the branch: equal results with the switch "
        "off, and something compiled with it on.",
        "checks": "Commands that have to exit with 0 on the branch.",
        "bench": "What `porttool verify --bench` runs.",
        "drift": "What `porttool verify --drift` runs.",
        "entries": "The document that `porttool record` writes into.",
    },
    "RunPlan": {
        "command": "The run's command; {out} is a fresh folder.",
        "on": "Words added to the command that turn the switch on.",
        "metrics": "The file of metrics that the run leaves in {out}.",
        "checkpoint": "The checkpoint that the run leaves in {out}.",
        "ignore": "Metrics and checkpoint keys that may differ, such as times; * stands for any.",
        "resume": "Words added to the command that go on from {checkpoint}.",
    },
    "CheckPlan": {"name": "What the check is called.", "command": "Its command, a word each."},
    "MeasurePlan": {
        "command": "The command; {out} is a fresh folder.",
        "result": "The JSON file that it leaves in {out}.",
        "timeout_s": "How long it may take, in seconds.",
    },
    "BenchPlan": {
        "command": "The command; {out} is a fresh folder.",
        "result": "The JSON file that it leaves in {out}.",
        "timeout_s": "How long it may take, in seconds.",
        "at_least": "The share of the time that the switch has to save.",
    },
}


def port_schema() -> dict[str, Any]:
    """Return the JSON schema of `port.yaml`."""
    raw = plan_schema()
    definitions = {
        name: _described(name, definition) for name, definition in sorted(raw["$defs"].items())
    }
    whole = _described("PlanDocument", {k: v for k, v in raw.items() if k != "$defs"})
    clause = definitions["ClausePlan"]
    clause["oneOf"] = [{"required": ["at_least"]}, {"required": ["equals"]}]
    about = {"title": PORT_TITLE, "description": PORT_ABOUT}
    return {"$schema": DIALECT, **whole, **about, "$defs": definitions}


def report_schema() -> dict[str, Any]:
    """Return the JSON schema of what `porttool review --json` prints and git notes hold."""
    definitions: dict[str, Any] = {}
    whole = _object(Report, definitions)
    computed = {
        name: _kind(typing.get_type_hints(getattr(Report, name).fget)["return"], definitions)
        for name in COMPUTED
    }
    return {
        "$schema": DIALECT,
        "title": REPORT_TITLE,
        **whole,
        "properties": {"schema": {"const": SCHEMA}, **whole["properties"], **computed},
        "required": ["schema", *whole["required"], *computed],
        "$defs": dict(sorted(definitions.items())),
    }


def _described(name: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return pydantic's schema of one part with what its keys are for, and without its titles."""
    words, patterns = DESCRIPTIONS.get(name, {}), _PATTERNS.get(name, {})
    properties = {
        key: {
            **_plain(value, patterns.get(key)),
            **({"description": words[key]} if key in words else {}),
        }
        for key, value in definition["properties"].items()
    }
    about = str(definition.get("description", "")).split("\n\n")[0].replace("\n", " ")
    found = {k: v for k, v in definition.items() if k not in ("title", "description")}
    return {**({"description": about} if about else {}), **found, "properties": properties}


def _plain(value: Any, pattern: str | None) -> Any:
    """Return a part of a schema without titles, its texts held to a pattern."""
    if isinstance(value, list):
        return [_plain(item, pattern) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _plain(item, pattern) for key, item in value.items() if key != "title"}
    if pattern is not None and kept.get("type") == "string":
        kept["pattern"] = pattern
    return kept


def _object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a dataclass; all its fields are written, and no other."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return {
        "description": (kind.__doc__ or "").split("\n\n")[0].replace("\n", " "),
        "type": "object",
        "properties": {name: _kind(hints[name], definitions) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _kind(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return {"enum": list(inside)}
    if origin is types.UnionType:
        return {"anyOf": [_kind(one, definitions) for one in inside]}
    if origin is tuple:
        return {"type": "array", "items": _kind(inside[0], definitions)}
    name = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = _object(kind, definitions)
    return {"$ref": f"#/$defs/{name}"}
