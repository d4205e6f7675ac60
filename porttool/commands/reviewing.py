"""The commands that show ports to people: one branch, what was measured of it, all of them."""
# ruff: noqa: PLC0415

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from porttool.commands.options import (
    HERE,
    Interrupted,
    Json,
    Onto,
    Port,
    Quiet,
    Repo,
    opened,
    telling,
)
from porttool.console import answering, say, show, show_json, show_paged, tell

if TYPE_CHECKING:
    from porttool.git.repo import Repository
    from porttool.report import Report
    from porttool.standing import Standing


def review(
    port: Port = None,
    *,
    repo: Repo = HERE,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page for a browser instead."),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Show that page in the browser, and write no file.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a pull-request body instead.")
    ] = False,
    sarif: Annotated[
        Path | None,
        typer.Option("--sarif", metavar="FILE", help="Write questions and hazards as SARIF."),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option("--site", metavar="N", help="Explain one decision, by its number or key."),
    ] = None,
    no_pager: Annotated[
        bool, typer.Option("--no-pager", help="Print at once, even at a terminal.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the review branch to a person.

    What to look at first, what was ported and why, how far it is proven, what was checked. The page
    that --html writes needs no network and nothing beside it; --open serves it to this machine's
    browser until it was loaded, or until Ctrl-C.
    """
    with answering(as_json), telling() as changed, opened(repo, port) as (repository, plan):
        from porttool.record import load_report, standing_of

        _check_one_form(
            html=html is not None,
            open=open_page,
            markdown=markdown,
            sarif=sarif is not None,
            site=bool(site),
        )
        report = load_report(repository, plan)
        if html is not None or open_page:
            from porttool.exporting import write_export

            page = _page(repository, report, standing_of(repository, plan, report))
            if html is not None:
                write_export(html, page.encode())
                changed.append(f"{html} was written")
                _answer(as_json, {"html": str(html)}, f"wrote {html}")
            else:
                _open(page, as_json=as_json)
        elif sarif is not None:
            from porttool.exporting import report_sarif, write_export

            write_export(sarif, json.dumps(report_sarif(report)).encode())
            changed.append(f"{sarif} was written")
            _answer(as_json, {"sarif": str(sarif)}, f"wrote {sarif}")
        elif site is not None:
            standing = standing_of(repository, plan, report)
            _explain(repository, (report, standing), site, as_json=as_json, no_pager=no_pager)
        elif as_json:
            from porttool.report import to_data

            show_json(to_data(report))
        elif markdown:
            from porttool.review.markdown import markdown as body

            standing = standing_of(repository, plan, report)
            say(body(report, standing=standing).rstrip("\n"))
        else:
            from porttool.review.terminal import terminal

            shown = terminal(report, standing_of(repository, plan, report))
            (show if no_pager else show_paged)(shown)


def _check_one_form(**wanted: bool) -> None:
    from porttool.errors import PlanError

    forms = [f"--{name}" for name, is_wanted in wanted.items() if is_wanted]
    if len(forms) > 1:
        raise PlanError(
            f"{' and '.join(forms)} are ways to show the same: take one of them",
            next=f"porttool review {forms[0]}",
        )


def _answer(as_json: bool, data: dict[str, Any], words: str) -> None:
    if as_json:
        show_json(data)
    else:
        say(words)


def _page(repository: Repository, report: Report, standing: Standing) -> str:
    from porttool.git.commits import CommitId
    from porttool.review.document import document
    from porttool.review.sources import read_sources
    from porttool.verifying.measures import kept_pictures

    pictures = kept_pictures(repository, report.port, CommitId(report.tip))
    return document(report, standing, read_sources(repository, report), pictures)


def _open(page: str, *, as_json: bool) -> None:
    import threading
    import webbrowser

    from porttool.review.serve import serve

    def tell_browser(address: str) -> None:
        _answer(as_json, {"url": address}, f"the page is at {address} until it was loaded")
        # A browser in the terminal keeps whoever starts it waiting; the page would never come.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    try:
        fetched = serve(page, tell_browser)
    except Interrupted:
        return  # Ctrl-C is one of the two ways in which this ends
    if not fetched:
        tell("no browser came for the page; next: porttool review --html FILE, and open that")


def _explain(
    repository: Repository,
    reported: tuple[Report, Standing],
    wanted: str,
    *,
    as_json: bool,
    no_pager: bool,
) -> None:
    from porttool.coding import encode
    from porttool.review.numbers import find_site

    report, standing = reported
    number, site = find_site(report, wanted)
    if as_json:
        show_json({"number": number, **encode(site)})
        return
    from porttool.review.explain import explain
    from porttool.review.sources import read_sources

    explained = explain(report, (number, site), read_sources(repository, report), standing)
    (show if no_pager else show_paged)(explained)


def record(
    port: Port = None,
    *,
    repo: Repo = HERE,
    bench: Annotated[
        Path | None, typer.Option("--bench", metavar="FILE", help="A bench's result file.")
    ] = None,
    drift: Annotated[
        Path | None, typer.Option("--drift", metavar="FILE", help="A drift check's result file.")
    ] = None,
    measure: Annotated[
        Path | None,
        typer.Option("--measure", metavar="FILE", help="What was measured for the precondition."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write what was measured into the project's docs.

    With its date; from the branch's report, or from result files, which may come from another
    machine.
    """
    with answering(as_json), telling() as changed, opened(repo, port) as (repository, plan):
        from porttool.entry import record_entry

        recorded = record_entry(repository, plan, bench=bench, drift=drift, threshold=measure)
        if recorded.changed:
            changed.append(f"{recorded.path} was written")
        if as_json:
            show_json({"path": recorded.path, "changed": recorded.changed, "entry": recorded.entry})
        elif recorded.changed:
            say(f"wrote the entry into {recorded.path}", f"next: git diff -- {recorded.path}")
        else:
            say(f"{recorded.path} has this entry already")


def status(*, repo: Repo = HERE, onto: Onto = None, as_json: Json = False) -> None:
    """Say where every port stands, and what is next."""
    with answering(as_json):
        from porttool.git.repo import open_repository
        from porttool.plan.plan import no_working_tree
        from porttool.status import port_statuses

        with open_repository(repo) as repository:
            found = list(port_statuses(repository, onto))
            if not found and repository.root is None:
                raise no_working_tree(repository.git_dir)
        if as_json:
            show_json({"ports": [port.as_dict() for port in found]})
            return
        if not found:
            say(
                "there is no port under patches/",
                "next: porttool init COMMIT drafts one; porttool demo DIR shows one at work",
            )
        import datetime

        from porttool.overview import ages, overview, standing_verdict

        today = datetime.datetime.now(datetime.UTC).date()
        if len(found) > 1:
            show(overview(found, today))
        for port in found:
            say(f"{port.port}: {port.state}", f"  {port.detail}")
            if len(found) == 1 and port.branch_date:
                say(f"  {ages(port, today)}")
            if port.holds is not None:
                say(f"  verdict: {standing_verdict(port)}")
            if port.next:
                say(f"  next: {port.next}")
