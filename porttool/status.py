"""Where every port of a repository stands, and what to type next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from porttool.errors import PortError
from porttool.git.commits import CommitId
from porttool.git.repo import Repository
from porttool.plan.plan import PLAN_NAME, PORTS_FOLDER, Plan, load_plan
from porttool.precondition import expected_precondition
from porttool.record import find_report

State = Literal["not applied", "parked", "on a branch", "merged", "unusable"]


@dataclass(frozen=True)
class PortStatus:
    """One port: its state on `onto`, in numbers and in a sentence, and the next command.

    `ahead` counts the branch's commits, `stale` what onto has gained since the branch was made.
    `commit` is the branch's tip, or the commit that brought the port into onto.
    """

    port: str
    state: State
    onto: str
    detail: str
    next: str
    branch: str = ""
    commit: str = ""
    ahead: int = 0
    stale: int = 0
    verdict: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the same as JSON data."""
        return asdict(self)


def port_statuses(repo: Repository, onto: str | None = None) -> Iterator[PortStatus]:
    """Yield the status of every port under `patches/`, by name; `onto` overrides the plans'.

    A plan that cannot be read, or an onto that is not there, is the status of that port and hides
    no other.
    """
    root = repo.root or repo.git_dir
    for path in sorted((root / PORTS_FOLDER).glob(f"*/{PLAN_NAME}")):
        yield _status(repo, path, onto)


def _status(repo: Repository, path: Path, onto: str | None) -> PortStatus:
    port = path.parent.name
    try:
        plan = load_plan(path)
        return _plan_status(repo, plan, onto or plan.onto)
    except PortError as error:
        detail = error.what if error.where is None else f"{error.what} ({error.where})"
        return PortStatus(port, "unusable", onto or "", detail, error.next or f"mend {path}")


def _plan_status(repo: Repository, plan: Plan, onto: str) -> PortStatus:
    onto_id = repo.resolve(onto)
    merged = repo.find_ported(onto_id, CommitId(plan.experiment.commits[-1]), plan.name)
    if merged is not None:
        detail = f"{onto} has it since {merged[:12]} {repo.commit(merged).subject}"
        return PortStatus(plan.name, "merged", onto, detail, "", commit=merged)
    tip = repo.find(plan.review_branch)
    apply_command = f"porttool apply {plan.name} --onto {onto}"
    if tip is None:
        expected = expected_precondition(repo, plan, onto_id)
        if expected is not None and not expected.met:
            seen = "; ".join(f"{c.text} (is {c.seen})" for c in expected.clauses)
            detail = f"{expected.config} does not meet the precondition: {seen}"
            command = f"raise one of them, then: {apply_command}"
            return PortStatus(plan.name, "parked", onto, detail, command)
        return PortStatus(plan.name, "not applied", onto, "there is no branch yet", apply_command)
    ahead, stale = repo.ahead_behind(tip, onto_id)
    report = find_report(repo, tip, plan.name)
    verdict = report.verdict if report else "no report"
    facts = [f"{ahead} commits ahead of {onto}", verdict]
    facts[1:1] = [f"stale by {stale}"] if stale else []
    outdated = report is not None and report.digest != plan.digest
    if outdated:
        facts.append("port.yaml has changed since")
    return PortStatus(
        port=plan.name,
        state="parked" if verdict == "parked" else "on a branch",
        onto=onto,
        detail=", ".join(facts),
        next=_next(plan, verdict, apply_command, remake=bool(stale) or outdated or not report),
        branch=plan.review_branch,
        commit=tip,
        ahead=ahead,
        stale=stale,
        verdict=verdict,
    )


def _next(plan: Plan, verdict: str, apply_command: str, *, remake: bool) -> str:
    if remake:
        return f"{apply_command} --replace"
    if verdict == "unverified":
        return f"porttool verify {plan.name}"
    if verdict == "ready":
        return f"git merge --no-ff {plan.review_branch}"
    return f"porttool review {plan.name}"
