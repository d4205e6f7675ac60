"""`porttool publish` as a value: branch and report pushed, a pull request opened or updated.

Nothing is pushed but the port's own branch and reports, each only where it replaces what was looked
at. Whatever else is on the remote stays as it is.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from porttool.errors import EXIT_CHECK_FAILED, EXIT_PARKED, NeedsPerson, PortError, RepositoryError
from porttool.frozen import dataclass
from porttool.git.commits import CommitId
from porttool.git.publish import NOTES, RefUpdate, committing, publish
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository
from porttool.ownership import find_made
from porttool.plan.plan import Plan
from porttool.publishing.hosting import HostError, Request, create_command, offer, program_for
from porttool.publishing.remote import Remote, open_remote, push, push_command, tips_there
from porttool.record import load_report, standing_of
from porttool.report import Report, counted
from porttool.review.markdown import markdown
from porttool.review.text import visible
from porttool.standing import Standing

MAX_TITLE = 200
Progress = Callable[[str], None]


class NotPublished(PortError):
    """A port whose state forbids that others are asked to merge it."""

    def __init__(self, what: str, exit_code: int, *, why: str, next: str) -> None:
        super().__init__(what, why=why, next=next)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Published:
    """What was pushed, what became of the pull request, and what a person should know.

    `request` is its address, "" where there is none; `outcome` "opened", "updated", "by hand" (no
    program for the host is there) or "not yet" (a dry run). `commands` are what would be run, or is
    left to run; `body_file` holds the pull request's words for them.
    """

    branch: str
    tip: CommitId
    remote: str
    pushed: bool
    report: str
    outcome: str
    request: str = ""
    commands: tuple[str, ...] = ()
    body_file: str = ""
    notes: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """Return what is said of it: the result first, and what is left to be done last."""
        at = f"{self.remote}: {self.branch} at {self.tip[:12]}"
        if self.outcome == "not yet":
            result = "nothing was pushed; this would be run:"
        elif self.pushed:
            result = f"pushed to {at}; its report: {self.report}"
        else:
            result = f"it is there already, {at}; its report: {self.report}"
        if self.outcome in ("opened", "updated"):
            result = f"{self.outcome} {self.request or 'the pull request'} ({result})"
        lines = [result, *self.notes]
        if self.outcome == "by hand":
            lines += [f"the pull request's words are in {self.body_file}"]
            lines += [f"next: {command}" for command in self.commands] or [
                f"next: open a pull request of {self.branch} with them"
            ]
        else:
            lines += [f"  {command}" for command in self.commands]
        return tuple(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the same facts as data, for `--json`."""
        return {
            "branch": self.branch,
            "tip": self.tip,
            "remote": self.remote,
            "pushed": self.pushed,
            "report": self.report,
            "outcome": self.outcome,
            "request": self.request,
            "commands": list(self.commands),
            "body_file": self.body_file,
            "notes": list(self.notes),
        }


def publish_port(
    repo: Repository,
    plan: Plan,
    *,
    remote: str | None = None,
    draft: bool = False,
    unverified: bool = False,
    dry_run: bool = False,
    progress: Progress,
    changed: Callable[[str], None],
) -> Published:
    """Push a port's branch and report to a remote, and offer it there as a pull request.

    `changed` is told what has been done. Raises PortError, with nothing pushed, for a port that is
    merged, that failed its checks or was not checked, and for a branch that somebody else moved.
    """
    report = load_report(repo, plan)
    standing = standing_of(repo, plan, report)
    _check_state(report, standing, draft=draft, unverified=unverified)
    there = open_remote(repo, remote)
    progress(f"asking {there.name} what it has")
    ref = f"refs/heads/{report.branch}"
    base = _base(repo, report.onto, there)
    tips = tips_there(there, (ref, f"refs/heads/{base}", NOTES))
    _check_branch(repo, report, there, tips)
    tip, expected = CommitId(report.tip), tips.get(ref)
    body = markdown(report, standing=standing)
    request = Request(report.branch, base, _title(report), body, draft)
    notes = _notes(report, standing, there, missing=f"refs/heads/{base}" not in tips)
    if dry_run:
        return _would(there, report, request, expected, notes)
    said: tuple[str, ...] = ()
    if expected != tip:
        progress(f"pushing {report.branch} to {there.name}")
        said = push(there, tip, ref, expected)
        changed(f"{report.branch} was pushed")
    stored = _push_report(repo, there, tips.get(NOTES), progress)
    body_file = _keep_body(repo, report.port, request.body)
    program = program_for(there.host)
    if program is None or there.host is None:
        command = _by_hand(there, request, body_file)
        return Published(
            *(report.branch, tip, there.name, expected != tip, stored, "by hand"),
            request="",
            commands=(command,) if command else (),
            body_file=str(body_file),
            notes=(*notes, *(f"the remote says: {line}" for line in said)),
        )
    progress(f"offering it on {there.host.name} with {program}")
    try:
        opened = offer(program, there.host, request, body_file, repo.root or repo.git_dir)
    except HostError as error:
        raise HostError(
            f"the branch was pushed; the pull request was not opened: {error.what}",
            where=there.host.name,
            why=error.why,
            next=f"{error.next}; then the same command again",
        ) from error
    changed("the pull request was opened")
    return Published(
        *(report.branch, tip, there.name, expected != tip, stored),
        outcome="updated" if opened.updated else "opened",
        request=opened.address,
        body_file=str(body_file),
        notes=notes,
    )


def _check_state(report: Report, standing: Standing, *, draft: bool, unverified: bool) -> None:
    port = shlex.quote(report.port)
    if standing.merged:
        raise NotPublished(
            f"{report.port} is merged: {report.onto} has it since {standing.merged[:12]}",
            2,
            why="there is nothing left to ask for",
            next=f"nothing; to look at it: git show {standing.merged[:12]}",
        )
    if report.verdict == "failed":
        failed = [check.name for check in report.checks if check.status == "failed"]
        raise NotPublished(
            f"{report.port} failed its checks, so it is not published",
            EXIT_CHECK_FAILED,
            why=f"what failed: {', '.join(failed)}" if failed else "its verdict is failed",
            next=f"porttool review {port}",
        )
    if report.verdict == "parked" and not draft:
        raise NotPublished(
            f"{report.port} is parked, so it is published as a draft or not at all",
            EXIT_PARKED,
            why="its precondition is not met, or what was measured speaks against it",
            next=f"porttool publish {port} --draft",
        )
    if report.verdict == "unverified" and not unverified:
        raise NotPublished(
            f"{report.port} was not verified, so it is not published",
            2,
            why="nobody has run its checks on this branch",
            next=f"porttool verify {port}, or porttool publish {port} --unverified",
        )


def _check_branch(
    repo: Repository, report: Report, remote: Remote, tips: dict[str, CommitId]
) -> None:
    """Refuse to replace what this clone has not seen, or what somebody else has committed."""
    ref = f"refs/heads/{report.branch}"
    if report.branch == report.onto:
        raise RepositoryError(
            f"{report.branch} is the branch that the port goes to",
            why="a port is pushed to a branch of its own",
            next="give the port another name",
        )
    seen = tips.get(ref)
    if seen is None or seen == report.tip:
        return
    if not repo.holds(seen):
        raise NeedsPerson(
            f"{remote.name} has a {report.branch} that this clone has not seen; nothing was pushed",
            where=f"{remote.name}: {seen}",
            why="what would be replaced could be somebody's work",
            next=f"git fetch {shlex.quote(remote.name)}, then the same command again",
        )
    # A commit that was picked onto the new branch is in it, under another id.
    gone = ("--right-only", "--cherry-pick", f"{report.tip}...{seen}", f"^{report.onto_id}")
    listing = repo.git.run("rev-list", *gone, "--").out
    own = _made_by_porttool(repo, report, remote, seen, tips.get(NOTES))
    for id in map(CommitId, listing.decode().split()):
        commit = repo.commit(id)
        if id not in own and not _on_onto(repo, report, id):
            raise NeedsPerson(
                f"somebody has committed on {remote.name}'s {report.branch}; nothing was pushed",
                where=f"{id} {commit.subject}",
                why="a push would throw that commit away",
                next=f"git log {report.tip[:12]}..{seen[:12]}; to keep it: "
                f"git fetch {shlex.quote(remote.name)} && git cherry-pick {id[:12]} on "
                f"{report.branch}",
            )


def _made_by_porttool(
    repo: Repository, report: Report, remote: Remote, tip: CommitId, theirs: CommitId | None
) -> set[CommitId]:
    """Return the commits of a remote's branch that porttool made, by this clone's notes or its."""
    made = find_made(repo, tip, report.port)
    if made is None and theirs is not None:
        remote.git.run("fetch", "--quiet", "--no-write-fetch-head", "--", remote.name, NOTES)
        made = find_made(repo, tip, report.port, notes_at=theirs)
    if made is None:
        return set()
    listing = repo.git.run("rev-list", made.tip, f"^{made.onto_id}", "--").out
    return set(map(CommitId, listing.decode().split()))


def _on_onto(repo: Repository, report: Report, id: str) -> bool:
    onto = repo.find(report.onto)
    return onto is not None and repo.is_ancestor(CommitId(id), onto)


def _title(report: Report) -> str:
    last = report.experiment[-1].subject if report.experiment else report.branch
    title = visible(f"Port {report.port}: {last}")
    return title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 3]}..."


def _base(repo: Repository, onto: str, remote: Remote) -> str:
    """Return onto by the name that the remote knows it by: `main` for its `origin/main`."""
    tracked = repo.ref(f"refs/heads/{onto}") is None and repo.ref(f"refs/remotes/{onto}")
    return onto.removeprefix(f"{remote.name}/") if tracked else onto


def _notes(report: Report, standing: Standing, remote: Remote, *, missing: bool) -> tuple[str, ...]:
    found = []
    if standing.stale:
        gained = counted(standing.stale, "commit")
        found.append(
            f"{report.onto} has gained {gained} since: porttool refresh {shlex.quote(report.port)}"
        )
    if standing.outdated:
        found.append("port.yaml has changed since the branch was made")
    if report.verdict == "unverified":
        found.append("it was not verified: the pull request says so")
    if missing:
        found.append(f"{remote.name} has no {report.onto} for a pull request to go to")
    return tuple(found)


def _push_report(
    repo: Repository, remote: Remote, theirs: CommitId | None, progress: Progress
) -> str:
    """Push the reports beside the branch, others' kept; return what became of it.

    They are of use to whoever reviews elsewhere, and nobody's work depends on them: what does not
    work is said, and stops nothing.
    """
    ours = repo.ref(NOTES)
    if ours is None:
        return "there is none"
    if theirs == ours:
        return "there already"
    progress(f"pushing the report to {remote.name}")
    try:
        if theirs is not None and not (repo.holds(theirs) and repo.is_ancestor(theirs, ours)):
            remote.git.run("fetch", "--quiet", "--no-write-fetch-head", "--", remote.name, NOTES)
            ours = _united(repo, ours, theirs)
        push(remote, ours, NOTES, theirs)
    except PortError as error:
        return f"not pushed: {error.what}" + (f" ({error.why})" if error.why else "")
    return "pushed"


def _united(repo: Repository, ours: CommitId, theirs: CommitId) -> CommitId:
    """Bring the remote's reports into this clone's; where both have one, this clone's stays."""
    with Quarantine(repo) as quarantine:
        note_ref = quarantine.path / NOTES
        note_ref.parent.mkdir(parents=True, exist_ok=True)
        note_ref.write_text(f"{ours}\n")
        by = repo.identity()
        moment = f"@{int(time.time())} +0000"
        quarantine.git.run(
            *("notes", f"--ref={NOTES}", "merge", "--quiet", "--strategy=ours", theirs),
            variables=committing(by.name, by.email, moment),
        )
        united = CommitId(note_ref.read_text().strip())
        publish(repo, quarantine, [RefUpdate(NOTES, ours, united)], reason="porttool publish")
        return united


def _keep_body(repo: Repository, port: str, body: str) -> Path:
    """Write the pull request's words where they are out of the way of the working tree."""
    path = repo.git_dir / "porttool" / f"{port}.md"
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(body, encoding="utf-8")
    except OSError as error:
        raise PortError(
            "the pull request's words cannot be written",
            where=str(path),
            why=error.strerror,
            next=f"porttool review {shlex.quote(port)} --markdown",
        ) from error
    return path


def _by_hand(remote: Remote, request: Request, body_file: Path) -> str:
    """Return the command that a person could run with the host's program, "" where none could."""
    if remote.host is None:
        return ""
    program = "glab" if "gitlab" in remote.host.name else "gh"
    if program == "gh":
        return shlex.join(create_command("gh", remote.host, request, body_file))
    short = Request(request.branch, request.base, request.title, "@", request.draft)
    words = shlex.join(create_command("glab", remote.host, short, body_file))
    return words.replace("--description @", f'--description "$(cat {shlex.quote(str(body_file))})"')


def _would(
    remote: Remote,
    report: Report,
    request: Request,
    expected: CommitId | None,
    notes: tuple[str, ...],
) -> Published:
    tip, ref = CommitId(report.tip), f"refs/heads/{report.branch}"
    commands = [push_command(remote, tip, ref, expected)] if expected != tip else []
    by_hand = _by_hand(remote, request, Path("BODY.md"))
    commands += [by_hand] if by_hand else []
    return Published(
        *(report.branch, tip, remote.name, False, "not yet", "not yet"),
        commands=tuple(commands),
        notes=notes,
    )
