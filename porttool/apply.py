"""Port an experiment onto a branch: from the plan to a review branch, in the order of reading.

Everything happens in a quarantine on top of the user's objects. No code of the repository is run,
no checkout is touched, and the branch with its report is the only thing that anybody can see.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from porttool.account import account, pick_conflicts
from porttool.bench import Bench, Decided
from porttool.deciding.dataflow import analyse
from porttool.deciding.decide import (
    check_guard,
    decide,
    place_seeds,
    relevant_words,
    unused_answers,
)
from porttool.deciding.sites import Decision
from porttool.errors import (
    EXIT_DONE,
    EXIT_PARKED,
    EXIT_PERSON,
    NeedsPerson,
    PlanError,
    ProofFailed,
    UnparsableSource,
)
from porttool.experiment import Experiment, find_experiment
from porttool.git.commits import (
    CommitFacts,
    CommitId,
)
from porttool.git.merge import MergeResult, merge_trees
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.learning.learn import Lesson, Wrapper, check_replay, for_gated_port, learn
from porttool.plan.plan import PORTS_FOLDER, Plan, SwitchPlan
from porttool.precondition import read_precondition
from porttool.proving.proof import Proof, prove_off, search_words
from porttool.report import Excluded, Report, Timing, counted
from porttool.series import Applied, commit_series, create_branch
from porttool.source.syntax import Source, Span, parse_source
from porttool.trees import check_switch, gate_file, write_config, write_tree

Progress = Callable[[str], None]


@dataclass
class Clock:
    """Says each step as it begins and keeps how long it took."""

    progress: Progress
    timings: list[Timing] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    step: str = ""

    def start(self, step: str) -> None:
        """End the step before and begin this one."""
        self.stop()
        self.progress(step)
        self.step, self.begun = step, time.monotonic()

    def stop(self) -> tuple[Timing, ...]:
        """End the step that runs, if any, and return all steps so far."""
        if self.step:
            self.timings.append(Timing(self.step, round(time.monotonic() - self.begun, 4)))
            self.step = ""
        return tuple(self.timings)


def apply(
    repo: Repository,
    plan: Plan,
    *,
    onto: str,
    dry_run: bool = False,
    despite_precondition: bool = False,
    replace_branch: bool = False,
    progress: Progress,
) -> Applied:
    """Make the review branch of a port, or say why there is none.

    Raises PortError subclasses for everything that stops it; then nothing has changed.
    """
    clock = Clock(progress)
    with Quarantine(repo) as quarantine:
        clock.start(f"finding the experiment and {onto}")
        experiment = find_experiment(repo, quarantine, plan)
        onto_id = repo.resolve(onto)
        bench = Bench(repo, quarantine, plan, experiment, onto, onto_id)
        merged = repo.find_ported(onto_id, experiment.tip.id, plan.name)
        if merged is not None:
            return _already_ported(_account(bench), merged)

        check_switch(quarantine, quarantine.tree_of(onto_id), plan)
        clock.start("learning the rewrite from the experiment's own diff")
        lesson = learn_experiment(quarantine, plan, experiment)
        clock.start(f"deciding every site on {onto}")
        decided = decide_sites(bench, lesson)
        report = _account(bench, decided)
        if decided.asks:
            return _asked(replace(report, timings=clock.stop()), plan)

        clock.start("writing the port")
        adapted = write_tree(quarantine, decided, plan, gated=False)
        gated = write_tree(quarantine, decided, plan, gated=True) if plan.switch else adapted
        if gated == quarantine.tree_of(onto_id):
            return _nothing_to_do(report)
        gated = write_config(quarantine, gated, plan)
        series = commit_series(bench, adapted, gated)
        tip = series[-1]

        precondition = read_precondition(quarantine, plan, tip)
        report = replace(report, precondition=precondition)
        if not precondition.met and not despite_precondition:
            return _parked(replace(report, timings=clock.stop()), plan)

        clock.start("proving that off means off")
        proof = prove(bench, lesson, onto_id, tip)
        if plan.switch is not None and not proof.holds:
            raise _not_proven(proof)
        timings = clock.stop()
        report = _account(bench, decided, proof, [quarantine.commit(id) for id in series])
        report = replace(report, precondition=precondition, timings=timings)
        if dry_run:
            return _dry_run(report)
        clock.start(f"creating {plan.review_branch}")
        return create_branch(bench, report, replace_branch=replace_branch)


def learn_experiment(quarantine: Quarantine, plan: Plan, experiment: Experiment) -> Lesson:
    """Learn rules and seeds, and hold them against the experiment: replayed, they must give it."""
    wrapper = Wrapper(
        callee=plan.wrapper.callee,
        unwrap=plan.wrapper.unwrap,
        prefix=plan.wrapper.prefix,
        methods=plan.wrapper.methods,
    )
    before, after = experiment.sides(quarantine)
    lesson = learn(before, after, wrapper)
    check_replay(lesson, before, after)
    # A gated port meets objects that are not wrapped: its rules have to be neutral on them.
    return for_gated_port(lesson) if plan.switch is not None else lesson


def decide_sites(bench: Bench, lesson: Lesson) -> Decided:
    """Merge what no rule explains, find the seeds again, and decide every site.

    Raises NeedsPerson when the residual conflicts, CannotLearn when the guard disagrees with the
    experiment's own parent.
    """
    quarantine, plan, experiment = bench.quarantine, bench.plan, bench.experiment
    onto_tree = quarantine.tree_of(bench.onto_id)
    parent_tree = experiment.parent_tree
    residual = quarantine.write_tree(parent_tree, lesson.residual)
    merged = merge_trees(quarantine, base=parent_tree, ours=onto_tree, theirs=residual)
    if not merged.clean:
        raise _conflict(merged, plan)
    picked = merge_trees(quarantine, base=parent_tree, ours=onto_tree, theirs=experiment.tip.tree)
    words = relevant_words(lesson)
    paths = {*bench.repo.grep(bench.onto_id, words), *lesson.touched}
    paths |= {change.path for change in quarantine.changed(onto_tree, merged.tree)}
    # What the experiment itself touched is ported wherever it lies.
    left_out = {
        folder: {path for path in paths - set(lesson.touched) if _inside(folder, path)}
        for folder in plan.exclude
    }
    excluded = tuple(Excluded(folder, len(files)) for folder, files in left_out.items())
    paths -= set().union(*left_out.values())
    files = quarantine.read_many(merged.tree, _python(paths))
    sources = _parse(files, must=lesson.touched)
    unread = [_unread(path, data) for path, data in files.items() if path not in sources]

    before, _ = experiment.sides(quarantine)
    parents = _parse(before, must=lesson.touched)
    own_seeds, own_asks = place_seeds(parents, lesson)
    own_flow = analyse(parents, own_seeds, lesson, own_asks)
    check_guard(lesson, decide(parents, lesson, own_seeds, own_flow))

    placed, asks = place_seeds(sources, lesson, plan.answers)
    flow = analyse(sources, placed, lesson, asks)
    seen = _parse(quarantine.read_many(parent_tree, sources), must=())
    sites = decide(sources, lesson, placed, flow, plan.answers, parent=seen)
    stale = unused_answers((*sites, *asks), plan.answers)
    if stale:
        raise PlanError(
            f"`answers` has a key that names no site: {stale[0]}",
            where=f"{plan.path} (answers)",
            why="the place is not there any more, or its text has changed",
            next="remove the line, or take the key that `porttool apply` prints now",
        )
    decisions = tuple(sorted((*sites, *asks, *unread), key=lambda d: (d.path, d.span)))
    conflicts = pick_conflicts(quarantine, picked)
    decided = Decided(lesson, merged.tree, conflicts, sources, placed, decisions, excluded)
    if plan.switch is None:
        return decided
    gates = {
        path: gate_file(quarantine, decided, plan.switch, source)
        for path, source in sources.items()
    }
    questions = [question for _, asked in gates.values() for question in asked]
    if questions:
        raise _not_gated(questions, plan.switch)
    return replace(decided, gates={path: edits for path, (edits, _) in gates.items() if edits})


def prove(bench: Bench, lesson: Lesson, onto_id: CommitId, tip: CommitId) -> Proof:
    """Prove from the two trees that off means off; how the port was made counts for nothing."""
    quarantine = bench.quarantine
    # What lies under patches/ speaks of the branch to porttool, and to no program of the project.
    paths = [
        change.path
        for change in quarantine.changed(onto_id, tip)
        if not _inside(PORTS_FOLDER, change.path)
    ]
    before, found = quarantine.read_many(onto_id, paths), quarantine.read_many(tip, paths)
    after = {path: found.get(path) for path in paths}
    words = search_words(before, after)
    reaching = bench.repo.grep(onto_id, words, "*") if words else ()
    reaching = tuple(path for path in reaching if not _inside(PORTS_FOLDER, path))
    onto_files = before | quarantine.read_many(onto_id, reaching)
    return prove_off(onto_files, after, lesson, bench.plan.switch)


def prove_branch(repo: Repository, plan: Plan) -> Callable[[CommitId, CommitId], Proof]:
    """Return `prove(onto, tip)` for `verify`: the rules are learned again, the trees read again."""

    def prove_again(onto_id: CommitId, tip: CommitId) -> Proof:
        with Quarantine(repo) as quarantine:
            experiment = find_experiment(repo, quarantine, plan)
            lesson = learn_experiment(quarantine, plan, experiment)
            bench = Bench(repo, quarantine, plan, experiment, plan.onto, onto_id)
            return prove(bench, lesson, onto_id, tip)

    return prove_again


def _inside(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _python(paths: Iterable[str]) -> list[str]:
    return sorted(path for path in paths if path.endswith(".py"))


def _parse(files: Mapping[str, bytes], *, must: tuple[str, ...]) -> dict[str, Source]:
    """Parse Python files; one that the experiment did not touch and that does not parse is left."""
    sources = {}
    for path, data in files.items():
        if not path.endswith(".py"):
            continue
        try:
            sources[path] = parse_source(path, data)
        except UnparsableSource:
            if path in must:
                raise
    return sources


def _unread(path: str, data: bytes) -> Decision:
    """Report a file that holds what is ported and that nobody could read."""
    try:
        parse_source(path, data)
        why = ""
    except UnparsableSource as error:
        why = f" ({error.where}: {error.why})"
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


def _conflict(merged: MergeResult, plan: Plan) -> NeedsPerson:
    first = merged.conflicts[0]
    lines = "; ".join(f"{c.kind}: {', '.join(c.paths)}" for c in merged.conflicts)
    return NeedsPerson(
        "a part of the experiment that no rule explains conflicts with what onto has there",
        where=", ".join(first.paths),
        why=f"{lines} ({first.message.strip()})",
        next=f"rebase the experiment over that place, and put its new id into {plan.path}",
    )


def _not_gated(questions: Sequence[Decision], switch: SwitchPlan) -> NeedsPerson:
    return NeedsPerson(
        f"{switch.gate} cannot be put in front of {counted(len(questions), 'object')}; "
        "no branch was made",
        where=", ".join(f"{question.path}:{question.line}" for question in questions),
        why="; ".join(dict.fromkeys(reason for q in questions for reason in q.reasons)),
        next=f"make it clear there, for instance by a parameter `config: {switch.root}`, commit, "
        "and run the same command again",
    )


def _not_proven(proof: Proof) -> ProofFailed:
    first = next(file for file in proof.files if file.verdict == "not proven")
    others = sum(file.verdict == "not proven" for file in proof.files) - 1
    return ProofFailed(
        "with the switch off the port would not be what it was made from; no branch was made"
        + (f" ({others} more files)" if others else ""),
        where=first.path,
        why=first.detail,
        next="put that change behind the switch: in the experiment, or in the patch that brings it",
    )


def _account(
    bench: Bench,
    decided: Decided | None = None,
    proof: Proof | None = None,
    series: Sequence[CommitFacts] = (),
) -> Report:
    return account(
        bench.plan,
        bench.experiment,
        onto=bench.onto,
        onto_id=bench.onto_id,
        branch=bench.plan.review_branch,
        decided=decided,
        proof=proof,
        series=series,
    )


def _already_ported(report: Report, merged: CommitId) -> Applied:
    message = f"{report.port} is already ported: {report.onto} has it since {merged}"
    return Applied("already-ported", report, report.branch, EXIT_DONE, message)


def _nothing_to_do(report: Report) -> Applied:
    message = (
        f"{report.onto} already has everything that {report.port} would change; no branch was made"
    )
    return Applied("nothing-to-do", report, report.branch, EXIT_DONE, message)


def _dry_run(report: Report) -> Applied:
    commits = counted(len(report.series), "commit")
    message = f"would create {report.branch} with {commits}; no ref was written"
    return Applied("dry-run", report, report.branch, EXIT_DONE, message)


def _asked(report: Report, plan: Plan) -> Applied:
    places = [
        f"  {ask.path}:{ask.line}: {ask.text}\n    {'; '.join(ask.reasons)}" for ask in report.asks
    ]
    message = "\n".join(
        [
            f"a person has to decide {counted(len(report.asks), 'place')}; no branch was made",
            *places,
            f"next: complete these lines in {plan.path} and run the same command again",
            *report.answers,
        ]
    )
    return Applied("asked", report, report.branch, EXIT_PERSON, message)


def _parked(report: Report, plan: Plan) -> Applied:
    clauses = [
        f"  {'met    ' if clause.met else 'not met'} {clause.text} (is {clause.seen})"
        for clause in report.precondition.clauses
    ]
    message = "\n".join(
        [
            f"{report.port} is parked: {report.precondition.config} does not meet the precondition",
            *clauses,
            f"next: raise one of them in {plan.path} (variants), or --despite-precondition",
        ]
    )
    return Applied("parked", replace(report, verdict="parked"), report.branch, EXIT_PARKED, message)
