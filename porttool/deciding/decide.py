"""Every place that a rule matches on onto: rewritten, left alone, or asked, with the reasons."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from porttool.deciding.dataflow import Flow, Holding
from porttool.deciding.dataflow.fileindex import FileIndex, index_of
from porttool.deciding.hazards import HAZARD_WORDS, find_hazards
from porttool.deciding.seed_search import place_seeds
from porttool.deciding.sites import Action, Decision, PlacedSeed, seed_key, site_key
from porttool.errors import CannotLearn, NeedsPerson
from porttool.frozen import dataclass
from porttool.learning.definitions import wrong_call
from porttool.learning.lesson import Lesson, Rule
from porttool.learning.rewriting import (
    imported_names,
    lost_comments,
    match,
    matches,
    names_of,
    pattern_expression,
    rewrite,
)
from porttool.learning.uses import objection, use_of
from porttool.source.nodes import walk
from porttool.source.syntax import Source, line_start, span_of, text_of

__all__ = [
    "Decision",
    "PlacedSeed",
    "check_guard",
    "decide",
    "place_seeds",
    "relevant_words",
    "unused_answers",
]

# What an object's name says about it when nothing else does.
_PLAIN_WORDS = re.compile(
    r"opts?|optim\w*|scheds?|schedulers?|scalers?|loaders?|dataloaders?|samplers?|datasets?|meters?"
    r"|metrics?|rng|buffers?|replay|memor(y|ies)|reservoirs?|loggers?|trackers?|counters?"
    r"|tokenizers?|progress|normalizers?|stats"
)
_PLAIN_TYPES = ("Optimizer", "Scheduler", "Scaler", "Sampler", "Loader", "Metric")


@dataclass(frozen=True)
class _Site:
    node: ast.expr
    subject: ast.expr | None  # None where a rule is about no object
    rule: Rule | None
    why: str | None = None  # set where no rule fits
    handed_on: bool = False  # the method itself, without a call


def decide(
    onto: Mapping[str, Source],
    lesson: Lesson,
    placed: Iterable[PlacedSeed],
    flow: Flow,
    answers: Mapping[str, str] | None = None,
    *,
    parent: Mapping[str, Source] | None = None,
) -> tuple[Decision, ...]:
    """Decide every site of the given files, hazards included, in the order of files and lines.

    `answers` maps a site's key to "rewrite" or "skip". With files of the experiment's `parent` a
    site is known when it was there, in the same function; without them, when the experiment edited
    one of that text.
    """
    answers = answers or {}
    decisions: list[Decision] = []
    for path, source in onto.items():
        file = flow.project.files[path]
        known = _Known(lesson, path, (parent or {}).get(path))
        numbers: Counter[tuple[str, str]] = Counter()
        for site in sorted(_sites(file, lesson), key=_position):
            scope = _scope_name(file, site.node)
            text = text_of(source, site.node)
            numbers[scope, " ".join(text.split())] += 1
            key = site_key(path, scope, text, numbers[scope, " ".join(text.split())])
            span = span_of(source, site.node)
            action, reasons, holding = _judge(site, flow, lesson, file)
            decision = Decision(
                key=key,
                path=path,
                line=site.node.lineno,
                column=span.start - line_start(source, span.start),
                text=text,
                action=action,
                rule=site.rule.name if site.rule else None,
                reasons=reasons,
                span=span,
                known=known.has(site.rule, scope, text) if site.rule else False,
                steps=holding.steps if holding else (),
                told=len(holding.chain) if holding else 0,
            )
            decisions.append(_settled(decision, site, source, lesson, answers.get(key)))
    asked = {(d.path, d.span) for d in decisions if d.action in ("ask", "rewrite")}
    decisions += find_hazards(
        onto, lesson, flow, placed=tuple(placed), decided=asked, answers=answers
    )
    return tuple(sorted(decisions, key=lambda d: (d.path, d.span, d.action)))


def _position(site: _Site) -> tuple[int, int]:
    return site.node.lineno, site.node.col_offset


def _settled(
    decision: Decision, site: _Site, source: Source, lesson: Lesson, answer: str | None
) -> Decision:
    """Apply the plan's answer, and see whether a rewrite can be written down at this place."""
    action, reasons = decision.action, decision.reasons
    if answer is not None and answer != action:
        action = "skip" if answer == "skip" else "rewrite"
        reasons = (f"answered `{answer}` in the plan", *reasons)
    if action == "skip":
        return replace(decision, action="skip", reasons=reasons)
    problem, text = site.why, None
    if site.rule is not None:
        try:
            text = rewrite(source, site.rule, site.node)
            problem = problem or wrong_call(lesson, text)
        except NeedsPerson as error:
            problem = error.why
    if action == "rewrite" and problem is not None:
        action, reasons = "ask", (problem, *reasons)
    lost = lost_comments(source, site.node, text) if text is not None else ()
    if action == "rewrite" and lost and answer is None and not decision.known:
        why = f"the rewrite drops the comment `{lost[0]}`: answer `rewrite` to let it go"
        action, reasons = "ask", (why, *reasons)
    only_skip = action == "ask" and problem is not None
    return replace(decision, action=action, reasons=reasons, replacement=text, only_skip=only_skip)


