"""The seeded run: on onto, on the branch with the switch off and on, and resumed in all four pairs.

Each function makes one run, compares two, or judges what was found; `verify` says which runs go
side by side.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from porttool.frozen import dataclass
from porttool.plan.plan import RunPlan
from porttool.report import Check, counted
from porttool.verifying.checks import Finished, Processes, Workplace, as_check
from porttool.wrappers import Wrapper

PROBES = Path(__file__).parent / "probes"
COMPILER = "torch.compile"
ON_ONTO = "run on onto"
SAME = "switch off equals onto"
FRAMES = "compiled frames: 0 off, more than 0 on"


@dataclass(frozen=True)
class Setup:
    """What all runs of one verification share."""

    plan: RunPlan
    wrapper: Wrapper
    processes: Processes
    timeout_s: float

    @property
    def can_count(self) -> bool:
        """Whether compiled frames can be counted: a Python program, and torch's compiler."""
        return _is_python(self.plan.command) and self.wrapper.callee == COMPILER


@dataclass(frozen=True)
class Trial:
    """One run: where it wrote, how it ended, and what it compiled.

    `counts` is what `count_frames.py` wrote, empty where it could not. `fault` is what is wrong
    with a run that ended well: it ran other code than the checkout's, or left nothing to compare.
    """

    name: str
    out: Path
    finished: Finished
    counts: Mapping[str, Any]
    fault: str = ""

    @property
    def passed(self) -> bool:
        """Whether the run ended well, ran the code of its checkout, and left what it should."""
        return self.finished.passed and not self.fault

    @property
    def frames(self) -> int:
        """Compiled frames of the run's own process."""
        return int(self.counts.get("frames_ok", 0))


@dataclass(frozen=True)
class Comparison:
    """What `compare_runs.py` found about two runs, empty where it failed."""

    finished: Finished
    found: Mapping[str, Any]


def run_trial(
    name: str,
    setup: Setup,
    place: Workplace,
    out: Path,
    *,
    on: bool,
    resume: Path | None = None,
) -> Trial:
    """Make one run into the new folder `out`, counting what it compiles where Python is started."""
    out.mkdir(parents=True)
    plan = setup.plan
    words = [*plan.command, *(plan.on if on else ()), *(plan.resume if resume else ())]
    filled = [w.replace("{out}", str(out)).replace("{checkpoint}", str(resume)) for w in words]
    counts_file = out.with_name(f"{out.name}.counts.json")
    if _is_python(filled):
        filled[1:1] = [str(PROBES / "count_frames.py"), str(counts_file)]
    finished = setup.processes.run(filled, place, timeout_s=setup.timeout_s)
    counts: dict[str, Any] = {}
    if counts_file.is_file():
        counts = json.loads(counts_file.read_text("utf-8"))
    return Trial(name, out, finished, counts, _fault(plan, place, out, counts))


def _fault(plan: RunPlan, place: Workplace, out: Path, counts: Mapping[str, Any]) -> str:
    origin = counts.get("origin")
    checkout = os.path.realpath(place.folder)
    if origin is not None and not Path(os.path.realpath(origin)).is_relative_to(checkout):
        return (
            f"ran {origin}, which is not in the checkout: add the folder of the sources to "
            "verify.pythonpath in port.yaml"
        )
    for wanted in (plan.metrics, plan.checkpoint):
        if wanted is not None and not (out / wanted).is_file():
            return f"left no {wanted} in {{out}}: see verify.run in port.yaml"
    return ""


def compare_trials(a: Trial, b: Trial, setup: Setup, place: Workplace, *, own: Trial) -> Comparison:
    """Compare what two runs left behind; what `own`, onto's run, holds is no leak of the wrapper's.

    A wrapper's prefix may be the name of a project's own part, `module.` above all.
    """
    found = a.out.with_name(f"{a.out.name}-{b.out.name}.json")
    plan = setup.plan
    checkpoint = ["--checkpoint", plan.checkpoint] if plan.checkpoint else []
    command = [
        *("python", str(PROBES / "compare_runs.py"), str(a.out), str(b.out), str(found)),
        *("--metrics", plan.metrics, "--prefix", setup.wrapper.prefix, *checkpoint),
        *(("--own", str(own.out)) if own.passed else ()),
        *(word for name in plan.ignore for word in ("--ignore", name)),
    ]
    finished = setup.processes.run(command, place, timeout_s=setup.timeout_s)
    return Comparison(finished, json.loads(found.read_text("utf-8")) if finished.passed else {})


def run_check(trial: Trial) -> Check:
    """Judge that a run ended well, ran the code of its checkout, and left what it should."""
    check = as_check(trial.name, trial.finished)
    if check.status == "passed" and trial.fault:
        return replace(check, status="failed", detail=trial.fault)
    return check


