"""Merge what single edits teach into rules, and refuse what contradicts itself."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from porttool.errors import CannotLearn
from porttool.learning.change import ChangedFile
from porttool.learning.generalise import Pattern
from porttool.learning.lesson import Example, Helper, Rule, Wrapper, is_name_of
from porttool.learning.neutral import (
    Definitions,
    is_neutral,
    is_neutral_dropped,
    named_helpers,
)
from porttool.learning.rewriting import called_names, instantiate, match, pattern_expression
from porttool.learning.unwrapping import keeps_value
from porttool.learning.uses import Use, use_of
from porttool.source.syntax import Names

PatternKey = tuple[str, str]


def pattern_key(pattern: Pattern) -> PatternKey:
    """Return what makes two patterns the same rule, however they were formatted."""
    return (
        ast.unparse(pattern_expression(pattern.before)),
        ast.unparse(pattern_expression(pattern.after)),
    )


def merged_rules(
    files: Sequence[ChangedFile],
    definitions: Definitions,
    wrapper: Wrapper,
    brought: Sequence[Helper] = (),
) -> tuple[tuple[Rule, ...], Mapping[PatternKey, str]]:
    """Merge what the edits teach into rules; also returns each pattern's rule by its key.

    `brought` are the definitions of files that the experiment adds.
    """
    patterns: dict[PatternKey, Pattern] = {}
    examples: dict[PatternKey, list[Example]] = {}
    uses: dict[PatternKey, list[Use]] = {}
    spelled: dict[tuple[str, str], None] = {}
    for file in files:
        for change in file.changes:
            if change.pattern is not None and change.example is not None:
                key = pattern_key(change.pattern)
                patterns.setdefault(key, change.pattern)
                examples.setdefault(key, []).append(change.example)
                site = change.site or file.old.source.tree
                uses.setdefault(key, []).append(use_of(site, file.old.above))
                spelled |= dict.fromkeys(change.pattern.spelled)
    general: dict[PatternKey, PatternKey] = {}
    for key, pattern in patterns.items():
        for other_key, other in patterns.items():
            if other_key == key:
                continue
            made = _made_of(other, pattern)
            if made is not None and made != key[1]:
                raise _contradiction(pattern, other, examples[key][0], examples[other_key][0])
            if made is not None and general.get(other_key) != key:
                general[key] = other_key
    helpers = [change.helper for file in files for change in file.changes if change.helper]
    rules: list[Rule] = []
    named: dict[PatternKey, str] = {}
    for key, pattern in patterns.items():
        if key in general:
            continue
        special = [other for other in patterns if _root(other, general) == key]
        taught = [example for other in special for example in examples[other]]
        shown = dict.fromkeys(use for other in special for use in uses[other])
        texts = pattern.before, pattern.after
        known = {**definitions, **named_helpers((*helpers, *brought), pattern.after)}
        neutral = is_neutral(*texts, known, wrapper)
        if neutral or keeps_value(*texts, known, wrapper):
            shown = {}
        elif set(shown) == {"dropped"}:
            neutral = is_neutral_dropped(*texts, known, wrapper)
        rule = Rule(
            name=_rule_name(pattern, [rule.name for rule in rules]),
            before=pattern.before,
            after=pattern.after,
            examples=tuple(sorted(taught, key=lambda one: (one.path, one.line, one.column))),
            neutral=neutral,
            requires=(*pattern.requires, *_called_through(pattern, helpers)),
            spelled=tuple(dict.fromkeys((*pattern.spelled, *spelled))),
            uses=tuple(shown),
        )
        rules.append(rule)
        named[key] = rule.name
    for key in patterns:
        named[key] = named[_root(key, general)]
    return tuple(rules), named


def _called_through(pattern: Pattern, helpers: Sequence[Helper]) -> list[str]:
    """Return the helpers that a template calls through a name of its file: a class, a module."""
    called = dict.fromkeys(called_names(pattern_expression(pattern.after)))
    through = [name for name in called if name.partition(".")[0] in pattern.requires]
    return [
        name
        for name in through
        if name not in pattern.requires and any(is_name_of(helper, name) for helper in helpers)
    ]


def _root(key: PatternKey, general: Mapping[PatternKey, PatternKey]) -> PatternKey:
    while key in general:
        key = general[key]
    return key


def _made_of(general: Pattern, special: Pattern) -> str | None:
    """Return what a pattern makes of the left side of another, None when it does not match it."""
    bindings = match(pattern_expression(general.before), pattern_expression(special.before))
    if bindings is None:
        return None
    texts = {
        name: (ast.unparse(value), value)
        if isinstance(value, ast.AST)
        else (", ".join(ast.unparse(one) for one in value), None)
        for name, value in bindings.items()
    }
    nowhere = ast.parse("")
    text = instantiate(general.after, texts, Names(nowhere), nowhere)
    return ast.unparse(ast.parse(text, mode="eval"))


def _contradiction(one: Pattern, other: Pattern, first: Example, second: Example) -> CannotLearn:
    return CannotLearn(
        f"the experiment rewrites `{one.before}` in two ways",
        where=f"{first.path}:{first.line} and {second.path}:{second.line}",
        why=(
            f"`{first.before}` becomes `{first.after}` (`{one.after}`), but "
            f"`{second.before}` becomes `{second.after}` (`{other.after}`)"
        ),
        next="make the experiment do both the same way, or split it into two commits",
    )


def _rule_name(pattern: Pattern, taken: Sequence[str]) -> str:
    tree = pattern_expression(pattern.before)
    if isinstance(tree, ast.Call):
        tree = tree.func
    name = tree.attr if isinstance(tree, ast.Attribute) else ast.unparse(tree)
    number = 1 + sum(1 for one in taken if one == name or one.startswith(f"{name}-"))
    return name if number == 1 else f"{name}-{number}"
