"""Places on onto as values: where the experiment's seeds go, what is decided about each site."""

from __future__ import annotations

from typing import Literal

from porttool.frozen import dataclass
from porttool.learning.lesson import Seed, SeedKind
from porttool.source.syntax import Span

Action = Literal["rewrite", "skip", "ask", "hazard"]


@dataclass(frozen=True)
class PlacedSeed:
    """A seed found again on onto.

    `binding` is the statement that constructs the object, `value` the expression that the
    experiment wrapped there (the element in a comprehension). Where the experiment added a
    statement, `binding` is the one that it goes behind and `value` what that binds. `call` is the
    wrapping in this file's spelling, with `$X` for the value. `moved_from` names the experiment's
    scope when main constructs the object in another one. Where nothing on onto constructs what an
    added statement wraps, `kind` is "statement", and it may go in front of `binding` (`ahead`).
    """

    seed: Seed
    path: str
    scope: str
    line: int
    binding: Span
    value: Span
    target: str | None
    kind: SeedKind
    call: str
    moved_from: str | None = None
    note: str = ""
    ahead: bool = False


@dataclass(frozen=True)
class Told:
    """One step of the reasons: what the code says there; the place is "" where there is none."""

    text: str
    path: str = ""
    line: int = 0


@dataclass(frozen=True)
class Decision:
    """What is done at one place, and why.

    `key` names the place for `answers:` and survives shifted lines. `column` counts characters
    from 0. `replacement` is the new text of `span`, without what nested sites change inside it.
    `known` is False where main gained the place after the experiment was made. The last `told`
    reasons are the dataflow's, from the use to the origin, and `steps` are these, each with its
    place. With `only_skip` the answer `rewrite` would settle nothing.
    """

    key: str
    path: str
    line: int
    column: int
    text: str
    action: Action
    rule: str | None
    reasons: tuple[str, ...]
    span: Span
    replacement: str | None = None
    known: bool = True
    steps: tuple[Told, ...] = ()
    told: int = 0
    only_skip: bool = False


def seed_key(seed: Seed, path: str) -> str:
    """Name the place of a seed in a file, as `site_key` does of others."""
    return site_key(path, seed.scope, f"wrap {seed.target or seed.constructor}", 1)


def site_key(path: str, scope: str, text: str, number: int) -> str:
    """Name a place by file, scope and its text; equal ones of a scope are counted from 2."""
    key = f"{path}::{scope}::{' '.join(text.split())}"
    return key if number == 1 else f"{key}#{number}"
