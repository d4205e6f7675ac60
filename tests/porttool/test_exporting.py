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


def closed(*required, **properties):
    """Return the schema of an object without other keys, so that a misspelt one is found."""
    return {
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": properties,
    }


def many(items):
    return {"type": "array", "items": items}


# What SARIF 2.1.0 (OASIS, sections 3.13 to 3.52) says of what is written here, and what GitHub
# asks for beyond that: rules with help, an address below the repository, a category that ends in /.
WORDS = {"type": "string", "minLength": 1, "maxLength": 1024}
TEXT = closed("text", text=WORDS)
POSITIVE = {"type": "integer", "minimum": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE = closed(
    *("id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration"),
    id={"type": "string", "maxLength": 255},
    name={"type": "string", "maxLength": 255},
    shortDescription=TEXT,
    fullDescription=TEXT,
    help=TEXT,
    defaultConfiguration=closed("level", level=LEVEL),
)
PLACE = closed(
    *("artifactLocation", "region"),
    artifactLocation=closed(
        *("uri", "uriBaseId"),
        uri={
            "type": "string",
            "pattern": r"^(?!/)[A-Za-z0-9%/_.~-]+$",
            "not": {"pattern": r"\.\./"},
        },
        uriBaseId={"const": "%SRCROOT%"},
    ),
    region=closed(*("startLine", "startColumn"), startLine=POSITIVE, startColumn=POSITIVE),
)
RESULT = closed(
    *("ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"),
    ruleId={"type": "string"},
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=closed("text", text={"type": "string", "minLength": 1}),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    locations={
        **many(closed("physicalLocation", physicalLocation=PLACE)),
        "minItems": 1,
        "maxItems": 1,
    },
)
RUN = closed(
    *("tool", "automationDetails", "columnKind", "results"),
    tool=closed(
        "driver",
        driver=closed(*("name", "version", "rules"), name=WORDS, version=WORDS, rules=many(RULE)),
    ),
    automationDetails=closed("id", id={"type": "string", "pattern": "^porttool/.+/$"}),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    properties={"type": "object"},
    results=many(RESULT),
)
SARIF = closed(
    *("$schema", "version", "runs"),
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs={**many(RUN), "minItems": 1, "maxItems": 1},
)

# Of the schema that Jenkins holds files to (junit-10.xsd of its xunit plugin): what each element
# has to have, what it may have besides, and what may stand in it.
JUNIT = {
    "testsuites": ((), ("name", "tests", "failures", "errors", "time"), ("testsuite",)),
    "testsuite": (
        ("name", "tests", "failures", "errors"),
        ("skipped", "time", "timestamp", "hostname"),
        ("properties", "testcase"),
    ),
    "properties": ((), (), ("property",)),
    "property": (("name", "value"), (), ()),
    "testcase": (
        ("name",),
        ("classname", "time"),
        ("failure", "error", "skipped", "system-out", "system-err"),
    ),
    "failure": ((), ("message", "type"), ()),
    "skipped": ((), ("message", "type"), ()),
    "system-out": ((), (), ()),
}


def junit_faults(element):
    """Return what Jenkins would refuse of an element and of everything in it."""
    needs, may, inside = JUNIT[element.tag]
    found = [f"{element.tag} lacks {name}" for name in needs if name not in element.attrib]
    found += [f"{element.tag} has {name}" for name in element.attrib if name not in {*needs, *may}]
    for child in element:
        found += [f"{child.tag} in {element.tag}"] if child.tag not in inside else []
        found += junit_faults(child)
    return found


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
        {"lib/my model.py": "import torch\n\n\ndef f(net):\n    return torch.compile(net)\n"}
    )
    printed = call(repo.path / "lib", "gate", "--check", "--sarif", "out.sarif", ".")
    assert printed.exit_code == 4
    log = json.loads((repo.path / "lib/out.sarif").read_text())
    assert faults(log) == []
    [result] = log["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    # From the repository's root, wherever it was called.
    assert place["artifactLocation"]["uri"] == "lib/my%20model.py"
    assert place["region"] == {"startLine": 5, "startColumn": 12}
    assert (result["ruleId"], result["level"]) == ("ungated-call", "error")
    assert printed.stdout.startswith("my model.py:5:12: `torch.compile(net)` is behind no switch")
    assert result["message"]["text"].endswith(" Next: porttool gate 'lib/my model.py'")


def test_a_question_is_not_closed_by_a_full_stop(make_repo):
    asked = (
        "import torch\n\n\ndef f(net, args):\n    if args.fast:\n        net = torch.compile(net)\n"
    )
    repo = make_repo({"model.py": asked + "    return net\n"})
    assert call(repo.path, "gate", "--check", "--sarif", "out.sarif", ".").exit_code == 4
    log = json.loads((repo.path / "out.sarif").read_text())
    assert faults(log) == []
    [result] = log["runs"][0]["results"]
    assert result["ruleId"] == "unclear-switch"
    assert "is `args.fast` the switch of this call? Next: " in result["message"]["text"]


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


AT = ("runs", 0, "results", 0, "locations", 0, "physicalLocation")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("version",), "2.0.0"),
        (("runs", 0, "results", 0, "ruleIndex"), 1),
        (("runs", 0, "results", 0, "level"), "fatal"),
        (("runs", 0, "results", 0, "locaton"), []),
        ((*AT, "region", "startLine"), 0),
        ((*AT, "region", "startColum"), 1),
        ((*AT, "artifactLocation", "uri"), "/src/a.py"),
        ((*AT, "artifactLocation", "uri"), "file:///src/a.py"),
        ((*AT, "artifactLocation", "uri"), "../a.py"),
        (("runs", 0, "automationDetails", "id"), "porttool"),
        (("runs", 0, "tool", "driver", "rules", 0, "help"), {"text": ""}),
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
    assert junit_faults(root) == []
    assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "3", "1")
    [suite] = root
    assert (suite.get("name"), suite.get("time"), suite.get("skipped")) == ("it", "3.750", "1")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["off means off", "tests", "run"]
    [failure] = cases[1]
    assert (failure.tag, failure.get("message")) == ("failure", "exit code 1")
    assert failure.text == "E \\u001b[31m& <b>\n1 failed"
    assert cases[2][0].get("message") == "the plan has no run"
    assert [p.get("value") for p in suite.iter("property")][-1] == "failed"


def test_a_file_that_jenkins_would_refuse_would_be_seen():
    root = ElementTree.fromstring(report_junit(report(checks=(Check("it", "passed", 1.0, ""),))))
    root.set("skipped", "0")
    del root[0].attrib["errors"]
    ElementTree.SubElement(root[0][0], "failure")
    assert junit_faults(root) == [
        "testsuites has skipped",
        "testsuite lacks errors",
        "failure in properties",
    ]


def test_verify_and_review_write_them(make_port):
    repo = make_port()
    call(repo.path, "apply")
    verified = call(repo.path, "verify", "--junit", "out.xml")
    suite = ElementTree.parse(repo.path / "out.xml").getroot()[0]
    assert verified.exit_code == 0
    assert suite.get("name") == "compile-it"
    assert int(suite.get("tests")) == len(suite.findall("testcase")) > 0
    assert junit_faults(ElementTree.parse(repo.path / "out.xml").getroot()) == []
    reviewed = call(repo.path, "review", "--sarif", "out.sarif")
    assert reviewed.stdout == "wrote out.sarif\n"
    assert faults(json.loads((repo.path / "out.sarif").read_text())) == []
