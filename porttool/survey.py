"""Decide everything about a port on onto, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from porttool.account import pick_conflicts, resolved_conflicts
from porttool.arrivals import new_wrappings
from porttool.attributes import attribute_hazards
from porttool.auditing import ask_where_names_disagree
from porttool.deciding.dataflow import Flow, analyse
from porttool.deciding.decide import (
    check_guard,
    decide,
    place_seeds,
    relevant_words,
    unused_answers,
)
from porttool.deciding.further import Listing, further_files
from porttool.deciding.sites import Decision, PlacedSeed
from porttool.errors import NeedsNewerPython, PlanError, UnparsableSource
from porttool.frozen import dataclass
from porttool.git.commits import TreeId
from porttool.git.merge import merge_trees
from porttool.homes import homed
from porttool.learning.lesson import Lesson, is_name_of
from porttool.modules import Modules
from porttool.outcomes import not_gated, not_neutral
from porttool.plan.plan import Plan
from porttool.plan.switch import Switch
from porttool.relied import check_helper_imports, check_relied_on
from porttool.report import Excluded
from porttool.resolving.residual import Merged, check_merged, merge_residual
from porttool.source.syntax import Source, Span, parse_source
from porttool.trees import gate_file
from porttool.whereabouts import Whereabouts, find_whereabouts, relocated, renamed_files
from porttool.workbench import Decided, Residual, Workbench


@dataclass(frozen=True)
class _Onto:
    """Onto's files that matter to a port: parsed, reported as unreadable, or left out."""

    sources: dict[str, Source]
    unread: tuple[Decision, ...]
    excluded: tuple[Excluded, ...]


@dataclass(frozen=True)
class _Found:
    """What was decided about onto's files, and where what the experiment touched is on onto."""

    lesson: Lesson
    placed: tuple[PlacedSeed, ...]
    decisions: tuple[Decision, ...]
    where: Whereabouts


def decide_sites(bench: Workbench, lesson: Lesson) -> Decided:
    """Merge what no rule explains, find the seeds again, and decide every site.

    Raises NeedsPerson when the residual conflicts, CannotLearn when the guard disagrees with the
    experiment's own parent.
    """
    quarantine, plan, parent_tree = bench.quarantine, bench.plan, bench.experiment.parent_tree
    onto_tree = quarantine.tree_of(bench.onto_id)
    merged = merge_residual(bench, lesson)
    check_merged(bench, merged)
    picked = merge_trees(quarantine, base=parent_tree, ours=onto_tree, theirs=bench.experiment.tree)
    parents = _guarded(bench, lesson)
    files = renamed_files(quarantine, lesson, parent_tree, onto_tree)
    onto = _read_onto(bench, lesson, files, merged)
    found = _decide(bench, lesson, files, parents=parents, onto=onto, base=merged.tree)
    unasked = _attributes(bench, lesson, files, found.decisions)
    decisions = sorted((*found.decisions, *onto.unread, *unasked), key=lambda d: (d.path, d.span))
    decided = Decided(
        lesson=homed(
            found.lesson,
            found.where.definitions,
            decisions,
            found.placed,
            objects=quarantine,
            tree=merged.tree,
            paths=onto.sources,
        ),
        base=merged.tree,
        conflicts=(*resolved_conflicts(merged.answered), *pick_conflicts(quarantine, picked)),
        sources=onto.sources,
        placed=found.placed,
        decisions=tuple(decisions),
        excluded=onto.excluded,
        files=files,
        origins=found.where.origins,
        residual=_residual(bench, lesson, merged, onto_tree, files),
    )
    return decided if plan.switch is None else _gated(bench, decided, plan.switch)


def _guarded(bench: Workbench, lesson: Lesson) -> dict[str, Source]:
    """Hold the guard against the experiment's own parent, and return its files."""
    before, _ = bench.experiment.sides(bench.quarantine)
    # Of files that no rule, seed or helper is about, those that do not parse are reported below.
    parents = _parse(before, must=tuple({step.path for step in lesson.steps}))
    seeds, asks = place_seeds(parents, lesson)
    flow = analyse(parents, seeds, lesson, asks)
    check_guard(lesson, decide(parents, lesson, seeds, flow))
    return parents


