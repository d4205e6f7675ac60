"""How a port's branch stands to its plan and to its onto, and the command to type next."""

from __future__ import annotations

import shlex

from porttool.frozen import dataclass
from porttool.report import Report


@dataclass(frozen=True)
class Standing:
    """How a port's branch stands to its plan and to what it was made on, seen now.

    `stale` counts what onto has gained since, `took_in` what of that was merged into the branch.
    `edited` where somebody has committed on it, `unreported` where nothing tells whether somebody
    has, `spare` a free name for it then, "" where only a remote has it. `elsewhere` where it was
    made on another branch than the plan's, `merged` the commit that brought it into onto.
    """

    stale: int = 0
    took_in: int = 0
    edited: bool = False
    unreported: bool = False
    outdated: bool = False
    elsewhere: bool = False
    merged: str = ""
    spare: str = ""

    @property
    def remake(self) -> bool:
        """Whether the branch says nothing about what a merge would give now."""
        return bool(self.outdated or self.stale or self.took_in)


UP_TO_DATE = Standing()


def remake_command(port: str, branch: str, onto: str, standing: Standing = UP_TO_DATE) -> str:
    """Return the command that makes an existing branch anew, and loses nobody's commits."""
    if standing.unreported or standing.took_in:
        return elsewhere_command(port, branch, onto, standing)
    return f"porttool refresh {shlex.quote(port)}" + " --keep" * standing.edited


def elsewhere_command(port: str, branch: str, onto: str, standing: Standing = UP_TO_DATE) -> str:
    """Return the command that makes a branch anew on an onto that `refresh` would not take."""
    make = f"porttool apply {shlex.quote(port)} --onto {shlex.quote(onto)}"
    if standing.unreported and not standing.spare:
        return make
    if standing.edited or standing.unreported or standing.took_in:
        return f"git branch -m {shlex.quote(branch)} {shlex.quote(standing.spare)} && {make}"
    return f"{make} --replace"


def next_step(report: Report, standing: Standing = UP_TO_DATE) -> str:
    """Return the command to type next, given how far the port has come."""
    port, branch, onto = map(shlex.quote, (report.port, report.branch, report.onto))
    make = f"porttool apply {port} --onto {onto}"
    if standing.merged:
        return f"nothing, {report.onto} has it since {standing.merged[:12]}"
    again = remake_command(report.port, report.branch, report.onto, standing)
    again = again if report.tip else make
    if report.asks:
        return f"answer in port.yaml, then: {again}"
    if report.verdict == "parked" and report.precondition.met and report.evidence:
        return f"{report.evidence.decision.next}, then: porttool record {port}"
    if report.verdict == "parked":
        config = report.precondition.config or "the config"
        return f"raise {config} to the precondition, then: {again}"
    if report.tip and standing.remake:
        return f"{again} && porttool verify {port}"
    if report.verdict == "failed":
        if standing.edited:
            return f"mend what failed on {report.branch}, then: porttool verify {port}"
        return f"mend what failed, then: {again} && porttool verify {port}"
    if not report.tip:
        return make
    if report.verdict == "unverified":
        return f"porttool verify {port}"
    if report.evidence and report.evidence.decision.outcome == "open":
        return f"porttool verify {port} --bench --drift"
    merge = f"git merge --no-ff {branch}"
    return f"git switch {onto} && {merge}" if standing.elsewhere else merge
