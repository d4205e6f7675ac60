"""What porttool refuses to do, and the exit code that goes with it.

Every refusal says what is wrong, where, why, and what to type next. A failure that is the *answer*
(a check failed, a port is parked) is a value of its own module, never one of these.
"""

from __future__ import annotations

import sys
from typing import Any

EXIT_DONE = 0
EXIT_USAGE = 2
EXIT_PERSON = 3
EXIT_CHECK_FAILED = 4
EXIT_PARKED = 5


class PortError(Exception):
    """A refusal that changed nothing; `str()` is the whole message, one fact a line."""

    exit_code = EXIT_USAGE

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        next: str | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.why = why
        self.next = next
        lines = [what]
        lines += [f"  where: {where}"] if where else []
        lines += [f"  why:   {why}"] if why else []
        lines += [f"  next:  {next}"] if next else []
        super().__init__("\n".join(lines))

    def as_dict(self) -> dict[str, Any]:
        """Return the same facts as data, for `--json`."""
        return {
            "error": type(self).__name__,
            "what": self.what,
            "where": self.where,
            "why": self.why,
            "next": self.next,
            "exit_code": self.exit_code,
        }


class PlanError(PortError):
    """`port.yaml` is missing, malformed or names something that does not exist."""


class RepositoryError(PortError):
    """The repository cannot be used as it stands: none there, shallow, an unknown revision."""


class UnparsableSource(PortError):
    """A Python file that has to be understood does not parse."""


class NeedsNewerPython(UnparsableSource):
    """A Python file that does not parse here and reads like one for a newer Python."""

    def __init__(self, path: str, line: int | None, message: str, needed: tuple[int, int]) -> None:
        self.needed = needed
        here = ".".join(map(str, sys.version_info[:2]))
        name = ".".join(map(str, needed))
        super().__init__(
            f"{path} needs Python {name} to be read",
            where=f"{path}:{line}" if line else path,
            why=f"porttool runs on Python {here}, which says of that line: {message}",
            next=f"run the same command with that interpreter: python{name} -m porttool ...",
        )


class CannotLearn(PortError):
    """The experiment's diff does not add up to rules that reproduce it."""

    exit_code = EXIT_PERSON


class NeedsPerson(PortError):
    """A conflict or an open question that only a person may decide."""

    exit_code = EXIT_PERSON


class ProofFailed(PortError):
    """With the switch off the ported tree is not the tree it was ported onto."""

    exit_code = EXIT_CHECK_FAILED
