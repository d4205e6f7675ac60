"""What the site needs beyond mkdocs: the README as its first page, and links to what is no page.

A hook of mkdocs. Pages are read in the repository as well, where a link to a test or a source file
leads somewhere; the site holds none of those, so there the link's text stays. A link to a file
that is not there is left to mkdocs, which refuses it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SECOND_WORD = re.compile(r"^(```[a-z]+) [a-z]+$", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the README as the page that a reader comes to first."""
    files.append(File.generated(config, "index.md", content=_first_page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return a page whose links lead to pages only, and whose fences mkdocs understands."""
    here = Path(page.file.src_uri).parent
    text = _outside_fences(markdown, lambda part: _LINK.sub(lambda one: _inside(one, here), part))
    return _SECOND_WORD.sub(r"\1", text)


def _first_page() -> str:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    def moved(link: re.Match[str]) -> str:
        target = link[3]
        if "://" not in target and not target.startswith("#"):
            target = os.path.relpath(ROOT / target.partition("#")[0], ROOT / "docs") + (
                "#" + target.partition("#")[2] if "#" in target else ""
            )
        return f"{link[1]}[{link[2]}]({target})"

    return _outside_fences(readme, lambda part: _LINK.sub(moved, part))


def _inside(link: re.Match[str], here: Path) -> str:
    target = link[3].partition("#")[0]
    if "://" in target or not target:
        return link[0]
    path = Path(os.path.normpath(ROOT / "docs" / here / target))
    leads_out = not path.is_relative_to(ROOT / "docs")
    return link[2] if leads_out and path.exists() else link[0]


def _outside_fences(text: str, change: Any) -> str:
    place, parts = 0, []
    for fence in _FENCE.finditer(text):
        parts += [change(text[place : fence.start()]), fence[0]]
        place = fence.end()
    return "".join([*parts, change(text[place:])])
