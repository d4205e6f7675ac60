"""Where every port stands, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from porttool.report import counted
from porttool.review.text import visible
from porttool.status import PortStatus

_STYLES = {"ready": "green", "failed": "red", "parked": "yellow", "unusable": "red"}


def overview(ports: Sequence[PortStatus], today: date) -> RenderableType:
    """Return a row for each port: its state, what has changed since, and the last verdict."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("port", "state", "behind", "branch", "experiment", "asks", "verdict"):
        right = name in ("behind", "branch", "experiment", "asks")
        table.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for port in ports:
        table.add_row(
            Text(visible(port.port)),
            Text(port.state, style=_STYLES.get(port.state, "")),
            str(port.stale) if port.branch else "",
            age(port.branch_date, today),
            age(port.experiment_date, today),
            "" if port.asks is None else str(port.asks),
            Text(standing_verdict(port), style=_STYLES.get(port.verdict, "") if port.holds else ""),
        )
    return table


def age(day: str, today: date) -> str:
    """Return how old a date is, "" for none."""
    if not day:
        return ""
    days = (today - date.fromisoformat(day)).days
    return "today" if days == 0 else counted(days, "day")


def ages(port: PortStatus, today: date) -> str:
    """Return how old a port's branch and its experiment are, "" where there is no branch."""
    if not port.branch_date:
        return ""
    named = (("branch", port.branch_date), ("experiment", port.experiment_date))
    old = {what: age(day, today) for what, day in named if day}
    return "; ".join(
        f"{what}: {how if how == 'today' else f'{how} old'}" for what, how in old.items()
    )


def standing_verdict(port: PortStatus) -> str:
    """Return the last verdict, and whether it is still about what is there now."""
    if port.holds is None:
        return port.verdict
    if port.holds:
        return f"{port.verdict}, holds"
    return f"{port.verdict}, but {visible(port.why_not)}"
