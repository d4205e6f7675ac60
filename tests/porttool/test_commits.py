"""Commit objects and trailers: no byte changes, no header is forged."""

from __future__ import annotations

from typing import Any

import pytest

from porttool.errors import RepositoryError
from porttool.git.commits import CommitId, add_trailers, commit_bytes, parse_commit, trailers
from porttool.git.repo import open_repository


def test_a_commit_keeps_every_byte_through_parsing(make_repo: Any) -> None:
    base = make_repo({"a": "1\n"})
    id = base.commit(
        {"a": "2\n"}, "Stra\xdfe\n\nmit Gr\xfc\xdfen\n".encode("latin-1"), encoding="ISO-8859-1"
    )
    with open_repository(base.path) as repo:
        facts = repo.commit(CommitId(id))
    raw = base.git_bytes("cat-file", "commit", id)
    assert facts.encoding == b"ISO-8859-1"
    assert facts.subject == "Straße"
    assert facts.written == facts.committed
    assert (facts.written.name, facts.written.offset) == ("Ada Lovelace", "+0100")
    assert raw == commit_bytes(
        facts.tree,
        facts.parents,
        author=facts.author,
        committer=facts.committer,
        message=facts.message,
        encoding=facts.encoding,
    )


def test_headers_of_several_lines_and_broken_dates_are_parsed() -> None:
    data = (
        b"tree "
        + b"1" * 40
        + b"\nparent "
        + b"2" * 40
        + b"\nparent "
        + b"3" * 40
        + b"\nauthor A <a@b> nonsense\ncommitter  <> 5 -0330"
        + b"\ngpgsig -----BEGIN\n line\n -----END\n\nsubject\nmore\n\nbody"
    )
    facts = parse_commit(CommitId("4" * 40), data)
    assert facts.parents == ("2" * 40, "3" * 40)
    assert facts.extra == ((b"gpgsig", b"-----BEGIN\nline\n-----END"),)
    assert (facts.written.name, facts.written.email, facts.written.seconds) == ("A", "a@b", 0)
    assert (facts.committed.seconds, facts.committed.offset) == (5, "-0330")
    assert facts.subject == "subject more"
    assert facts.message == b"subject\nmore\n\nbody"


@pytest.mark.parametrize("bad", [b"A <a> 0 +0000\nparent x", b"A\0 <a> 0 +0000"])
def test_a_header_cannot_forge_another(bad: bytes) -> None:
    with pytest.raises(RepositoryError, match="one line"):
        commit_bytes(
            "1" * 40,
            [],
            author=bad,
            committer=b"a <a> 0 +0000",
            message=b"x",
        )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"subject\n", b"subject\n\n{}"),
        (b"subject: like a trailer\n", b"subject: like a trailer\n\n{}"),
        (b"subject\n\nbody\n\n\n", b"subject\n\nbody\n\n{}"),
        (b"subject\n\nbody\n\nNonce: 1\n", b"subject\n\nbody\n\nNonce: 1\n{}"),
        (b"s\n\nA: 1\n  folded\n(cherry picked from commit abc)", None),
        (b"s\n\nA: 1\nnot a trailer\n", b"s\n\nA: 1\nnot a trailer\n\n{}"),
        (b"gr\xfc\xdfe\n", b"gr\xfc\xdfe\n\n{}"),
        (b"", b"{}"),
    ],
)
def test_trailers_continue_a_paragraph_of_trailers(message: bytes, expected: bytes | None) -> None:
    added = b"(cherry picked from commit " + b"5" * 40 + b")\nPort: x\n"
    wanted = message + b"\n" + added if expected is None else expected.replace(b"{}", added)
    got = add_trailers(message, [("Port", "x")], picked_from=[CommitId("5" * 40)])
    assert got == wanted
    assert ("Port", "x") in trailers(got)


def test_a_trailer_of_two_lines_is_refused() -> None:
    with pytest.raises(RepositoryError, match="not a trailer"):
        add_trailers(b"s\n", [("Port", "x\nSigned-off-by: y")])
