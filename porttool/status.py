"""Where every port of a repository stands, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from porttool.errors import PortError, RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import CommitId
from porttool.git.repo import Repository
from porttool.plan.plan import PLAN_NAME, PORTS_FOLDER, Plan, check_inside, load_plan
from porttool.precondition import expected_config, expected_precondition
from porttool.record import find_report, standing_of, unreported
from porttool.report import Report, Standing, counted, next_step, remake_command

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
    check_inside(root, root / PORTS_FOLDER / PLAN_NAME)
    for path in sorted((root / PORTS_FOLDER).glob(f"*/{PLAN_NAME}")):
        yield _status(repo, root, path, onto)


def _status(repo: Repository, root: Path, path: Path, onto: str | None) -> PortStatus:
    port = path.parent.name
    try:
        check_inside(root, path)
        plan = load_plan(path)
        return _plan_status(repo, plan, onto)
    except PortError as error:
        detail = error.what if error.where is None else f"{error.what} ({error.where})"
        return PortStatus(port, "unusable", onto or "", detail, error.next or f"mend {path}")


def _plan_status(repo: Repository, plan: Plan, override: str | None) -> PortStatus:
    onto = override or plan.onto
    onto_id = repo.resolve(onto)
    merged = repo.find_ported(onto_id, CommitId(plan.experiment.commits[-1]), plan.name)
    if merged is not None:
        detail = f"{onto} has it since {merged[:12]} {repo.commit(merged).subject}"
        return PortStatus(plan.name, "merged", onto, detail, "", commit=merged)
    tip = repo.find(plan.review_branch)
    if tip is None:
        apply_command = f"porttool apply {plan.name} --onto {shlex.quote(onto)}"
        try:
            expected = expected_precondition(repo, plan, onto_id)
        except RepositoryError:
            if not repo.is_partial():
                raise
            detail = _unknown_precondition(repo, plan, onto, onto_id)
            return PortStatus(plan.name, "not applied", onto, detail, apply_command)
        if expected is not None and not expected.met:
            seen = "; ".join(f"{c.text} (is {c.seen})" for c in expected.clauses)
            detail = f"{expected.config} does not meet the precondition: {seen}"
            command = f"raise one of them, then: {apply_command}"
            return PortStatus(plan.name, "parked", onto, detail, command)
        return PortStatus(plan.name, "not applied", onto, "there is no branch yet", apply_command)
    return _branch_status(repo, plan, override, tip)


def _unknown_precondition(repo: Repository, plan: Plan, onto: str, onto_id: CommitId) -> str:
    """Return what to say where a partial clone lacks the file that the precondition reads."""
    path = expected_config(plan)
    where = shlex.quote(str(repo.root or repo.git_dir))
    return (
        "there is no branch yet; whether its precondition is met is not known, for this partial "
        f"clone lacks {path} of {onto}, and this fetches it: "
        f"git -C {where} cat-file -e {shlex.quote(f'{onto_id}:{path}')}"
    )


def _branch_status(repo: Repository, plan: Plan, override: str | None, tip: CommitId) -> PortStatus:
    report = find_report(repo, tip, plan.name)
    made_on = report.onto if report and repo.find(report.onto) else plan.onto
    onto = override or made_on
    ahead, stale = repo.ahead_behind(tip, repo.resolve(onto))
    standing = standing_of(repo, plan, report) if report else unreported(repo, plan, tip)
    if report and standing.merged:
        detail = f"{report.onto} has it since {standing.merged[:12]}"
        return PortStatus(plan.name, "merged", onto, detail, "", commit=CommitId(standing.merged))
    verdict = report.verdict if report else "no report"
    facts = [f"{counted(ahead, 'commit')} ahead of {onto}"]
    facts += [f"stale by {stale}"] if stale else []
    if standing.took_in:
        facts.append(f"{counted(standing.took_in, 'commit')} of {onto} merged into it")
    facts.append(verdict)
    facts += ["port.yaml or a patch has changed since"] if standing.outdated else []
    return PortStatus(
        port=plan.name,
        state="parked" if verdict == "parked" else "on a branch",
        onto=onto,
        detail=", ".join(facts),
        next=remake_command(plan.name, plan.review_branch, onto, standing)
        if stale or standing.remake or not report
        else _next(report, standing),
        branch=plan.review_branch,
        commit=tip,
        ahead=ahead,
        stale=stale,
        verdict=verdict,
    )


def _next(report: Report, standing: Standing) -> str:
    if report.verdict in ("unverified", "ready"):
        return next_step(report, standing)
    return f"porttool review {report.port}"
