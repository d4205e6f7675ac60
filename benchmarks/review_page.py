"""How soon the review page of 2,000 places is made, how big it is, and how soon a browser shows it.

    python -m benchmarks.review_page

Prints one JSON line. The page is held against one of 20 places made in the same run, so that the
ratios say more than the machine does. Without a Chromium the browser's part is left out.
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
LINE = "        weights = [on_cpu(network.state_dict()) for network in self.networks[{}:]]"
OTHER = "        self.value_{0} = compute(self.start, {0})  # one of many lines"
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def large_report(num_sites: int) -> tuple[Report, Sources]:
    """Return a report of many places in files of 500 lines, and these files, also as ported."""
    text = "network.state_dict()"
    per_file = num_sites // FILES + 1
    places = {101 + 30 * n for n in range(per_file)}
    before = [LINE.format(n) if n in places else OTHER.format(n) for n in range(1, 501)]
    after = [line.replace(text, f"clean({text})") for line in before]
    files = {
        f"package/part_{n}/learner.py": Sides(tuple(before), tuple(after)) for n in range(FILES)
    }
    paths = list(files)
    sites = tuple(
        Site(
            key=f"{paths[n % FILES]}::Learner.push_{n}::{text}",
            path=paths[n % FILES],
            line=101 + 30 * (n // FILES),
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


def shown_s(pages: dict[int, str]) -> dict[int, tuple[float, float]]:
    """Return for each page how long a browser takes to load it and to draw it once: median times.

    The time on the clock, and the CPU time of the thread that does it.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        return {}
    taken: dict[int, list[tuple[float, float]]] = {number: [] for number in pages}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=browser, args=ARGUMENTS)
        for number, page in pages.items():
            (Path(folder) / f"{number}.html").write_text(page, encoding="utf-8")
        for _ in range(ROUNDS):
            for number in pages:  # in turn, so that a busy minute is everybody's
                tab = started.new_page(viewport={"width": 1280, "height": 900})
                session = tab.context.new_cdp_session(tab)
                session.send("Performance.enable", {"timeDomain": "threadTicks"})
                tab.goto((Path(folder) / f"{number}.html").as_uri(), wait_until="load")
                clock_s = tab.evaluate(
                    "new Promise((done) => requestAnimationFrame(() => setTimeout(() => "
                    "done(performance.now() / 1000))))"
                )
                metrics = session.send("Performance.getMetrics")["metrics"]
                busy = next(m["value"] for m in metrics if m["name"] == "TaskDuration")
                taken[number].append((clock_s, busy))
                tab.close()
        started.close()
    return {
        number: (statistics.median(t[0] for t in times), statistics.median(t[1] for t in times))
        for number, times in taken.items()
    }


def main() -> None:
    few_s, few = cpu_s(FEW)
    many_s, many = cpu_s(MANY)
    shown = shown_s({FEW: few, MANY: many})
    found = {
        "sites": MANY,
        "made_cpu_s": round(many_s, 3),
        "made_us_per_site": round((many_s - few_s) / (MANY - FEW) * 1e6),
        "size_mib": round(len(many.encode()) / 2**20, 2),
        "shown_s": round(shown[MANY][0], 2) if shown else None,
        "shown_cpu_s": round(shown[MANY][1], 2) if shown else None,
        f"shown_cpu_against_{FEW}_sites": round(shown[MANY][1] / shown[FEW][1], 1)
        if shown
        else None,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
