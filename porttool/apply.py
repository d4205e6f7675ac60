"""Port an experiment onto a branch: from the plan to a review branch, in the order of reading.

Everything happens in a quarantine on top of the user's objects. No code of the repository is run,
no checkout is touched, and the branch with its report is the only thing that anybody can see.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from porttool.account import account
from porttool.auditing import check_written, written_audit
from porttool.experiment import find_experiment, learn_experiment
from porttool.git.commits import CommitFacts, CommitId, TreeId
from porttool.git.partial import fetch_left_out
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.homes import seen_homes
from porttool.learning.lesson import NEW_FILE, Lesson
from porttool.modules import check_imports
from porttool.outcomes import (
    already_ported,
    asked,
    not_proven,
    not_switched_off,
    nothing_to_do,
    parked,
    unproven,
    would_create,
)
from porttool.plan.plan import PORTS_FOLDER, Plan
from porttool.plan.switch import FlatSwitch
from porttool.precondition import read_precondition
from porttool.proving.proof import Proof, prove_off
from porttool.proving.reach import search_words
from porttool.report import Report, Timing
from porttool.series import Applied, commit_series, create_branch
from porttool.survey import decide_sites
from porttool.trees import check_switch, settings_reach, write_config, write_tree
from porttool.whereabouts import relocated, renamed_files
from porttool.workbench import Decided, Workbench

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
    finish: Callable[[Workbench, Report], Applied] | None = None,
    progress: Progress,
) -> Applied:
    """Make the review branch of a port, or say why there is none.

    `finish` is what to do in place of creating the branch, once its commits are made and proven.
    Raises PortError subclasses for everything that stops it; then nothing has changed.
    """
    clock = Clock(progress)
    with Quarantine(repo) as quarantine:
        clock.start(f"finding the experiment and {onto}")
        experiment = find_experiment(repo, quarantine, plan)
        onto_id = repo.resolve(onto)
        bench = Workbench(repo, quarantine, plan, experiment, onto, onto_id)
        merged = repo.find_ported(onto_id, experiment.tip.id, plan.name)
        if merged is not None:
            return already_ported(_account(bench), merged)

        ends = (onto_id, experiment.parent_tree, experiment.tip.tree)
        fetch_left_out(repo, quarantine, ends, clock.start)
        check_switch(quarantine, quarantine.tree_of(onto_id), plan)
        clock.start("learning the rewrite from the experiment's own diff")
        lesson = learn_experiment(quarantine, plan, experiment)
        clock.start(f"deciding every site on {onto}")
        decided = decide_sites(bench, lesson)
        report = _account(bench, decided)
        if decided.asks:
            return asked(replace(report, timings=clock.stop()), plan)

        clock.start("writing the port")
        adapted = write_tree(quarantine, decided, plan, gated=False)
        audit = written_audit(decided)
        check_written(quarantine, adapted, audit, None)
        check_imports(quarantine, quarantine.tree_of(onto_id), adapted, experiment.tree)
        gated = write_tree(quarantine, decided, plan, gated=True) if plan.switch else adapted
        if plan.switch is not None:
            check_written(quarantine, gated, audit, plan.switch)
        if gated == quarantine.tree_of(onto_id):
            return nothing_to_do(bench, report, plan.switch)
        gated = write_config(quarantine, gated, plan)
        series = commit_series(bench, adapted, gated)
        tip = series[-1]

        precondition = read_precondition(quarantine, plan, tip)
        report = replace(report, precondition=precondition)
        if not precondition.met and not despite_precondition:
            return parked(replace(report, timings=clock.stop()), plan)

        clock.start("proving that off means off")
        proof = prove(bench, lesson, onto_id, tip)
        if plan.switch is not None and not proof.holds:
            alone = prove(bench, lesson, onto_id, decided.base)
            brought = {hunk.path for hunk in lesson.hunks if hunk.by == NEW_FILE}
            brought |= {helper.path for helper in lesson.helpers if helper.free}
            if alone.holds and not any(file.path in brought for file in unproven(proof)):
                raise not_proven(proof)
            raise not_switched_off(proof if alone.holds else alone)
        timings = clock.stop()
        report = _account(bench, decided, proof, [quarantine.commit(id) for id in series])
        if report.gate is not None:
            gate = replace(report.gate, reach=settings_reach(quarantine, gated, plan))
            report = replace(report, gate=gate)
        report = replace(report, precondition=precondition, timings=timings)
        if dry_run:
            return would_create(report)
        if finish is not None:
            return finish(bench, report)
        return create_branch(bench, report, replace_branch=replace_branch, progress=progress)


def prove(bench: Workbench, lesson: Lesson, onto_id: CommitId, tip: CommitId | TreeId) -> Proof:
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
    switch = bench.plan.switch
    learned = (*lesson.helpers, *lesson.brought)
    helpers = [helper.name for helper in learned if "." not in helper.name]
    words = search_words(before, after, switch, helpers)
    reaching = bench.quarantine.grep(onto_id, words, "*") if words else ()
    reaching = tuple(path for path in reaching if not _inside(PORTS_FOLDER, path))
    home = [switch.module] if isinstance(switch, FlatSwitch) and switch.module else []
    onto_files = before | quarantine.read_many(onto_id, [*reaching, *home])
    files = renamed_files(
        quarantine, lesson, bench.experiment.parent_tree, quarantine.tree_of(onto_id)
    )
    lesson = seen_homes(relocated(lesson, files), after)
    folders = {path.rpartition("/")[0] for path in paths} - {""}
    new_folders = {one for one in folders if quarantine.entry(onto_id, one) is None}
    return prove_off(onto_files, after, lesson, switch, new_folders)


def prove_branch(
    repo: Repository, plan: Plan, progress: Progress
) -> Callable[[CommitId, CommitId], Proof]:
    """Return `prove(onto, tip)` for `verify`: the rules are learned again, the trees read again."""

    def prove_again(onto_id: CommitId, tip: CommitId) -> Proof:
        with Quarantine(repo) as quarantine:
            experiment = find_experiment(repo, quarantine, plan)
            ends = (onto_id, tip, experiment.parent_tree, experiment.tip.tree)
            fetch_left_out(repo, quarantine, ends, progress)
            lesson = learn_experiment(quarantine, plan, experiment)
            bench = Workbench(repo, quarantine, plan, experiment, plan.onto, onto_id)
            return prove(bench, lesson, onto_id, tip)

    return prove_again


def _inside(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _account(
    bench: Workbench,
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
