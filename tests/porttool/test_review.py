"""What a reviewer sees: the pull-request body and the terminal, also for hostile text."""

from __future__ import annotations

import dataclasses
import io
import re

import pytest
from rich.console import Console

from porttool.report import (
    Check,
    Commit,
    Experiment,
    FileProof,
    Gate,
    LedgerEntry,
    Proof,
    Report,
    Rule,
    Seed,
    Site,
)
from porttool.review.markdown import LIMIT, code, fenced, markdown, prose
from porttool.review.terminal import checks_table, terminal
from porttool.review.text import visible
from porttool.standing import Standing

HOSTILE = (
    "a`b|c<script>alert(1)</script>\n## Approved\n\x1b[2J[link](javascript:x) @admin \u202e ``` |"
)


def site(line: int, action: str = "rewrite", *, known: bool = True, text: str = "n.sd()") -> Site:
    return Site(
        f"k{line}",
        "learner.py",
        line,
        0,
        text,
        action,
        ("`n` is wrapped at x.py:3",),
        "r",
        f"clean({text})" if action == "rewrite" else None,
        known,
    )


def report_of(**changes: object) -> Report:
    return dataclasses.replace(
        Report(
            port="torch-compile",
            digest="d" * 64,
            version="0.1.0",
            experiment=(Experiment("e" * 40, "compile it", "Ada <a@b.c>", "2023-11-14T22:13:20Z"),),
            onto="main",
            onto_id="a" * 40,
            branch="port/torch-compile",
            tip="b" * 40,
            series=(Commit("b" * 40, "gate it"),),
            rules=(Rule("clean", "$X.sd()", "clean($X.sd())", True),),
            ledger=(
                LedgerEntry(
                    "learner.py", 4, 5, "n = Net()\n", "n = wrap(Net())\n", "adapted", "gated"
                ),
            ),
            sites=(site(9), site(30, known=False), site(7, "skip")),
            seeds=(Seed("learner.py", 4, "f", "n", "Net()", "wrap($X)", "guard"),),
            gate=Gate("compile.enabled", False, "config.py", ("default.yaml",)),
            proof=Proof(True, "syntax", (FileProof("learner.py", "identical tree"),), ("no eval",)),
            checks=(Check("tests", "passed", 12.34, "exit code 0", ("pytest",), ("9 passed",)),),
            verdict="ready",
        ),
        **changes,
    )


def shown(report: Report, width: int = 100) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False, quiet=False)
    with console.capture() as capture:
        console.print(terminal(report))
    return capture.get()


def test_the_body_has_what_a_reviewer_needs() -> None:
    body = markdown(report_of())
    headings = re.findall(r"^## (.*)$", body, re.M)
    assert headings == [
        "Look at this first",
        "What was ported",
        "Off means off",
        "Checks",
        "What is wrapped",
        "Every site",
        "Ledger",
        "The learned rules",
        "End of each check's output",
        "Hunks of the experiment",
    ]
    assert "**Verdict: ready.** 1 check passed. Branch" in body
    assert "Next: `git merge --no-ff port/torch-compile`." in body
    assert "1. **new site** `learner.py:30`: `n.sd()` becomes `clean(n.sd())`" in body
    assert (
        "`learner.py`\n\n- site 2, line 30, rewritten, **new**: `n.sd()` becomes `clean(n.sd())`"
        "<br>`n` is wrapped at x.py:3\n- site 1, line 9, rewritten: " in body
    )
    assert "3 sites, 2 rewritten, 1 left alone, 1 gained by main since." in body
    assert "| tests | **passed** | 12.3 s | exit code 0 |" in body
    assert "- switch `compile.enabled`, off by default" in body
    assert "```diff\n-n = Net()\n+n = wrap(Net())\n```" in body


@pytest.mark.parametrize(
    ("proof", "sentence"),
    [
        (Proof(False, "none"), "Not proven: with the switch off"),
        (Proof(True, "syntax"), "No run has compared them yet."),
        (Proof(True, "run"), "the same seeded run left the same metrics"),
        (Proof(True, "none"), "Nothing was proven"),
    ],
)
def test_the_proof_claims_its_tier_and_no_more(proof: Proof, sentence: str) -> None:
    report = report_of(proof=proof)
    assert sentence in markdown(report)
    assert sentence.split(maxsplit=1)[0] in shown(report)


