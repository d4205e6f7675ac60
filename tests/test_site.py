"""The documentation as a site: it builds without a warning; generated pages are up to date."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ("command-line.md", "port-yaml.md")


def script(name: str) -> ModuleType:
    """Return a module of the scripts folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built site; its build stops at the first warning."""
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_in_the_site_and_asks_no_other_host_for_anything(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.parent.relative_to(site) for path in site.rglob("index.html")}
    assert built == {path.with_suffix("") for path in pages} | {Path()}
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="?https?:', text) == []


def test_examples_and_links_to_source_files_are_readable(site: Path) -> None:
    gate = (site / "guides" / "gate" / "index.html").read_text(encoding="utf-8")
    assert "```" not in gate
    decides = (site / "guides" / "what-porttool-decides" / "index.html").read_text(encoding="utf-8")
    assert "tests/porttool/cases" not in decides
    assert "27_crlf_file" in decides


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_says_what_the_program_says(name: str) -> None:
    # In a process of its own: the width of help texts is read when typer is imported.
    code = (
        "import sys; sys.path.insert(0, 'scripts'); import write_reference as written; "
        f"sys.stdout.write(written.WRITTEN[{name!r}]())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    page = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert page == done.stdout, "make reference"


def test_a_screen_shows_what_a_terminal_would() -> None:
    screen = script("record_terminal").Screen()
    screen.feed("one\r\n\x1b[32mgreen\x1b[0m\rG\r\nspinner\x1b[2K\rthree\x1b[?25l\r\n")
    screen.feed("gone\r\n\x1b[1A\x1b[2K\x1b[1A\x1b[2Kfour")
    lines = ["".join(character for character, _ in line) for line in screen.lines]
    assert lines == ["one", "Green", "four", "", ""]
    assert [style for _, style in screen.lines[1]] == ["", "c2", "c2", "c2", "c2"]


def test_the_recording_shows_its_commands_and_needs_nothing_from_outside() -> None:
    tour = ROOT / "docs" / "images" / "tour.svg"
    lines = [
        "".join(text.itertext()) for text in ET.parse(tour).iter() if text.tag.endswith("text")
    ]
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    assert commands == [command for command, _ in script("record_terminal").TOUR]
    assert any(line.startswith("created port/torch-compile with 5 commits") for line in lines)
    words = tour.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert re.findall(r"https?://|@import|url\((?!#)", words) == []
