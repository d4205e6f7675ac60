"""Check a port's branch and give a verdict: ready, parked or failed.

The order is the reader's: the precondition, the proof by syntax, the runs with the switch off and
on, the project's own checks. Programs run two at a time, each in a checkout outside of the user's
repository; nothing is written there but the report, as a note of the branch's tip.
"""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from porttool.account import tool_version
from porttool.errors import EXIT_PARKED, PortError
from porttool.frozen import dataclass
from porttool.git.checkout import checkout
from porttool.git.commits import CommitId
from porttool.git.repo import Repository
from porttool.git.scratch import scratch_folder
from porttool.plan.plan import CheckPlan, Plan
from porttool.precondition import expected_precondition
from porttool.proving import proof as proofs
from porttool.record import load_report, standing_of, store_report
from porttool.report import Check, FileProof, Proof, Report, Timing, counted
from porttool.standing import Standing, remake_command
from porttool.verifying.checks import (
    Processes,
    Workplace,
    as_check,
    check_without_places,
    find_python,
    python_fault,
    workplace,
)
from porttool.verifying.kept import basis_of, kept_basis, kept_verdict
from porttool.verifying.measures import BENCH, DRIFT, Measured, bench_and_drift, check_planned
from porttool.verifying.merged import measure_merged
from porttool.verifying.threshold import judged_precondition
from porttool.verifying.trial import (
    FRAMES,
    ON_ONTO,
    SAME,
    Comparison,
    Setup,
    Trial,
    compare_trials,
    frames_check,
    pair_check,
    prefix_check,
    prefix_name,
    run_check,
    run_trial,
    same_check,
    skipped,
)
from porttool.verifying.verdict import (
    EXITS,
    Verified,
    evidence_of,
    has_failed,
    mending,
    message_of,
    precondition_check,
    verdict_of,
)

SIDE_BY_SIDE = 2
PAIRS = (("off", "off"), ("off", "on"), ("on", "off"), ("on", "on"))
# Sums come out the same only with the same number of threads.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

SYNTAX = "proof by syntax"

_T = TypeVar("_T")
Progress = Callable[[str], None]
Prove = Callable[[CommitId, CommitId], proofs.Proof]


class CannotVerify(PortError):
    """The branch is not what the plan describes, or nothing can be run; nothing was."""


def verify(
    repo: Repository,
    plan: Plan,
    *,
    prove: Prove,
    python: Path | None = None,
    despite_precondition: bool = False,
    measure: bool = False,
    bench: bool = False,
    drift: bool = False,
    fresh: bool = False,
    progress: Progress,
) -> Verified:
    """Check the plan's branch against the commit it was made on, and store the report with it.

    With `bench` and `drift` the plan's own measurements follow once every check has passed, and the
    decision tree gives its answer; what was measured before at the same tip goes on to count. Of a
    port that onto has already they are made on onto, and nothing else is checked or stored.

    `prove(onto, tip)` gives the proof by syntax from the trees. A precondition that is not met
    parks the branch, and nothing else runs unless `despite_precondition`; then everything runs and
    the verdict is still parked. Where the config does not meet it and the plan says how to measure
    it, or with `measure`, it is measured. Where there is no branch because the precondition parks
    the port, the answer says so and nothing is stored.

    What was found before about the same trees, with the same plan, tool and interpreter, is taken
    as it was kept, and nothing is run or stored; not with `fresh`, and not where anything is to be
    measured.

    Raises RepositoryError where there is no branch, or no report came with it, CannotVerify where
    the plan has changed since, onto was merged into the branch, or Python does not start, and
    NothingMeasured where `measure` gives no result.
    """
    begun = time.monotonic()
    check_planned(plan, bench=bench, drift=drift, threshold=measure)
    interpreter = project_python(repo, python)
    if repo.find(plan.review_branch) is None:
        onto = repo.resolve(plan.onto)
        merged = repo.find_ported(onto, CommitId(plan.experiment.commits[-1]), plan.name)
        if merged is not None and (bench or drift):
            return measure_merged(
                repo,
                plan,
                (onto, merged),
                interpreter,
                despite_precondition=despite_precondition,
                measure=measure,
                bench=bench,
                drift=drift,
                progress=progress,
            )
        parked = None if merged else _parked_without_branch(repo, plan, onto)
        if parked is not None:
            return Verified(parked, EXIT_PARKED, message_of(parked), advice=_measurable(plan))
    report = load_report(repo, plan)
    standing = standing_of(repo, plan, report)
    _refuse_branch(plan, report, standing)
    onto, tip = CommitId(report.onto_id), CommitId(report.tip)
    basis = basis_of(repo, plan, report, interpreter)
    if not (fresh or measure or bench or drift):
        kept = kept_verdict(report, basis, standing, despite_precondition=despite_precondition)
        if kept is not None:
            return kept
    # Asked before anything is run: without it, what is found could not be stored in the end.
    repo.identity()
    progress("precondition")
    before = report.precondition.measured
    precondition = judged_precondition(
        repo, plan, tip, interpreter, before, measure=measure, progress=progress
    )
    checks = [precondition_check(precondition)] if plan.precondition else []
    proof = report.proof
    if precondition.met or despite_precondition:
        progress("proof by syntax")
        proof, check = _prove(prove, onto, tip)
        checks.append(check)
        checks += _run_programs(repo, plan, (onto, tip), interpreter, progress)
        if proof.holds and any(c.name == SAME and c.status == "passed" for c in checks):
            proof = dataclasses.replace(
                proof, tier="run", assumes=(*proof.assumes, *_run_assumes(plan))
            )
    evidence, measured = report.evidence, Measured()
    if bench or drift:
        why_not = "a check failed" if has_failed(checks) else ""
        if not precondition.met and not despite_precondition:
            why_not = "the precondition parks the port"
        if why_not:
            names = [name for name, wanted in ((BENCH, bench), (DRIFT, drift)) if wanted]
            measured = Measured(tuple(skipped(name, why_not) for name in names))
        else:
            measured = bench_and_drift(
                repo, plan, tip, interpreter, bench=bench, drift=drift, progress=progress
            )
        checks += measured.checks
        evidence = evidence_of(precondition, evidence, measured)
    verdict = verdict_of(precondition, proof, checks, evidence)
    timings = tuple(t for t in report.timings if not t.step.startswith("verify"))
    report = dataclasses.replace(
        report,
        precondition=precondition,
        proof=proof,
        checks=tuple(checks),
        evidence=evidence,
        verdict=verdict,
        timings=(*timings, Timing("verify", round(time.monotonic() - begun, 3))),
    )
    report = dataclasses.replace(
        report, basis=None if measured.missing else kept_basis(report, basis)
    )
    store_report(repo, report)
    return Verified(
        report,
        EXITS[verdict],
        message_of(report, standing),
        standing,
        advice=mending(plan, checks, measured),
    )


