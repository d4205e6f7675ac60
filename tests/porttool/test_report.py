"""The report as values and as JSON, and what it puts first."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porttool.report import (
    SCHEMA,
    Check,
    Clause,
    Commit,
    Conflict,
    Example,
    Experiment,
    FileProof,
    Gate,
    LedgerEntry,
    Patch,
    Precondition,
    Proof,
    Report,
    ReportError,
    Rule,
    Seed,
    Site,
    Timing,
    counted,
    from_json,
    to_data,
    to_json,
)
from porttool.standing import Standing, elsewhere_command, next_step, remake_command

UNDECODABLE = "caf\udce9.py"


def site(action: str, line: int, *, known: bool = True) -> Site:
    return Site(
        key=f"learner.py::Learner.push::net.state_dict()#{line}",
        path="learner.py",
        line=line,
        column=4,
        text="net.state_dict()",
        action=action,
        reasons=("`net` may be wrapped at learner.py:3",),
        rule="$X.state_dict()",
        replacement="_clean(net.state_dict())" if action == "rewrite" else None,
        known=known,
    )


def full_report() -> Report:
    return Report(
        port="torch-compile",
        digest="d" * 64,
        version="0.1.0",
        experiment=(Experiment("e" * 40, "compile", "Ada <a@b.c>", "2023-11-14T22:13:20+01:00"),),
        onto="main",
        onto_id="a" * 40,
        branch="port/torch-compile",
        tip="b" * 40,
        series=(Commit("b" * 40, "gate it"),),
        rules=(
            Rule("clean", "$X.a()", "c($X.a())", True, (Example("x.py", 3, "n.a()", "c(n.a())"),)),
        ),
        ledger=(LedgerEntry(UNDECODABLE, 1, 2, "a\n", "b\n", "adapted", "behind the switch"),),
        sites=(
            site("skip", 1),
            site("rewrite", 2),
            site("skip", 6, known=False),
            site("rewrite", 3, known=False),
            site("hazard", 4),
            site("ask", 5),
        ),
        seeds=(
            Seed("x.py", 3, "L.__init__", "self.net", "Net()", "torch.compile($X)", "guard"),
            Seed("y.py", 9, "f", None, "Net()", "torch.compile($X)", "call", "x.py:40", "renamed"),
        ),
        gate=Gate("compile.trainer.enabled", False, "config.py", ("default.yaml",)),
        proof=Proof(True, "syntax", (FileProof("x.py", "identical tree"),), ("no eval",)),
        conflicts=(
            Conflict("x.py", 7, "content", "payload restructured", "rules re-made it"),
            Conflict("z.py", 8, "modify/delete", "main deleted it"),
        ),
        precondition=Precondition(True, "c.yaml", (Clause("size >= 2", "3", True),)),
        patches=(Patch("0001-warn.patch", "warn", "c" * 40),),
        checks=(
            Check("ruff", "passed", 0.25, "exit code 0", ("ruff", "check"), ("All good",)),
            Check("tests", "failed", 3.0, "exit code 1", ("pytest",), ("1 failed",)),
        ),
        verdict="failed",
        timings=(Timing("learn", 0.5),),
    )


def test_a_report_survives_json_exactly() -> None:
    report = full_report()
    text = to_json(report)
    assert text.isascii()
    assert from_json(text) == report
    assert to_json(from_json(text)) == text


def test_an_empty_report_survives_json() -> None:
    report = Report("p", "d", "0", (), "main", "a", "port/p")
    assert from_json(to_json(report).encode()) == report
    assert json.loads(to_json(report))["gate"] is None


@given(st.text(st.characters(codec=None)), st.floats(0, 1e6))
def test_any_text_and_any_number_survives(text: str, seconds: float) -> None:
    report = dataclasses.replace(
        full_report(), checks=(Check(text, "passed", seconds, text, (text,), (text, text)),)
    )
    assert from_json(to_json(report)) == report


def test_json_names_the_schema_and_what_is_computed() -> None:
    data = to_data(full_report())
    assert data["schema"] == SCHEMA == 1
    assert [s["line"] for s in data["asks"]] == [5]
    assert [s["line"] for s in data["hazards"]] == [4]
    assert data["answers"] == [
        "answers:",
        '  "learner.py::Learner.push::net.state_dict()#5": rewrite  # or: skip',
    ]


def test_a_question_that_only_skip_settles_offers_nothing_else() -> None:
    question = dataclasses.replace(site("ask", 5), only_skip=True)
    report = dataclasses.replace(full_report(), sites=(question,))
    assert report.answers == ("answers:", f'  "{question.key}": skip')


def test_the_most_urgent_comes_first() -> None:
    kinds = [(look.kind, look.line) for look in full_report().look_first]
    assert kinds == [
        ("check", 0),
        ("ask", 5),
        ("conflict", 8),
        ("hazard", 4),
        ("moved seed", 9),
        ("new site", 3),
        ("new site", 6),
        ("conflict region", 7),
    ]


def test_nothing_to_look_at_and_nothing_to_answer() -> None:
    report = Report("p", "d", "0", (), "main", "a", "port/p", sites=(site("rewrite", 1),))
    assert report.look_first == ()
    assert report.answers == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema 2; this porttool reads schema 1"),
        ({"schema": None}, "schema None"),
        ({"verdict": "fine"}, "report.verdict"),
        ({"sites": {}}, "report.sites"),
        ({"colour": 1}, "'colour'"),
        ({"sites": [{"key": 1}]}, "report.sites[0]"),
        ({"tip": 3}, "report.tip"),
        ({"proof": None}, "report.proof"),
    ],
)
def test_a_report_of_another_shape_is_refused(change: dict[str, object], message: str) -> None:
    data = {**to_data(full_report()), **change}
    with pytest.raises(ReportError) as caught:
        from_json(json.dumps(data))
    assert message in str(caught.value)
    assert "porttool" in str(caught.value.next)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", b"\xff"])
def test_what_is_no_report_is_refused(text: str | bytes) -> None:
    with pytest.raises(ReportError, match="stored report"):
        from_json(text)


def test_a_missing_field_is_named() -> None:
    data = to_data(full_report())
    del data["onto_id"]
    with pytest.raises(ReportError, match="a field 'onto_id'"):
        from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "command"),
    [
        ({}, "answer in port.yaml, then: porttool refresh torch-compile"),
        ({"sites": (), "verdict": "ready"}, "git merge --no-ff port/torch-compile"),
        ({"sites": (), "verdict": "unverified"}, "porttool verify torch-compile"),
        (
            {"sites": (), "verdict": "unverified", "tip": ""},
            "porttool apply torch-compile --onto main",
        ),
        (
            {"sites": (), "verdict": "parked"},
            "raise c.yaml to the precondition, then: porttool refresh torch-compile",
        ),
        (
            {"sites": (), "verdict": "parked", "tip": ""},
            "raise c.yaml to the precondition, then: porttool apply torch-compile --onto main",
        ),
        (
            {"sites": (), "verdict": "failed"},
            "mend what failed, then: porttool refresh torch-compile "
            "&& porttool verify torch-compile",
        ),
    ],
)
def test_the_next_command_follows_from_the_state(change: dict[str, object], command: str) -> None:
    assert next_step(dataclasses.replace(full_report(), **change)) == command


@pytest.mark.parametrize(
    ("standing", "command"),
    [
        (Standing(merged="c" * 40), f"nothing, a b has it since {'c' * 12}"),
        (
            Standing(stale=2),
            "porttool refresh torch-compile && porttool verify torch-compile",
        ),
        (
            Standing(stale=2, edited=True),
            "porttool refresh torch-compile --keep && porttool verify torch-compile",
        ),
        (
            Standing(took_in=1, edited=True, spare="port/x-mine"),
            "git branch -m port/torch-compile port/x-mine && "
            "porttool apply torch-compile --onto 'a b' && porttool verify torch-compile",
        ),
        (Standing(elsewhere=True), "git switch 'a b' && git merge --no-ff port/torch-compile"),
    ],
)
def test_the_next_command_follows_from_how_the_branch_stands(
    standing: Standing, command: str
) -> None:
    report = dataclasses.replace(full_report(), sites=(), verdict="ready", onto="a b")
    assert next_step(report, standing) == command


def test_a_failed_branch_that_somebody_mends_is_kept() -> None:
    report = dataclasses.replace(full_report(), sites=(), verdict="failed")
    assert next_step(report, Standing(edited=True, spare="x")) == (
        "mend what failed on port/torch-compile, then: porttool verify torch-compile"
    )


def test_names_are_quoted_for_the_shell() -> None:
    assert remake_command("p;q", "port/p", "main") == "porttool refresh 'p;q'"
    assert elsewhere_command("p", "port/p", "a;b") == "porttool apply p --onto 'a;b' --replace"


def test_one_is_singular() -> None:
    assert [counted(n, "place") for n in (0, 1, 2)] == ["0 places", "1 place", "2 places"]
