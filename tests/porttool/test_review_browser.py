"""The review page in a real browser: every link, fold and key, what axe finds, and on paper."""

from __future__ import annotations

import base64
import dataclasses
import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from porttool.evidence import Bench, Decision, Drift, Evidence, Measurement
from porttool.git.repo import open_repository
from porttool.plan.plan import find_plan, load_plan
from porttool.record import load_report
from porttool.report import (
    Check,
    Clause,
    Commit,
    Conflict,
    Excluded,
    Experiment,
    FileProof,
    Gate,
    LedgerEntry,
    Patch,
    Precondition,
    Proof,
    Reach,
    Report,
    Rule,
    Seed,
    Site,
    Step,
)
from porttool.review.document import document
from porttool.review.sources import Sides, Sources, read_sources

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
# A container has no sandbox of its own to give, and the page asks for nothing from outside.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\u202e`\"'&\udce9"

ONTO = '''\
"""One network,
for which a prefix is a leak."""


class Learner:
    def __init__(self, config):
        self.nets = [build(config) for _ in range(2)]  # two of them

    def save(self):
        return [net.state_dict() for net in self.nets]

    def push(self, queue):
        queue.put({"net": [net.state_dict() for net in self.nets]})
'''
BRANCH = ONTO.replace("net.state_dict()", "clean(net.state_dict())").replace(
    "# two of them\n",
    "# two of them\n        if config.on:\n            self.nets = list(map(wrap, self.nets))\n",
)
PARENT = ONTO.partition("\n    def push")[0]
EXPERIMENT = PARENT.replace("net.state_dict()", "clean(net.state_dict())").replace(
    "build(config)", "wrap(build(config))"
)


def site(line: int, column: int, action: str = "rewrite", **changes: Any) -> Site:
    text = "net.state_dict()"
    steps = (
        Step("`net` is an element of `self.nets`", "learner.py", line),
        Step("it is wrapped", "learner.py", 7),
    )
    made = Site(
        f"learner.py::Learner::{line}",
        "learner.py",
        line,
        column,
        text,
        action,  # type: ignore[arg-type]
        ("`net` is an element of `self.nets` (learner.py:10), wrapped at learner.py:7",),
        "state_dict",
        f"clean({text})" if action == "rewrite" else None,
        steps=steps,
    )
    return dataclasses.replace(made, **changes)


