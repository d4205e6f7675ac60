"""A port's measurements as a dated entry of the project's own document, written once.

An entry is found again by the comment that opens it, so a second run changes nothing, and a new
measurement of the same day and tip takes the place of the old one. Results that speak against a
port are entries like any other.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from porttool.errors import PlanError, PortError
from porttool.evidence import (
    WORDS,
    Bench,
    Drift,
    Evidence,
    Measurement,
    decide,
    shown_interval,
)
from porttool.frozen import dataclass
from porttool.git.replacing import replace_files
from porttool.git.repo import Repository
from porttool.plan.plan import Plan
from porttool.precondition import find_precondition
from porttool.record import load_report
from porttool.review.text import visible
from porttool.verifying.measures import check_planned
from porttool.verifying.results import MAX_BYTES, read_bench, read_drift, read_threshold

HEADING = "## Measured ports"
_END = "<!-- end of the port's entry -->"


class NothingMeasured(PortError):
    """There is nothing that could be recorded."""


@dataclass(frozen=True)
class Recorded:
    """The document, whether it changed, and the entry as it stands in it."""

    path: str
    changed: bool
    entry: str


def record_entry(
    repo: Repository,
    plan: Plan,
    *,
    bench: Path | None = None,
    drift: Path | None = None,
    threshold: Path | None = None,
) -> Recorded:
    """Write the entry into the working tree; from the branch's report, or from result files.

    Files may come from another machine, and from a port that is merged already. `threshold` is what
    was measured for the precondition; it counts where the config alone would park the port.

    Raises NothingMeasured where nothing was measured, PortError where a file cannot be read or
    written; then nothing has changed.
    """
    if repo.root is None:
        raise PortError(
            "an entry is written into a working tree, and this repository has none",
            where=str(repo.git_dir),
            next="run the same command in a checkout",
        )
    if bench or drift:
        evidence, at = _from_files(repo, plan, bench, drift, threshold)
    else:
        report = load_report(repo, plan)
        if report.evidence is None or not (report.evidence.bench or report.evidence.drift):
            raise NothingMeasured(
                f"nothing was measured of {plan.name}",
                where=f"the report of {report.branch} at {report.tip[:12]}",
                next=f"porttool verify {shlex.quote(plan.name)} --bench --drift, or name result "
                "files: porttool record --bench FILE",
            )
        evidence, at = report.evidence, report.tip[:12]
    text = entry(plan.name, at, evidence)
    path = plan.verify.entries
    target = repo.root / path
    before = target.read_bytes() if target.is_file() else None
    after = with_entry(_decoded(before, path), text).encode()
    if after != before:
        replace_files(repo.root, {path: before}, {path: after}, prepare_in=(repo.git_dir,))
    return Recorded(path, after != before, text)


def entry(port: str, at: str, evidence: Evidence) -> str:
    """Return one entry: what was measured where, the tables, the decision and what is next."""
    bench, drift, decision = evidence.bench, evidence.drift, evidence.decision
    date = max(part.taken.date[:10] for part in (bench, drift) if part is not None)
    outcome = WORDS[decision.outcome]
    blocks = [
        f"### {date}: {visible(port)}, {outcome}",
        f"{_opening(port, date, at)}",
        *(_bench_blocks(bench) if bench else ["The time it takes: not measured."]),
        *(_drift_blocks(drift) if drift else ["Drift of the learning curves: not measured."]),
        f"Decision: **{outcome}**. {_sentence(decision.branch)}"
        + (f" Next: {decision.next}." if decision.next else ""),
        _END,
    ]
    return "\n\n".join(block for block in blocks if block)


def with_entry(document: str, text: str) -> str:
    """Return the document with the entry: in the place of the one that it replaces, else last."""
    newline = "\r\n" if "\r\n" in document else "\n"
    opening = text.split("\n")[2]
    old = re.search(
        rf"^###[^\n]*\n\s*{re.escape(opening)}.*?{re.escape(_END)}", document, re.DOTALL | re.M
    )
    text = text.replace("\n", newline)
    if old is not None:
        return document[: old.start()] + text + document[old.end() :]
    lines = [line.rstrip() for line in document.splitlines()]
    heading = "" if HEADING in lines else HEADING + 2 * newline
    above = document.rstrip()
    return f"{above}{2 * newline if above else ''}{heading}{text}{newline}"


def _opening(port: str, date: str, at: str) -> str:
    return f"<!-- porttool: {visible(port)}, {date}, {at} -->"


def _bench_blocks(bench: Bench) -> list[str]:
    figures = (
        f"Time saved with the switch on: {bench.effect:+.1%}, 95% interval "
        f"{shown_interval(bench)}; asked for: {bench.at_least:.0%}."
    )
    failed = f"The bench failed: {_shown(bench.failed)}." if bench.failed else figures
    return [_setting(bench.taken), _shown(bench.taken.table), failed]


def _drift_blocks(drift: Drift) -> list[str]:
    said = f"Drift: {drift.verdict}" + (f", {_shown(drift.detail)}" if drift.detail else "")
    return [_setting(drift.taken), _shown(drift.taken.table), f"{said}."]


def _setting(taken: Measurement) -> str:
    parts = [part for part in (taken.what, taken.machine) if part]
    return f"Setting: {_shown('; '.join(parts))}." if parts else ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _shown(text: str) -> str:
    return visible(text.strip(), keep="\n\t")


def _from_files(
    repo: Repository,
    plan: Plan,
    bench: Path | None,
    drift: Path | None,
    threshold: Path | None,
) -> tuple[Evidence, str]:
    check_planned(plan, bench=False, drift=False, threshold=threshold is not None)
    met = find_precondition(repo, plan).precondition.met
    asked = plan.verify.bench.at_least if plan.verify.bench else 0.05
    measured, drifted = None, None
    try:
        if bench is not None:
            reading = bench
            measured = read_bench(_read(bench), at_least=asked)
        if drift is not None:
            reading = drift
            drifted = read_drift(_read(drift))
        if threshold is not None and plan.precondition and plan.precondition.measure:
            reading = threshold
            rule = plan.precondition.measure
            met = met or read_threshold(_read(threshold), rule, at="").met
    except ValueError as error:
        raise PlanError(
            f"{reading.name} is no result of a measurement",
            where=str(reading),
            why=str(error),
            next="docs/guides/evidence.md says what the file has to hold",
        ) from error
    return Evidence(decide(met, measured, drifted), measured, drifted), "from files"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PortError(
            f"{path.name} cannot be read: {error.strerror}",
            where=str(path),
            next=f"ls -ld {shlex.quote(str(path))}",
        ) from error
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    return data


def _decoded(data: bytes | None, path: str) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise PortError(
            f"{path} is not UTF-8",
            where=path,
            why=str(error),
            next="save it as UTF-8, or name another file as verify.entries in port.yaml",
        ) from error
