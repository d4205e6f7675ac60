"""What an expression may stand for, and how it came there.

A value is a set of possibilities (atoms), each with the last step of the way it took; the steps
lead back to the place where the object was made. Atoms are few: one for each place in the code
that makes something, whatever the number of objects made there.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from porttool.deciding.dataflow.fileindex import FileIndex, Scope
from porttool.frozen import dataclass
from porttool.source.syntax import text_of

if TYPE_CHECKING:
    from porttool.deciding.dataflow.project import ClassInfo


@dataclass(eq=False, slots=True)
class Frame:
    """Where an expression is evaluated: its file and, inside a function, for which call of it.

    Without a `call` the function stands for all of its calls.
    """

    file: FileIndex
    function: Scope | None = None
    call: ast.Call | None = None
    caller: Frame | None = None
    receiver: Atom | None = None
    depth: int = 0


class Place(NamedTuple):
    """A node and the file it stands in.

    A tuple, because so many are made and looked up that a class of Python's own would show.
    """

    node: ast.AST
    file: FileIndex

    @property
    def at(self) -> str:
        """The place as `path:line`."""
        return f"{self.file.shown}:{getattr(self.node, 'lineno', 1)}"

    @property
    def text(self) -> str:
        """The place's source on one line, cut where it is long."""
        return shortened(text_of(self.file.source, self.node))


@dataclass(frozen=True, slots=True)
class Wrapped:
    """The object that the wrapper returns at a place."""

    place: Place


@dataclass(frozen=True, slots=True)
class Nested:
    """A module made from a wrapped one, whose own keys carry the prefix further in."""

    place: Place
    inner: Place


@dataclass(frozen=True, slots=True)
class Nothing:
    """None: whoever calls a method on it never comes to the question."""


@dataclass(frozen=True, slots=True)
class Plain:
    """Something that is not wrapped; `what` says what it is.

    `of` is where code that is not analysed made it, or made what it was taken from: it may give
    back a wrapped object that it is given later.
    """

    what: str
    place: Place
    of: Place | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that the analysed files do not tell.

    `hint` is an annotation or a name to judge by; `sure` asks whatever the hint says.
    """

    reason: str
    hint: str = ""
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A container made at a node; what is in it is worked out when asked for."""

    kind: str
    node: ast.AST
    frame: Frame


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class of the analysed files, or of a class derived from it.

    `upward` is set for `super()`: members of the class itself are passed over.
    """

    cls: ClassInfo
    upward: bool = False


@dataclass(frozen=True, slots=True)
class ClassRef:
    """A class of the analysed files itself."""

    cls: ClassInfo


@dataclass(frozen=True, slots=True)
class Function:
    """A function or lambda of the analysed files, bound to a receiver if it has one."""

    scope: Scope
    receiver: Instance | ClassRef | None = None


@dataclass(frozen=True, slots=True)
class ModuleRef:
    """A file of the analysed ones, imported as a module."""

    file: FileIndex


@dataclass(frozen=True, slots=True)
class Outside:
    """Something imported from a package that is not analysed, by its dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class Partial:
    """`functools.partial(function, ...)`."""

    function: Function | ClassRef
    call: ast.Call
    frame: Frame


@dataclass(frozen=True, slots=True)
class RecordType:
    """A class that `namedtuple(...)` makes, by its fields."""

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A place that calls a function, or hands it to something that does.

    `call` is None where it is handed on to who knows whom. `values` are the arguments when they
    are not the call's own (`Thread(target=f, args=(a, b))`); `each` says that the function is run
    on every element of them (`map`). `skip` counts parameters that were filled before; `doubtful`
    says that it may be another function of that name.
    """

    place: Place
    call: ast.Call | None
    values: tuple[ast.expr, ...] | None = None
    keywords: tuple[ast.keyword, ...] = ()
    each: bool = False
    skip: int = 0
    doubtful: bool = False


# Call sites are no values of expressions, but answers to a question like these.
Atom = (
    Wrapped
    | Nested
    | Nothing
    | Plain
    | Unknown
    | Box
    | Instance
    | ClassRef
    | Function
    | ModuleRef
    | Outside
    | Partial
    | RecordType
    | CallSite
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the way: `subject` `verb` `thing`, at a line; `before` leads to the origin."""

    subject: str | Place
    verb: str
    thing: str | Place
    file: FileIndex
    line: int
    before: Way | None

    def words(self) -> str:
        """Say the step in words, without its place."""
        subject = self.subject if isinstance(self.subject, str) else f"`{self.subject.text}`"
        thing = self.thing if isinstance(self.thing, str) else f"`{self.thing.text}`"
        return f"{subject} {self.verb} {thing}"


