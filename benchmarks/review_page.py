"""How soon the review page of 2,000 places is made, how big it is, and how soon a browser shows it.

    python -m benchmarks.review_page

Prints one JSON line. The page is held against one of 20 places made in the same run, so that the
ratios say more than the machine does. Without a Chromium on the PATH the browser's part is left out.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from porttool.report import LedgerEntry, Report, Rule, Site, Step
from porttool.review.document import document
from porttool.review.sources import Sides, Sources

MANY, FEW, ROUNDS = 2_000, 20, 5
FILES = 200
LINE = "        weights = [on_cpu(network.state_dict()) for network in self.networks]"
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def large_report(num_sites: int) -> tuple[Report, Sources]:
    """Return a report of many places in many files of 500 lines, and those files."""
    text = "network.state_dict()"
    lines = (*("    # a line of a file" for _ in range(100)), *([LINE] * 400))
    files = {f"package/part_{n}/learner.py": Sides(lines, lines) for n in range(FILES)}
    paths = list(files)
    sites = tuple(
        Site(
            key=f"{paths[n % FILES]}::Learner.push_{n}::{text}",
            path=paths[n % FILES],
            line=101 + n // FILES,
            column=LINE.index(text),
            text=text,
            action="rewrite",
            reasons=("`network` is an element of `self.networks`, wrapped at learner.py:101",),
            rule="state_dict",
            replacement=f"clean({text})",
            known=n % 3 == 0,
            steps=(
                Step("`network` is an element of `self.networks`", paths[n % FILES], 101),
                Step("it is wrapped", paths[n % FILES], 102),
            ),
        )
        for n in range(num_sites)
    )
    ledger = tuple(
        LedgerEntry(site.path, site.line, site.line, text, f"clean({text})", "applied", "a rule")
        for site in sites[: num_sites // 10]
    )
    rule = Rule("state_dict", "$X.state_dict()", "clean($X.state_dict())", True)
    report = Report(
        *("large", "d" * 64, "0", (), "main", "a" * 40, "port/large", "b" * 40),
        rules=(rule,),
        ledger=ledger,
        sites=sites,
    )
    return report, Sources({}, files)


def cpu_s(num_sites: int) -> tuple[float, str]:
    """Return the median CPU time of making a page, and the page."""
    report, sources = large_report(num_sites)
    taken, page = [], ""
    for _ in range(ROUNDS):
        start = time.process_time()
        page = document(report, sources=sources)
        taken.append(time.process_time() - start)
    return statistics.median(taken), page


def load_s(pages: dict[int, str]) -> dict[int, float]:
    """Return for each page the median time until a browser has loaded it and drawn it once."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        return {}
    taken: dict[int, list[float]] = {number: [] for number in pages}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=browser, args=ARGUMENTS)
        for number, page in pages.items():
            (Path(folder) / f"{number}.html").write_text(page, encoding="utf-8")
        for _ in range(ROUNDS):
            for number in pages:  # in turn, so that a busy minute is everybody's
                tab = started.new_page(viewport={"width": 1280, "height": 900})
                tab.goto((Path(folder) / f"{number}.html").as_uri(), wait_until="load")
                taken[number].append(
                    tab.evaluate(
                        "new Promise((done) => requestAnimationFrame(() => setTimeout(() => "
                        "done(performance.now() / 1000))))"
                    )
                )
                tab.close()
        started.close()
    return {number: statistics.median(times) for number, times in taken.items()}


def main() -> None:
    few_s, few = cpu_s(FEW)
    many_s, many = cpu_s(MANY)
    shown = load_s({FEW: few, MANY: many})
    found = {
        "sites": MANY,
        "made_cpu_s": round(many_s, 3),
        "made_us_per_site": round((many_s - few_s) / (MANY - FEW) * 1e6),
        "size_mib": round(len(many.encode()) / 2**20, 2),
        "shown_s": round(shown[MANY], 3) if shown else None,
        f"shown_against_{FEW}_sites": round(shown[MANY] / shown[FEW], 1) if shown else None,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