REPORT = Report(
    port="compile-it",
    digest="d" * 64,
    version="0.1.0",
    experiment=(Experiment("e" * 40, "compile it", "Ada <a@b.c>", "2023-11-14T22:13:20+00:00"),),
    onto="main",
    onto_id="a" * 40,
    branch="port/compile-it",
    tip="b" * 40,
    series=(Commit("c" * 40, "compile it"), Commit("b" * 40, "behind a switch")),
    rules=(Rule("state_dict", "$X.state_dict()", "clean($X.state_dict())", True),),
    ledger=(
        LedgerEntry(
            *("learner.py", 7, 7, "build(config)", "wrap(build(config))", "adapted", "gated"),
            *("learner.py", 7),
        ),
        LedgerEntry(
            *("learner.py", 10, 10, "net.state_dict()", "clean(net.state_dict())", "applied"),
            *("rule state_dict", "learner.py", 10, "learner.py::Learner::10"),
        ),
        LedgerEntry("gone.py", 3, 3, "x = 1", "x = 2", "dropped", "onto does not have it"),
        LedgerEntry("learner.py", 1, 1, "", "for which a prefix", "already there", "onto has it"),
    ),
    sites=(
        site(10, 16),
        site(13, 27, known=False),
        site(13, 27, "ask", key="asked", reasons=("cannot tell",), steps=()),
        site(7, 20, "hazard", key="hazard", text="build(config)", known=False),
        site(40, 0, "skip", key="skipped", path="elsewhere.py"),
    ),
    seeds=(Seed("learner.py", 7, "f", "self.nets", "build(config)", "wrap($X)", "guard", "g"),),
    gate=Gate("config.on", False, "config.py", ("big.yaml",), (Reach("big.yaml", True, "on"),)),
    excluded=(Excluded("tests", 3),),
    proof=Proof(True, "run", (FileProof("learner.py", "identical tree"),), ("no eval",)),
    conflicts=(Conflict("learner.py", 9, "content", "it stops here", "decided one by one"),),
    precondition=Precondition(True, "big.yaml", (Clause("size >= 8", "9", True),)),
    patches=(Patch("0001.patch", "say so", "c" * 40),),
    checks=(
        Check("tests", "failed", 132.4, "exit code 1", ("pytest",), ("E assert 1 == 2",)),
        Check("types", "passed", 2.0, "no fault"),
    ),
    evidence=Evidence(
        Decision("open", "at least 5% faster, and the drift check cannot tell", "more seeds"),
        Bench(
            0.08,
            0.061,
            0.102,
            0.05,
            Measurement("2026-01-02", "a box", "512", "|a|b|\n|-|-|\n|1|2|"),
        ),
        Drift("not enough", Measurement("2026-01-03"), "two seeds"),
    ),
    verdict="failed",
)
SOURCES = Sources(
    {"learner.py": Sides(tuple(PARENT.split("\n")), tuple(EXPERIMENT.split("\n")))},
    {
        "learner.py": Sides(tuple(ONTO.split("\n")), tuple(BRANCH.split("\n"))),
        "big.yaml": Sides((), ("on: true",)),
    },
    ("big.yaml", "learner.py", "weights.bin"),
)
PICTURE = base64.b64decode(  # two black dots
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABAQAAAADcWUInAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail("the review page is tested in a Chromium, and there is none: make browser")
    environment = {**os.environ, "HOME": str(tmp_path_factory.mktemp("browser"))}
    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=found, args=ARGUMENTS, env=environment, timeout=120_000
        )
        yield started
        started.close()


Opening = Callable[..., Page]


@pytest.fixture
def opening(browser: Browser, tmp_path: Path) -> Iterator[Opening]:
    """Return a function that opens a report's page; whatever goes wrong in it fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(120_000)
    wrong: list[str] = []

    def open_page(
        report: Report = REPORT,
        anchor: str = "",
        scheme: str = "light",
        sources: Sources = SOURCES,
        before: str = "",
    ) -> Page:
        file = tmp_path / "review.html"
        file.write_text(
            document(report, sources=sources, pictures=[("drift", PICTURE)]), encoding="utf-8"
        )
        page = context.new_page()
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.add_init_script(before)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(file.as_uri()) else wrong.append(asked.url),
        )
        page.goto(file.as_uri() + anchor)
        return page

    yield open_page
    context.close()
    assert wrong == []


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.closest('details')?.id ?? ''"))


def unfolded(page: Page) -> Page:
    """Unfold everything, and have it drawn where it is out of sight too."""
    page.click("#unfold")
    page.evaluate(
        "document.styleSheets[0].insertRule('.item, .file { content-visibility: visible }',"
        " document.styleSheets[0].cssRules.length)"
    )
    return page


def shown(page: Page) -> list[str]:
    every = page.evaluate("items.filter((i) => i.checkVisibility()).map((i) => i.id)")
    return [str(id) for id in every]


def serious(page: Page, context: str | None = None, **options: Any) -> list[tuple[str, list[str]]]:
    """Return the rules that axe finds broken, with the elements that break them."""
    asked = {"resultTypes": ["violations"], **options}
    found = Axe().run(page, context=context, options=asked).response["violations"]
    return [
        (rule["id"], [node["html"] for node in rule["nodes"]])
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]


def test_axe_finds_nothing_serious(opening: Opening) -> None:
    page = unfolded(opening())
    page.evaluate("document.querySelectorAll('details').forEach((fold) => fold.open = true)")
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious(page, runOnly=["color-contrast"]) == []
    page.keyboard.press("?")
    assert serious(page, "dialog") == []
    if asked := os.environ.get("PORTTOOL_SCREENSHOTS"):
        for scheme in ("light", "dark"):
            _take_pictures(opening, scheme, Path(asked))


def _take_pictures(opening: Opening, scheme: str, repository: Path) -> None:
    """Take pictures for the documents, of the page of a repository's only port."""
    IMAGES.mkdir(exist_ok=True)
    with open_repository(repository) as repo:
        plan = load_plan(find_plan(repository, None))
        report = load_report(repo, plan)
        sources = read_sources(repo, report)
    for name, anchor in (("top", ""), ("sites", "#new")):
        page = opening(report, anchor, scheme, sources)
        taken = Image.open(io.BytesIO(page.screenshot()))
        taken.quantize(256).save(IMAGES / f"review-{name}-{scheme}.png", optimize=True)
        page.close()


def test_every_link_leads_somewhere_on_the_page(opening: Opening) -> None:
    page = opening()
    hashes = page.eval_on_selector_all("a", "all => all.map((a) => a.getAttribute('href'))")
    ids = page.eval_on_selector_all("[id]", "all => all.map((e) => '#' + e.id)")
    assert len(ids) == len(set(ids))
    assert len(hashes) > 15
    assert [link for link in hashes if link not in ids] == []
    # The looks lead to what they are about.
    leads = page.eval_on_selector_all("#first a", "all => all.map((a) => a.getAttribute('href'))")
    assert leads[:3] == ["#check-1", "#site-3", "#site-4"]


def test_every_fold_opens_and_closes(opening: Opening) -> None:
    page = opening()
    folds = page.locator("details")
    assert folds.count() == len(shown(page)) + 1  # and what comes after the first look
    for index in range(folds.count()):
        was = folds.nth(index).evaluate("fold => fold.open")
        folds.nth(index).locator("> summary").click()
        assert folds.nth(index).evaluate("fold => fold.open") is not was
    page.click("#unfold")
    assert page.locator("details.item:not([open])").count() == 0
    assert page.locator(".item .body").evaluate_all("all => all.every((b) => b.checkVisibility())")
    page.click("#fold")
    assert page.locator("details.item[open]").count() == 0


def test_keys(opening: Opening) -> None:
    page = opening()
    order = shown(page)
    for key, expected in (("j", 0), ("n", 1), ("j", 2), ("k", 1), ("p", 0), ("k", 0)):
        page.keyboard.press(key)
        assert focused(page) == order[expected]
    first = page.locator(f"#{order[0]}")
    was = first.evaluate("fold => fold.open")
    for now in (not was, was):
        page.keyboard.press("o")
        assert first.evaluate("fold => fold.open") is now
    page.keyboard.press("Enter")  # as on every summary
    assert first.evaluate("fold => fold.open") is not was
    page.keyboard.press("e")
    assert page.locator("details.item:not([open])").count() == 0
    page.keyboard.press("c")
    assert page.locator("details.item[open]").count() == 0
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.type("jk?")
    assert page.input_value("#filter") == "jk?"
    assert not page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    assert page.input_value("#filter") == ""
    assert shown(page) == order
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    assert page.locator("dialog kbd").count() == 9
    page.uncheck("#listen")
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()
    page.keyboard.press("j")
    assert focused(page) == ""
    page.reload()
    page.keyboard.press("j")
    assert focused(page) == ""
    page.click("#help")
    page.check("#listen")
    page.click("#close")
    page.keyboard.press("Control+j")
    assert focused(page) == ""
    page.keyboard.press("j")
    assert focused(page) == order[0]


def test_what_was_reviewed_is_kept(opening: Opening) -> None:
    page = opening()
    order = shown(page)
    page.keyboard.press("j")
    page.keyboard.press("x")
    assert focused(page) == order[1]
    page.locator(f"#{order[1]} .key input").check()
    assert focused(page) == order[2]
    every = page.locator("details.item").count()
    assert page.inner_text("#reviewed") == f"2 of {every} reviewed"
    page.reload()
    read = page.eval_on_selector_all("[data-read]", "all => all.map((i) => [i.id, i.open])")
    assert read == [[order[0], False], [order[1], False]]
    assert page.inner_text("#reviewed") == f"2 of {every} reviewed"
    page.click(f"#{order[1]} > summary")
    page.locator(f"#{order[1]} .key input").uncheck()
    assert page.inner_text("#reviewed") == f"1 of {every} reviewed"
    # What was read of one branch was not read of another.
    other = opening(dataclasses.replace(REPORT, tip="f" * 40))
    assert other.locator("[data-read]").count() == 0


def test_a_browser_that_keeps_nothing_shows_the_page_all_the_same(opening: Opening) -> None:
    denied = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no') } })"
    page = opening(before=denied)
    page.keyboard.press("j")
    page.keyboard.press("x")
    assert page.inner_text("#reviewed").startswith("1 of ")
    page.reload()
    assert page.inner_text("#reviewed") == ""


CUT = """() => {
  const cut = [];
  for (const line of document.querySelectorAll(".diff > span, .seen")) {
    const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()); ) {
      for (const word of node.data.matchAll(/\\w+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (range.getClientRects().length > 1) cut.push(word[0]);
      }
    }
  }
  return cut;
}"""


def test_a_line_goes_on_below_between_two_words(opening: Opening) -> None:
    page = unfolded(opening())
    for width in (1280, 640, 390):
        page.set_viewport_size({"width": width, "height": 900})
        heights = page.eval_on_selector_all(
            "#hunk-1 .diff > span", "all => all.map((line) => line.getBoundingClientRect().height)"
        )
        assert max(heights) > 1.5 * min(heights)  # at least one goes on below
        assert page.evaluate(CUT) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_whole_diff_leads_to_the_sites_and_back(opening: Opening) -> None:
    page = unfolded(opening())
    files = page.locator("#diff .item > summary").all_inner_texts()
    assert [" ".join(file.split()) for file in files] == [
        "added big.yaml +1 -0",
        "modified learner.py +4 -2",
        "modified weights.bin +0 -0",
    ]
    assert "Binary" in page.inner_text("#file-3")
    lines = page.locator("#file-2 .diff > span:not(.same, .gap)").all_inner_texts()
    assert [" ".join(line.split()) for line in lines][:3] == [
        "+ if config.on:",
        "+ self.nets = list(map(wrap, self.nets))",
        "- site 1 return [net.state_dict() for net in self.nets]",
    ]
    page.click("#file-2 a[href='#site-2']")
    page.wait_for_function("document.activeElement.closest('details')?.id === 'site-2'")
    page.click("#site-2 a[href='#diff-2']")
    page.wait_for_function("location.hash === '#diff-2'")
    assert "queue.put" in page.inner_text("#diff-2")


def test_all_of_it_is_reached_by_tab(opening: Opening) -> None:
    page = opening()
    every = page.locator("a[href], button, input, summary")
    wanted = every.evaluate_all("all => all.filter((e) => e.checkVisibility()).length")
    page.evaluate(
        "reached = new Set(); addEventListener('focusin', (event) => reached.add(event.target))"
    )
    for _ in range(wanted + 2):
        page.keyboard.press("Tab")
    assert page.evaluate("reached.size") == wanted


def test_the_filter_leaves_what_has_every_word(opening: Opening) -> None:
    page = opening()
    every = shown(page)
    page.fill("#filter", "OPEN learner.py")
    assert shown(page) == ["site-3"]
    assert page.inner_text("#matches") == f"1 of {len(every)}"
    assert not page.locator("#checks").is_visible()
    page.fill("#filter", "nothing has this")
    assert shown(page) == []
    page.evaluate("location.hash = '#site-5'")  # a link goes before the filter
    page.wait_for_function("document.activeElement.closest('details')?.id === 'site-5'")
    assert shown(page) == every


def test_an_anchor_opens_what_it_leads_to(opening: Opening) -> None:
    page = opening(anchor="#site-5")
    assert page.locator("#site-5").evaluate("fold => fold.open")
    assert page.locator("#site-5 .reasons").is_visible()
    page.wait_for_function("document.activeElement.closest('details')?.id === 'site-5'")
    page.click("nav a[href='#checks']")
    page.wait_for_function("location.hash === '#checks'")
    assert page.locator("#checks h2").evaluate("(h) => h.getBoundingClientRect().top < innerHeight")


