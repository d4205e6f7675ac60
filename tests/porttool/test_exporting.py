"""SARIF and JUnit XML: what other programs need of them is there, whatever a report holds."""

from __future__ import annotations

import contextlib
import copy
import json
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from porttool.cli import app
from porttool.exporting import report_junit, report_sarif
from porttool.report import Check, Conflict, Gate, Reach, Report, Site

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
POSITIVE = {"type": "integer", "minimum": 1}
# What SARIF 2.1.0 (OASIS, sections 3.13 to 3.52) requires of what is written here, and closed to
# anything else, so that a misspelt property is found.
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {"type": "array", "items": {"$ref": "#/$defs/rule"}},
                                },
                            }
                        },
                    },
                    "automationDetails": {
                        "type": "object",
                        "properties": {"id": {"type": "string", "pattern": ".+/$"}},
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "properties": {"type": "object"},
                    "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
                },
            },
        },
    },
    "$defs": {
        "rule": {
            "type": "object",
            "required": ["id"],
            "additionalProperties": False,
            "properties": {
                "id": {"type": "string"},
                "name": {"type": "string"},
                "shortDescription": TEXT,
                "fullDescription": TEXT,
                "help": TEXT,
                "defaultConfiguration": {
                    "properties": {"level": {"enum": ["none", "note", "warning", "error"]}}
                },
            },
        },
        "result": {
            "type": "object",
            "required": ["message", "locations"],
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": {"enum": ["none", "note", "warning", "error"]},
                "message": TEXT,
                "partialFingerprints": {"additionalProperties": {"type": "string"}},
                "locations": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "physicalLocation": {
                                "type": "object",
                                "required": ["artifactLocation", "region"],
                                "properties": {
                                    "artifactLocation": {
                                        "properties": {
                                            "uri": {"type": "string", "pattern": "^[!-~]+$"},
                                            "uriBaseId": {"type": "string"},
                                        }
                                    },
                                    "region": {
                                        "required": ["startLine"],
                                        "properties": {
                                            "startLine": POSITIVE,
                                            "startColumn": POSITIVE,
                                        },
                                    },
                                },
                            }
                        },
                    },
                },
            },
        },
    },
}


def faults(log):
    """Return what is wrong with a SARIF log: its form, and rules that are not declared."""
    found = [error.message for error in Draft202012Validator(SARIF).iter_errors(log)]
    for run in log["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        found += [
            f"{result['ruleId']} is not rule {result['ruleIndex']}"
            for result in run["results"]
            if rules[result["ruleIndex"]] != result["ruleId"]
        ]
        marks = [result["partialFingerprints"]["porttool/v1"] for result in run["results"]]
        found += ["two results have one fingerprint"] if len(set(marks)) < len(marks) else []
    return found


def call(folder, *words):
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, words)


def site(action, **changes):
    values = {
        "key": "k",
        "path": "src/a.py",
        "line": 7,
        "column": 4,
        "text": "net.state_dict()",
        "action": action,
        "reasons": ("it may be wrapped", "nobody can tell"),
        **changes,
    }
    return Site(**values)


def report(**changes):
    values = {
        "port": "it",
        "digest": "",
        "version": "1",
        "experiment": (),
        "onto": "main",
        "onto_id": "1" * 40,
        "branch": "port/it",
        **changes,
    }
    return Report(**values)


def test_gate_check_writes_what_it_prints(make_repo):
    repo = make_repo(
        {"lib/model.py": "import torch\n\n\ndef f(net):\n    return torch.compile(net)\n"}
    )
    printed = call(repo.path / "lib", "gate", "--check", "--sarif", "out.sarif", ".")
    assert printed.exit_code == 4
    log = json.loads((repo.path / "lib/out.sarif").read_text())
    assert faults(log) == []
    [result] = log["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    # From the repository's root, wherever it was called.
    assert place["artifactLocation"]["uri"] == "lib/model.py"
    assert place["region"] == {"startLine": 5, "startColumn": 12}
    assert (result["ruleId"], result["level"]) == ("ungated-call", "error")
    assert printed.stdout.startswith("model.py:5:12: `torch.compile(net)` is behind no switch")


def test_a_clean_check_writes_an_empty_log(make_repo):
    repo = make_repo({"model.py": "x = 1\n"})
    assert call(repo.path, "gate", "--check", "--sarif", "out.sarif", ".").exit_code == 0
    log = json.loads((repo.path / "out.sarif").read_text())
    assert (faults(log), log["runs"][0]["results"]) == ([], [])


def test_sarif_of_a_gate_that_is_no_check_is_refused(make_repo):
    repo = make_repo({"model.py": "x = 1\n"})
    refused = call(repo.path, "gate", "--sarif", "out.sarif", ".")
    assert (refused.exit_code, (repo.path / "out.sarif").exists()) == (2, False)
    assert "--sarif goes with --check" in refused.stderr
    nowhere = call(repo.path, "gate", "--check", "--sarif", "no/out.sarif", ".")
    assert (nowhere.exit_code, "out.sarif cannot be written" in nowhere.stderr) == (2, True)


def test_a_ports_questions_and_hazards_are_results():
    log = report_sarif(
        report(
            sites=(
                site("rewrite"),
                site("skip"),
                site("ask"),
                site("hazard", path="a b/caf\udce9#.py", line=0),
                site("hazard", path="a b/caf\udce9#.py", line=9),
            ),
            conflicts=(
                Conflict("b.py", 3, "content", "both changed it"),
                Conflict("b.py", 9, "content", "both changed it", "answered"),
            ),
            gate=Gate("c", False, "c.py", reach=(Reach("on.yaml", True, "it turns it on", True),)),
        )
    )
    assert faults(log) == []
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == [
        "port-question",
        "port-hazard",
        "port-hazard",
        "port-conflict",
        "port-switch-on",
    ]
    places = [r["locations"][0]["physicalLocation"] for r in log["runs"][0]["results"]]
    assert places[0]["region"] == {"startLine": 7, "startColumn": 5}
    assert places[1]["artifactLocation"]["uri"] == "a%20b/caf%E9%23.py"


def test_a_result_is_known_again_when_lines_move():
    def marks(line):
        [result] = report_sarif(report(sites=(site("ask", line=line),)))["runs"][0]["results"]
        return result["partialFingerprints"]

    assert marks(7) == marks(70)
    assert json.dumps(report_sarif(report())).isascii()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("version",), "2.0.0"),
        (("runs", 0, "results", 0, "ruleIndex"), 1),
        (("runs", 0, "results", 0, "level"), "fatal"),
        (("runs", 0, "results", 0, "locaton"), []),
        (
            ("runs", 0, "results", 0, "locations", 0, "physicalLocation", "region", "startLine"),
            0,
        ),
    ],
)
def test_a_broken_log_would_be_seen(place, value):
    log = copy.deepcopy(report_sarif(report(sites=(site("ask"),))))
    at = log
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    assert faults(log) != []


def test_checks_are_test_cases():
    checks = (
        Check("off means off", "passed", 1.5, "12 files"),
        Check("tests", "failed", 2.25, "exit code 1", ("pytest",), ("E \x1b[31m& <b>", "1 failed")),
        Check("run", "skipped", 0.0, "the plan has no run"),
    )
    root = ElementTree.fromstring(report_junit(report(checks=checks, verdict="failed")))
    assert (root.tag, root.get("tests"), root.get("failures"), root.get("skipped")) == (
        *("testsuites", "3", "1", "1"),
    )
    [suite] = root
    assert (suite.get("name"), suite.get("time")) == ("it", "3.750")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["off means off", "tests", "run"]
    [failure] = cases[1]
    assert (failure.tag, failure.get("message")) == ("failure", "exit code 1")
    assert failure.text == "E \\u001b[31m& <b>\n1 failed"
    assert cases[2][0].get("message") == "the plan has no run"
    assert [p.get("value") for p in suite.iter("property")][-1] == "failed"


def test_verify_and_review_write_them(make_port):
    repo = make_port()
    call(repo.path, "apply")
    verified = call(repo.path, "verify", "--junit", "out.xml")
    suite = ElementTree.parse(repo.path / "out.xml").getroot()[0]
    assert verified.exit_code == 0
    assert suite.get("name") == "compile-it"
    assert int(suite.get("tests")) == len(suite.findall("testcase")) > 0
    reviewed = call(repo.path, "review", "--sarif", "out.sarif")
    assert reviewed.stdout == "wrote out.sarif\n"
    assert faults(json.loads((repo.path / "out.sarif").read_text())) == []
