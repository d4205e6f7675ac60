"""Commit objects as bytes, parsed and built unchanged, and the trailers that mark a port.

Author, date, encoding and message are never decoded and encoded again, because the experiment's
author wrote them; a commit built from what was parsed has the id that it had.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NewType

from porttool.errors import RepositoryError
from porttool.frozen import dataclass

CommitId = NewType("CommitId", str)
TreeId = NewType("TreeId", str)
BlobId = NewType("BlobId", str)

PORTED_FROM = "Ported-from"
PORT = "Port"
PORT_PLAN = "Port-plan"

_SIGNATURE = re.compile(
    rb"(?P<name>.*?) ?<(?P<email>[^>]*)> (?P<seconds>-?\d+) (?P<offset>[+-]\d+)$"
)
_TRAILER = re.compile(rb"[A-Za-z0-9][A-Za-z0-9-]*[ \t]*:[ \t]*\S")
_PICKED = re.compile(rb"\(cherry picked from commit [0-9a-f]+\)$")


@dataclass(frozen=True)
class Signature:
    """Who and when, as git writes it: `Name <email> seconds offset`."""

    name: str
    email: str
    seconds: int
    offset: str

    def raw(self) -> bytes:
        """Return the bytes of an author or committer line, without its first word."""
        who = f"{self.name} <{self.email}>".encode("utf-8", "surrogateescape")
        return who + f" {self.seconds} {self.offset}".encode()


@dataclass(frozen=True)
class CommitFacts:
    """A commit object, byte for byte; `extra` holds headers without a field (gpgsig, mergetag)."""

    id: CommitId
    tree: TreeId
    parents: tuple[CommitId, ...]
    author: bytes
    committer: bytes
    encoding: bytes | None
    extra: tuple[tuple[bytes, bytes], ...]
    message: bytes

    @property
    def text(self) -> str:
        """Return the message for reading, whatever its encoding."""
        try:
            return self.message.decode((self.encoding or b"utf-8").decode("ascii"))
        except (LookupError, UnicodeDecodeError):
            return self.message.decode("utf-8", "replace")

    @property
    def subject(self) -> str:
        """Return the first paragraph on one line."""
        return " ".join(self.text.strip().split("\n\n", 1)[0].split())

    @property
    def written(self) -> Signature:
        """Return author and author date."""
        return parse_signature(self.author)

    @property
    def committed(self) -> Signature:
        """Return committer and commit date."""
        return parse_signature(self.committer)


def parse_signature(raw: bytes) -> Signature:
    """Return the parts of an author or committer line; what git cannot date is dated 0."""
    match = _SIGNATURE.match(raw)
    if match is None:
        who, _, rest = raw.partition(b"<")
        name, email = who.strip(), rest.partition(b">")[0]
        return Signature(_text(name), _text(email), 0, "+0000")
    return Signature(
        _text(match["name"]), _text(match["email"]), int(match["seconds"]), match["offset"].decode()
    )


def parse_commit(id: CommitId, data: bytes) -> CommitFacts:
    """Return the parts of a commit object's content."""
    head, _, message = data.partition(b"\n\n")
    headers: list[tuple[bytes, bytes]] = []
    for line in head.split(b"\n"):
        if line.startswith(b" ") and headers:
            key, value = headers[-1]
            headers[-1] = (key, value + b"\n" + line[1:])
        else:
            key, _, value = line.partition(b" ")
            headers.append((key, value))
    first = dict(reversed(headers))
    known = (b"tree", b"parent", b"author", b"committer", b"encoding")
    return CommitFacts(
        id=id,
        tree=TreeId(first[b"tree"].decode()),
        parents=tuple(CommitId(value.decode()) for key, value in headers if key == b"parent"),
        author=first.get(b"author", b""),
        committer=first.get(b"committer", b""),
        encoding=first.get(b"encoding"),
        extra=tuple((key, value) for key, value in headers if key not in known),
        message=message,
    )


def commit_bytes(
    tree: TreeId,
    parents: Sequence[CommitId],
    *,
    author: bytes,
    committer: bytes,
    message: bytes,
    encoding: bytes | None = None,
) -> bytes:
    """Return a commit object's content.

    Raises RepositoryError where a header holds a line break or a NUL, which would forge one.
    """
    lines = [b"tree " + tree.encode(), *(b"parent " + parent.encode() for parent in parents)]
    lines += [b"author " + author, b"committer " + committer]
    if encoding is not None:
        lines.append(b"encoding " + encoding)
    for line in lines:
        if b"\n" in line or b"\0" in line:
            raise RepositoryError(f"a commit header must be one line, and this is not: {line!r}")
    if b"\0" in message:
        raise RepositoryError("a commit message must not hold a NUL")
    return b"\n".join(lines) + b"\n\n" + message


def trailers(message: bytes) -> tuple[tuple[str, str], ...]:
    """Return every line of the message that reads `Key: value`, wherever it stands.

    Not only those of the last paragraph: a squash puts whole messages, indented or in a list, into
    the middle of a new one.
    """
    found = []
    for line in message.split(b"\n"):
        stripped = line.strip()
        if _TRAILER.match(stripped):
            key, _, value = stripped.partition(b":")
            found.append((_text(key.strip()), _text(value.strip())))
    return tuple(found)


def add_trailers(
    message: bytes, added: Sequence[tuple[str, str]], *, picked_from: Sequence[CommitId] = ()
) -> bytes:
    """Return the message with `(cherry picked from commit ...)` lines and trailers added.

    A last paragraph that holds trailers only is continued; anything else gets a new paragraph.
    The message itself keeps its bytes, except for blank lines at its end.
    """
    lines = [f"(cherry picked from commit {id})".encode() for id in picked_from]
    for key, value in added:
        line = f"{key}: {value}".encode("utf-8", "surrogateescape")
        if b"\n" in line or b"\0" in line or not _TRAILER.match(line):
            raise RepositoryError(f"not a trailer, which is one line `Key: value`: {line!r}")
        lines.append(line)
    if not lines:
        return message
    body = message.rstrip(b"\r\n \t")
    paragraphs = re.split(rb"\n[ \t\r]*\n", body)
    continued = len(paragraphs) > 1 and all(
        _TRAILER.match(line) or _PICKED.match(line) or line.startswith((b" ", b"\t"))
        for line in paragraphs[-1].strip(b"\r\n").split(b"\n")
    )
    gap = b"\n" if continued else b"\n\n"
    return (body + gap if body else b"") + b"\n".join(lines) + b"\n"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
