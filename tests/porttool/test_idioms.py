"""A flat switch read and declared in the idiom of each project, as one text of all that changes.

In `cases/gate_idioms/kinds` a line that begins with `+|` is what the declaration adds and one with
`-|` what it takes away; a comment behind a call says how the switch is read there, or why not.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from porttool.gating.idioms.declaring import declare_switch
from porttool.gating.idioms.reading import read_switch
from porttool.gating.idioms.values import SwitchRead, Unclear
from porttool.source.syntax import Source, apply_edits, parse_source

CASES = Path(__file__).parent / "cases" / "gate_idioms"
NAME = "compile_model"
_SAID = re.compile(r"# (reads|asks|none) ?(.*)$")


@dataclass(frozen=True)
class Kind:
    before: dict[str, str]
    after: dict[str, str]


def kinds():
    found = {}
    for file in sorted((CASES / "kinds").glob("*.txt")):
        for section in file.read_text().split("##### ")[1:]:
            title, _, body = section.partition("\n")
            before, after = {}, {}
            for part in body.split("=== ")[1:]:
                path, _, text = part.partition("\n")
                lines = (text.rstrip() + "\n").splitlines(keepends=True)
                before[path] = "".join(
                    line.removeprefix("-|") for line in lines if not line.startswith("+|")
                )
                after[path] = "".join(
                    line.removeprefix("+|") for line in lines if not line.startswith("-|")
                )
            found[f"{file.stem}-{title.partition(':')[0]}"] = Kind(before, after)
    return found


KINDS = kinds()


def parsed(files):
    return {path: parse_source(path, text.encode()) for path, text in files.items()}


def wrapped(source: Source):
    return [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.compile"
    ]


def declared(sources, reads):
    edits = declare_switch(sources, reads, NAME, line_length=120)
    return {
        path: apply_edits(source, edits.get(path, ())).decode() for path, source in sources.items()
    }


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_read_and_declared(name):
    kind = KINDS[name]
    sources = parsed(kind.before)
    reads = []
    num_calls = 0
    for path, source in sources.items():
        for call in wrapped(source):
            num_calls += 1
            said = _SAID.search(kind.before[path].splitlines()[call.lineno - 1])
            assert said is not None, f"{path}:{call.lineno} says nothing"
            found = read_switch(sources, path, call, NAME)
            if said[1] == "none":
                assert found is None
            elif said[1] == "asks":
                assert isinstance(found, Unclear), found
                assert said[2] in " ".join(found.reasons)
            else:
                assert isinstance(found, SwitchRead), found
                assert found.expression == said[2]
                reads.append(found)
    assert num_calls
    result = declared(sources, reads)
    assert result == kind.after
    for path, text in result.items():
        compile(text, path, "exec")
    again = parsed(result)
    repeated = [
        read
        for path, source in again.items()
        for call in wrapped(source)
        if isinstance(read := read_switch(again, path, call, NAME), SwitchRead)
    ]
    assert [read.expression for read in repeated] == [read.expression for read in reads]
    assert declared(again, repeated) == result, "declaring twice changes nothing"


@pytest.mark.parametrize(
    "folder", [path.name for path in sorted(CASES.iterdir()) if (path / "expect.json").exists()]
)
def test_what_is_declared_is_what_the_case_expects(folder):
    case = CASES / folder
    expect = json.loads((case / "expect.json").read_text())
    files = {
        path.relative_to(case / "main").as_posix(): path.read_text()
        for path in sorted((case / "main").rglob("*.py"))
    }
    sources = parsed(files)
    [(path, call)] = [(path, call) for path, source in sources.items() for call in wrapped(source)]
    read = read_switch(sources, path, call, NAME)
    assert isinstance(read, Unclear) == expect["ask"]
    if isinstance(read, SwitchRead):
        wanted = (case / "expected" / path).read_text()
        assert f"{read.expression})" in wanted
        for declaring, text in declared(sources, [read]).items():
            new = [line for line in text.splitlines() if line not in files[declaring].splitlines()]
            expected = (case / "expected" / declaring).read_text().splitlines()
            assert all(line in expected for line in new)
            assert (len(new) == 1) == (
                read.declared_in is not None and declaring == read.declared_in.path
            )
