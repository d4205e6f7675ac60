"""A repository with many unmerged branches, made in one go by `git fast-import`.

Equal arguments give equal commits. Modules of a project are edited line by line on `main`; branches
left it at any time and edit the same modules. Every tenth branch begins to wrap a network, and of
every seventh `main` has picked a commit since.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping
from pathlib import Path

NUM_FILES = 150
NUM_LINES = 60
NUM_MAIN = 400
FIRST_SECOND = 1_700_000_000
_WHO = "Ada Lovelace <ada@example.org>"
_WRAP = """
    def build(self, network):
        self.network = torch.compile(network)
        return self.network.state_dict()
"""

Files = dict[str, list[str]]


def write_branches(folder: Path, *, num_branches: int, num_main: int = NUM_MAIN) -> None:
    """Write the repository and check nothing out."""
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(folder)], check=True)
    subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=folder,
        input=_stream(num_branches, num_main).encode(),
        check=True,
    )


def _stream(num_branches: int, num_main: int) -> str:
    chance = random.Random(0)
    files = {_path(number): _module(number) for number in range(NUM_FILES)}
    writer = _Writer()
    everything = {path: "".join(lines) for path, lines in files.items()}
    tips = [writer.commit("main", None, "base", everything)]
    history = [files]
    leaving = sorted(chance.randrange(num_main * 9 // 10) for _ in range(num_branches))
    branches = iter(enumerate(leaving))
    waiting = next(branches, None)
    for number in range(num_main):
        while waiting is not None and waiting[1] == number:
            picked = _branch(writer, chance, waiting[0], tips[-1], history[-1])
            if waiting[0] % 7 == 6:
                files, changes = _edited(history[-1], picked[0], dict(picked[1]))
                history[-1] = files
                tips[-1] = writer.commit("main", tips[-1], f"pick {waiting[0]}", changes)
            waiting = next(branches, None)
        edited = [_path(chance.randrange(NUM_FILES)) for _ in range(2)]
        files, changes = _edited(
            history[-1],
            edited,
            {path: (chance.randrange(NUM_LINES), f"main {number}") for path in edited},
        )
        tips.append(writer.commit("main", tips[-1], f"main goes on, {number}", changes))
        history.append(files)
    return "".join(writer.parts)


def _branch(
    writer: _Writer, chance: random.Random, number: int, start: int, files: Files
) -> tuple[list[str], dict[str, tuple[int, str]]]:
    """Write a branch of a few commits and return what its first one edits."""
    tip, name, first = start, f"experiments/{number:03}", None
    for step in range(1 + number % 6):
        edited = [_path(chance.randrange(NUM_FILES)) for _ in range(1 + step % 3)]
        edits = {path: (chance.randrange(NUM_LINES), f"{name} {step}") for path in edited}
        first = first or (edited, edits)
        files, changes = _edited(files, edited, edits)
        if number % 10 == 9 and step == 0:
            files = {**files, edited[0]: [*files[edited[0]], _WRAP]}
            changes[edited[0]] = "".join(files[edited[0]])
        tip = writer.commit(name, tip, f"try {name}, {step}", changes)
    assert first is not None
    return first


def _edited(
    files: Files, paths: list[str], edits: Mapping[str, tuple[int, str]]
) -> tuple[Files, dict[str, str]]:
    after = dict(files)
    for path in paths:
        line, words = edits[path]
        lines = [*after[path]]
        lines[3 + line] = f"        self.value_{line} = {words!r}\n"
        after[path] = lines
    return after, {path: "".join(after[path]) for path in paths}


def _path(number: int) -> str:
    return f"project/part_{number // 25}/module_{number}.py"


def _module(number: int) -> list[str]:
    head = ["import torch\n", f"class Module{number}:\n", "    def __init__(self):\n"]
    return head + [f"        self.value_{line} = {line}\n" for line in range(NUM_LINES)]


class _Writer:
    """The stream of `git fast-import`, and the mark of the last commit in it."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._mark = 0

    def commit(
        self, branch: str, above: int | None, message: str, changes: Mapping[str, str]
    ) -> int:
        self._mark += 1
        moment = f"{FIRST_SECOND + 60 * self._mark} +0000"
        self.parts += [
            f"commit refs/heads/{branch}\nmark :{self._mark}\n",
            f"author {_WHO} {moment}\ncommitter {_WHO} {moment}\n",
            f"data {len(message.encode())}\n{message}\n",
            f"from :{above}\n" if above else "",
        ]
        for path, text in changes.items():
            self.parts.append(f"M 644 inline {path}\ndata {len(text.encode())}\n{text}\n")
        self.parts.append("\n")
        return self._mark
