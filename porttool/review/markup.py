"""HTML as strings that are safe by their type: text is escaped where it becomes `Html`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import NewType

from porttool.review.text import short, visible

Html = NewType("Html", str)

NOTHING = Html("")
_LIMIT = 2_000


def text(words: str, limit: int = _LIMIT) -> Html:
    """Return text of anybody's as text: nothing in it is markup, and nothing in it hides."""
    return Html(html.escape(visible(short(words, limit))))


def lines(texts: Iterable[str]) -> Html:
    """Return lines of anybody's text, each ended as `pre` shows it."""
    return join(Html(f"{text(line)}\n") for line in texts)


def tag(name: str, *content: Html, **attributes: str | int | bool | None) -> Html:
    """Return an element; `class_` and the like lose their last `_`, others turn `_` into `-`.

    An attribute that is None or False is left out, one that is True has no value.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{name}{written}>{''.join(content)}</{name}>")


def join(parts: Iterable[Html], between: str = "") -> Html:
    """Return pieces of HTML behind each other."""
    return Html(html.escape(between).join(parts))


def code(words: str, limit: int = _LIMIT) -> Html:
    """Return text as code in a line of text."""
    return tag("code", text(words, limit))


def path(words: str) -> Html:
    """Return a path as code that breaks after a slash before it breaks elsewhere."""
    return Html(code(words).replace("/", "/<wbr>").replace("</<wbr>code>", "</code>"))


def prose(words: str, limit: int = _LIMIT) -> Html:
    """Return a sentence of ours that may quote code of theirs between backticks."""
    parts = short(words, limit).split("`")
    if len(parts) % 2 == 0:
        return text(words, limit)
    return join(code(part) if index % 2 else text(part) for index, part in enumerate(parts))


def link(anchor: str, *content: Html) -> Html:
    """Return a link to another place of the page."""
    return tag("a", *content, href=f"#{anchor}")


def table(head: Iterable[str], rows: Iterable[Iterable[Html]], *, class_: str = "") -> Html:
    """Return a table whose first cells head their rows; a narrow screen names every cell."""
    names = list(head)
    heads = join(tag("th", text(cell), scope="col") for cell in names)
    body = join(tag("tr", *_row(cells, names)) for cells in rows)
    return tag(
        "table", tag("thead", tag("tr", heads)), tag("tbody", body), class_=class_ or "facts"
    )


def _row(cells: Iterable[Html], names: Sequence[str]) -> Iterable[Html]:
    for index, cell in enumerate(cells):
        name = visible(names[index]) if index < len(names) else None
        yield tag("td", cell, data_name=name) if index else tag("th", cell, scope="row")


def _attribute(key: str, value: str | int | bool | None) -> str:
    name = key.removesuffix("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
