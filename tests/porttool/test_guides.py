"""The pages are true: links lead somewhere, and the table of kinds says what the cases say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A review is what the tool prints, and its own tests hold it.
DOCS = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reviews"]
PAGES = [ROOT / "README.md", *sorted(DOCS)]
TABLE = ROOT / "docs" / "guides" / "what-porttool-decides.md"
CASES = Path(__file__).parent / "cases" / "ports"
NAMES = sorted(folder.name for folder in CASES.iterdir() if (folder / "experiment").is_dir())
OUTCOMES = {"rewritten", "left alone", "asked", "hazard", "refused"}
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def rows():
    """Return (outcomes, links) of every line of the tables."""
    found = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        if len(cells) == 3 and LINK.search(cells[2]):
            found.append(({word.strip() for word in cells[1].split(",")}, LINK.findall(cells[2])))
    return found


def case_rows():
    """Return the outcomes of every case by its name, as often as the table has it."""
    return [
        (target.rpartition("/")[2], outcomes)
        for outcomes, links in rows()
        for _, target in links
        if "/cases/ports/" in target
    ]


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_link_leads_to_a_file_and_every_test_is_in_it(page):
    for text, target in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("https://", "#")):
            continue
        path = page.parent / target.partition("#")[0]
        assert path.exists(), target
        if text.startswith("test_") and not text.endswith(".py"):
            assert f"def {text}(" in path.read_text(encoding="utf-8"), text


def test_every_case_has_one_line():
    assert sorted(name for name, _ in case_rows()) == NAMES


def test_outcomes_are_of_the_known_kinds():
    assert [outcomes for outcomes, _ in rows() if not outcomes <= OUTCOMES] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_line_says_what_its_case_expects(name):
    folder = CASES / name
    exact = folder / "expect.json"
    file = exact if exact.exists() else folder / "expect_properties.json"
    wanted = json.loads(file.read_text(encoding="utf-8"))
    changed = files_of(folder / "main") != files_of(folder / "expected")
    asked = bool(wanted.get("asks") or wanted.get("asks_v2"))
    expected = {
        "rewritten": changed,
        "asked": asked,
        "hazard": bool(wanted.get("hazards")),
        "left alone": not changed and not asked,
    }
    assert dict(case_rows())[name] == {word for word, holds in expected.items() if holds}
