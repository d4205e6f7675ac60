"""What a project's measuring programs leave: files in JSON, read as values.

docs/guides/evidence.md describes them. Whoever wrote one is not trusted: it is of the project, its
numbers are finite and its texts are only shown.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError
from pydantic_core import from_json

from porttool.evidence import Bench, Drift, DriftVerdict, Measurement
from porttool.gating.settings import evaluate_clauses
from porttool.plan.plan import ThresholdPlan
from porttool.report import Clause, Threshold

MAX_BYTES = 1 << 20


class _Result(BaseModel):
    """What all files have in common: when, where and on what, and a table in Markdown."""

    model_config = ConfigDict(extra="ignore", strict=True)

    measured: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}")
    machine: str = ""
    what: str = ""
    table: str = ""

    def taken(self) -> Measurement:
        return Measurement(self.measured, self.machine, self.what, self.table)


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
        taken=found.taken(),
        failed=found.failed or "",
    )


def read_drift(data: bytes) -> Drift:
    """Return what a drift check's file says; raises ValueError as `read_bench` does."""
    found = _read(data, _DriftResult)
    return Drift(verdict=found.verdict, taken=found.taken(), detail=found.detail)


def read_threshold(data: bytes, plan: ThresholdPlan, *, at: str) -> Threshold:
    """Return whether a file meets the plan's clauses; raises ValueError as `read_bench` does."""
    found = _read(data, _Result)
    values: Any = from_json(data, allow_inf_nan=False)
    judged = evaluate_clauses(values, plan.all_of, plan.result)
    clause = Clause(judged.text, judged.seen, judged.met)
    return Threshold(at, clause.met, clause, found.taken())


def _read(data: bytes, kind: type[_R]) -> _R:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error
