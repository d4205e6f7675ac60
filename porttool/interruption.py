"""Ctrl-C and `kill`, held back while something must not stop half-way."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

_HELD = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let signals that end a run wait until the block is done; they are answered at its end.

    Programs that are started within inherit that, so it is for steps that take milliseconds.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
