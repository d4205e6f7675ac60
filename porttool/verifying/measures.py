"""Run a project's bench and drift check on the review branch, and read what they leave.

Both are commands of the project's own; what they share with porttool is a file in JSON, which
docs/guides/evidence.md describes. How a command ends says less than its file: a bench that found a
fault exits with a code of its own and says in the file what it found.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from porttool.errors import PlanError, RepositoryError
from porttool.evidence import Bench, Drift, DriftVerdict, shown_interval
from porttool.frozen import dataclass
from porttool.git.checkout import checkout, pool_folder
from porttool.git.commits import CommitId
from porttool.git.repo import Repository
from porttool.plan.plan import MeasurePlan, Plan
from porttool.report import Check
from porttool.verifying.checks import (
    Processes,
    Workplace,
    as_check,
    check_without_places,
    without_places,
    workplace,
)
from porttool.verifying.trial import skipped

MAX_BYTES = 1 << 20
BENCH, DRIFT = "bench", "drift"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """What was measured now, None where it was not, and a line for each in the report."""

    checks: tuple[Check, ...] = ()
    bench: Bench | None = None
    drift: Drift | None = None


_T = TypeVar("_T")
_M = TypeVar("_M", Bench, Drift)


class _Result(BaseModel):
    """What both files have in common: when, where and on what, and a table in Markdown."""

    model_config = ConfigDict(extra="ignore", strict=True)

    measured: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}")
    machine: str = ""
    what: str = ""
    table: str = ""


class _BenchResult(_Result):
    effect: FiniteFloat
    interval: list[FiniteFloat] = Field(min_length=2, max_length=2)
    failed: str | None = None


class _DriftResult(_Result):
    verdict: DriftVerdict
    detail: str = ""


_R = TypeVar("_R", bound=_Result)


def read_bench(data: bytes, *, at_least: float) -> Bench:
    """Return what a bench's file says; raises ValueError with the first thing wrong with it."""
    found = _read(data, _BenchResult)
    low, high = found.interval
    if not low <= found.effect <= high:
        raise ValueError(f"effect {found.effect} is not between the ends of interval")
    return Bench(
        effect=found.effect,
        low=low,
        high=high,
        at_least=at_least,
        failed=found.failed or "",
        measured=found.measured,
        machine=found.machine,
        what=found.what,
        table=found.table,
    )


def read_drift(data: bytes) -> Drift:
    """Return what a drift check's file says; raises ValueError as `read_bench` does."""
    found = _read(data, _DriftResult)
    return Drift(
        verdict=found.verdict,
        measured=found.measured,
        detail=found.detail,
        machine=found.machine,
        what=found.what,
        table=found.table,
    )


def check_planned(plan: Plan, *, bench: bool, drift: bool) -> None:
    """Raise PlanError where something is to be measured that the plan does not describe."""
    for name, wanted in ((BENCH, bench), (DRIFT, drift)):
        if wanted and getattr(plan.verify, name) is None:
            raise PlanError(
                f"--{name}: the plan does not say how",
                where=f"{plan.path} (verify)",
                why=f"there is no verify.{name}",
                next=f"add verify.{name}: with command: and result:, as docs/guides/evidence.md "
                "shows, or leave the option out",
            )


