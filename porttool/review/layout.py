"""Blocks at a terminal: further in, in columns, and paths that break where they may."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from porttool.frozen import dataclass
from porttool.review.text import visible


@dataclass(frozen=True)
class Place:
    """A path and a line that break after a slash, never within a name that fits the column."""

    text: str
    style: str = ""

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(max(map(len, self._pieces())), len(self.text)).clamp(
            max_width=options.max_width
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [""]
        for piece in self._pieces():
            if lines[-1] and len(lines[-1]) + len(piece) > options.max_width:
                lines.append("")
            lines[-1] += piece
        yield Text("\n".join(lines), style=self.style, overflow="fold")

    def _pieces(self) -> list[str]:
        return re.findall(r"[^/]*/|[^/]+$", self.text) or [self.text]


@dataclass(frozen=True)
class Indented:
    """Something further in, its lines ending where their text does."""

    block: RenderableType
    by: int

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        inner = options.update_width(max(options.max_width - self.by, 1))
        least, most = Measurement.get(console, inner, self.block)
        return Measurement(least + self.by, most + self.by)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        inner = options.update_width(max(options.max_width - self.by, 1))
        for line in Segment.split_lines(console.render(self.block, inner)):
            while line and not line[-1].text.rstrip(" "):
                line.pop()
            if line:
                yield Segment(" " * self.by)
                yield from line[:-1]
                yield Segment(line[-1].text.rstrip(" "), line[-1].style)
            yield Segment.line()


def verbatim(lines: Iterable[str]) -> RenderableType:
    """Return lines to copy: where they are too wide the terminal folds them, and adds nothing."""
    return Group(*(Text(visible(line), no_wrap=True, overflow="ignore") for line in lines))


def grid(columns: int) -> Table:
    """Return columns without lines, each folded where it is too wide."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for _ in range(columns):
        table.add_column(overflow="fold")
    return table
