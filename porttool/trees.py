"""The trees of a port: sites rewritten, seeds wrapped or gated, the switch declared."""

from __future__ import annotations

import ast
import difflib
import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from porttool import report as told
from porttool.deciding.edits import port_edits
from porttool.deciding.sites import Decision
from porttool.errors import PlanError, UnparsableSource
from porttool.gating.flat import check_declarable, declare_flat
from porttool.gating.gate import gate_edits
from porttool.gating.reach import SUFFIXES, audit_reach, settings_named
from porttool.gating.settings import declare_key, declare_yaml, derive_yaml
from porttool.gating.switch import declare_config
from porttool.git.commits import TreeId
from porttool.git.quarantine import Quarantine
from porttool.plan.plan import Plan
from porttool.plan.switch import FlatSwitch, Switch
from porttool.source.fit import fit_lines
from porttool.source.layout import has_formatter, line_length
from porttool.source.syntax import Source, TextEdit, apply_edits, parse_source
from porttool.workbench import Decided

_MAX_WORDS = 100  # that git searches for one by one


def write_tree(quarantine: Quarantine, decided: Decided, plan: Plan, *, gated: bool) -> TreeId:
    """Return the tree with sites rewritten and seeds wrapped, in place or behind the switch."""
    changes: dict[str, bytes | None] = {}
    project = quarantine.read(decided.base, "pyproject.toml")
    for path, source in decided.sources.items():
        if gated and plan.switch is not None:
            here = [seed for seed in decided.placed if seed.path == path]
            here = here if path in decided.gates else []
            edits = port_edits(source, decided.decisions, (), decided.lesson, here)
            gates = decided.gates.get(path, ())
            # Behind one statement a guard comes before definitions, which end its block; in front
            # of one import the standard library comes first.
            ahead = [e for e in gates if e.text.lstrip().startswith(("if ", "import os\n"))]
            edits = tuple(dict.fromkeys((*ahead, *edits, *gates)))
        else:
            edits = port_edits(source, decided.decisions, decided.placed, decided.lesson)
        if edits:
            data = apply_edits(source, edits)
            if has_formatter(project):
                data = fit_lines(path, data, source.data, line_length=line_length(project))
            changes[path] = data
    return quarantine.write_tree(decided.base, changes)


def gate_file(
    quarantine: Quarantine, decided: Decided, switch: Switch, source: Source
) -> tuple[tuple[TextEdit, ...], tuple[Decision, ...]]:
    """Return the edits that gate one file's seeds, and the seeds that only a person can gate."""
    here = [seed for seed in decided.placed if seed.path == source.path]
    if not here:
        return (), ()
    width = line_length(quarantine.read(decided.base, "pyproject.toml"))
    sources = {source.path: source}
    if isinstance(switch, FlatSwitch):
        sources = settings_files(quarantine, decided.base, switch, [source.path]) | sources
    edits, asks = gate_edits(
        source, here, switch, decided.lesson, line_length=width, sources=sources
    )
    if isinstance(switch, FlatSwitch) and switch.is_parameter and switch.module == source.path:
        # What reads a parameter means nothing in a file that does not have it yet.
        edits = (*edits, *declare_flat(sources, switch, line_length=width))
    return edits, asks


def settings_files(
    quarantine: Quarantine, tree: TreeId, switch: FlatSwitch, paths: Iterable[str] = ()
) -> dict[str, Source]:
    """Return the files that declare a flat switch, or may hand settings to the given ones."""
    known = {*paths, *([switch.module] if switch.module else [])}
    words = {_module_name(path) for path in known}
    if switch.root is not None:
        words.add(switch.root.rpartition(".")[2])
    found = quarantine.git.run(
        *("grep", "--no-color", "--full-name", "-F", "-w", "-l", "-z"),
        *(option for word in sorted(words) for option in ("-e", word)),
        *(tree, "--", "*.py"),
        ok=(0, 1),
    )
    known |= {name.removeprefix(f"{tree}:") for name in _paths(found.out)}
    files = quarantine.read_many(tree, known)
    if switch.module is not None:
        parse_source(switch.module, files[switch.module])  # which has to be readable
    return _readable(files)


def _module_name(path: str) -> str:
    name = PurePosixPath(path)
    return name.parent.name or name.stem if name.stem == "__init__" else name.stem


def write_config(quarantine: Quarantine, tree: TreeId, plan: Plan) -> TreeId:
    """Declare the switch in the config module and the settings files, and write the variants."""
    changes: dict[str, bytes | None] = {}
    width = line_length(quarantine.read(tree, "pyproject.toml"))
    if isinstance(plan.switch, FlatSwitch):
        changes |= _flat_switch(quarantine, tree, plan, plan.switch)
    elif plan.switch is not None:
        module = plan.switch.module
        source = parse_source(module, _required(quarantine, tree, module, plan))
        changes[module] = declare_config(source, plan.switch, line_length=width)
        for path in plan.switch.yaml:
            data = _required(quarantine, tree, path, plan)
            changes[path] = declare_yaml(data, plan.switch, path=path)
    for variant in plan.variants:
        base = changes.get(variant.source) or _required(quarantine, tree, variant.source, plan)
        data = derive_yaml(base, variant.changes, variant.header, path=variant.source)
        if quarantine.read(tree, variant.path) not in (None, data):
            raise PlanError(
                f"variants: {variant.path} exists on onto",
                where=f"{plan.path} (variants)",
                why="what is there is not what the port would write, and would be lost",
                next="give the variant another path in port.yaml, or remove the file from onto: "
                f"git rm -- {shlex.quote(variant.path)}",
            )
        changes[variant.path] = data
    return quarantine.write_tree(tree, changes)


