"""The trees of a port: sites rewritten, seeds wrapped or gated, the switch declared."""

from __future__ import annotations

import ast
import difflib
import shlex

from porttool.bench import Decided
from porttool.deciding.edits import port_edits
from porttool.deciding.sites import Decision
from porttool.errors import PlanError
from porttool.gating.gate import gate_edits
from porttool.gating.settings import declare_yaml, derive_yaml
from porttool.gating.switch import declare_config
from porttool.git.commits import TreeId
from porttool.git.quarantine import Quarantine
from porttool.plan.plan import Plan, SwitchPlan
from porttool.source.fit import fit_lines
from porttool.source.layout import has_formatter, line_length
from porttool.source.syntax import Source, TextEdit, apply_edits, parse_source


def write_tree(quarantine: Quarantine, decided: Decided, plan: Plan, *, gated: bool) -> TreeId:
    """Return the tree with sites rewritten and seeds wrapped, in place or behind the switch."""
    changes: dict[str, bytes | None] = {}
    project = quarantine.read(decided.base, "pyproject.toml")
    for path, source in decided.sources.items():
        here = [seed for seed in decided.placed if seed.path == path]
        decisions = [decision for decision in decided.decisions if decision.path == path]
        if gated and plan.switch is not None:
            edits = port_edits(source, decisions, (), decided.lesson)
            edits += decided.gates.get(path, ())
        else:
            edits = port_edits(source, decisions, here, decided.lesson)
        if edits:
            data = apply_edits(source, edits)
            if has_formatter(project):
                data = fit_lines(path, data, source.data, line_length=line_length(project))
            changes[path] = data
    return quarantine.write_tree(decided.base, changes)


def gate_file(
    quarantine: Quarantine, decided: Decided, switch: SwitchPlan, source: Source
) -> tuple[tuple[TextEdit, ...], tuple[Decision, ...]]:
    """Return the edits that gate one file's seeds, and the seeds that only a person can gate."""
    here = [seed for seed in decided.placed if seed.path == source.path]
    if not here:
        return (), ()
    width = line_length(quarantine.read(decided.base, "pyproject.toml"))
    return gate_edits(source, here, switch, decided.lesson, line_length=width)


def write_config(quarantine: Quarantine, tree: TreeId, plan: Plan) -> TreeId:
    """Declare the switch in the config module and the settings files, and write the variants."""
    changes: dict[str, bytes | None] = {}
    width = line_length(quarantine.read(tree, "pyproject.toml"))
    if plan.switch is not None:
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


def check_switch(quarantine: Quarantine, tree: TreeId, plan: Plan) -> None:
    """Hold the plan's `switch.module` and `switch.root` against a tree.

    Raises PlanError with the nearest file or class where one is not there.
    """
    switch = plan.switch
    if switch is None:
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
    listing = quarantine.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree).out
    names = listing.decode("utf-8", "surrogateescape").split("\0")
    modules = [name for name in names if name.endswith(".py")]
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
