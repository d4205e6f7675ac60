"""Answers to questions that may come back to themselves.

A question that is still being answered gives what is known so far. Who has used an answer is
noted, and asked again when the answer grows, until nothing grows any more: the smallest solution
to all questions at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from porttool.deciding.dataflow.values import Unknown, Value, grown

# So many answers may be worked out, those that are worked out anew counted; files of a usual
# size need some thousands.
_BUDGET = 200_000
# So many questions may wait for one another, at some ten calls each: however long a chain is, it
# takes a bounded part of the stack.
_DEEPEST = 400
_ENTANGLED: Value = {Unknown("the files are too entangled to follow it", sure=True): None}


class Answers:
    """The values of named questions; they only grow."""

    def __init__(self, budget: int = _BUDGET) -> None:
        self._known: dict[Hashable, Value] = {}
        self._compute: dict[Hashable, Callable[[], Value]] = {}
        self._users: dict[Hashable, dict[Hashable, None]] = {}
        self._open: list[Hashable] = []
        self._stale: dict[Hashable, None] = {}
        self._left = budget

    def settled(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Answer a question from outside, when everything that it rests on has settled."""
        try:
            self.cell(key, compute)
            while self._stale and self._left > 0:
                stale = next(iter(self._stale))
                del self._stale[stale]
                self._work_out(stale)
        except RecursionError:
            # What was open has no answer: doubt everything from here on.
            self._open.clear()
            self._left = 0
        answer = self._known.get(key, {})
        return answer if self._left > 0 else answer | _ENTANGLED

    def cell(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return what is known of a question so far, working it out at the first time."""
        if key not in self._known:
            self._known[key] = {}
            self._compute[key] = compute
            if len(self._open) < _DEEPEST:
                self._work_out(key)
            else:
                self._stale[key] = None  # who asks is asked again when this has grown
        # Noted behind the first answer: who gets it whole need not be asked again for it.
        self.use(key)
        return self._known[key]

    def use(self, key: Hashable) -> None:
        """Note that the question being answered rests on something which is told by `grew`."""
        if self._open:
            self._users.setdefault(key, {})[self._open[-1]] = None

    def grew(self, key: Hashable) -> None:
        """Ask those again who rest on something that has grown."""
        self._stale.update(self._users.get(key, {}))

    def later(self, key: Hashable, compute: Callable[[], Value]) -> None:
        """Put a question that nobody waits for, to be answered before anything is settled."""
        if key not in self._compute:
            self._known[key], self._compute[key] = {}, compute
            self._stale[key] = None

    def _work_out(self, key: Hashable) -> None:
        if self._left <= 0:
            return
        self._left -= 1
        self._open.append(key)
        found = self._compute[key]()
        self._open.pop()
        known = self._known[key]
        more = grown(known, found)
        if more is not known:
            self._known[key] = more
            self.grew(key)
