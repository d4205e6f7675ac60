"""The trees of a port: sites rewritten, seeds wrapped or gated, the switch declared."""

from __future__ import annotations

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
            changes[path] = declare_yaml(_required(quarantine, tree, path, plan), plan.switch)
    for variant in plan.variants:
        base = changes.get(variant.source) or _required(quarantine, tree, variant.source, plan)
        changes[variant.path] = derive_yaml(base, variant.changes, variant.header)
    return quarantine.write_tree(tree, changes)


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