def project_python(repo: Repository, given: Path | None) -> Path:
    """Return the interpreter that a person named, or the project's; else raise CannotVerify."""
    interpreter = given or find_python(repo.root or repo.git_dir)
    fault = python_fault(interpreter)
    if fault:
        raise CannotVerify(
            "the project's Python cannot be used, and nothing was run",
            where=f"--python {interpreter}" if given else str(interpreter),
            why=fault,
            next="porttool verify --python PATH, with the interpreter that the project's "
            "dependencies are installed for",
        )
    return interpreter


def _refuse_branch(plan: Plan, report: Report, standing: Standing) -> None:
    if standing.merged:
        return
    again = remake_command(plan.name, report.branch, report.onto, standing)
    again = f"{again} && porttool verify {plan.name}"
    if standing.outdated:
        raise CannotVerify(
            "port.yaml or a patch changed since the branch was made, and nothing was run",
            where=f"{plan.path}, and {report.branch} at {report.tip[:12]}",
            why=f"the branch was made from the plan {report.digest[:12]}, this one is "
            f"{plan.digest[:12]}: a verdict would be about another port",
            next=again,
        )
    if standing.took_in:
        raise CannotVerify(
            f"{report.onto} was merged into {report.branch}, and nothing was run",
            where=f"{report.branch} at {report.tip[:12]}",
            why=f"it holds {counted(standing.took_in, 'commit')} of {report.onto} beyond "
            f"{report.onto_id[:12]}, which it was made on: what it is to be compared with is not "
            "what it was made from",
            next=again,
        )


def _run_programs(
    repo: Repository,
    plan: Plan,
    ends: tuple[CommitId, CommitId],
    interpreter: Path,
    progress: Progress,
) -> list[Check]:
    wanted = plan.verify
    with (
        scratch_folder() as out,
        checkout(repo, ends[0]) as onto_folder,
        checkout(repo, ends[1]) as branch_folder,
        # Programs end first: a thread ends when its program has.
        ThreadPoolExecutor(SIDE_BY_SIDE) as pool,
        Processes() as processes,
    ):
        # A killed run can leave a torn entry in the compiler's cache; this one is ours alone.
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(out / "inductor")}
        variables = {**ONE_THREAD, **cache, **wanted.env}
        onto, branch = (
            workplace(folder, interpreter, pythonpath=wanted.pythonpath, variables=variables)
            for folder in (onto_folder, branch_folder)
        )
        lane = _Lane(pool, progress)

        def check(own: CheckPlan) -> Check:
            done = processes.run(own.command, branch, timeout_s=wanted.timeout_s)
            return as_check(own.name, done)

        def start_checks() -> list[Future[Check]]:
            return [lane.start(own.name, partial(check, own)) for own in wanted.checks]

        try:
            if wanted.run is None:
                seeded = [skipped("seeded run", "the plan has no verify.run")]
                started = start_checks()
            else:
                setup = Setup(wanted.run, plan.wrapper.wrapper(), processes, wanted.timeout_s)
                runs = _start_runs(setup, onto, branch, out, lane)
                started = start_checks()
                trials = [run.result() for run in runs]
                seeded = _judge_runs(setup, branch, out, lane, trials)
            checks = [*seeded, *(future.result() for future in started)]
            folders = (onto_folder, branch_folder, out, interpreter.parent.parent)
            return [check_without_places(check, folders) for check in checks]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@dataclass(frozen=True)
