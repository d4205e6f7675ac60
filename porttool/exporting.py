"""Reports in the formats that other programs read: SARIF for code scanning, JUnit XML for checks.

SARIF is the OASIS standard's version 2.1.0. Paths in it are as seen from the repository's root.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote
from xml.etree import ElementTree

from porttool.calls.values import Finding
from porttool.errors import PortError
from porttool.frozen import dataclass
from porttool.report import Report

SARIF_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class _Rule:
    """One kind of result: how much it matters, what it is, and what to do about it."""

    id: str
    level: Level
    what: str
    help: str


@dataclass(frozen=True)
class _Result:
    rule: str
    path: str
    line: int
    column: int
    text: str


_GATE_RULES = (
    _Rule(
        "ungated-call",
        "error",
        "torch.compile is called behind no switch",
        "`porttool gate PATH` puts the call behind a switch that is off.",
    ),
    _Rule(
        "unclear-switch",
        "error",
        "A condition in front of torch.compile may or may not be its switch",
        "Name the setting after what it switches, or take the condition away.",
    ),
    _Rule(
        "on-by-default",
        "error",
        "The switch in front of torch.compile is on where nobody sets it",
        "Let the default of the setting be off.",
    ),
    _Rule("unparsed", "error", "A file cannot be read", "Put the file right, and look again."),
)
_GATE_KINDS = {"ask": "unclear-switch", "default on": "on-by-default", "unparsed": "unparsed"}

_PORT_RULES = (
    _Rule(
        "port-question",
        "error",
        "A place of the port that a person has to decide",
        "Answer it under `answers` in port.yaml, and make the port again.",
    ),
    _Rule(
        "port-hazard",
        "warning",
        "Something near what the port wraps that no rule is about",
        "Look whether it works with a wrapped object.",
    ),
    _Rule(
        "port-conflict",
        "error",
        "A region where the experiment and the branch conflict",
        "`porttool resolve` opens it.",
    ),
    _Rule(
        "port-switch-on",
        "warning",
        "A settings file turns the port's switch on",
        "Leave it on only where that is meant.",
    ),
)


def gate_sarif(findings: Iterable[Finding], version: str) -> dict[str, Any]:
    """Return what `porttool gate --check` found as SARIF."""
    results = [
        _Result(
            _GATE_KINDS.get(one.kind, "ungated-call"),
            one.path,
            one.line,
            one.column,
            _sentence(one.what, one.next),
        )
        for one in findings
    ]
    return _log("gate", _GATE_RULES, results, version)


def report_sarif(report: Report) -> dict[str, Any]:
    """Return the questions, hazards and open conflicts of a port as SARIF.

    Lines are those of the branch that the port was made on.
    """
    results = [
        _Result(
            rule, site.path, site.line, site.column + 1, f"{site.text}: {'; '.join(site.reasons)}"
        )
        for rule, sites in (("port-question", report.asks), ("port-hazard", report.hazards))
        for site in sites
    ]
    results += [
        _Result("port-conflict", one.path, one.line, 1, one.detail)
        for one in report.conflicts
        if not one.resolved
    ]
    reach = report.gate.reach if report.gate else ()
    results += [_Result("port-switch-on", one.path, 1, 1, one.why) for one in reach if one.on]
    log = _log(f"port/{report.port}", _PORT_RULES, results, report.version)
    log["runs"][0]["properties"] = {
        "port": report.port,
        "verdict": report.verdict,
        "onto": report.onto,
        "onto_id": report.onto_id,
        "tip": report.tip,
    }
    return log


def report_junit(report: Report) -> bytes:
    """Return the checks of a port as JUnit XML, one test case each."""
    counts = Counter(check.status for check in report.checks)
    seconds = f"{sum(check.seconds for check in report.checks):.3f}"
    totals = {
        "tests": str(len(report.checks)),
        "failures": str(counts["failed"]),
        "errors": "0",
        "time": seconds,
    }
    root = ElementTree.Element("testsuites", {"name": "porttool verify", **totals})
    # Only a suite may count what was skipped: Jenkins refuses the whole file otherwise.
    skipped = {"skipped": str(counts["skipped"])}
    suite = ElementTree.SubElement(
        root, "testsuite", {"name": _xml(report.port), **totals, **skipped}
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (
        ("branch", report.branch),
        ("tip", report.tip),
        ("onto", f"{report.onto} {report.onto_id}"),
        ("verdict", report.verdict),
    ):
        ElementTree.SubElement(properties, "property", {"name": name, "value": _xml(value)})
    for check in report.checks:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "classname": _xml(f"porttool.{report.port}"),
                "name": _xml(check.name),
                "time": f"{check.seconds:.3f}",
            },
        )
        if check.status == "failed":
            failure = ElementTree.SubElement(case, "failure", {"message": _xml(check.detail)})
            failure.text = _xml("\n".join(check.tail) or check.detail)
        elif check.status == "skipped":
            ElementTree.SubElement(case, "skipped", {"message": _xml(check.detail)})
        elif check.tail:
            ElementTree.SubElement(case, "system-out").text = _xml("\n".join(check.tail))
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def write_export(path: Path, data: bytes) -> None:
    """Write a file that a person named, over the one that is there; raises PortError."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise PortError(
            f"{path.name} cannot be written",
            where=str(path),
            why=error.strerror,
            next="name a file in a folder that is there and that you may write in",
        ) from error


def _log(
    category: str, rules: Sequence[_Rule], results: Sequence[_Result], version: str
) -> dict[str, Any]:
    index = {rule.id: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "porttool",
                        "version": version,
                        "rules": [_descriptor(rule) for rule in rules],
                    }
                },
                "automationDetails": {"id": f"porttool/{category}/"},
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(result, rules[index[result.rule]], index[result.rule], seen)
                    for result in results
                ],
            }
        ],
    }


def _descriptor(rule: _Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.split("-")),
        "shortDescription": {"text": rule.what},
        "fullDescription": {"text": f"{rule.what}."},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": rule.level},
    }


def _result(result: _Result, rule: _Rule, index: int, seen: Counter[str]) -> dict[str, Any]:
    # By its words and not by its line, so that a result is known again when lines above it change.
    about = f"{result.rule}\0{result.path}\0{result.text}".encode("utf-8", "surrogateescape")
    mark = hashlib.sha256(about).hexdigest()[:32]
    seen[mark] += 1
    uri = quote(result.path.encode("utf-8", "surrogateescape"))
    return {
        "ruleId": result.rule,
        "ruleIndex": index,
        "level": rule.level,
        "message": {"text": result.text.encode("utf-8", "replace").decode()},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
                    "region": {
                        "startLine": max(1, result.line),
                        "startColumn": max(1, result.column),
                    },
                }
            }
        ],
        "partialFingerprints": {"porttool/v1": f"{mark}:{seen[mark]}"},
    }


def _sentence(what: str, next: str) -> str:
    stop = "" if what.endswith(("?", ".")) else "."
    return f"{what}{stop} Next: {next}" if next else what


def _xml(text: str) -> str:
    """Return a text with what XML cannot hold as escapes."""
    return re.sub(
        "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]",
        lambda match: f"\\u{ord(match[0]):04x}",
        text,
    )
