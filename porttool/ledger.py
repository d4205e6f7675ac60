"""The ledger of a port: what became of every hunk of the experiment on onto, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple

from porttool import report as told
from porttool.deciding.edits import port_edits
from porttool.deciding.seed_search import WRAPPED_ALREADY
from porttool.deciding.sites import Decision, PlacedSeed, site_key
from porttool.learning.lesson import Hunk, Seed
from porttool.plan.plan import Plan
from porttool.workbench import Decided

Outcome = Literal["applied", "adapted", "dropped", "already there"]
_LOST_COMMENT = "a comment alone, not carried over"


def ledger(decided: Decided, plan: Plan) -> Iterator[told.LedgerEntry]:
    """Say of every hunk of the experiment what became of it on onto."""
    fates = _Fates(decided, plan)
    for hunk in decided.lesson.hunks:
        fate = fates.of(hunk)
        yield told.LedgerEntry(
            path=hunk.path,
            line_before=hunk.line_before,
            line_after=hunk.line_after,
            before=hunk.before,
            after=hunk.after,
            outcome=fate.outcome,
            why=fate.why,
            path_now=fate.path,
            line_now=fate.line,
            site=fate.site,
        )


class _Fate(NamedTuple):
    """What became of a hunk; the place on onto, and the key of the site that stands there."""

    outcome: Outcome
    why: str
    path: str = ""
    line: int = 0
    site: str = ""


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
        self._written: dict[str, str] = {}

    def of(self, hunk: Hunk) -> _Fate:
        """Return a hunk's fate; to be asked once for each, in the experiment's order."""
        path = self.decided.files.get(hunk.path, hunk.path)
        moved = f", in {path}, its name on onto" if path != hunk.path else ""
        if hunk.kind == "rule":
            fate = self._rule(hunk, path)
        elif hunk.kind == "seed":
            fate = self._seed(hunk, path)
        elif hunk.kind == "residual":
            fate = self._residual(hunk)
        elif self._is_there(hunk, path):
            fate = _Fate("already there", "onto has it")
        elif hunk.kind == "helper":
            fate = self._helper(hunk, path)
        else:
            fate = _Fate("applied", hunk.kind)
        if fate.outcome == "dropped":
            return fate
        return fate._replace(why=fate.why + moved, path=fate.path or path)

    def _rule(self, hunk: Hunk, path: str) -> _Fate:
        site = self._site(hunk, path)
        if site is not None:
            at = (site.path, site.line, site.key)
            if hunk.by in self._adapted:
                why = "in the form that is neutral on an object that is not wrapped"
                return _Fate("adapted", why, *at)
            return _Fate("applied", f"rule {hunk.by}", *at)
        if self._is_there(hunk, path):
            return _Fate("already there", "onto has this place in the experiment's form")
        for other, origin in self.decided.origins.items():
            site = self._site(hunk, other) if origin == path else None
            if site is not None:
                why = f"rule {hunk.by}, at {other}:{site.line}, where onto has it now"
                return _Fate("adapted", why, site.path, site.line, site.key)
        if path not in self.decided.sources:
            return _Fate("dropped", f"onto does not have {path} any more")
        return _Fate("dropped", "onto does not have this place any more")

    def _site(self, hunk: Hunk, path: str) -> Decision | None:
        """Take a rewritten site that was there in the experiment's parent, by its text."""
        wanted = path, _flat(hunk.before)
        for site in self._left:
            if site.known and (site.path, _flat(site.text)) == wanted:
                self._left.remove(site)
                return site
        return None

    def _seed(self, hunk: Hunk, path: str) -> _Fate:
        placed = self._placed.get((path, hunk.line_after))
        if placed is not None:
            return self._wrapped(placed)
        seed = self._seeds.get((path, hunk.line_after))
        skipped = self._skipped(seed) if seed else None
        if skipped is not None and skipped.reasons[0].startswith(WRAPPED_ALREADY):
            switch = self.plan.switch
            why = skipped.reasons[0] + (f", not behind {switch.gate}" if switch else "")
            return _Fate("already there", why, skipped.path, skipped.line)
        if skipped is not None:
            return _Fate("dropped", skipped.reasons[0])
        return _Fate("dropped", "the object is not constructed on onto any more")

    def _wrapped(self, seed: PlacedSeed) -> _Fate:
        moved = f", moved from {seed.moved_from}" if seed.moved_from else ""
        at = (seed.path, seed.line)
        if self.plan.switch is not None:
            return _Fate("adapted", f"behind {self.plan.switch.gate}{moved}", *at)
        if moved:
            return _Fate("adapted", f"at {seed.path}:{seed.line}{moved}", *at)
        return _Fate("applied", "seed", *at)

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

    def _residual(self, hunk: Hunk) -> _Fate:
        if hunk.by == _LOST_COMMENT:
            return _Fate("dropped", hunk.by)
        resolved = self.decided.residual.resolved.get(hunk.path)
        if resolved is not None:
            why = f"it conflicted with onto, and a person decided: {resolved}"
            return _Fate("adapted", why)
        if hunk.path in self.decided.residual.there:
            return _Fate("already there", "onto has what no rule explains")
        return _Fate("applied", "merged as it is; no rule explains it")

    def _helper(self, hunk: Hunk, path: str) -> _Fate:
        """Say where the port writes the definition that a hunk adds, which may be another file."""
        decided = self.decided
        helpers = [one for one in decided.lesson.helpers if one.name == hunk.by]
        for helper in sorted(helpers, key=lambda one: one.path != path):
            source = decided.sources.get(helper.path)
            if source is None:
                continue
            if helper.path not in self._written:
                # Behind a switch a seed is wrapped by the guard, and needs no helper of its own.
                placed = () if self.plan.switch else decided.placed
                edits = port_edits(source, decided.decisions, placed, decided.lesson)
                self._written[helper.path] = _bare("".join(edit.text for edit in edits))
            if _bare(helper.text) in self._written[helper.path]:
                if helper.path == path:
                    return _Fate("applied", "helper")
                return _Fate("adapted", f"helper, in {helper.path}", helper.path)
        if path not in decided.sources:
            return _Fate("dropped", f"onto does not have {path} any more")
        return _Fate("dropped", f"onto needs no {hunk.by} from here")

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
