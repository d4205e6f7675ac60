"""The ledger of a port: what became of every hunk of the experiment on onto, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from porttool import report as told
from porttool.bench import Decided
from porttool.deciding.seed_search import WRAPPED_ALREADY
from porttool.deciding.sites import Decision, PlacedSeed, site_key
from porttool.learning.lesson import Hunk, Seed
from porttool.plan.plan import Plan

Outcome = Literal["applied", "adapted", "dropped", "already there"]
_LOST_COMMENT = "a comment alone, not carried over"


def ledger(decided: Decided, plan: Plan) -> Iterator[told.LedgerEntry]:
    """Say of every hunk of the experiment what became of it on onto."""
    fates = _Fates(decided, plan)
    for hunk in decided.lesson.hunks:
        outcome, why = fates.of(hunk)
        yield told.LedgerEntry(
            path=hunk.path,
            line_before=hunk.line_before,
            line_after=hunk.line_after,
            before=hunk.before,
            after=hunk.after,
            outcome=outcome,
            why=why,
        )


class _Fates:
    """Finds hunks on onto; each place there answers for one hunk."""

    def __init__(self, decided: Decided, plan: Plan) -> None:
        self.decided = decided
        self.plan = plan
        self._left = [d for d in decided.decisions if d.action == "rewrite" and d.rule]
        self._adapted = {rule.name for rule in decided.lesson.rules if rule.adapted}
        self._placed = {(seed.seed.path, seed.seed.line): seed for seed in decided.placed}
        self._seeds = {(seed.path, seed.line): seed for seed in decided.lesson.seeds}
        self._texts = {path: _bare(source.text) for path, source in decided.sources.items()}
        self._found: Counter[tuple[str, str]] = Counter()

    def of(self, hunk: Hunk) -> tuple[Outcome, str]:
        """Return a hunk's fate; to be asked once for each, in the experiment's order."""
        path = self.decided.files.get(hunk.path, hunk.path)
        moved = f", in {path}, its name on onto" if path != hunk.path else ""
        if hunk.kind == "rule":
            outcome, why = self._rule(hunk, path)
        elif hunk.kind == "seed":
            outcome, why = self._seed(hunk, path)
        elif hunk.kind == "residual":
            outcome, why = self._residual(hunk)
        elif self._is_there(hunk, path):
            outcome, why = "already there", "onto has it"
        else:
            outcome, why = "applied", hunk.kind
        return outcome, why if outcome == "dropped" else why + moved

    def _rule(self, hunk: Hunk, path: str) -> tuple[Outcome, str]:
        if self._site(hunk, path):
            if hunk.by in self._adapted:
                return "adapted", "in the form that is neutral on an object that is not wrapped"
            return "applied", f"rule {hunk.by}"
        if self._is_there(hunk, path):
            return "already there", "onto has this place in the experiment's form"
        for other, origin in self.decided.origins.items():
            site = self._site(hunk, other) if origin == path else None
            if site is not None:
                return "adapted", f"rule {hunk.by}, at {other}:{site.line}, where onto has it now"
        if path not in self.decided.sources:
            return "dropped", f"onto does not have {path} any more"
        return "dropped", "onto does not have this place any more"

    def _site(self, hunk: Hunk, path: str) -> Decision | None:
        """Take a rewritten site that was there in the experiment's parent, by its text."""
        wanted = path, _flat(hunk.before)
        for site in self._left:
            if site.known and (site.path, _flat(site.text)) == wanted:
                self._left.remove(site)
                return site
        return None

    def _seed(self, hunk: Hunk, path: str) -> tuple[Outcome, str]:
        placed = self._placed.get((path, hunk.line_after))
        if placed is not None:
            return self._wrapped(placed)
        seed = self._seeds.get((path, hunk.line_after))
        skipped = self._skipped(seed) if seed else None
        if skipped is not None and skipped.reasons[0].startswith(WRAPPED_ALREADY):
            switch = self.plan.switch
            return "already there", skipped.reasons[0] + (
                f", not behind {switch.gate}" if switch else ""
            )
        if skipped is not None:
            return "dropped", skipped.reasons[0]
        return "dropped", "the object is not constructed on onto any more"

    def _wrapped(self, seed: PlacedSeed) -> tuple[Outcome, str]:
        moved = f", moved from {seed.moved_from}" if seed.moved_from else ""
        if self.plan.switch is not None:
            return "adapted", f"behind {self.plan.switch.gate}{moved}"
        return ("adapted", f"at {seed.path}:{seed.line}{moved}") if moved else ("applied", "seed")

    def _skipped(self, seed: Seed) -> Decision | None:
        what = f"wrap {seed.target or seed.constructor}"
        return next(
            (
                d
                for d in self.decided.decisions
                if d.action == "skip"
                and d.rule is None
                and d.key == site_key(d.path, seed.scope, what, 1)
            ),
            None,
        )

    def _residual(self, hunk: Hunk) -> tuple[Outcome, str]:
        if hunk.by == _LOST_COMMENT:
            return "dropped", hunk.by
        resolved = self.decided.residual.resolved.get(hunk.path)
        if resolved is not None:
            return "adapted", f"it conflicted with onto, and a person decided: {resolved}"
        if hunk.path in self.decided.residual.there:
            return "already there", "onto has what no rule explains"
        return "applied", "merged as it is; no rule explains it"

    def _is_there(self, hunk: Hunk, path: str) -> bool:
        """Tell whether onto has the experiment's text of a hunk, beside what was found so far."""
        text = _bare(hunk.after)
        if not text or self._texts.get(path, "").count(text) <= self._found[path, text]:
            return False
        self._found[path, text] += 1
        return True


def _flat(text: str) -> str:
    return " ".join(text.split())


def _bare(text: str) -> str:
    return re.sub(r"\s+", "", text)
