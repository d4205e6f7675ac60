"""What is found about calls of torch.compile, as values."""

from __future__ import annotations

import ast
from typing import Literal

from porttool.frozen import dataclass

Kind = Literal["call", "factory", "decorator", "reference", "method", "optimize"]
Form = Literal["in place", "call", "handle", "lazy", "guard", "owner", "unregistered"]


@dataclass(frozen=True)
class Site:
    """One place that compiles.

    `node` is what is replaced: the callee, or the bare reference. `call` is the call that holds the
    options, where there is one; `target` is what is compiled, where it is written there.
    """

    kind: Kind
    node: ast.expr
    call: ast.Call | None
    target: ast.expr | None
    line: int
    column: int

    @property
    def whole(self) -> ast.expr:
        """Return the expression that gives what the site makes."""
        return self.call or self.node


@dataclass(frozen=True)
class Gate:
    """A condition that a site stands behind already, and what it is where nobody sets it."""

    test: str
    on_by_default: bool | None


@dataclass(frozen=True)
class Finding:
    """Something for a person, at one place of a file."""

    path: str
    line: int
    column: int
    what: str
    next: str
    # `flag`: about a call, and why its file is as it was. `hand`: out of reach of an edit.
    kind: Literal["flag", "ask", "hand", "default on", "left", "note", "unparsed"] = "flag"


@dataclass(frozen=True)
class Gated:
    """A site that was put behind the switch."""

    path: str
    line: int
    column: int
    form: Form
    switch: str
    text: str