def same_check(plan: RunPlan, comparison: Comparison) -> Check:
    """Judge whether the run with the switch off left what the run on onto left."""
    name = SAME
    found, finished = comparison.found, comparison.finished
    if not found:
        return _unreadable(name, finished)
    wrong = _differences("metrics", found["metrics"])
    compared = [f"{counted(found['records'][0], 'record')} of metrics"]
    if not found["records"][0]:
        wrong.append(f"{plan.metrics} is empty, so nothing was compared")
    checkpoint = found["checkpoint"]
    if checkpoint is not None:
        wrong += _differences("checkpoint", checkpoint)
        tensors, values = checkpoint["tensors"], checkpoint["values"]
        compared.append(f"{counted(tensors, 'tensor')} and {counted(values, 'value')}")
        if not checkpoint["tensors"]:
            wrong.append(f"{plan.checkpoint} holds no tensor, so nothing was compared")
    if wrong:
        return _failed(name, wrong, finished)
    return Check(name, "passed", finished.seconds, f"equal to the bit: {', '.join(compared)}")


def prefix_name(wrapper: Wrapper) -> str:
    """Return the name of `prefix_check`, by what would show the wrapper in a checkpoint."""
    if not wrapper.prefix:
        return "the same keys in every checkpoint"
    return f"no {wrapper.prefix} in any checkpoint"


def prefix_check(wrapper: Wrapper, comparisons: Sequence[Comparison]) -> Check:
    """Judge that no checkpoint shows the wrapper, and that on and off write the same keys."""
    name = prefix_name(wrapper)
    wrong: list[str] = []
    for comparison in comparisons:
        found = comparison.found
        if not found:
            return _unreadable(name, comparison.finished)
        wrong += [f"leaks: {where}" for where in (*found["prefixed_a"], *found["prefixed_b"])]
        checkpoint = found["checkpoint"]
        wrong += [f"only with the switch off: {key}" for key in checkpoint["only_a"]]
        wrong += [f"only with the switch on: {key}" for key in checkpoint["only_b"]]
    if wrong:
        return _failed(name, list(dict.fromkeys(wrong)), comparisons[0].finished)
    seconds = sum(comparison.finished.seconds for comparison in comparisons)
    count = 2 * len(comparisons)
    return Check(name, "passed", seconds, f"{count} checkpoints, the same keys off and on")


def frames_check(off: Sequence[Trial], on: Trial) -> Check:
    """Judge that the switch compiles something, that off compiles nothing, and that none gave up.

    A run that meets the recompile limit goes on eager, slower than without the switch.
    """
    counts = on.counts
    wrong = [f"what was compiled is not known: {t.name}" for t in (*off, on) if not t.counts]
    wrong += [f"{t.name} compiled {t.frames} frames" for t in off if t.frames]
    if on.counts and not on.frames:
        disabled = counts.get("disabled_by") or {}
        because = "".join(f"; {key}={value} is set" for key, value in disabled.items())
        wrong.append(f"the switch is on and nothing was compiled{because}")
    if counts.get("limit_hits"):
        wrong.append("the recompile limit was met, and the run went on eager")
    wrong += [f"a frame was not compiled: {failure}" for failure in counts.get("failures", [])]
    if wrong:
        return _failed(FRAMES, wrong, on.finished)
    graphs, again = counted(counts["graphs"], "graph"), len(counts["recompiles"])
    detail = f"{on.frames} on ({graphs}, {counted(again, 'recompile')})"
    compiled = tuple(counts["functions"])
    return Check(FRAMES, "passed", on.finished.seconds, f"0 off, {detail}", (), compiled)


def pair_check(trial: Trial, loaded: str) -> Check:
    """Judge a run that loaded another's checkpoint, with the switch `on` or `off`."""
    check = run_check(trial)
    if check.status == "passed" and loaded == "off" and trial.frames:
        wrong = f"{trial.frames} frames were compiled with the switch off"
        return replace(check, status="failed", detail=wrong)
    return check


def skipped(name: str, why: str) -> Check:
    """Return a check that could not be made."""
    return Check(name, "skipped", 0.0, why)


def _is_python(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[0] in ("python", "python3") and words[1] != "-c"


def _differences(what: str, found: Mapping[str, Any]) -> list[str]:
    more = found["num_different"] - len(found["different"])
    return [
        *(f"{what}: only on onto: {key}" for key in found["only_a"]),
        *(f"{what}: only on the branch: {key}" for key in found["only_b"]),
        *(f"{what}: {line}" for line in found["different"]),
        *([f"{what}: {more} more values differ"] if more > 0 else []),
    ]


def _failed(name: str, wrong: Sequence[str], finished: Finished) -> Check:
    return Check(name, "failed", finished.seconds, wrong[0], finished.command, tuple(wrong))


def _unreadable(name: str, finished: Finished) -> Check:
    return Check(
        name,
        "failed",
        finished.seconds,
        f"what the runs left cannot be compared: {finished.detail}",
        finished.command,
        finished.tail,
    )