@dataclass(frozen=True, slots=True)
class Detour:
    """The way to a container or owner, then that to what was found in it."""

    way: Way
    rest: Way | None


Way = Step | Detour
Value = dict[Atom, Way | None]

_LONG = 70
_KEPT = 5  # so many steps to a container are told in front of those to its element


def shortened(text: str) -> str:
    """Return source text on one line, cut where it is long."""
    line = re.sub(r"(?<=[\[({]) |,? (?=[\])}])", "", " ".join(text.split()))
    return line if len(line) <= _LONG else line[: _LONG - 3] + "..."


def union(values: Iterable[Value]) -> Value:
    """Return all possibilities; the first way found to each is kept."""
    joined: Value = {}
    for value in values:
        for atom, step in value.items():
            joined.setdefault(atom, step)
    return joined


def stepped(
    value: Value, subject: str | Place, verb: str, thing: str | Place, place: Place
) -> Value:
    """Return the value with one more step behind every way."""
    file, line = place.file, int(getattr(place.node, "lineno", 1))
    return {atom: Step(subject, verb, thing, file, line, step) for atom, step in value.items()}


def prefixed(way: Way | None, value: Value) -> Value:
    """Return the value with the way to its container or owner in front of every way."""
    if way is None:
        return value
    return {atom: Detour(way, step) for atom, step in value.items()}


def steps_of(way: Way | None) -> Iterator[Step]:
    """Yield the steps from the use back to the origin."""
    while way is not None:
        if isinstance(way, Detour):
            # In a circle the ways to containers would grow for ever.
            yield from islice(steps_of(way.way), _KEPT)
            way = way.rest
        else:
            yield way
            way = way.before


# More possibilities of a kind say nothing new: what is plain is plain, however many of it.
_ROOM = {Plain: 4, Unknown: 6, Nested: 8, Wrapped: 16, Outside: 16}
_ROOM_FOR_STRANGERS = 12
_ROOM_FOR_OTHERS = 48
_FEW = min(_ROOM.values())
_TOO_MANY = Unknown("it may be too many things to follow")


def _kind(atom: Atom) -> type:
    # What other code made is counted apart: each of them has a past of its own.
    return Place if isinstance(atom, Plain) and atom.of is not None else type(atom)


def grown(known: Value, more: Value) -> Value:
    """Return `known` with the new possibilities of `more`, as far as there is room for them.

    `known` itself is given back when there is nothing to add. Doubts that must be asked find room
    even where others do not.
    """
    new = [atom for atom in more if atom not in known]
    if not new:
        return known
    if len(known) + len(new) <= _FEW:
        return known | {atom: more[atom] for atom in new}
    counts: Counter[type] = Counter(_kind(atom) for atom in known)
    value = dict(known)
    for atom in new:
        kind = _kind(atom)
        room = _ROOM_FOR_STRANGERS if kind is Place else _ROOM.get(kind, _ROOM_FOR_OTHERS)
        urgent = isinstance(atom, Unknown) and atom.sure and counts[kind] < 2 * room
        if kind is CallSite or counts[kind] < room or urgent:
            counts[kind] += 1
            value[atom] = more[atom]
        elif kind not in _ROOM:
            value.setdefault(_TOO_MANY, None)
    return value if len(value) > len(known) else known


# What kind of box a display or a comprehension makes.
BOX_KINDS: dict[type[ast.expr], str] = {
    ast.List: "literal",
    ast.Set: "literal",
    ast.Tuple: "tuple",
    ast.Dict: "dict",
    ast.ListComp: "comprehension",
    ast.SetComp: "comprehension",
    ast.GeneratorExp: "comprehension",
    ast.DictComp: "dict comprehension",
}
