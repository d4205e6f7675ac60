"""Record the tour of the README as an SVG: real commands, in a pseudo terminal, on a fresh demo.

    python scripts/record_terminal.py docs/images/tour.svg

What the commands print is taken as it comes; only its pace is made up, so that two recordings of
one state differ in nothing but ids. The picture needs no font and no script, follows the reader's
light or dark setting, and stands still at its end where motion is not wanted.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from dataclasses import dataclass, field
from html import escape
from itertools import takewhile
from pathlib import Path

COLUMNS, ROWS = 114, 30
CHARACTER, LINE, MARGIN, BAR = 7.83, 18, 16, 30  # pixels, of 13 pixel monospace
TYPING_S, LINE_S, PAUSE_S, END_S = 0.045, 0.05, 1.4, 6.0
# Each command of the tour, and the line of its answer that is the first not to be shown.
TOUR: tuple[tuple[str, str | None], ...] = (
    (
        "git cherry-pick experiments/torch-compile 2>&1 | grep CONFLICT; git cherry-pick --abort",
        None,
    ),
    ("porttool apply --onto main", None),
    ("git log --format=%s main..port/torch-compile", None),
    ("porttool review --site 3 --no-pager", "Decide otherwise"),
    ("porttool status", None),
)
FINDER = re.compile(
    r"\x1b\[(?P<numbers>[0-9;?]*)(?P<end>[A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b."
    r"|(?P<control>[\r\n\b\t])|(?P<text>[^\x00-\x1f\x7f]+)|[\x00-\x1f\x7f]"
)
STYLES = """\
.porttool { --back: #fbfbfd; --bar: #e9e9ef; --text: #24272e; --faint: #6b7280; --c1: #b42318;
  --c2: #18794e; --c3: #8a5a00; --c4: #2451b3; --c5: #8e3ab8; --c6: #0b7285; --edge: #d5d7de }
@media (prefers-color-scheme: dark) {
  .porttool { --back: #171a21; --bar: #232733; --text: #d8dce6; --faint: #8b93a5; --c1: #ff8a80;
    --c2: #7ddba3; --c3: #f0c674; --c4: #8ab4f8; --c5: #d7a6f5; --c6: #76d6e3; --edge: #303646 }
}
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: var(--text); white-space: pre }
.b { font-weight: 700 } .d { fill: var(--faint) } .u { text-decoration: underline }
.c0, .c7 { fill: var(--text) } .c1 { fill: var(--c1) } .c2 { fill: var(--c2) }
.c3 { fill: var(--c3) } .c4 { fill: var(--c4) } .c5 { fill: var(--c5) } .c6 { fill: var(--c6) }
@media (prefers-reduced-motion: reduce) { * { animation: none !important } }
"""


@dataclass
class Screen:
    """What a terminal would show after some output: cells of (character, style), line by line."""

    lines: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: frozenset[str] = frozenset()

    def feed(self, output: str) -> None:
        """Take in what a program wrote."""
        for found in FINDER.finditer(output):
            if found["text"]:
                for character in found["text"]:
                    self._put(character)
            elif found["control"]:
                self._move(found["control"])
            elif found["end"]:
                self._obey(found["numbers"], found["end"])

    def _put(self, character: str) -> None:
        if self.column == COLUMNS:
            self._move("\r")
            self._move("\n")
        line = self.lines[self.row]
        line += [(" ", "")] * (self.column + 1 - len(line))
        line[self.column] = (character, " ".join(sorted(self.style)))
        self.column += 1

    def _move(self, control: str) -> None:
        if control == "\r":
            self.column = 0
        elif control == "\b":
            self.column = max(0, self.column - 1)
        elif control == "\t":
            self.column += 8 - self.column % 8
        else:
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append([])

    def _obey(self, numbers: str, end: str) -> None:
        first = int(numbers) if numbers.isdigit() else 0
        if end == "m":
            self._colour([int(one or 0) for one in numbers.split(";")])
        elif end == "A":
            self.row = max(0, self.row - max(1, first))
        elif end == "K":
            self.lines[self.row][0 if first == 2 else self.column :] = []
        elif end == "J":
            self.lines[self.row][self.column :] = []
            self.lines[self.row + 1 :] = []

    def _colour(self, numbers: list[int]) -> None:
        while numbers:
            number = numbers.pop(0)
            if number == 0:
                self.style = frozenset()
            elif number in (1, 2, 4):
                self.style |= {{1: "b", 2: "d", 4: "u"}[number]}
            elif number == 22:
                self.style -= {"b", "d"}
            elif number == 24:
                self.style -= {"u"}
            elif number in (38, 48):
                del numbers[: 2 if numbers[:1] == [5] else 4]
            elif number == 39 or 30 <= number <= 37 or 90 <= number <= 97:
                self.style = frozenset(one for one in self.style if not one.startswith("c"))
                self.style |= set() if number == 39 else {f"c{number % 10}"}


def run(command: str, folder: Path, env: dict[str, str]) -> list[list[tuple[str, str]]]:
    """Return the lines that a command leaves in a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    started = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    parts = []
    while True:
        ready, _, _ = select.select([ours], [], [], 600)
        try:
            part = os.read(ours, 65536) if ready else b""
        except OSError:  # the other end is closed
            part = b""
        if not part:
            break
        parts.append(part)
    os.close(ours)
    started.wait()
    screen = Screen()
    screen.feed(b"".join(parts).decode("utf-8", "replace"))
    while screen.lines and not _plain(screen.lines[-1]):
        screen.lines.pop()
    return screen.lines


def _plain(line: list[tuple[str, str]]) -> str:
    return "".join(character for character, _ in line).strip()


def record() -> list[tuple[float, list[tuple[str, str]]]]:
    """Run the tour; return every line with the second at which it appears."""
    with tempfile.TemporaryDirectory(prefix="porttool-tour-") as room:
        folder = Path(room)
        env = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": room,
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PAGER": "cat",
            "COLUMNS": str(COLUMNS),
        }
        (folder / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
        subprocess.run(["porttool", "demo", "lab"], cwd=folder, env=env, check=True)
        lines: list[tuple[float, list[tuple[str, str]]]] = []
        now = 0.4
        for command, stop in TOUR:
            now += TYPING_S * len(command)
            typed = [("$", "b c2"), (" ", "")] + [(character, "b") for character in command]
            lines.append((now, typed))
            now += 0.5
            answer = run(command, folder / "lab", env)
            cut = list(takewhile(lambda line, stop=stop: _plain(line) != stop, answer))
            if len(cut) < len(answer):
                cut.append([(character, "d") for character in "..."])
            for line in [*cut, []]:
                lines.append((now, line))
                now += LINE_S
            now += PAUSE_S + 0.12 * len(cut)
        return lines


def svg(lines: list[tuple[float, list[tuple[str, str]]]]) -> str:
    """Return lines that appear one by one, the last ones staying in sight, as an SVG."""
    whole = lines[-1][0] + END_S
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), ROWS * LINE + BAR + 2 * MARGIN
    frames, texts, scrolled = [], [], [(0.0, 0)]
    for number, (second, line) in enumerate(lines):
        share = 100 * second / whole
        frames.append(
            f"@keyframes l{number} {{ 0% {{ opacity: 0 }} {share:.2f}% {{ opacity: 1 }} }}"
        )
        hidden = max(0, number + 1 - ROWS) * LINE
        if hidden != scrolled[-1][1]:
            scrolled.append((share, hidden))
        if line:
            style = f"animation: l{number} {whole:.1f}s step-end infinite"
            place = f'x="{MARGIN}" y="{BAR + MARGIN + number * LINE + 13}"'
            texts.append(f'<text {place} style="{style}">{_spans(line)}</text>')
    steps = " ".join(f"{at:.2f}% {{ transform: translateY(-{up}px) }}" for at, up in scrolled)
    end = scrolled[-1][1]
    frames.append(f"@keyframes scroll {{ {steps} }}")
    frames.append(
        f".scroll {{ transform: translateY(-{end}px); "
        f"animation: scroll {whole:.1f}s step-end infinite }}"
    )
    dots = "".join(
        f'<circle cx="{MARGIN + 6 + 18 * n}" cy="15" r="5" fill="var(--c{colour})" opacity=".75"/>'
        for n, colour in enumerate((1, 3, 2))
    )
    return "\n".join(
        [
            f'<svg class="porttool" xmlns="http://www.w3.org/2000/svg" role="img" '
            f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
            "<title>A tour of porttool on its demo</title>",
            f"<style>\n{STYLES}" + "\n".join(frames) + "\n</style>",
            f'<clipPath id="view"><rect x="0" y="{BAR + MARGIN - 2}" width="{width}" '
            f'height="{ROWS * LINE + 4}"/></clipPath>',
            f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" '
            'fill="var(--back)" stroke="var(--edge)"/>',
            f'<path d="M.5 {BAR}V8.5a8 8 0 0 1 8-8H{width - 8.5}a8 8 0 0 1 8 8V{BAR}z" '
            'fill="var(--bar)"/>',
            dots,
            '<g clip-path="url(#view)"><g class="scroll">',
            *texts,
            "</g></g>",
            "</svg>",
            "",
        ]
    )


def _spans(line: list[tuple[str, str]]) -> str:
    """Return cells as text, one span for each run of a style."""
    spans: list[tuple[str, str]] = []
    for character, style in line:
        if spans and spans[-1][1] == style:
            spans[-1] = (spans[-1][0] + character, style)
        else:
            spans.append((character, style))
    return "".join(
        f'<tspan class="{style}">{escape(text)}</tspan>' if style else escape(text)
        for text, style in spans
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    assert shutil.which("porttool", path=str(Path(sys.executable).parent)), "make venv"
    target.write_text(svg(record()), encoding="utf-8")
