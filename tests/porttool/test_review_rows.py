"""The rows of the review page's diffs: what changed, the words that differ, and their colours."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from porttool.report import LedgerEntry, Site
from porttool.review.diff import Changes, Row, changed_rows, dedented, site_rows, word_marks
from porttool.review.highlight import coloured, lines_inside_strings
from porttool.review.sources import NO_SOURCES, Sides, Sources

LINES = ("def save(net):", "    return [net.sd()]  # now")


def site(**changes: Any) -> Site:
    made = Site("k", "a.py", 2, 12, "net.sd()", "rewrite", ("because",), "r", "clean(net.sd())")
    return dataclasses.replace(made, **changes)


# -- rows --------------------------------------------------------------------------------------


def test_a_rewritten_site_is_its_whole_line_before_and_after() -> None:
    assert site_rows(site(), LINES) == [
        Row(" ", 1, LINES[0]),
        Row("-", 2, LINES[1]),
        Row("+", 2, "    return [clean(net.sd())]  # now", ((12, 18), (26, 27))),
    ]


def test_a_site_over_two_lines_keeps_what_is_around_it() -> None:
    lines = ("x = [f(", "    a), 1]")
    two = site(line=1, column=5, text="f(\n    a)", replacement="g(f(\n    a))")
    assert [(row.kind, row.text) for row in site_rows(two, lines)] == [
        ("-", "x = [f("),
        ("-", "    a), 1]"),
        ("+", "x = [g(f("),
        ("+", "    a)), 1]"),
    ]


def test_a_site_that_stays_shows_what_it_is_about() -> None:
    assert site_rows(site(action="skip", replacement=None), LINES) == [
        Row(" ", 2, LINES[1], ((12, 20),))
    ]


@pytest.mark.parametrize("lines", [(), ("other", "lines", "here")])
def test_without_its_file_a_site_is_its_own_text(lines: tuple[str, ...]) -> None:
    assert [(row.kind, row.number, row.text) for row in site_rows(site(), lines)] == [
        ("-", 0, "net.sd()"),
        ("+", 0, "clean(net.sd())"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "marks"),
    [
        (["f(x)"], ["g(f(x))"], ([()], [((0, 2), (6, 7))])),
        (["a = 1"], ["a = 2"], ([((4, 5),)], [((4, 5),)])),
        (["  old"], ["new"], ([()], [()])),
        (["x", "y z"], ["x", "y w"], ([(), ((2, 3),)], [(), ((2, 3),)])),
        ([], ["new"], ([], [()])),
    ],
)
def test_whole_words_are_marked(before: list[str], after: list[str], marks: object) -> None:
    assert word_marks(before, after) == marks


def test_what_all_lines_are_indented_by_is_left_out() -> None:
    rows = [Row("-", 3, "    a b", ((4, 5),)), Row(" ", 4, ""), Row("+", 3, "      c", ((6, 7),))]
    assert [(row.text, row.marks) for row in dedented(rows)] == [
        ("a b", ((0, 1),)),
        ("", ()),
        ("  c", ((2, 3),)),
    ]


def test_a_hunk_is_shown_beside_what_became_of_it() -> None:
    parent = ("import x", "", "net = build()", "use(net)")
    tried = ("import x", "", "net = wrap(build())", "use(net)")
    onto = ("import x", "import y", "", "net = build()", "y(net)", "use(net)")
    done = (*onto[:5], "if on:", "    net = wrap(net)", *onto[5:])
    changes = Changes(Sources({"a.py": Sides(parent, tried)}, {"a.py": Sides(onto, done)}))
    hunk = ("a.py", 3, 3, "build()", "wrap(build())")
    entry = LedgerEntry(*hunk, "adapted", "gated", path_now="a.py", line_now=4)
    assert [(row.kind, row.text) for row in changes.in_experiment(entry)] == [
        (" ", "import x"),
        (" ", ""),
        ("-", "net = build()"),
        ("+", "net = wrap(build())"),
        (" ", "use(net)"),
    ]
    added = [(row.number, row.text) for row in changes.on_branch(entry) if row.kind == "+"]
    assert added == [(6, "if on:"), (7, "    net = wrap(net)")]
    dropped = dataclasses.replace(entry, outcome="dropped")
    assert changes.on_branch(dropped) == []
    there = LedgerEntry(*hunk[:4], "use(net)", "already there", "onto has it")
    assert changes.on_branch(there) == [Row(" ", 6, "use(net)")]


def test_a_hunk_without_its_files_is_what_the_report_has() -> None:
    entry = LedgerEntry("a.py", 3, 4, "old()", "new(old())", "applied", "rule r")
    assert Changes(NO_SOURCES).in_experiment(entry) == changed_rows(["old()"], ["new(old())"], 3, 4)
    assert Changes(NO_SOURCES).on_branch(entry) == []


# -- colours -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "path", "expected"),
    [
        ("return x", "a.py", '<span class="k">return</span> x'),
        ("f('#')", "a.py", 'f(<span class="s">&#x27;#&#x27;</span>)'),
        ("x  # no if", "a.py", 'x  <span class="c"># no if</span>'),
        ("class A", "a.py", '<span class="k">class</span> <span class="f">A</span>'),
        ("x[12]", "a.py", 'x[<span class="n">12</span>]'),
        ("on: true", "a.yaml", '<span class="f">on</span>: <span class="k">true</span>'),
        ("return <b>", "a.txt", "return &lt;b&gt;"),
    ],
)
def test_syntax_is_coloured(line: str, path: str, expected: str) -> None:
    assert coloured(line, path) == expected


def test_marks_cut_through_colours() -> None:
    assert coloured("if 12", "a.py", marks=((1, 4),)) == (
        '<span class="k">i</span><mark><span class="k">f</span> <span class="n">1</span></mark>'
        '<span class="n">2</span>'
    )


def test_lines_inside_of_strings_are_known() -> None:
    lines = ['"""Say', "for if", '"""', "x = '''a", "b'''", 'y = "#"', "# '''", "z = 1"]
    assert lines_inside_strings(lines) == {2, 3, 5}
    assert coloured("for if", "a.py", inside_string=True) == '<span class="s">for if</span>'
    assert coloured("b''' if", "a.py", inside_string=True) == (
        '<span class="s">b&#x27;&#x27;&#x27;</span> <span class="k">if</span>'
    )


def test_a_long_line_says_how_much_is_missing() -> None:
    assert coloured("x" * 10_000, "a.py").endswith("<i>… (8000 characters more)</i>")
