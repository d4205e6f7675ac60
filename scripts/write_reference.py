"""Write the reference pages that say what the program says of itself.

`docs/reference/command-line.md` is every command's `--help`; `docs/reference/port-yaml.md` is a
table a part of `port.yaml`, from its schema. A test holds both against what this would write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference"
WIDTH = "80"
_REFERENCE = "#/$defs/"

_COMMANDS = """\
# The command line

What every command says of itself with `--help`. In a repository with one port no command needs its
name; `--json` prints the whole answer as [one JSON object](json.md), and the
[exit codes](exit-codes.md) are the same everywhere. This page is written by `make reference`.
"""

_KEYS = """\
# port.yaml, key by key

A port is a folder `patches/NAME/` with this file in it. A key that is not listed here is refused,
with the nearest one that is. The same as a JSON schema, for editors, is in
[port.schema.json](../schema/port.schema.json). `porttool init` puts it beside the plans and drafts
a file that names it. For a plan written by hand `porttool schema > patches/port.schema.json` does,
with `# yaml-language-server: $schema=../port.schema.json` as the plan's first line.
[patches/torch-compile/port.yaml](../../patches/torch-compile/port.yaml) is a complete one. This
page is written by `make reference`.
"""


def command_line() -> str:
    """Return the page of the commands."""
    os.environ |= {"NO_COLOR": "1", "COLUMNS": WIDTH, "TERMINAL_WIDTH": WIDTH}
    import typer.main  # noqa: PLC0415

    from porttool.cli import app  # noqa: PLC0415

    group: Any = typer.main.get_command(app)
    context = group.make_context("porttool", [], resilient_parsing=True)
    parts = [_COMMANDS, _block(group.get_help(context))]
    for name, command in group.commands.items():
        inner = command.make_context(name, [], parent=context, resilient_parsing=True)
        parts += [f"## porttool {name}\n", _block(command.get_help(inner))]
    return "\n".join(parts)


def port_yaml() -> str:
    """Return the page of the keys."""
    from porttool.schemas import port_schema  # noqa: PLC0415

    schema = port_schema()
    parts = [_KEYS]
    for path, part in _parts(schema, schema, ""):
        parts += [f"## {path}\n", f"{part['description']}\n"] if path else []
        parts.append(_table(part))
    return "\n".join(parts)


def _parts(whole: Any, part: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every part of the file with the path of keys that leads to it, once."""
    yield path, part
    for key, value in part["properties"].items():
        for below, inside in _inside(whole, value, f"{path}.{key}" if path else key):
            yield from _parts(whole, inside, below)


def _inside(whole: Any, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if "$ref" in value:
        name = value["$ref"].removeprefix(_REFERENCE)
        definition = whole["$defs"][name]
        if "properties" in definition:
            yield path, definition
    elif "items" in value:
        yield from _inside(whole, value["items"], f"{path}[]")
    else:
        forms = [one for choice in _choices(value) for one in _inside(whole, choice, path)]
        for (below, inside), form in zip(forms, ("sections", "one setting"), strict=False):
            yield (f"{below}, as {form}" if len(forms) > 1 else below), inside


def _choices(value: Mapping[str, Any]) -> list[Any]:
    found = [one for word in ("oneOf", "anyOf") for one in value.get(word, ())]
    return [inner for one in found for inner in (_choices(one) or [one])]


def _table(part: Mapping[str, Any]) -> str:
    rows = ["| key | value | what it is |", "|---|---|---|"]
    for key, value in part["properties"].items():
        words = value.get("description", "").replace("|", "\\|")
        rows.append(f"| `{key}` | {_value(key, value, part)} | {words} |")
    return "\n".join(rows) + "\n"


def _value(key: str, value: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    if key in part.get("required", ()):
        return f"{_kind(value)}, required"
    default = value.get("default")
    if default in (None, [], {}, ""):
        return _kind(value)
    return f"{_kind(value)}, default `{default}`"


def _kind(value: Mapping[str, Any]) -> str:
    """Return the kind of a value in a few words."""
    if "$ref" in value:
        return "mapping" if "enum" not in value else _kind(value)
    if "enum" in value or "const" in value:
        return " or ".join(f"`{one}`" for one in value.get("enum", [value.get("const")]))
    if "items" in value:
        return f"list of {_plural(_kind(value['items']))}"
    if choices := _choices(value):
        kinds = dict.fromkeys(_kind(one) for one in choices if one.get("type") != "null")
        return " or ".join(kinds)
    if value.get("type") == "object":
        inside = value.get("additionalProperties")
        return f"mapping to {_plural(_kind(inside))}" if isinstance(inside, Mapping) else "mapping"
    return {"string": "text", "integer": "whole number", "boolean": "`true` or `false`"}.get(
        str(value.get("type")), str(value.get("type", "any"))
    )


def _plural(kind: str) -> str:
    return {"text": "texts", "mapping": "mappings", "whole number": "whole numbers"}.get(kind, kind)


def _block(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return f"```text\n{lines}\n```\n"


WRITTEN = {"command-line.md": command_line, "port-yaml.md": port_yaml}

if __name__ == "__main__":
    for name, page in WRITTEN.items():
        (PAGES / name).write_text(page(), encoding="utf-8")
