"""What a statement binds that the port is still to add to a file: the project counts it in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from porttool.deciding.dataflow.fileindex import Binding, FileIndex, Scope
from porttool.deciding.dataflow.project import Project
from porttool.deciding.sites import PlacedSeed
from porttool.frozen import dataclass
from porttool.source.nodes import nodes_of
from porttool.source.syntax import same_tree, span_of, statement_span


@dataclass(frozen=True)
class Added:
    """What an added statement binds: a value, and the reads that get nothing else."""

    value: ast.expr
    reads: tuple[ast.expr, ...] = ()


def count_in(project: Project, placed: PlacedSeed) -> Added | None:
    """Add the binding of a placed statement to a project, and return it.

    None for a statement that re-binds nothing (`self.net.compile()`), or nothing that is read.
    """
    file = project.files[placed.path]
    mention = _mention(file, placed)
    if placed.seed.kind != "rebind" or placed.target is None or mention is None:
        return None
    behind = next(
        node
        for node in nodes_of(file.source.tree)
        if isinstance(node, ast.stmt) and statement_span(file.source, node) == placed.binding
    )
    target = ast.parse(placed.target, mode="eval").body
    if isinstance(target, ast.Attribute):
        owner = mention.value if isinstance(mention, ast.Attribute) else mention
        if same_tree(mention, target.value):
            owner = mention
        if not same_tree(owner, target.value):
            return None  # nothing there reads what it is an attribute of
        target.value = owner
    ast.copy_location(target, behind)
    value = ast.copy_location(ast.Name("_", ast.Load()), mention)
    scope = _scope(file, mention)
    project.add(
        Binding("assign", target, behind, value, (), scope), None if placed.ahead else behind
    )
    return Added(value, tuple(_reads(file, scope, target, behind)))


def _reads(
    file: FileIndex, scope: Scope, target: ast.expr, behind: ast.stmt
) -> Iterator[ast.Attribute]:
    """Yield the reads of an attribute further down, where the statement runs on every way there."""
    if not isinstance(target, ast.Attribute) or behind not in getattr(scope.node, "body", ()):
        return
    root: ast.expr = target
    while isinstance(root, ast.Attribute):
        root = root.value
    bound = scope.bindings.get(getattr(root, "id", ""), [])
    stores = [store for store in file.stores.get(target.attr, ()) if store.scope.home is scope]
    if len(bound) > 1 or stores:
        return
    for node in file.attributes.get(target.attr, ()):
        here = node.lineno > (behind.end_lineno or 0) and same_tree(node, target)
        if here and _scope(file, node) is scope:
            yield node


def _mention(file: FileIndex, placed: PlacedSeed) -> ast.Name | ast.Attribute | None:
    for node in nodes_of(file.source.tree):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        if span_of(file.source, node) == placed.value:
            return node
    return None


def _scope(file: FileIndex, mention: ast.expr) -> Scope:
    root: ast.expr = mention
    while isinstance(root, ast.Attribute):
        root = root.value
    return file.scope_at.get(root, file.module).home