def measure(
    repo: Repository,
    plan: Plan,
    tip: CommitId,
    interpreter: Path,
    *,
    bench: bool,
    drift: bool,
    progress: Progress,
) -> Measured:
    """Run the bench, then the drift check unless the bench has decided, with nothing beside them.

    What they leave in `{out}` stays for the next run on the same tip, so that a drift check that
    was ended goes on where it stopped.
    """
    wanted = plan.verify
    checks: list[Check] = []
    found: Bench | None = None
    drifted: Drift | None = None
    with (
        _kept_folder(repo, plan, tip) as out,
        checkout(repo, tip) as folder,
        Processes() as processes,
    ):
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(out / "inductor")}
        variables = {**cache, **wanted.env}
        place = workplace(folder, interpreter, pythonpath=wanted.pythonpath, variables=variables)
        folders = (folder, out, interpreter.parent.parent)
        if bench and wanted.bench is not None:
            progress(BENCH)
            check, data = run_measure(BENCH, wanted.bench, place, out / BENCH, processes)
            check, found = _judged(check, data, lambda d: read_bench(d, at_least=_asked(plan)))
            if found is not None:
                found = _without_places(found, folders)
                fault = found.failed
                check = dataclasses.replace(
                    check,
                    status="failed" if fault else "passed",
                    detail=fault or f"{found.effect:+.1%} ({shown_interval(found)})",
                )
            checks.append(check_without_places(check, folders))
        if drift and wanted.drift is not None:
            if found is not None and (found.failed or found.low < found.at_least):
                checks.append(skipped(DRIFT, "the bench has decided"))
            else:
                progress(DRIFT)
                check, data = run_measure(DRIFT, wanted.drift, place, out / DRIFT, processes)
                check, drifted = _judged(check, data, read_drift)
                if drifted is not None:
                    drifted = _without_places(drifted, folders)
                    said = f"{drifted.verdict}: {drifted.detail}".removesuffix(": ")
                    check = dataclasses.replace(check, status="passed", detail=said)
                checks.append(check_without_places(check, folders))
    return Measured(tuple(checks), found, drifted)


def _without_places(measured: _M, folders: Sequence[Path]) -> _M:
    """Take this machine's folders out of every text of a result."""
    texts = {
        field.name: without_places(text, folders)
        for field in dataclasses.fields(measured)
        if isinstance(text := getattr(measured, field.name), str) and field.name != "verdict"
    }
    changes: dict[str, Any] = dict(texts)
    return dataclasses.replace(measured, **changes)


def _judged(check: Check, data: bytes, read: Callable[[bytes], _T]) -> tuple[Check, _T | None]:
    if not data:
        return check, None
    try:
        return check, read(data)
    except ValueError as error:
        wrong = f"its result is not one: {error}"
        return dataclasses.replace(check, status="failed", detail=wrong), None


def _asked(plan: Plan) -> float:
    assert plan.verify.bench is not None
    return plan.verify.bench.at_least


@contextlib.contextmanager
def _kept_folder(repo: Repository, plan: Plan, tip: CommitId) -> Iterator[Path]:
    """Lend the folder of a port's measurements at one tip; those at other tips are removed."""
    own = pool_folder(repo) / "measures" / plan.name
    own.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        file = os.open(own / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RepositoryError(
                f"{plan.name} is being measured by another porttool verify",
                where=str(own),
                why="two measurements at once would be of each other",
                next="wait until it has ended",
            ) from None
        for folder in own.iterdir():
            if folder.is_dir() and folder.name != tip:
                shutil.rmtree(folder)
        (own / tip).mkdir(exist_ok=True)
        yield own / tip


def run_measure(
    name: str, plan: MeasurePlan, place: Workplace, out: Path, processes: Processes
) -> tuple[Check, bytes]:
    """Run one of them to its end with `{out}` as its folder; return the file it left, else b""."""
    out.mkdir(parents=True, exist_ok=True)
    result = out / plan.result
    result.unlink(missing_ok=True)  # what an earlier run said is no answer of this one
    command = [word.replace("{out}", str(out)) for word in plan.command]
    finished = processes.run(command, place, timeout_s=plan.timeout_s)
    check = as_check(name, finished)
    if not result.is_file():
        wrong = f"{finished.detail}, and no {plan.result} in {{out}}"
        return dataclasses.replace(check, status="failed", detail=wrong), b""
    with result.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        wrong = f"{plan.result} has more than {MAX_BYTES} bytes"
        return dataclasses.replace(check, status="failed", detail=wrong), b""
    return check, data


def _read(data: bytes, kind: type[_R]) -> _R:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error