def test_open_questions_come_with_the_lines_to_paste() -> None:
    body = markdown(report_of(sites=(site(5, "ask"),), verdict="unverified"))
    assert '```yaml\nanswers:\n  "k5": rewrite  # or: skip\n```' in body
    assert body.index("Open questions") < body.index("What was ported")
    assert '"k5": rewrite  # or: skip' in shown(report_of(sites=(site(5, "ask"),)))


def test_table_rows_keep_their_columns_whatever_the_text() -> None:
    entry = LedgerEntry(HOSTILE, 1, 1, "a", "b", "dropped", HOSTILE)
    body = markdown(report_of(sites=(site(1, text=HOSTILE),), seeds=(), ledger=(entry,)))
    row = next(line for line in body.splitlines() if "**dropped**" in line)
    assert row.count("|") == 4
    assert re.search(r"^- site 1, line 1, rewritten: <code>.* becomes <code>.*<br>", body, re.M)
    assert "<script>" not in body
    assert "\x1b" not in body
    assert "\u202e" not in body
    assert not re.search(r"^## Approved", body, re.M)
    assert "@admin" not in body.replace("<code>@</code>", "")


def test_hostile_text_reaches_no_heading_summary_or_fence() -> None:
    hostile = report_of(
        experiment=(Experiment("e" * 40, HOSTILE, HOSTILE, HOSTILE),),
        branch=HOSTILE,
        ledger=(LedgerEntry(HOSTILE, 1, 1, HOSTILE, "```\n</details>", "dropped", HOSTILE),),
        checks=(Check(HOSTILE, "failed", 1.0, HOSTILE, (), ("```", "</details>", HOSTILE)),),
    )
    body = markdown(hostile)
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", body, flags=re.M | re.S)
    outside = re.sub(r"`[^`\n]*`", "", outside)
    assert "<script>" not in outside
    assert outside.count("</details>") == 2
    assert not re.search(r"^## Approved", outside, re.M)
    assert "\x1b" not in shown(hostile)
    assert "\\x1b[2J" in shown(hostile, 400)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("net.state_dict()", "`net.state_dict()`"),
        ("", "<code></code>"),
        (" a", "<code> a</code>"),
        ("a|b", "<code>a&#124;b</code>"),
        ("`", "<code>&#96;</code>"),
        ("a\nb", "`a\\nb`"),
        ("\udce9", "`\\udce9`"),
    ],
)
def test_inline_code(text: str, expected: str) -> None:
    assert code(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`net` is *it*", "`net` is &#42;it&#42;"),
        ("one ` alone", "one &#96; alone"),
        ("state_dict, _orig_mod. -> x", "state_dict, &#95;orig_mod. -> x"),
        ("> quoted", "&#62; quoted"),
        ("see http://x and www.y", "see http&#58;//x and www&#46;y"),
        ("5 of 9: fine.", "5 of 9: fine."),
        (
            "#12, a/b#3 and GH-4",
            "<code>&#35;</code>12, a/b<code>&#35;</code>3 and GH<code>-</code>4",
        ),
        ("# 12, XGH-7", "&#35; 12, XGH-7"),
        ("@somebody", "<code>@</code>somebody"),
    ],
)
def test_prose_quotes_code_only_in_pairs(text: str, expected: str) -> None:
    assert prose(text) == expected


def test_a_fence_is_longer_than_any_inside() -> None:
    assert fenced("a\n````\nb", "text") == "`````text\na\n````\nb\n`````"


def test_visible_keeps_ordinary_text() -> None:
    assert visible("Straße λ 漢 ~/x") == "Straße λ 漢 ~/x"
    assert visible("a\tb\nc", keep="\n") == "a\\tb\nc"
    assert visible("\x00\x9b\u2066\U000e0001") == "\\x00\\x9b\\u2066\\U000e0001"


def test_a_long_report_is_cut_with_a_pointer_and_keeps_what_is_urgent() -> None:
    sites = tuple(site(n, text=f"net_{n}.state_dict()") for n in range(1, 3001))
    sites = (*sites, site(9000, "ask"))
    hunks = tuple(
        LedgerEntry("x.py", n, n, "a\n" * 40, "b\n" * 40, "applied", "r") for n in range(500)
    )
    body = markdown(report_of(sites=sites, ledger=hunks))
    assert LIMIT * 0.9 < len(body) < LIMIT
    cut = {
        noun: int(number)
        for number, noun in re.findall(r"\*(\d+) more (\w+) are cut here; `porttool review", body)
    }
    rows = len(re.findall(r"^- site \d+, line \d+, ", body, re.M))
    assert cut["sites"] + rows == 3001
    assert cut["hunks"] > 0
    assert "`learner.py:9000`" in body
    assert "| tests | **passed** |" in body


def test_a_short_report_is_not_cut() -> None:
    assert "are cut here" not in markdown(report_of())


def test_an_oversize_text_says_how_much_is_missing() -> None:
    assert code("x" * 1000) == f"`{'x' * 400}… (600 characters more)`"


def test_the_terminal_says_the_same_and_reads_no_markup() -> None:
    text = shown(report_of(sites=(site(3, text="[bold]x[/bold] [/]"), site(8, "hazard"))), 200)
    assert "[bold]x[/bold] [/]" in text
    assert "ready: 1 check passed" in text
    assert "- [bold]x[/bold] [/]\n        + clean([bold]x[/bold] [/])" in text
    assert "Next: git merge --no-ff port/torch-compile" in text
    assert "Sites: 2 sites, 1 hazard, 1 rewritten, 0 gained by main since" in text


def test_the_terminal_shows_the_end_of_a_failed_check() -> None:
    checks = (
        Check("tests", "failed", 1.0, "exit code 1", ("pytest",), ("E assert 1 == 2",)),
        Check("ruff", "passed", 1.0, "exit code 0", ("ruff",), ("All checks passed!",)),
    )
    text = shown(report_of(checks=checks, verdict="failed"))
    assert "failed check  tests: exit code 1\n      E assert 1 == 2\n" in text
    lines = [line.strip() for line in text.splitlines()]
    assert lines[lines.index("end of the output of tests:") - 1] == ""
    assert "E assert 1 == 2" in text
    assert "end of the output of ruff:" not in text


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_place_breaks_after_a_slash_only(width: int) -> None:
    path = "src/some_package_of_mine/games/classic/deep_learning/trainer.py"
    sites = tuple(
        dataclasses.replace(site(n, text="self._network.state_dict()" * 3), path=path)
        for n in (176, 181)
    )
    text = shown(report_of(sites=sites), width)
    assert "trainer.py:176" in text
    assert "trainer.py:181" in text
    assert max(map(len, text.splitlines())) <= width
    assert all(line == line.rstrip() for line in text.splitlines()[3:])


def test_what_is_next_follows_from_how_the_branch_stands() -> None:
    command = "porttool refresh torch-compile && porttool verify torch-compile"
    assert command in markdown(report_of(), standing=Standing(stale=1))
    console = Console(width=200)
    with console.capture() as capture:
        console.print(terminal(report_of(), Standing(stale=1)))
    assert f"Next: {command}" in capture.get()
    for shown_as in (capture.get(), markdown(report_of(), standing=Standing(stale=1, edited=True))):
        assert "ince then: main has gained 1 commit" in shown_as


def test_a_passed_check_shows_the_last_thing_its_program_said() -> None:
    said = ("1 warning", "===== 9 passed in 2 s =====", "  run ━━━━ 1/1", "")
    run = Check("tests", "passed", 2.0, "exit code 0", ("pytest",), said)
    own = Check("precondition", "passed", 0.0, "met", (), ("size >= 8: 9", "depth >= 6: 3"))
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(checks_table(report_of(checks=(run, own))))
    shown = console.export_text()
    assert "9 passed in 2 s" in shown
    assert "1 warning" not in shown
    assert "depth" not in shown
