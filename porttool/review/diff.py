"""What changed at a place, line by line and word by word, as rows to show."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from porttool.report import LedgerEntry, Site
from porttool.review.sources import Sides, Sources

Marks = tuple[tuple[int, int], ...]

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_MANY_WORDS = 400  # lines with more of them are compared whole
_AROUND = 2  # so many unchanged lines are shown on either side
_NEAR = 12  # a gate stands at most so many lines behind what it wraps
_MOST = 60  # rows of one hunk; the rest is counted
_MOST_ROWS = 6_000  # of the whole diff: what is more takes longer to load than to read in git


class Row(NamedTuple):
    """A line: taken away, added, or unchanged, with the characters that differ.

    `number` counts from 1 on the line's own side; 0 where it is not known.
    """

    kind: Literal["-", "+", " ", "…"]
    number: int
    text: str
    marks: Marks = ()


def site_rows(site: Site, lines: Sequence[str]) -> list[Row]:
    """Return a site's lines on onto, and as rewritten; of one that is left alone what it is about.

    `lines` are those of its file on onto; without them the site's own text has to do.
    """
    num_lines = site.text.count("\n") + 1
    first = site.line
    known = tuple(lines[first - 1 : first - 1 + num_lines])
    end = site.column + len(site.text)
    if num_lines > 1:
        end = len(site.text) - site.text.rindex("\n") - 1
    if not _stands_there(site, known):
        head, tail, first, known = "", "", 0, tuple(site.text.split("\n"))
    else:
        head, tail = known[0][: site.column], known[-1][end:]
    if site.replacement is None or site.action != "rewrite":
        marks: Marks = ((len(head), len(known[0]) - len(tail)),) if len(known) == 1 else ()
        return [Row(" ", first and first + n, line, marks) for n, line in enumerate(known)]
    after = f"{head}{site.replacement}{tail}".split("\n")
    if num_lines == len(after) == 1:
        # What is around the place is the same: only the words of the place are compared.
        old, new = word_marks([site.text], [site.replacement])
        rows = [
            Row("-", first, known[0], _shifted(old[0], len(head))),
            Row("+", first, after[0], _shifted(new[0], len(head))),
        ]
    else:
        rows = changed_rows(known, after, first, first)
    if first > 1 and lines[first - 2].strip():
        return [Row(" ", first - 1, lines[first - 2]), *rows]
    return rows


def _shifted(marks: Marks, by: int) -> Marks:
    return tuple((start + by, end + by) for start, end in marks)


def changed_rows(
    before: Sequence[str], after: Sequence[str], first_before: int, first_after: int
) -> list[Row]:
    """Return lines taken away, then lines added, with the words of either side that differ."""
    old, new = word_marks(before, after)
    return [
        *(Row("-", first_before and first_before + n, t, old[n]) for n, t in enumerate(before)),
        *(Row("+", first_after and first_after + n, t, new[n]) for n, t in enumerate(after)),
    ]


def word_marks(before: Sequence[str], after: Sequence[str]) -> tuple[list[Marks], list[Marks]]:
    """Return for every line on either side the characters that differ, in whole words.

    Where the sides have nothing in common there is nothing to mark.
    """
    nothing: tuple[list[Marks], list[Marks]] = [()] * len(before), [()] * len(after)
    if not before or not after:
        return nothing
    one, other = "\n".join(before), "\n".join(after)
    kept = one.strip()
    if kept and (at := other.find(kept)) >= 0:  # what was there survives whole: it was wrapped
        return nothing[0], _by_line(other, [(0, at), (at + len(kept), len(other))])
    old, new = _WORDS.findall(one), _WORDS.findall(other)
    if len(old) + len(new) > _MANY_WORDS:
        return nothing
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if not any("".join(old[b.a : b.a + b.size]).strip() for b in matcher.get_matching_blocks()):
        return nothing
    changed = [opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal"]
    return (
        _by_line(one, _characters([(i, j) for _, i, j, _, _ in changed], old)),
        _by_line(other, _characters([(i, j) for _, _, _, i, j in changed], new)),
    )


def _characters(ranges: Iterable[tuple[int, int]], words: Sequence[str]) -> Marks:
    """Return ranges of words as the characters that they are."""
    starts = [0, *itertools.accumulate(map(len, words))]
    return tuple((starts[i], starts[j]) for i, j in ranges)


def _by_line(text: str, ranges: Iterable[tuple[int, int]]) -> list[Marks]:
    """Cut ranges of a text at its lines; white space around a line's is not worth a mark."""
    found: list[Marks] = []
    ranges = list(ranges)
    start = 0
    for line in text.split("\n"):
        marks = []
        for first, last in ranges:
            a, b = max(first - start, 0), min(last - start, len(line))
            piece = line[a:b] if a < b else ""
            if piece.strip():
                marks.append((a + len(piece) - len(piece.lstrip()), a + len(piece.rstrip())))
        found.append(tuple(marks))
        start += len(line) + 1
    return found


def dedented(rows: Sequence[Row]) -> list[Row]:
    """Return rows without the indentation that all of them have."""
    indents = [len(r.text) - len(r.text.lstrip(" ")) for r in rows if r.text.strip()]
    cut = min(indents, default=0)
    if not cut:
        return list(rows)
    return [
        row._replace(
            text=row.text[cut:],
            marks=tuple((max(a - cut, 0), b - cut) for a, b in row.marks if b > cut),
        )
        for row in rows
    ]