def test_paper_does_not_fold(opening: Opening) -> None:
    page = opening()
    folds = page.locator("details:not([open])")
    folded = folds.count()
    assert folded > 0
    page.emulate_media(media="print")
    assert page.locator("details > :not(summary)").evaluate_all(
        "all => all.every((part) => part.getBoundingClientRect().height > 0)"
    )
    for left_out in ("nav", "#site-2 .key"):
        assert not page.locator(left_out).first.is_visible()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert folds.count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert folds.count() == folded
    assert page.pdf()[:5] == b"%PDF-"


def test_what_a_reviewer_reads(opening: Opening) -> None:
    page = opening()
    assert page.title() == "compile-it onto main: failed"
    assert page.inner_text(".card.failed") == "verdict\nfailed\n1 of 2 checks failed: tests"
    assert page.inner_text(".callout").strip().split("\n") == [
        "failed check tests",
        "exit code 1",
        "E assert 1 == 2",
    ]
    assert page.inner_text(".next") == "porttool refresh compile-it"
    unfolded(page)
    assert page.inner_text("#site-3 .log").splitlines() == [
        "answers:  # in port.yaml, then: porttool refresh compile-it",
        '  "asked": rewrite  # or: skip',
    ]
    assert page.inner_text("#site-2 .key code") == '"learner.py::Learner::13": skip'
    assert page.inner_text("#site-2 .diff .add").strip() == (
        '+    queue.put({"net": [clean(net.state_dict()) for net in self.nets]})'
    )
    assert page.locator("#site-2 .add mark").all_inner_texts() == ["clean(", ")"]
    # The line of the site itself stands above its reasons already.
    assert page.locator("#site-2 .seen").all_inner_texts() == [
        "self.nets = [build(config) for _ in range(2)] # two of them",
    ]
    assert page.locator("#hunk-1 figure").count() == 2
    assert "wrap(build(config))" in page.inner_text("#hunk-1 figure >> nth=0")
    assert "if config.on:" in page.inner_text("#hunk-1 figure >> nth=1")
    assert page.inner_text("#hunk-2 .body a[href='#site-1']") == "site 1"
    assert page.inner_text("#hunk-3 .absent") == "Not carried over: onto does not have it."
    assert page.locator("#measured svg").get_attribute("role") == "img"
    assert page.locator("#measured td").text_content() == "2"
    assert page.locator("#measured img").evaluate("picture => picture.naturalWidth") == 2
    assert "E assert 1 == 2" in str(page.text_content("#check-1 .log >> nth=1"))


def test_hostile_text_is_text(opening: Opening) -> None:
    long = "x" * 10_000
    report = dataclasses.replace(
        REPORT,
        port=HOSTILE,
        branch=HOSTILE,
        onto=HOSTILE,
        ledger=(LedgerEntry(HOSTILE, 1, 1, long, HOSTILE, "dropped", HOSTILE),),
        sites=(site(1, 0, key=HOSTILE, path=HOSTILE, text=HOSTILE, steps=(Step(HOSTILE),)),),
        checks=(Check(HOSTILE, "failed", 1.0, HOSTILE, (HOSTILE,), (long, HOSTILE)),),
    )
    page = unfolded(opening(report))
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 1  # the one that was measured
    text = page.inner_text("body")
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>\\x1b[2J\\u202e" in text
    assert "\\udce9" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "(8000 characters more)" in text
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_two_thousand_places_are_one_page(opening: Opening) -> None:
    sites = tuple(
        site(13, 27, key=f"k{n}", path=f"package/file_{n % 50}.py", known=False)
        for n in range(2_000)
    )
    page = opening(dataclasses.replace(REPORT, sites=sites))
    assert page.locator("details.item[id^=site]").count() == 2_000
    page.fill("#filter", "file_7.py")
    assert len(shown(page)) == 40
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert focused(page) == "hunk-1"
