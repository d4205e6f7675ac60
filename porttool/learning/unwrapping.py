"""What an experiment teaches, in the form in which it leaves alone what is not wrapped.

A helper that needs a wrapped object unwraps it only where it is one: `net._orig_mod` becomes
`getattr(net, "_orig_mod", net)`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import replace

from porttool.learning.lesson import NEW_FILE, Helper, Lesson, Rule, Seed, Wrapper
from porttool.learning.neutral import (
    Definitions,
    is_neutral,
    is_neutral_dropped,
    named_helpers,
    truth,
)
from porttool.learning.rewriting import pattern_expression, pattern_text
from porttool.source.syntax import Names


def keeps_value(before: str, after: str, definitions: Definitions, wrapper: Wrapper) -> bool:
    """Tell whether `after` gives what `before` gives of an object that is wrapped.

    Its bare unwrappings are taken to be conditional, which changes nothing about what it returns.
    """
    conditional = {
        name: _conditional(one, wrapper) if isinstance(one, ast.FunctionDef) else one
        for name, one in definitions.items()
    }
    template = _Conditional(wrapper).visit(copy.deepcopy(pattern_expression(after)))
    return is_neutral(before, pattern_text(template), conditional, wrapper)


def _conditional(helper: ast.FunctionDef, wrapper: Wrapper) -> ast.stmt:
    text = _neutral_text(ast.unparse(helper) + "\n", wrapper)
    return ast.parse(text).body[0]


def neutral_form(rule: Rule, definitions: Definitions, wrapper: Wrapper) -> Rule:
    """Return the rule with every bare unwrapping made conditional, if that makes it neutral.

    `$X._orig_mod` becomes `getattr($X, "_orig_mod", $X)`, and the rule is marked as adapted. A rule
    that is neutral, or stays partial, comes back as it was.
    """
    if rule.neutral:
        return rule
    tree = _Conditional(wrapper).visit(copy.deepcopy(pattern_expression(rule.after)))
    after = pattern_text(tree).replace(f"'{wrapper.unwrap}'", f'"{wrapper.unwrap}"')
    if after == rule.after or not is_neutral(rule.before, after, definitions, wrapper):
        return rule
    return replace(rule, after=after, neutral=True, adapted=True)


def for_gated_port(lesson: Lesson) -> Lesson:
    """Return the lesson with its rules and helpers in their neutral form, wherever there is one.

    With the switch off nothing is wrapped, so only neutral rewrites keep the program as it was.
    """
    helpers = tuple(_neutral_helper(helper, lesson.wrapper) for helper in lesson.helpers)
    homes = {hunk.path for hunk in lesson.hunks if hunk.by == NEW_FILE}
    brought = tuple(
        _neutral_helper(helper, lesson.wrapper) if helper.path in homes else helper
        for helper in lesson.brought
    )
    residual = {
        path: _neutral_file(data, lesson.wrapper) if data and path in homes else data
        for path, data in lesson.residual.items()
    }
    rules = []
    for rule in lesson.rules:
        definitions = named_helpers((*helpers, *brought), rule.after)
        texts = rule.before, rule.after
        neutral = rule.neutral or is_neutral(*texts, definitions, lesson.wrapper)
        if set(rule.uses) == {"dropped"}:
            neutral = neutral or is_neutral_dropped(*texts, definitions, lesson.wrapper)
        adapted = rule.adapted or neutral != rule.neutral
        known = replace(rule, neutral=neutral, adapted=adapted)
        rules.append(neutral_form(known, definitions, lesson.wrapper))
    seeds = tuple(_in_full(seed, lesson) for seed in lesson.seeds)
    return replace(
        lesson,
        rules=tuple(rules),
        helpers=helpers,
        brought=brought,
        residual=residual,
        seeds=seeds,
    )


def _in_full(seed: Seed, lesson: Lesson) -> Seed:
    """Return a seed that does without the experiment's own imports where a name can be in full.

    With the switch off nothing may be imported that was not: that may do something.
    """
    added = [Names(ast.parse(one.statement)) for one in lesson.imports if one.path == seed.path]
    spelled = []
    for origin, written in seed.spelled:
        node = ast.parse(written, mode="eval").body
        brought = any(names.qualified(node, node) == origin for names in added)
        spelled.append((origin, origin if brought else written))
    return replace(seed, spelled=tuple(spelled))


class _Conditional(ast.NodeTransformer):
    """Rewrites `e._orig_mod` into `getattr(e, "_orig_mod", e)` where `e` may be repeated."""

    def __init__(self, wrapper: Wrapper) -> None:
        self._wrapper = wrapper

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr != self._wrapper.unwrap or not isinstance(node.value, ast.Name):
            return node
        text = f'getattr({node.value.id}, "{node.attr}", {node.value.id})'
        return ast.parse(text, mode="eval").body


def _neutral_helper(helper: Helper, wrapper: Wrapper) -> Helper:
    """Return a helper whose bare unwrappings of a name are conditional; its text else untouched."""
    return replace(helper, text=_neutral_text(helper.text, wrapper))


def _neutral_file(data: bytes, wrapper: Wrapper) -> bytes:
    """Return a file that the experiment adds with its bare unwrappings conditional, as above."""
    try:
        return _neutral_text(data.decode(), wrapper).encode()
    except (UnicodeDecodeError, SyntaxError, ValueError):
        return data


def _neutral_text(whole: str, wrapper: Wrapper) -> str:
    tree = ast.parse(whole)
    text = whole.splitlines(keepends=True)
    decided = set(_known_to_be_wrapped(tree, wrapper))
    bare = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == wrapper.unwrap
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.value, ast.Name)
        and node.lineno == node.end_lineno
        and node not in decided
    ]
    for node in sorted(bare, key=lambda node: (-node.lineno, -node.col_offset)):
        line = text[node.lineno - 1].encode()
        name = node.value.id  # type: ignore[attr-defined]
        call = f'getattr({name}, "{wrapper.unwrap}", {name})'
        line = line[: node.col_offset] + call.encode() + line[node.end_col_offset :]
        text[node.lineno - 1] = line.decode()
    return "".join(text)


def _known_to_be_wrapped(tree: ast.AST, wrapper: Wrapper) -> Iterator[ast.AST]:
    """Yield what only runs where a test has found the object wrapped."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp) and truth(node.test, wrapper) is False:
            taken = node.body if isinstance(node.body, list) else [node.body]
            for part in taken:
                yield from ast.walk(part)