Opcode = tuple[str, int, int, int, int]


class Changes:
    """What differs in files; each is compared once, when first asked for."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._compared: dict[tuple[bool, str], list[list[Opcode]]] = {}

    def in_experiment(self, entry: LedgerEntry) -> list[Row]:
        """Return a hunk as the experiment has it, with the lines around where they are at hand."""
        sides = self._sources.experiment.get(entry.path)
        if sides is not None:
            for hunk in self._hunks(entry.path, sides, ours=False):
                if any(_covers(opcode, entry) for opcode in hunk):
                    return _hunk_rows(hunk, sides)
        before, after = _text_lines(entry.before), _text_lines(entry.after)
        return changed_rows(before, after, entry.line_before, entry.line_after)

    def on_branch(self, entry: LedgerEntry) -> list[Row]:
        """Return the lines that the branch has for a hunk, empty where that cannot be told."""
        path = entry.path_now or entry.path
        sides = self._sources.branch.get(path)
        if sides is None or entry.outcome == "dropped":
            return []
        if entry.outcome == "already there":
            return _standing(sides.before, _text_lines(entry.after))
        for hunk in self._hunks(path, sides, ours=True):
            if _is_at(hunk, entry, sides):
                return _hunk_rows(hunk, sides)
        return []

    def in_file(self, path: str) -> list[list[Row]]:
        """Return all that the branch changes in a file of onto's, hunk by hunk."""
        sides = self._sources.branch.get(path)
        if sides is None:
            return []
        return [_rows_of(hunk, sides) for hunk in self._hunks(path, sides, ours=True)]

    def shown_files(self) -> dict[str, list[list[Row]]]:
        """Return what changes in each file of the branch that a page has room for."""
        left = _MOST_ROWS
        found = {}
        for path in self._sources.changed:
            hunks = self.in_file(path)
            size = sum(map(len, hunks))
            if size <= left:
                found[path] = hunks
                left -= size
        return found

    def _hunks(self, path: str, sides: Sides, *, ours: bool) -> list[list[Opcode]]:
        if (ours, path) not in self._compared:
            self._compared[ours, path] = _compared(sides.before, sides.after)
        return self._compared[ours, path]


def _compared(before: Sequence[str], after: Sequence[str]) -> list[list[Opcode]]:
    """Return what differs with the lines around it, as difflib groups it."""
    # Most of a file is the same, and difflib takes the square of it: only the rest is compared.
    shortest = min(len(before), len(after))
    start = next((n for n in range(shortest) if before[n] != after[n]), shortest)
    tail = next((n for n in range(shortest - start) if before[-n - 1] != after[-n - 1]), None)
    if tail is None:
        tail = shortest - start
    start, tail = max(start - _AROUND, 0), max(tail - _AROUND, 0)
    matcher = difflib.SequenceMatcher(
        None, before[start : len(before) - tail], after[start : len(after) - tail]
    )
    return [
        [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in group]
        for group in matcher.get_grouped_opcodes(_AROUND)
    ]


def _covers(opcode: Opcode, entry: LedgerEntry) -> bool:
    """Tell whether lines that differ are those of a hunk of the experiment."""
    kind, old, old_end, new, new_end = opcode
    if kind == "equal":
        return False
    return old < entry.line_before <= old_end or new < entry.line_after <= new_end


def _is_at(hunk: Sequence[Opcode], entry: LedgerEntry, sides: Sides) -> bool:
    """Tell whether a hunk of the branch is what became of an entry."""
    changed = [opcode for opcode in hunk if opcode[0] != "equal"]
    if entry.line_now:
        line = entry.line_now - 1
        if entry.site:
            return any(start <= line < end for _, start, end, _, _ in changed)
        return any(start - _NEAR <= line < max(end, start + 1) for _, start, end, _, _ in changed)
    wanted = next((line.strip() for line in _text_lines(entry.after) if line.strip()), "")
    added = (text for _, _, _, start, end in changed for text in sides.after[start:end])
    return bool(wanted) and any(wanted in text for text in added)


def _hunk_rows(hunk: Sequence[Opcode], sides: Sides) -> list[Row]:
    rows = _rows_of(hunk, sides)
    if len(rows) <= _MOST:
        return rows
    return [*rows[:_MOST], Row("…", 0, f"{len(rows) - _MOST} lines more")]


def _rows_of(hunk: Sequence[Opcode], sides: Sides) -> list[Row]:
    rows: list[Row] = []
    for kind, old, old_end, new, new_end in hunk:
        if kind == "equal":
            rows += [Row(" ", n + 1, sides.after[n]) for n in range(new, new_end)]
        else:
            before, after = sides.before[old:old_end], sides.after[new:new_end]
            rows += changed_rows(before, after, old + 1, new + 1)
    return rows


def _standing(lines: Sequence[str], wanted: Sequence[str]) -> list[Row]:
    """Return the lines of onto that have what the experiment wanted there."""
    first = next((line.strip() for line in wanted if line.strip()), "")
    for number, line in enumerate(lines, start=1):
        if first and first in line:
            end = min(len(lines), number - 1 + len(wanted))
            return [Row(" ", n + 1, lines[n]) for n in range(number - 1, end)][:_MOST]
    return []


def _stands_there(site: Site, lines: Sequence[str]) -> bool:
    """Tell whether a site's text is what the file has at its place."""
    return bool(lines) and "\n".join(lines)[site.column :].startswith(site.text)


def _text_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []
