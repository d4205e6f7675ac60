"""Run a project's bench and drift check on the review branch, alone on the machine.

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

from porttool.errors import PlanError, RepositoryError
from porttool.evidence import Bench, Drift, Measurement, shown_interval
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
from porttool.verifying.results import MAX_BYTES, read_bench, read_drift
from porttool.verifying.trial import skipped

BENCH, DRIFT, THRESHOLD = "bench", "drift", "measure"
_WHERE = {BENCH: "verify", DRIFT: "verify", THRESHOLD: "precondition"}
_PNG = b"\x89PNG\r\n\x1a\n"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """What was measured now, None where it was not, and a line for each in the report.

    `files` are the results that were read, by what was measured; they stay where they are.
    """

    checks: tuple[Check, ...] = ()
    bench: Bench | None = None
    drift: Drift | None = None
    files: tuple[tuple[str, Path], ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """What gave no result, which says nothing of the branch."""
        found = {BENCH: self.bench, DRIFT: self.drift}
        return tuple(c.name for c in self.checks if c.status == "failed" and found[c.name] is None)


@dataclass(frozen=True)
class Surroundings:
    """Where a measurement runs, and the folders of this machine that no report may name."""

    place: Workplace
    processes: Processes
    folders: tuple[Path, ...]


_T = TypeVar("_T")


def check_planned(plan: Plan, *, bench: bool, drift: bool, threshold: bool = False) -> None:
    """Raise PlanError where something is to be measured that the plan does not describe."""
    described = {
        BENCH: (bench, plan.verify.bench),
        DRIFT: (drift, plan.verify.drift),
        THRESHOLD: (threshold, plan.precondition and plan.precondition.measure),
    }
    for name, (wanted, given) in described.items():
        if wanted and given is None:
            part = _WHERE[name]
            raise PlanError(
                f"--{name}: the plan does not say how",
                where=f"{plan.path} ({part})",
                why=f"there is no {part}.{name}",
                next=f"add {part}.{name}: with command: and result:, as docs/guides/evidence.md "
                "shows, or leave the option out",
            )


def bench_and_drift(
    repo: Repository,
    plan: Plan,
    at: CommitId,
    interpreter: Path,
    *,
    bench: bool,
    drift: bool,
    progress: Progress,
) -> Measured:
    """Run the bench, then the drift check unless the bench has decided, with nothing beside them.

    What they leave in `{out}` stays for the next run on the same commit, so that a drift check that
    was ended goes on where it stopped.
    """
    wanted = plan.verify
    checks: list[Check] = []
    files: list[tuple[str, Path]] = []
    found: Bench | None = None
    drifted: Drift | None = None
    with (
        measuring_alone(repo, plan) as own,
        surroundings(repo, plan, at, interpreter, _kept(own, at)) as around,
    ):
        out = own / at
        if bench and wanted.bench is not None:
            progress(BENCH)
            check, data = run_measure(BENCH, wanted.bench, around, out / BENCH)
            check, found = _judged(check, data, lambda d: read_bench(d, at_least=_asked(plan)))
            if found is not None:
                files.append((BENCH, out / BENCH / wanted.bench.result))
                fault = without_places(found.failed, around.folders)
                taken = taken_elsewhere(found.taken, around.folders)
                found = dataclasses.replace(found, taken=taken, failed=fault)
                check = dataclasses.replace(
                    check,
                    status="failed" if fault else "passed",
                    detail=fault or f"{found.effect:+.1%} ({shown_interval(found)})",
                )
            checks.append(check_without_places(check, around.folders))
        if drift and wanted.drift is not None:
            if found is not None and (found.failed or found.low < found.at_least):
                checks.append(skipped(DRIFT, "the bench has decided"))
            else:
                progress(DRIFT)
                check, data = run_measure(DRIFT, wanted.drift, around, out / DRIFT)
                check, drifted = _judged(check, data, read_drift)
                if drifted is not None:
                    files.append((DRIFT, out / DRIFT / wanted.drift.result))
                    detail = without_places(drifted.detail, around.folders)
                    taken = taken_elsewhere(drifted.taken, around.folders)
                    drifted = dataclasses.replace(drifted, taken=taken, detail=detail)
                    said = f"{drifted.verdict}: {detail}".removesuffix(": ")
                    check = dataclasses.replace(check, status="passed", detail=said)
                checks.append(check_without_places(check, around.folders))
    return Measured(tuple(checks), found, drifted, tuple(files))


def taken_elsewhere(taken: Measurement, folders: Sequence[Path]) -> Measurement:
    """Take this machine's folders out of every text: a report is read elsewhere."""
    texts: dict[str, Any] = {
        name: without_places(text, folders) for name, text in dataclasses.asdict(taken).items()
    }
    return Measurement(**texts)


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
def measuring_alone(repo: Repository, plan: Plan) -> Iterator[Path]:
    """Lend the folder of a port's measurements to one porttool at a time.

    Raises RepositoryError where another one has it.
    """
    own = pool_folder(repo) / "measures" / plan.name
    own.mkdir(parents=True, exist_ok=True)
    file = os.open(own / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RepositoryError(
                f"{plan.name} is being measured by another porttool verify",
                where=str(own),
                why="two measurements at once would be of each other",
                next="wait until it has ended",
            ) from None
        yield own
    finally:
        os.close(file)


def kept_pictures(repo: Repository, port: str, at: CommitId) -> tuple[tuple[str, bytes], ...]:
    """Return the PNG files that a port's measurements at a commit left here, by what was measured.

    Elsewhere than on the machine that measured there are none. Large ones are left out.
    """
    found = sorted((pool_folder(repo) / "measures" / port / at).glob("*/*.png"))
    read = ((file.parent.name, file.read_bytes()) for file in found if _is_small(file))
    return tuple((what, data) for what, data in read if data.startswith(_PNG))


def _is_small(file: Path) -> bool:
    return file.is_file() and file.stat().st_size <= MAX_BYTES


def _kept(own: Path, at: CommitId) -> Path:
    """Return the folder of a port's measurements at one commit; those at others are removed."""
    for folder in own.iterdir():
        if folder.is_dir() and folder.name != at:
            shutil.rmtree(folder)
    (own / at).mkdir(exist_ok=True)
    return own / at


@contextlib.contextmanager
def surroundings(
    repo: Repository, plan: Plan, at: CommitId, interpreter: Path, out: Path
) -> Iterator[Surroundings]:
    """Lend a checkout of a commit, and what programs run in there; they end with the block."""
    with checkout(repo, at) as folder, Processes() as processes:
        place = workplace(
            folder,
            interpreter,
            pythonpath=plan.verify.pythonpath,
            # A killed run can leave a torn entry in the compiler's cache; this one is ours alone.
            variables={"TORCHINDUCTOR_CACHE_DIR": str(out / "inductor"), **plan.verify.env},
        )
        yield Surroundings(place, processes, (folder, out, interpreter.parent.parent))


def run_measure(
    name: str, plan: MeasurePlan, around: Surroundings, out: Path, *, config: str = ""
) -> tuple[Check, bytes]:
    """Run one command to its end with `{out}` as its folder; return the file it left, else b"".

    `config` is what `{config}` stands for.
    """
    out.mkdir(parents=True, exist_ok=True)
    result = out / plan.result
    result.unlink(missing_ok=True)  # what an earlier run said is no answer of this one
    command = [word.replace("{out}", str(out)).replace("{config}", config) for word in plan.command]
    finished = around.processes.run(command, around.place, timeout_s=plan.timeout_s)
    check = as_check(name, finished)
    if not result.is_file():
        said = _last_words(finished.tail)
        wrong = f"{finished.detail}, and no {plan.result} in {{out}}" + (f"; {said}" * bool(said))
        return dataclasses.replace(check, status="failed", detail=wrong), b""
    with result.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        wrong = f"{plan.result} has more than {MAX_BYTES} bytes"
        return dataclasses.replace(check, status="failed", detail=wrong), b""
    return check, data


def _last_words(tail: Sequence[str]) -> str:
    """Return the last line that says something, without the frame that it may stand in."""
    saying = (line for line in reversed(tail) if any(map(str.isalnum, line)))
    return next(saying, "").strip("\u2502\u2503\u2551| \t")