class _Lane:
    """Where jobs are started; each says so when its turn has come."""

    pool: ThreadPoolExecutor
    progress: Progress

    def start(self, name: str, job: Callable[[], _T]) -> Future[_T]:
        def told() -> _T:
            self.progress(name)
            return job()

        return self.pool.submit(told)


def _start_runs(
    setup: Setup, onto: Workplace, branch: Workplace, out: Path, lane: _Lane
) -> list[Future[Trial]]:
    wanted = (
        (ON_ONTO, onto, "onto", False),
        ("run with the switch off", branch, "off", False),
        ("run with the switch on", branch, "on", True),
    )
    return [
        lane.start(name, partial(run_trial, name, setup, place, out / folder, on=on))
        for name, place, folder, on in wanted
        if folder != "on" or setup.plan.on
    ]


def _judge_runs(
    setup: Setup, branch: Workplace, out: Path, lane: _Lane, trials: list[Trial]
) -> list[Check]:
    """Start what builds on the three runs, and return all checks of the seeded run, in order."""
    onto, off, *switched = trials
    plan, wrapper = setup.plan, setup.wrapper

    def compare(a: Trial, b: Trial, name: str) -> Future[Comparison] | None:
        job = partial(compare_trials, a, b, setup, branch, own=onto)
        return lane.start(name, job) if a.passed and b.passed else None

    same = compare(onto, off, SAME)
    if not switched:
        return [run_check(onto), run_check(off), _or_skipped(SAME, same, partial(same_check, plan))]
    on = switched[0]
    no_prefix = prefix_name(wrapper)
    keys = compare(off, on, no_prefix) if plan.checkpoint else None
    saved = {"off": off, "on": on}
    pairs: dict[tuple[str, str], Future[Trial]] = {}
    if plan.resume and plan.checkpoint and off.passed and on.passed:
        for first, then in PAIRS:
            name = f"saved with the switch {first}, loaded with it {then}"
            job = partial(
                run_trial,
                *(name, setup, branch, out / f"{first}-{then}"),
                on=then == "on",
                resume=saved[first].out / plan.checkpoint,
            )
            pairs[first, then] = lane.start(name, job)
    resumed = {pair: future.result() for pair, future in pairs.items()}
    crossed = None
    if resumed:
        crossed = compare(resumed["on", "off"], resumed["off", "on"], f"{no_prefix}, resumed")
    checks = [run_check(trial) for trial in trials]
    checks.append(_or_skipped(SAME, same, partial(same_check, plan)))
    if setup.can_count and on.passed and off.passed:
        checks.append(frames_check([onto, off], on))
    elif setup.can_count:
        checks.append(skipped(FRAMES, "a run failed"))
    if plan.checkpoint:
        found = [future.result() for future in (keys, crossed) if future]
        checks.append(prefix_check(wrapper, found) if found else skipped(no_prefix, "a run failed"))
    checks += [pair_check(trial, loaded) for (_, loaded), trial in resumed.items()]
    if plan.resume and not resumed:
        checks.append(skipped("checkpoints load in all four pairs", "a run failed"))
    return checks


def _or_skipped(
    name: str, future: Future[Comparison] | None, judge: Callable[[Comparison], Check]
) -> Check:
    return judge(future.result()) if future else skipped(name, "a run failed")


def _parked_without_branch(repo: Repository, plan: Plan, onto: CommitId) -> Report | None:
    precondition = expected_precondition(repo, plan, onto)
    if precondition is None or precondition.met:
        return None
    return Report(
        port=plan.name,
        digest=plan.digest,
        version=tool_version(),
        experiment=(),
        onto=plan.onto,
        onto_id=onto,
        branch=plan.review_branch,
        precondition=precondition,
        checks=(precondition_check(precondition),),
        verdict="parked",
    )


def _measurable(plan: Plan) -> str:
    rule = plan.precondition
    if rule is None or rule.measure is None:
        return ""
    measuring = f"porttool precondition {shlex.quote(plan.name)} --measure"
    return f"raise {rule.config} to the precondition, or measure it: {measuring}"


def _prove(prove: Prove, onto: CommitId, tip: CommitId) -> tuple[Proof, Check]:
    begun = time.monotonic()
    found = prove(onto, tip)
    seconds = time.monotonic() - begun
    files = tuple(FileProof(f.path, f.verdict, f.detail) for f in found.files)
    proof = Proof(found.holds, found.tier, files, found.assumes)
    against = [f"{f.path}: {f.detail}" for f in files if f.verdict == "not proven"]
    if found.holds:
        name, detail = SYNTAX, f"{counted(len(files), 'changed file')}"
        return proof, Check(name, "passed", seconds, detail)
    detail = against[0] if against else "not proven"
    return proof, Check(SYNTAX, "failed", seconds, detail, (), tuple(against))


def _run_assumes(plan: Plan) -> tuple[str, ...]:
    run = plan.verify.run
    ignored = f"; `{', '.join(run.ignore)}` were left out" if run and run.ignore else ""
    return (
        "the seeded run reaches the code that matters, on this machine and this number of threads"
        + ignored,
    )