def _read_onto(bench: Workbench, lesson: Lesson, files: Mapping[str, str], merged: Merged) -> _Onto:
    """Read the files of onto that name what is ported, or that the experiment touched."""
    quarantine, words = bench.quarantine, relevant_words(lesson)
    touched = set(relocated(lesson, files).touched)
    paths = {*bench.quarantine.grep(bench.onto_id, words), *touched}
    paths |= {change.path for change in quarantine.changed(bench.onto_id, merged.tree)}
    # What the experiment itself touched is ported wherever it lies.
    left_out = {
        folder: {path for path in paths - touched if _inside(folder, path)}
        for folder in bench.plan.exclude
    }
    paths -= set().union(*left_out.values())
    contents = quarantine.read_many(merged.tree, _python(paths))
    learned_from = tuple({files.get(step.path, step.path) for step in lesson.steps})
    sources = _parse(contents, must=learned_from, side=bench.onto)
    raw = [word.encode() for word in words]
    unread = tuple(
        _unread(path, data)
        for path, data in contents.items()
        if path not in sources and any(word in data for word in raw)
    )
    excluded = tuple(Excluded(folder, len(inside)) for folder, inside in left_out.items())
    return _Onto(sources, unread, excluded)


def _decide(
    bench: Workbench,
    taught: Lesson,
    files: Mapping[str, str],
    *,
    parents: Mapping[str, Source],
    onto: _Onto,
    base: TreeId,
) -> _Found:
    """Decide every site of onto's files, and of further ones that turn out to matter.

    Those are added to `onto.sources`.
    """
    plan, sources = bench.plan, onto.sources
    lesson = relocated(taught, files)
    searched: set[str] = set()
    further: Mapping[str, Source] = sources
    while further:
        seen = _parse(bench.quarantine.read_many(bench.experiment.parent_tree, sources), must=())
        where = find_whereabouts(files, parents, seen, sources)
        placed, asks = place_seeds(
            sources, lesson, plan.answers, before=seen, came_from=where.definitions
        )
        lesson = replace(
            lesson, touched=tuple(dict.fromkeys((*lesson.touched, *sorted(where.origins))))
        )
        flow = analyse(sources, placed, lesson, asks)
        old = {**where.before(parents), **seen}
        sites = decide(sources, lesson, placed, flow, plan.answers, parent=old)
        further = _further(bench, flow, base, searched)
        sources |= further
    sites = ask_where_names_disagree(sources, lesson, placed, sites, plan.answers)
    asks = (*asks, *new_wrappings(sources, seen, taught, plan.answers))
    stale = unused_answers((*sites, *asks), placed, plan.answers)
    if stale:
        raise _stale_answer(plan, stale[0])
    return _Found(lesson, placed, (*sites, *asks), where)


def _gated(bench: Workbench, decided: Decided, switch: Switch) -> Decided:
    """Return the decisions with the edits that gate the seeds; raises NeedsPerson."""
    gates = {
        path: gate_file(bench.quarantine, decided, switch, source)
        for path, source in decided.sources.items()
    }
    questions = [question for _, asked in gates.values() for question in asked]
    if questions:
        raise not_gated(questions, switch)
    for rule in decided.lesson.rules:
        rewrites = [d for d in decided.decisions if (d.action, d.rule) == ("rewrite", rule.name)]
        if rewrites and not rule.neutral:
            raise not_neutral(rule, rewrites, switch)
    check_relied_on(decided.lesson, bench.quarantine, decided.base)
    written = {d.rule for d in decided.decisions if d.action == "rewrite"}
    called = {n for rule in decided.lesson.rules if rule.name in written for n in rule.requires}
    needed = {h.name for h in decided.lesson.helpers if any(is_name_of(h, n) for n in called)}
    modules = Modules(bench.quarantine, decided.base)
    check_helper_imports(decided.lesson, needed, decided.sources, modules)
    return replace(decided, gates={path: edits for path, (edits, _) in gates.items() if edits})


