"""Which settings files can turn the switch on, which cannot, and why: told, never repaired."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from porttool.errors import NeedsPerson
from porttool.frozen import dataclass
from porttool.gating.idioms.classes import field_names
from porttool.gating.idioms.lookup import Definition, Sources, qualified
from porttool.gating.settings import plain_values
from porttool.plan.switch import FlatSwitch, Switch, SwitchPlan
from porttool.source.nodes import nodes_of
from porttool.source.syntax import Source

SUFFIXES = (".yaml", ".yml", ".toml", ".json")
_FLAGS = ("argparse", "click", "fire", "typer", "absl")
_GLOBAL = re.compile(r"^#\s*@package\s+_global_\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Reach:
    """Whether a settings file can turn the switch on; `on` says that it does so already."""

    path: str
    reaches: bool
    why: str
    on: bool = False


@dataclass(frozen=True)
class _Entry:
    """A hydra main function's settings: the folder, and the file in it that is taken."""

    folder: str
    name: str


def settings_named(sources: Sources, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the settings files among `paths` that the code names, and those beside hydra's own.

    A name counts as it is written, from the top of the repository or from the file's own folder.
    """
    known = {path for path in paths if path.endswith(SUFFIXES)}
    found: set[str] = set()
    for source in sources.values():
        folder = PurePosixPath(source.path).parent
        for node in nodes_of(source.tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and text.endswith(SUFFIXES):
                found |= {text, _joined(folder, text)} & known
        for entry in _entries(source):
            found |= {path for path in known if path.startswith(f"{entry.folder}/")}
    return tuple(sorted(found))


def _joined(folder: PurePosixPath, name: str) -> str:
    """Return a path from a folder, `..` worked off."""
    parts: list[str] = []
    for part in (folder / name).parts:
        if part == "..":
            parts[-1:] = []
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _entries(source: Source) -> Iterator[_Entry]:
    if "hydra" not in source.text:
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or qualified(source, node.func) not in (
            "hydra.main",
            "hydra.initialize",
        ):
            continue
        words = {word.arg: word.value for word in node.keywords}
        texts = {
            name: value.value
            for name, value in words.items()
            if isinstance(value, ast.Constant) and isinstance(value.value, str)
        }
        if "config_path" in texts:
            folder = _joined(PurePosixPath(source.path).parent, texts["config_path"])
            yield _Entry(folder, texts.get("config_name", ""))


def audit_reach(sources: Sources, files: Mapping[str, bytes], switch: Switch) -> tuple[Reach, ...]:
    """Say of each settings file whether a key in it can turn the switch on.

    `files` are the settings files as the branch has them; `sources` the Python files that name
    them, and the one that declares the switch.
    """
    return tuple(_reach(sources, path, files[path], switch) for path in sorted(files))


def _reach(sources: Sources, path: str, data: bytes, switch: Switch) -> Reach:
    if isinstance(switch, FlatSwitch):
        if switch.idiom in _FLAGS:
            return Reach(path, False, f"the switch is a flag of {switch.module}")
        if switch.idiom == "env":
            return Reach(path, False, f"the switch is the environment variable {switch.variable}")
        if switch.idiom == "dict" and switch.module is not None:
            return Reach(path, False, f"{switch.root} is written out in {switch.module}")
    try:
        values = _values(path, data)
    except (NeedsPerson, ValueError) as error:
        return Reach(path, False, f"it cannot be read: {_first_line(error)}")
    if not isinstance(values, dict):
        return Reach(path, False, "it is not a mapping")
    on = _is_on(values, switch)
    if isinstance(switch, FlatSwitch) and switch.idiom == "hydra":
        return _composed(sources, path, data, on)
    if isinstance(switch, SwitchPlan) or switch.root is not None:
        strange = _strange_key(sources, values, switch)
        if strange is not None:
            why = f"`{strange}` is no field of {switch.root}, so it is not read as one"
            return Reach(path, False, why, on)
    if on:
        return Reach(path, True, "it turns the switch on", on)
    there = switch.key in values
    return Reach(path, True, "it shows the switch, off" if there else "its default is off")


def _first_line(error: Exception) -> str:
    why = error.why if isinstance(error, NeedsPerson) and error.why else str(error)
    return why.splitlines()[0] if why else type(error).__name__


def _values(path: str, data: bytes) -> Any:
    if path.endswith(".toml"):
        return tomllib.loads(data.decode("utf-8"))
    if path.endswith(".json"):
        return json.loads(data)
    return plain_values(data, path=path)


def _is_on(values: Any, switch: Switch) -> bool:
    here = values
    for part in switch.key.split(".") if isinstance(switch, FlatSwitch) else switch.gate.split("."):
        if not isinstance(here, dict) or part not in here:
            return False
        here = here[part]
    return here is True


def _strange_key(sources: Sources, values: Mapping[Any, Any], switch: Switch) -> str | None:
    """Return a key that the class which declares the switch has no field for."""
    source = sources.get(switch.module) if switch.module is not None else None
    for node in source.tree.body if source is not None else ():
        if source is not None and isinstance(node, ast.ClassDef) and node.name == switch.root:
            names = field_names(sources, Definition(source, node))
            if names is None:
                return None
            strange = [str(key) for key in values if key not in {*names, switch.key}]
            return strange[0] if strange else None
    return None


def _composed(sources: Sources, path: str, data: bytes, on: bool) -> Reach:
    """Say of a file in hydra's folder where its keys end up."""
    for source in sources.values():
        for entry in _entries(source):
            if not path.startswith(f"{entry.folder}/"):
                continue
            inside = path.removeprefix(f"{entry.folder}/").rpartition(".")[0]
            group, _, name = inside.rpartition("/")
            if inside == entry.name or inside == entry.name.removesuffix(".yaml"):
                return Reach(path, True, f"{source.path} starts from it", on)
            if not group:
                return Reach(path, True, f"with --config-name={name}", on)
            if _GLOBAL.search(data.decode("utf-8", "replace")):
                return Reach(path, True, f"with {group}={name}: its package is _global_", on)
            where = group.replace("/", ".")
            return Reach(path, False, f"its keys end up under `{where}`, not at the top", False)
    return Reach(path, True, "the code loads it by name", on)
