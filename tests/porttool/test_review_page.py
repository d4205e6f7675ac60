"""The review page as text, what is explained at a terminal, and `--open`."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import http.client
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from porttool.cli import app
from porttool.errors import PlanError
from porttool.evidence import Bench, Measurement
from porttool.git.checkout import pool_folder
from porttool.git.commits import CommitId
from porttool.git.repo import open_repository
from porttool.report import LedgerEntry, Report, Rule, Site, Step, from_json, to_json
from porttool.review.document import document
from porttool.review.explain import explain
from porttool.review.figure import interval
from porttool.review.numbers import find_site, numbered_sites
from porttool.review.rules import rule_patch
from porttool.review.serve import serve
from porttool.review.sources import NO_SOURCES, Sides, Sources, read_sources
from porttool.review.terminal import terminal
from porttool.standing import Standing
from porttool.verifying.measures import kept_pictures

LINES = ("def save(net):", "    return [net.sd()]  # now")


def site(**changes: Any) -> Site:
    made = Site("k", "a.py", 2, 12, "net.sd()", "rewrite", ("because",), "r", "clean(net.sd())")
    return dataclasses.replace(made, **changes)


def report_of(**changes: Any) -> Report:
    made = Report("p", "d" * 64, "1", (), "main", "a" * 40, "port/p", rules=(RULE,))
    return dataclasses.replace(made, **changes)


RULE = Rule("r", "$X.sd($ARGS)", "clean($X.sd($ARGS))", True)


# -- the page ----------------------------------------------------------------------------------


class Elements(HTMLParser):
    """Collects a page's elements, and fails where one is not closed in its order."""

    EMPTY = ("meta", "input", "wbr")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Elements()
    parser.feed(page)
    assert parser.open == []
    return parser.found


