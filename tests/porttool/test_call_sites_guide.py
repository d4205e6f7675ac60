"""The guide of `porttool gate` is true: each of its examples goes through the command."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from porttool.cli import app

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "gate.md"
BLOCK = re.compile(r"^```(\S+)(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(kind, word, text) for kind, word, text in BLOCK.findall(GUIDE.read_text())]
EXAMPLES = [
    pytest.param(word, first, second, id=f"{number // 2}-{word}")
    for number, ((_, word, first), (_, _, second)) in enumerate(pairwise(BLOCKS))
    if word in ("before", "flagged")
]


def test_every_block_is_part_of_an_example() -> None:
    pairs = [
        (word, kind) for (_, word, _), (kind, _, _) in zip(BLOCKS[::2], BLOCKS[1::2], strict=True)
    ]
    assert set(pairs) == {("before", "python"), ("flagged", "text")}
    assert len(pairs) == len(EXAMPLES)


@pytest.mark.parametrize(("word", "before", "wanted"), EXAMPLES)
def test_example(
    word: str, before: str, wanted: str, make_repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_repo({"train.py": before.encode()}).path)
    done = CliRunner().invoke(app, ["gate", "--json", "train.py"], catch_exceptions=False)
    found = json.loads(done.stdout)["findings"]
    after = Path("train.py").read_text()
    if word == "before":
        assert done.exit_code == 0
        place = 0
        for part in wanted.split("...\n"):
            assert part in after[place:]
            place = after.index(part, place) + len(part)
        return
    assert (after == before) is (done.exit_code == 3)
    said = [f"{one['line']}:{one['column']}: {one['what']}" for one in found]
    said += [f"next: {one['next']}" for one in found]
    for line in wanted.splitlines():
        assert [one for one in said if one.startswith(line)]