def _judge(
    site: _Site, flow: Flow, lesson: Lesson, file: FileIndex
) -> tuple[Action, tuple[str, ...], Holding | None]:
    """Return what is to be done at a site, why, and the dataflow's answer if it was asked."""
    if site.subject is None:
        return "ask", (site.why or "the rule is about no object whose way could be followed",), None
    subject, why = site.subject, site.why
    if flow.is_class(file.path, subject):
        # `nn.Module.state_dict(net)`; handed on uncalled, nobody knows whom it meets.
        given = site.node.args if isinstance(site.node, ast.Call) else []
        why = f"it is called through a class, `{ast.unparse(subject)}`"
        if not given:
            return ("ask" if site.handed_on else "skip"), (why,), None
        subject = given[0]
    holding = flow.judge(file.path, subject)
    action, reasons = _judge_holding(site, subject, why, holding=holding, lesson=lesson, file=file)
    return action, (*reasons, *holding.chain), holding


def _judge_holding(
    site: _Site,
    subject: ast.expr,
    why: str | None,
    *,
    holding: Holding,
    lesson: Lesson,
    file: FileIndex,
) -> tuple[Action, tuple[str, ...]]:
    """Return what follows from what a site's object may be, and reasons beside the dataflow's."""
    if holding.kind == "no":
        return "skip", ()
    if holding.kind == "unknown":
        plain = _plainly_named(subject, holding)
        if plain is not None:
            return "skip", (plain,)
        return "ask", ()
    if why is not None:
        return "ask", (why,)
    if holding.shape != "object":
        return "ask", ()
    assert site.rule is not None  # else there is a `why`
    rule = site.rule
    unseen = objection(use_of(site.node, file.above), rule.uses, rule.before, rule.after)
    if unseen is not None:
        return "ask", (unseen,)
    if holding.kind == "definite":
        return "rewrite", ()
    if holding.sure:
        return "ask", ()
    if not rule.neutral:
        return "ask", ("the rule would change an object that is not wrapped",)
    if file.path not in lesson.touched:
        why = "it may be wrapped, and the experiment never touched this file"
        return "ask", (why,)
    return "rewrite", ("it may be wrapped; the rule changes nothing if it is not",)


def _plainly_named(subject: ast.expr, holding: Holding) -> str | None:
    """Return why a name or annotation rules a module out, None when it does not."""
    if holding.sure:
        return None
    if any(kind in holding.hint for kind in _PLAIN_TYPES):
        return f"its annotation `{holding.hint}` says what it is"
    for name in (_last_name(subject), holding.hint):
        words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
        if any(_PLAIN_WORDS.fullmatch(word) for word in words):
            return f"its name `{name}` is that of an optimizer or the like, not of a module"
    return None