def test_the_page_needs_and_allows_nothing_from_outside() -> None:
    page = document(report_of(sites=(site(),)))
    found = elements(page)
    assert {tag for tag, _ in found} & {"img", "link", "iframe", "object", "form"} == set()
    assert [attrs for _, attrs in found if {"src", "style", "onclick"} & set(attrs)] == []
    policy = next(a["content"] for t, a in found if t == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        inner = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        assert len(inner) == 1
        digest = base64.b64encode(hashlib.sha256(inner[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_the_page_is_the_same_bytes_for_the_same_report() -> None:
    report = report_of(sites=(site(), site(key="other", action="hazard", known=False)))
    sources = Sources({}, {"a.py": Sides(LINES, LINES)})
    assert document(report, sources=sources) == document(report, sources=sources)


def test_several_questions_can_be_answered_at_once() -> None:
    asked = [site(key=key, action="ask", replacement=None) for key in ("one", "two")]
    every = (
        "answers:\n  &quot;one&quot;: rewrite  # or: skip\n  &quot;two&quot;: rewrite  # or: skip\n"
    )
    assert every in document(report_of(sites=tuple(asked)))
    alone = document(report_of(sites=(asked[0],)))
    assert alone.count("&quot;one&quot;: rewrite  # or: skip") == 1


def test_the_page_says_what_has_happened_since() -> None:
    report = report_of(tip="b" * 40)
    assert "since then" not in document(report)
    page = document(report, Standing(stale=2, edited=True))
    assert "<dd>main has gained 2 commits; somebody has committed on the branch.</dd>" in page


def test_a_file_too_long_for_the_page_is_left_to_git() -> None:
    long = tuple(f"x = {n}" for n in range(7_000))
    sources = Sources(
        {}, {"a.py": Sides((), long), "b.py": Sides((), ("y = 1",))}, ("a.py", "b.py")
    )
    page = document(report_of(tip="b" * 40), sources=sources)
    assert "7000 lines, too many for this page: <code>git diff aaaaaaaaaaaa " in page
    assert page.count("<i>+</i>") == 1


def test_hostile_text_makes_no_element() -> None:
    words = "\"><script>alert('x')</script>\n\x1b[2J\u2066\udce9`"
    plain = elements(document(report_of(sites=(site(),))))
    changed = site(key=words, path=words, text=words, replacement=words, reasons=(words,))
    page = document(report_of(port=words, branch=words, sites=(changed,)))
    assert [tag for tag, _ in elements(page)].count("script") == 1
    assert {tag for tag, _ in elements(page)} <= {"wbr", *(tag for tag, _ in plain)}
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;\\n\\x1b[2J\\u2066\\udce9" in page
    assert page.encode().isascii() or "\u2066" not in page


def test_a_bench_is_drawn_to_scale() -> None:
    drawn = interval(Bench(0.10, 0.05, 0.15, 0.05, Measurement("2026-01-02")))
    at = {kind: float(x) for x, kind in re.findall(r'x1="([\d.]+)"[^>]*class="(\w+)"', drawn)}
    effect = re.search(r'<circle cx="([\d.]+)"', drawn)
    assert effect is not None
    assert at["interval"] == at["asked"]
    assert float(effect[1]) - at["asked"] == pytest.approx(at["asked"] - at["zero"], abs=0.2)


# -- numbers, reasons and rules ----------------------------------------------------------------


def test_a_site_is_found_by_its_number_and_by_its_key() -> None:
    report = report_of(sites=(site(), site(key="src/a.py::f::x()")))
    assert [find_site(report, name)[0] for name in ("1", "#2", "src/a.py::f::x()")] == [1, 2, 2]
    assert numbered_sites(report)[1] == find_site(report, "2")
    for name in ("0", "3", "-1", "²"):
        with pytest.raises(PlanError, match="2 sites, numbered from 1"):
            find_site(report, name)
    with pytest.raises(PlanError, match=re.escape("--site 'src/a.py::f::x()'")):
        find_site(report, "src/a.py::f::x")


def test_a_rule_is_a_semantic_patch() -> None:
    assert rule_patch(RULE).splitlines() == [
        "// same result on a plain object; learned from 0 edits",
        "@@ r @@",
        "expression $X;",
        "arguments $ARGS;",
        "@@",
        "- $X.sd($ARGS)",
        "+ clean($X.sd($ARGS))",
    ]


def explained(report: Report, number: int, sources: Sources = NO_SOURCES) -> str:
    console = Console(width=100, force_terminal=False)
    with console.capture() as capture:
        console.print(explain(report, numbered_sites(report)[number - 1], sources))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def test_one_decision_is_explained_with_its_lines() -> None:
    steps = (Step("`net` is a parameter", "a.py", 1), Step("nobody says what it is"))
    report = report_of(sites=(site(), site(action="ask", replacement=None, steps=steps)))
    text = explained(report, 2, Sources({}, {"a.py": Sides(LINES)}))
    assert "site 2 of 2  a.py:2\nOPEN QUESTION, there when the experiment was made\n" in text
    assert "    2   return [net.sd()]  # now" in text
    assert "1. `net` is a parameter  a.py:1\n     def save(net):\n  2. nobody says" in text
    again = "answers:  # in port.yaml, then: porttool apply p --onto main"
    assert f'Answer it in port.yaml\n  {again}\n    "k": rewrite  # or: skip' in text
    text = explained(report, 1)
    assert "- net.sd()\n        + clean(net.sd())" in text
    assert "@@ r @@" in text
    assert text.endswith(f'Decide otherwise\n  {again}\n    "k": skip')


def test_what_is_to_be_copied_is_not_folded() -> None:
    key = f"src/a.py::{'a_long_name.' * 20}f::net.sd()"
    report = report_of(sites=(site(key=key, action="ask", replacement=None),))
    for block in (explain(report, numbered_sites(report)[0]), terminal(report)):
        console = Console(width=60, force_terminal=False)
        with console.capture() as capture:
            console.print(block, crop=False)
        assert f'    "{key}": rewrite  # or: skip\n' in capture.get()


def test_what_is_explained_shows_no_control_characters() -> None:
    words = "\x1b[2J\u202e[bold]"
    hostile = site(key=words, path=words, text=words, replacement=words, reasons=(words,))
    text = explained(report_of(sites=(hostile,)), 1)
    assert "\x1b" not in text
    assert "\\x1b[2J\\u202e[bold]" in text


# -- stored reports ----------------------------------------------------------------------------


def test_a_report_stored_before_steps_and_places_is_read() -> None:
    report = report_of(
        sites=(site(),), ledger=(LedgerEntry("a.py", 1, 1, "a", "b", "applied", "rule r"),)
    )
    data = json.loads(to_json(report))
    for old in data["sites"]:
        del old["steps"]
    for old in data["ledger"]:
        del old["path_now"], old["line_now"], old["site"]
    assert from_json(json.dumps(data)) == report
    assert "because" in document(from_json(json.dumps(data)))


# -- serving -----------------------------------------------------------------------------------


def test_the_page_is_served_once_and_to_who_knows_its_address() -> None:
    seen: list[Any] = []

    def visit(address: str) -> None:
        def ask() -> None:
            host, _, path = address.removeprefix("http://").partition("/")
            for wrong in (f"http://{host}/", f"http://{host}/{path}x"):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(wrong)
            connection = http.client.HTTPConnection(host)
            connection.request("GET", f"/{path}", headers={"Host": "evil.example"})
            seen.append(connection.getresponse().status)
            connection.close()
            with urllib.request.urlopen(address) as answer:
                seen.append((answer.read(), answer.headers["Cache-Control"]))

        seen.append(address)
        threads.append(threading.Thread(target=ask))
        threads[0].start()

    threads: list[threading.Thread] = []
    assert serve("<p>λ</p>", visit, idle_s=60, linger_s=0)
    threads[0].join()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{24}/", seen[0])
    assert seen[1:] == [404, ("<p>λ</p>".encode(), "no-store")]


def test_nobody_is_waited_for_without_end() -> None:
    assert serve("x", lambda address: None, idle_s=0) is False


# -- the command -------------------------------------------------------------------------------

COMMAND = [sys.executable, "-c", "from porttool.cli import main; main()"]


@pytest.fixture
def ported(make_port: Callable[[], Any]) -> Path:
    path: Path = make_port().path
    done = CliRunner().invoke(app, ["apply", "--repo", str(path)])
    assert done.exit_code == 0, done.output
    return path


def run(path: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["review", "--repo", str(path), *words])
    return done.exit_code, done.output


def test_the_command_writes_explains_and_refuses(
    ported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    page = tmp_path / "review.html"
    assert run(ported, "--html", str(page)) == (0, f"wrote {page}\n")
    assert "<h1>compile-it<small> onto main</small></h1>" in page.read_text()
    # Both sides of the hunks, and the lines of the reasons, come from the repository.
    assert '<span class="at">learner.py:' in page.read_text()
    assert '<code class="seen">' in page.read_text()
    code, answer = run(ported, "--html", str(page), "--json")
    assert (code, json.loads(answer)) == (0, {"html": str(page)})

    code, answer = run(ported, "--site", "2")
    assert code == 0
    assert "site 2 of 2  src/learner.py:17\nrewritten, main gained it since" in answer
    assert "1. `self.net` is wrapped  learner.py:10" in answer
    assert "\x1b" not in answer + run(ported)[1]  # there is no terminal
    code, answer = run(ported, "--site", "2", "--json")
    assert (code, json.loads(answer)["number"]) == (0, 2)

    for words, said in (
        (("--site", "9"), "there is no site 9"),
        (("--site", "1", "--markdown"), "--markdown and --site are ways to show the same"),
        (("--html", str(tmp_path / "no" / "x.html")), "x.html cannot be written"),
    ):
        code, answer = run(ported, *words)
        assert code == 2
        assert said in answer


def test_pictures_of_measurements_are_read_where_they_were_made(ported: Path) -> None:
    report = from_json(run(ported, "--json")[1])
    tip = CommitId(report.tip)
    with open_repository(ported) as repo:
        assert kept_pictures(repo, report.port, tip) == ()
        folder = pool_folder(repo) / "measures" / report.port / tip
        for name, data in (
            ("drift/curves.png", b"\x89PNG\r\n\x1a\n..."),
            ("drift/page.png", b"<script>"),
            ("bench/times.png", b"\x89PNG\r\n\x1a\n" + b"x" * (1 << 20)),
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        found = kept_pictures(repo, report.port, tip)
    assert found == (("drift", b"\x89PNG\r\n\x1a\n..."),)


def test_sources_are_read_where_they_are(ported: Path) -> None:
    report = from_json(run(ported, "--json")[1])
    with open_repository(ported) as repo:
        sources = read_sources(repo, report)
        elsewhere = dataclasses.replace(report, onto_id="1" * 40, tip="2" * 40, experiment=())
        assert read_sources(repo, elsewhere) == Sources({}, {})
    assert "torch.compile" in "\n".join(sources.experiment["src/learner.py"].after)
    assert "torch.compile" not in "\n".join(sources.experiment["src/learner.py"].before)
    assert "enabled" in "\n".join(sources.branch["src/learner.py"].after)


def test_open_serves_the_page_until_it_was_fetched_or_interrupted(
    ported: Path, tmp_path: Path
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\n"
        "print(urllib.request.urlopen(sys.argv[1]).read().decode().count('</title>'))\n"
    )
    browser.chmod(0o755)
    process = subprocess.Popen(
        [*COMMAND, "review", "--open", "--repo", str(ported)],
        env={**os.environ, "BROWSER": str(browser)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline()
    assert re.match(r"the page is at http://127\.0\.0\.1:\d+/[\w-]+/ until it was loaded", address)
    assert process.stdout.readline() == "1\n"  # what the browser says of the page
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (0, "", "")


def at_a_terminal(path: Path, pager: str | None, *words: str) -> str:
    """Run `porttool review` with a terminal around it, and return what it wrote there."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
    environment |= {} if pager is None else {"PAGER": pager}
    process = subprocess.Popen(
        [*COMMAND, "review", "--repo", str(path), *words],
        env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 65536):
            said += piece
    except OSError:
        pass  # the terminal is closed once the process has ended
    os.close(ours)
    assert process.wait(timeout=120) == 0
    return said.decode()


def test_a_pager_is_asked_at_a_terminal_only(ported: Path, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED $LESS; cat\n")
    pager.chmod(0o755)
    paged = at_a_terminal(ported, str(pager))
    assert paged.startswith("PAGED FRX\r\n")
    assert "Look at this first" in paged
    assert "\x1b[" not in paged
    assert "PAGED" not in at_a_terminal(ported, str(pager), "--no-pager")
    assert "Look at this first" in at_a_terminal(ported, "cat")
    assert "PAGED" not in run(ported)[1]