def _further(bench: Workbench, flow: Flow, tree: TreeId, searched: set[str]) -> dict[str, Source]:
    """Read the files that name nothing of the port and still have a say about it."""
    objects, plan = bench.quarantine, bench.plan
    listing = Listing(_python(objects.paths(tree)))
    found = further_files(
        flow, listing, lambda words: bench.quarantine.grep(bench.onto_id, words), searched
    )
    paths = [path for path in found if not any(_inside(folder, path) for folder in plan.exclude)]
    return _parse(objects.read_many(tree, sorted(paths)), must=())


def _residual(
    bench: Workbench, lesson: Lesson, merged: Merged, onto: TreeId, files: Mapping[str, str]
) -> Residual:
    """Say what became of the paths that no rule explains, by the experiment's paths."""
    objects = bench.quarantine
    paths = {hunk.path for hunk in lesson.hunks if hunk.kind == "residual"}
    there = {
        path
        for path in paths
        if objects.entry(merged.tree, files.get(path, path))
        == objects.entry(onto, files.get(path, path))
    }
    resolved = {
        path: answer.file
        for answer in merged.answered
        for path in paths
        if files.get(path, path) in answer.question.paths or path in answer.question.paths
    }
    return Residual(frozenset(there), resolved)


def _attributes(
    bench: Workbench, lesson: Lesson, files: Mapping[str, str], decisions: Iterable[Decision]
) -> tuple[Decision, ...]:
    """Report what attributes ask for in the files that change, and is not done."""
    objects, parent, onto = bench.quarantine, bench.experiment.parent_tree, bench.onto_id
    residual = {hunk.path for hunk in lesson.hunks if hunk.kind == "residual"}
    both = {
        files.get(path, path)
        for path in residual
        if objects.entry(parent, path) != objects.entry(onto, files.get(path, path))
    }
    changed = {decision.path for decision in decisions if decision.action == "rewrite"}
    changed |= {files.get(path, path) for path in (*lesson.touched, *residual)}
    return attribute_hazards(objects, objects.tree_of(onto), changed, both)


def _stale_answer(plan: Plan, key: str) -> PlanError:
    return PlanError(
        f"`answers` has a key that names no site: {key}",
        where=f"{plan.path} (answers)",
        why="the place is not there any more, or its text has changed",
        next="remove the line, or take the key that `porttool apply` prints now",
    )


def _inside(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _python(paths: Iterable[str]) -> list[str]:
    return sorted(path for path in paths if path.endswith(".py"))


def _parse(
    files: Mapping[str, bytes], *, must: tuple[str, ...], side: str = "the experiment's parent"
) -> dict[str, Source]:
    """Parse Python files; one that the experiment did not touch and that does not parse is left."""
    sources = {}
    for path, data in files.items():
        if not path.endswith(".py"):
            continue
        try:
            sources[path] = parse_source(path, data)
        except NeedsNewerPython:
            if path in must:
                raise
        except UnparsableSource as error:
            if path in must:
                raise UnparsableSource(
                    f"{path} cannot be parsed as it is on {side}",
                    where=error.where,
                    why=error.why,
                    next=f"fix {path} on {side}: what the experiment changed has to be found there",
                ) from error
    return sources


def _unread(path: str, data: bytes) -> Decision:
    """Report a file that holds what is ported and that nobody could read."""
    try:
        parse_source(path, data)
        why = ""
    except UnparsableSource as error:
        why = f" ({error.where}: {error.why})"
        if isinstance(error, NeedsNewerPython):
            why = f" ({error.where}: {error.what}, and {error.why})"
    return Decision(
        key=f"hazard {path}",
        path=path,
        line=1,
        column=0,
        text="the whole file",
        action="hazard",
        rule=None,
        reasons=(f"it names what is ported and does not parse{why}: nothing in it was decided",),
        span=Span(0, 0),
        known=False,
    )
