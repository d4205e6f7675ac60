"""What an experiment teaches, as values: rules, seeds, helpers, and everything that stays
unexplained.

Patterns are expressions with metavariables. `$X` stands for the receiver that may hold a wrapped
object, `$A`, `$B` for single expressions that an edit carried over, and `$ARGS` for the rest of a
call's arguments (possibly none). Names that a file imports are written out in full
(`torch.compile`), so that every file can spell them its own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Literal

from porttool.frozen import dataclass
from porttool.learning.uses import Use
from porttool.wrappers import Wrapper

__all__ = [
    "Example",
    "Helper",
    "Hunk",
    "HunkKind",
    "ImportEdit",
    "Lesson",
    "Negative",
    "Rule",
    "Seed",
    "SeedKind",
    "Step",
    "Wrapper",
    "is_name_of",
]

SeedKind = Literal[
    "object", "list", "dict", "return", "rebind", "argument", "statement", "decorator"
]
HunkKind = Literal["seed", "rule", "helper", "import", "residual"]
NEW_FILE = "a new file"  # what a hunk is by that stands for a whole file


@dataclass(frozen=True)
class Example:
    """One edit of the experiment that taught a rule; line (from 1) and column (from 0) count in
    the parent.
    """

    path: str
    line: int
    before: str
    after: str
    column: int = 0


@dataclass(frozen=True)
class Negative:
    """A place in a touched file that a rule matches and that the experiment left alone."""

    path: str
    line: int
    text: str
    rule: str
    column: int = 0


@dataclass(frozen=True)
class Rule:
    """A rewrite `before` to `after`, generalised from its examples.

    `requires` lists what the template needs in scope: helpers by name, methods as `Class.name`,
    imported names in full with dots (`collections.OrderedDict`). `neutral` means: the same result
    on an object that is not wrapped, at every place that `uses` lets it go to. `adapted` marks a
    rule whose template is the neutral form of the one that the experiment used. `spelled` pairs
    imported names in full with how the experiment's files write them ("nn.DataParallel"). `uses`
    says what the examples do with the value; empty where the template gives what the pattern gave.
    """

    name: str
    before: str
    after: str
    examples: tuple[Example, ...]
    neutral: bool
    requires: tuple[str, ...] = ()
    adapted: bool = False
    spelled: tuple[tuple[str, str], ...] = ()
    uses: tuple[Use, ...] = ()


@dataclass(frozen=True)
class Seed:
    """A place where the experiment wraps an object.

    `line` counts in the experiment's file. `scope` is a qualified name, empty for the module.
    `call` is the wrapping with `$X` for `constructor`; it need not be a bare call
    (`[torch.compile(n) for n in $X]`). `key` counts the seeds of one scope from 0. `statement` is
    the whole added statement, dedented, for the kinds rebind, statement and decorator (there the
    decorator line); None where an expression that existed was wrapped in place. `follows` is the
    text of the statement that an added one stands behind, None at the start of its block; of a
    decorator it has all that stand around it, a line each, and an empty line for its own place.
    `leads`: an added one is the first statement of its function.
    `requires` and `spelled` are as in `Rule`.
    """

    path: str
    scope: str
    target: str | None
    kind: SeedKind
    constructor: str
    call: str
    line: int
    key: int
    statement: str | None = None
    follows: str | None = None
    leads: bool = False
    requires: tuple[str, ...] = ()
    spelled: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Helper:
    """A function, class, constant or method (`Class.name`) that the experiment adds to a file that
    existed.

    `text` is dedented and ends in a newline. `after` and `before` name its neighbours in the
    experiment. `imports` holds one statement for each imported name that the text uses; `needs`
    other helpers that it uses. `through` are files that import it, and others can have it from.
    A `free` one comes along whatever is rewritten: more than what is learned may call it.
    """

    name: str
    path: str
    text: str
    after: str | None
    before: str | None
    imports: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    free: bool = False


@dataclass(frozen=True)
class ImportEdit:
    """An import that the experiment adds at the top level of a file; one bound name a statement.

    Where it extends an import that was there, `before` is that one's text and `after` what it
    became, "\n" for line ends.
    """

    path: str
    statement: str
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True)
class Hunk:
    """One change of the experiment for the ledger; a line of 0 means that this side has no such
    place.
    """

    path: str
    line_before: int
    line_after: int
    before: str
    after: str
    kind: HunkKind
    by: str


@dataclass(frozen=True)
class Step:
    """How one explained edit is replayed on `residual` (else on the parent's file): a span of
    characters there.

    kind rule: the rule named `by` rewrites the expression at the span. kind seed: the expression
    is wrapped by the seed at index `by`. kind text: `text` replaces the span, word for word (added
    statements, helpers, imports).
    """

    path: str
    start: int
    end: int
    kind: Literal["rule", "seed", "text"]
    by: str
    text: str = ""


@dataclass(frozen=True)
class Lesson:
    """Everything that one experiment teaches.

    `residual` maps a path to the parent's file with only the unexplained edits applied; a path is
    absent when nothing is unexplained, None when the file is deleted; new files and files that are
    not Python are there whole. `brought` has the definitions at the top level of new files, and
    those that templates call and that the experiment left alone.
    `modules` has (a file, a helper's file, the module that this is to it) where onto tells.
    """

    wrapper: Wrapper
    rules: tuple[Rule, ...]
    seeds: tuple[Seed, ...]
    helpers: tuple[Helper, ...]
    imports: tuple[ImportEdit, ...]
    residual: Mapping[str, bytes | None]
    hunks: tuple[Hunk, ...]
    touched: tuple[str, ...]
    negatives: tuple[Negative, ...]
    steps: tuple[Step, ...] = ()
    brought: tuple[Helper, ...] = ()
    modules: tuple[tuple[str, str, str], ...] = ()


def is_name_of(helper: Helper, name: str) -> bool:
    """Tell whether a name is a helper's, or its name in full in another file (`tools.clean`)."""
    if name == helper.name:
        return True
    module = name.removesuffix(f".{helper.name}")
    parts = [part for part in module.split(".") if part]
    if module == name or not parts:
        return False
    return any(_dotted(path)[-len(parts) :] == parts for path in (helper.path, *helper.through))


def _dotted(path: str) -> list[str]:
    parts = list(PurePosixPath(path).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts
