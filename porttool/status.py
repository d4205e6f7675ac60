"""Where every port of a repository stands, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from porttool.account import tool_version
from porttool.errors import PortError, RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import CommitId
from porttool.git.repo import Repository
from porttool.plan.plan import PLAN_NAME, PORTS_FOLDER, Plan, check_inside, load_plan
from porttool.precondition import expected_config, expected_precondition
from porttool.record import find_report, standing_of, unreported
from porttool.report import Report, counted
from porttool.standing import Standing, elsewhere_command, next_step, remake_command

State = Literal["not applied", "parked", "on a branch", "merged", "unusable"]


@dataclass(frozen=True)
class PortStatus:
    """One port: its state on `onto`, in numbers and in a sentence, and the next command.

    `ahead` counts the branch's commits, `stale` what onto has gained since the branch was made.
    `commit` is the branch's tip, or the commit that brought the port into onto. The dates are that
    of the branch's last commit and that of the experiment's. `holds` says whether the last verdict
    is about today's trees, plan and tool, None where there is no verdict, and `why_not` what has
    changed since. `asks` counts the open questions of the report, None where there is no report.
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
    branch_date: str = ""
    experiment_date: str = ""
    asks: int | None = None
    holds: bool | None = None
    why_not: str = ""
    verified: str = ""

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
        found = _plan_status(repo, plan, onto)
        return replace(found, experiment_date=found.experiment_date or _experiment_date(repo, plan))
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
    standing = standing_of(repo, plan, report) if report else unreported(repo, plan)
    if report and standing.merged:
        detail = f"{report.onto} has it since {standing.merged[:12]}"
        return PortStatus(plan.name, "merged", onto, detail, "", commit=CommitId(standing.merged))
    verdict = report.verdict if report else "no report"
    why_not = _why_not(repo, plan, report, tip) if report and report.verdict != "unverified" else ""
    facts = [f"{counted(ahead, 'commit')} ahead of {onto}"]
    facts += [f"stale by {stale}"] if stale else []
    if standing.took_in:
        facts.append(f"{counted(standing.took_in, 'commit')} of {onto} merged into it")
    facts.append(verdict)
    facts += ["port.yaml or a patch has changed since"] if standing.outdated else []
    facts += [f"{counted(len(report.asks), 'open question')}"] if report and report.asks else []
    return PortStatus(
        port=plan.name,
        state="parked" if verdict == "parked" else "on a branch",
        onto=onto,
        detail=", ".join(facts),
        next=_next(plan, report, standing, onto, stale=bool(stale)),
        branch=plan.review_branch,
        commit=tip,
        ahead=ahead,
        stale=stale,
        verdict=verdict,
        branch_date=_day(repo.commit(tip).committed.seconds),
        experiment_date=report.experiment[-1].date[:10] if report and report.experiment else "",
        asks=len(report.asks) if report else None,
        holds=not why_not if report and report.verdict != "unverified" else None,
        why_not=why_not,
        verified=report.basis.date if report and report.basis else "",
    )


def _next(plan: Plan, report: Report | None, standing: Standing, onto: str, *, stale: bool) -> str:
    if report is not None and not (stale or standing.remake):
        if report.verdict in ("unverified", "ready"):
            return next_step(report, standing)
        return f"porttool review {report.port}"
    command = remake_command if report and onto == report.onto else elsewhere_command
    return command(plan.name, plan.review_branch, onto, standing)


def _why_not(repo: Repository, plan: Plan, report: Report, tip: CommitId) -> str:
    """Return what a verdict rests on and is not so any more, "" where it still holds.

    The interpreter is not asked: to start it is for `verify`.
    """
    onto = repo.find(report.onto)
    basis = report.basis
    if basis is None:
        return "what it is about was not kept"
    if onto is not None and repo.tree_of(onto) != basis.onto_tree:
        return f"{report.onto} has moved on since"
    if repo.tree_of(tip) != basis.tree:
        return "the branch has changed since"
    if plan.digest != basis.digest:
        return "port.yaml or a patch has changed since"
    return "" if basis.version == tool_version() else "another version of porttool gave it"


def _experiment_date(repo: Repository, plan: Plan) -> str:
    """Return the date of the experiment's last commit, "" where it is not here."""
    last = CommitId(plan.experiment.commits[-1])
    return _day(repo.commit(last).written.seconds) if repo.holds(last) else ""


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
