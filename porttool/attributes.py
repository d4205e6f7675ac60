"""What `.gitattributes` asks of git for the files of a port, and porttool does not do: reported.

A merge driver and a filter are programs that the user's configuration names. None is started: a
file is merged as text, and what git stores is what is ported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from porttool.deciding.sites import Decision
from porttool.git.commits import TreeId
from porttool.git.quarantine import Quarantine
from porttool.source.syntax import Span

_NAMES = ("merge", "filter", "working-tree-encoding")
_PLAIN = ("unspecified", "unset", "set")
_OWN_DRIVERS = ("text", "binary")


def attribute_hazards(
    quarantine: Quarantine, onto: TreeId, ported: Iterable[str], merged: Collection[str]
) -> tuple[Decision, ...]:
    """Return a hazard for each ported file whose attributes name what was not done.

    `merged` are those of them that both sides have changed.
    """
    quarantine.use_attributes(onto)
    if not (quarantine.path / "info" / "attributes").read_bytes().strip():
        return ()
    names = sorted({*ported, *merged})
    found = []
    for path, name, value in _attributes(quarantine, names):
        why = _objection(name, value, both=path in merged)
        if why is not None:
            found.append(_hazard(path, name, value, why))
    return tuple(found)


def _attributes(quarantine: Quarantine, paths: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    lines = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
    listing = quarantine.git.run("check-attr", "-z", "--stdin", *_NAMES, input=lines).out
    fields = [field.decode("utf-8", "surrogateescape") for field in listing.split(b"\0")]
    yield from zip(fields[::3], fields[1::3], fields[2::3], strict=False)


def _objection(name: str, value: str, *, both: bool) -> str | None:
    if value in _PLAIN:
        return None
    if name == "filter":
        return f"the filter `{value}` is not run: what git stores was ported as it is"
    if name == "working-tree-encoding":
        return f"it is checked out as {value}: what git stores was ported as it is"
    if not both or value in _OWN_DRIVERS:
        return None
    if value == "union":
        return "both sides changed it, and lines of both are kept, whatever they say together"
    return f"both sides changed it, and its merge driver `{value}` is not run: it merged as text"


def _hazard(path: str, name: str, value: str, why: str) -> Decision:
    return Decision(
        key=f"hazard {path} {name}",
        path=path,
        line=1,
        column=0,
        text=f"{name}={value}",
        action="hazard",
        rule=None,
        reasons=(f"`.gitattributes`: {why}",),
        span=Span(0, 0),
        known=True,
    )