def _flat_switch(
    quarantine: Quarantine, tree: TreeId, plan: Plan, switch: FlatSwitch
) -> dict[str, bytes | None]:
    """Return the files that declare a flat switch, changed."""
    changes: dict[str, bytes | None] = {}
    if switch.module is not None:
        project = quarantine.read(tree, "pyproject.toml")
        sources = settings_files(quarantine, tree, switch)
        source = sources[switch.module]
        edits = declare_flat(sources, switch, line_length=line_length(project))
        data = apply_edits(source, edits)
        if has_formatter(project):
            data = fit_lines(source.path, data, source.data, line_length=line_length(project))
        changes[source.path] = data
    for path in switch.yaml:
        data = _required(quarantine, tree, path, plan)
        changes[path] = declare_key(data, switch.key, path=path)
    return changes


def settings_reach(quarantine: Quarantine, tree: TreeId, plan: Plan) -> tuple[told.Reach, ...]:
    """Say of every settings file that the code or the plan names whether it reaches the switch."""
    switch = plan.switch
    if switch is None:
        return ()
    settings = [path for path in quarantine.paths(tree) if path.endswith(SUFFIXES)]
    if not settings:
        return ()
    words = {PurePosixPath(path).name for path in settings}
    if len(words) > _MAX_WORDS:
        words = set(SUFFIXES)
    found = quarantine.git.run(
        *("grep", "--no-color", "--full-name", "-l", "-z", "-F", "-e", "hydra"),
        *(option for word in sorted(words) for option in ("-e", word)),
        *(tree, "--", "*.py"),
        ok=(0, 1),
    )
    names = [name.removeprefix(f"{tree}:") for name in _paths(found.out)]
    if switch.module is not None:
        names.append(switch.module)
    sources = _readable(quarantine.read_many(tree, names))
    planned = [*switch.yaml, *(variant.path for variant in plan.variants)]
    files = quarantine.read_many(tree, {*settings_named(sources, settings), *planned})
    variants = {variant.path for variant in plan.variants}
    return tuple(
        told.Reach(reach.path, reach.reaches, reach.why, reach.on and reach.path not in variants)
        for reach in audit_reach(sources, files, switch)
    )


def _paths(listing: bytes) -> list[str]:
    names = listing.decode("utf-8", "surrogateescape").split("\0")
    return [name for name in names if name]


def _readable(files: Mapping[str, bytes]) -> dict[str, Source]:
    """Parse what parses; Python could not load the rest either."""
    sources = {}
    for path, data in files.items():
        try:
            sources[path] = parse_source(path, data)
        except UnparsableSource:
            continue
    return sources


def check_switch(quarantine: Quarantine, tree: TreeId, plan: Plan) -> None:
    """Hold the plan's `switch.module` and `switch.root` against a tree.

    Raises PlanError with the nearest file or class where one is not there, NeedsPerson where a flat
    switch cannot be declared.
    """
    switch = plan.switch
    if switch is None or switch.module is None:
        return
    data = quarantine.read(tree, switch.module)
    if data is None:
        nearest = _nearest_path(quarantine, tree, switch.module)
        raise PlanError(
            f"switch.module: {switch.module} is not in the tree that is ported onto",
            where=f"{plan.path} (switch.module)",
            why="the switch is declared in a file of the project, which has to be there",
            next=f"write module: {nearest}"
            if nearest
            else "name the file with the project's config classes",
        )
    if isinstance(switch, FlatSwitch):
        check_declarable(settings_files(quarantine, tree, switch), switch)
        return
    tree_of_module = parse_source(switch.module, data).tree
    classes = [node.name for node in tree_of_module.body if isinstance(node, ast.ClassDef)]
    if switch.root not in classes:
        near = difflib.get_close_matches(switch.root, classes, n=1, cutoff=0.0)
        raise PlanError(
            f"switch.root: {switch.module} has no class {switch.root}",
            where=f"{plan.path} (switch.root)",
            why=f"the classes there are {', '.join(classes)}"
            if classes
            else "no class is there at all",
            next=f"write root: {near[0]}"
            if near
            else "name the file with the project's config classes in switch.module",
        )


def _nearest_path(quarantine: Quarantine, tree: TreeId, path: str) -> str | None:
    modules = [name for name in quarantine.paths(tree) if name.endswith(".py")]
    base = path.rpartition("/")[2]
    same = [name for name in modules if name.rpartition("/")[2] == base]
    nearest = difflib.get_close_matches(path, same or modules, n=1, cutoff=0.0 if same else 0.6)
    return nearest[0] if nearest else None


def _required(quarantine: Quarantine, tree: TreeId, path: str, plan: Plan) -> bytes:
    data = quarantine.read(tree, path)
    if data is None:
        raise PlanError(
            f"{path} is not in the tree that the port makes",
            where=f"{plan.path}",
            why="port.yaml names it as a file to be changed or copied",
            next="correct the path in port.yaml",
        )
    return data