def _last_name(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


# -- sites -------------------------------------------------------------------------------------


def root_name(rule: Rule) -> str | None:
    """Return the last name of what a rule's pattern calls ("state_dict")."""
    pattern = pattern_expression(rule.before)
    if not isinstance(pattern, ast.Call):
        return None
    function = pattern.func
    return function.attr if isinstance(function, ast.Attribute) else _last_name(function) or None


def _sites(file: FileIndex, lesson: Lesson) -> Iterator[_Site]:
    """Yield what the rules match, then the calls of the same methods that no rule fits."""
    matched: dict[ast.AST, _Site] = {}
    roots: dict[str, list[Rule]] = defaultdict(list)
    for rule in lesson.rules:
        root = root_name(rule)
        if root is not None:
            roots[root].append(rule)
        for tree in _trees_to_search(file, rule, root):
            for node, bindings in matches(rule, tree):
                if not isinstance(node, ast.expr):
                    continue
                subject = bindings.get("X")
                rival = matched.get(node)
                if rival is None or _prefers(rule, rival.rule, file.path):
                    held = subject if isinstance(subject, ast.expr) else None
                    matched[node] = _Site(node, held, rule)
    yield from matched.values()
    taken = _taken_along(file, matched.values())
    for method in dict.fromkeys([*roots, *lesson.wrapper.methods]):
        rules = roots.get(method, [])
        if not rules and not (method.endswith("state_dict") and _wraps_modules(lesson)):
            continue  # reading names is a hazard, not a leak
        if rules and not any(rule.before.startswith("$X.") for rule in rules):
            continue
        why = f"no edit of the experiment says what becomes of `{method}` with these arguments"
        if not rules:
            why = f"the experiment has no rule for `{method}` on a wrapped module"
        for call in file.calls.get(method, ()):
            # What a rule fits and did not match, a rule has made, or it is inside a helper.
            made = call in matched or call in taken or any(_fits(rule, call) for rule in rules)
            if not made and isinstance(call.func, ast.Attribute):
                yield _Site(call, call.func.value, None, why)
        yield from _uncalled(file, method)


def _wraps_modules(lesson: Lesson) -> bool:
    """Tell whether a seed gives anybody a wrapped module: `net.compile()` changes it in place.

    Nor does `net.forward = torch.compile(net.forward)`, which wraps a function.
    """
    return not lesson.seeds or any(
        seed.kind != "statement" and not (seed.target or "").endswith(".forward")
        for seed in lesson.seeds
    )


def _taken_along(file: FileIndex, sites: Iterable[_Site]) -> set[ast.AST]:
    """Return what matched sites rewrite as a part of themselves: `x.f()` in `dict(x.f())`."""
    taken: set[ast.AST] = set()
    for site in sites:
        if site.rule is None:
            continue
        imported = imported_names(site.rule.requires)
        names = names_of(file.source.tree)
        bindings = match(pattern_expression(site.rule.before), site.node, names, imported) or {}
        values = (v if isinstance(v, tuple) else (v,) for v in bindings.values())
        carried = {part for value in values for root in value for part in walk(root)}
        taken |= set(walk(site.node)) - carried
    return taken


def _uncalled(file: FileIndex, method: str) -> Iterator[_Site]:
    """Yield where a method is handed on without a call, or found by its name."""
    why = f"`{method}` is not called here: no rule can say what becomes of it"
    for node in file.attributes.get(method, ()):
        above = file.above.get(node)
        if not (isinstance(above, ast.Call) and above.func is node):
            yield _Site(node, node.value, None, why, handed_on=True)
    for word, position in (("getattr", 1), ("methodcaller", 0)):
        for call in file.calls.get(word, ()):
            name = call.args[position] if len(call.args) > position else None
            if isinstance(name, ast.Constant) and name.value == method:
                yield _Site(call, call.args[0] if position else None, None, why, handed_on=True)


def _prefers(rule: Rule, rival: Rule | None, path: str) -> bool:
    """Tell whether a rule knows more about a file than another that matches the same place."""

    def evidence(one: Rule | None) -> tuple[int, int]:
        examples = one.examples if one else ()
        return sum(example.path == path for example in examples), len(examples)

    return evidence(rule) > evidence(rival)


def _fits(rule: Rule, call: ast.Call) -> bool:
    return match(pattern_expression(rule.before), call) is not None


def _trees_to_search(file: FileIndex, rule: Rule, root: str | None) -> list[ast.AST]:
    """Return the functions and statements that mention what the rule calls."""
    tree = file.source.tree
    if root is None or imported_names(rule.requires):
        return [tree]
    found: dict[ast.AST, None] = {}
    for call in file.calls.get(root, ()):
        here: ast.AST = call
        top: ast.AST = call
        while here is not tree:
            if isinstance(here, ast.stmt) and not isinstance(here, ast.ClassDef):
                top = here
            here = file.above[here]
        found[top] = None
    return list(found)


def _scope_name(file: FileIndex, node: ast.AST) -> str:
    here: ast.AST | None = node
    while here is not None:
        if here in file.scopes:
            scope = file.scopes[here].home
            if scope.name != "<lambda>":
                return scope.qualname
        here = file.above.get(here)
    return ""


class _Known:
    """Which sites of a file were there before the experiment; each of them counts once."""

    def __init__(self, lesson: Lesson, path: str, parent: Source | None) -> None:
        self._left: Counter[tuple[str, str | None, str]] = Counter()
        self._scoped = parent is not None
        if parent is not None:
            index = index_of(parent)
            for site in _sites(index, lesson):
                if site.rule is not None:
                    scope = _scope_name(index, site.node)
                    self._left[site.rule.name, scope, _flat(text_of(parent, site.node))] += 1
            return
        for rule in lesson.rules:
            for example in rule.examples:
                if example.path == path:
                    self._left[rule.name, None, _flat(example.before)] += 1

    def has(self, rule: Rule, scope: str, text: str) -> bool:
        key = (rule.name, scope if self._scoped else None, _flat(text))
        if self._left[key] > 0:
            self._left[key] -= 1
            return True
        return False


def _flat(text: str) -> str:
    try:
        return ast.unparse(ast.parse(f"({text}\n)", mode="eval"))
    except SyntaxError:
        return " ".join(text.split())


# -- around the decisions ----------------------------------------------------------------------


def relevant_words(lesson: Lesson) -> tuple[str, ...]:
    """Return the words of which a file must have one to matter to this port.

    Methods that the rules are about, helpers, what the hazards are called, and of the seeds what
    other files can reach: attributes and their classes, names of a module, functions that return
    a wrapped object.
    """
    words: dict[str, None] = {}
    for rule in lesson.rules:
        root = root_name(rule)
        if root:
            words[root] = None
    for seed in lesson.seeds:
        owner, _, function = seed.scope.rpartition(".")
        if seed.target and ("." in seed.target or not seed.scope):
            words[seed.target.rpartition(".")[2]] = None
            words |= dict.fromkeys(name for name in owner.split(".") if name)
        if seed.kind == "return":
            words[function] = None
    words |= dict.fromkeys(helper.name.rpartition(".")[2] for helper in lesson.helpers)
    words |= dict.fromkeys([lesson.wrapper.unwrap, *lesson.wrapper.methods, *HAZARD_WORDS])
    return tuple(word for word in words if word.isidentifier())


def unused_answers(
    decisions: Iterable[Decision], placed: Iterable[PlacedSeed], answers: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the answers whose place is not there any more."""
    keys = {decision.key for decision in decisions}
    keys |= {seed_key(seed.seed, seed.path) for seed in placed}
    return tuple(key for key in answers if key not in keys)


def check_guard(lesson: Lesson, decisions: Iterable[Decision]) -> None:
    """Hold the dataflow guard against the experiment itself, by the decisions on its own parent.

    Raises:
        CannotLearn: when a place that the experiment rewrote would not be, or one that it left
            alone would be.
    """
    # A line may hold one text twice: as many of it as the experiment rewrote have to be rewritten.
    by_place: dict[tuple[str, int, str], list[Decision]] = defaultdict(list)
    for decision in decisions:
        if decision.rule:
            by_place[decision.path, decision.line, _flat(decision.text)].append(decision)
    examples = [example for rule in lesson.rules for example in rule.examples]
    rewritten = Counter((e.path, e.line, _flat(e.before)) for e in examples)
    for example in examples:
        place = (example.path, example.line, _flat(example.before))
        there = by_place[place]
        if sum(d.action in ("rewrite", "ask") for d in there) < rewritten[place]:
            left = [d for d in there if d.action not in ("rewrite", "ask")]
            reasons = left[0].reasons if left else ("no site there",)
            raise _no_guard(example.path, example.line, example.before, "rewrote", reasons)
    left_alone = Counter((n.path, n.line, _flat(n.text)) for n in lesson.negatives)
    for negative in lesson.negatives:
        place = (negative.path, negative.line, _flat(negative.text))
        changed = [d for d in by_place[place] if d.action == "rewrite"]
        if len(changed) > len(by_place[place]) - left_alone[place]:
            raise _no_guard(
                negative.path, negative.line, negative.text, "left alone", changed[-1].reasons
            )


def _no_guard(path: str, line: int, text: str, did: str, reasons: tuple[str, ...]) -> CannotLearn:
    return CannotLearn(
        f"no guard separates what the experiment rewrote from what it left alone: `{text}`",
        where=f"{path}:{line} (in the experiment's parent)",
        why=f"the experiment {did} it, the dataflow says: {'; '.join(reasons)}",
        next="look at that line of the experiment; if it is a mistake there, correct it and commit",
    )
