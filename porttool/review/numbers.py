"""The number of a site: its place in the report, the same wherever the report is shown."""

from __future__ import annotations

import difflib

from porttool.errors import PlanError
from porttool.report import Report, Site, counted

Numbered = tuple[int, Site]
_ORDER = ("ask", "hazard", "rewrite", "skip")


def numbered_sites(report: Report) -> tuple[Numbered, ...]:
    """Return every site with its number, from 1 in the report's order."""
    return tuple(enumerate(report.sites, start=1))


def sites_by_urgency(report: Report) -> list[Numbered]:
    """Return the sites: open, hazards, gained since the experiment, the others."""

    def urgency(numbered: Numbered) -> tuple[int, bool, str, int]:
        site = numbered[1]
        return _ORDER.index(site.action), site.known, site.path, site.line

    return sorted(numbered_sites(report), key=urgency)


def find_site(report: Report, wanted: str) -> Numbered:
    """Return the site that a person means, by its number or its key, and its number.

    Raises:
        PlanError: when the report has no such site; it names the nearest.
    """
    number = wanted.removeprefix("#")
    if number.isascii() and number.isdigit():
        if 1 <= int(number) <= len(report.sites):
            return int(number), report.sites[int(number) - 1]
    else:
        for pair in numbered_sites(report):
            if pair[1].key == wanted:
                return pair
    nearest = difflib.get_close_matches(wanted, [site.key for site in report.sites], n=1)
    raise PlanError(
        f"there is no site {wanted}",
        why=f"this port has {counted(len(report.sites), 'site')}, numbered from 1"
        if report.sites
        else "this port has no sites",
        next=f"porttool review {report.port} --site '{nearest[0]}'"
        if nearest
        else f"porttool review {report.port} shows them with their numbers",
    )
