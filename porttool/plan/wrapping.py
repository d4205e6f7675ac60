"""What the experiment wraps objects in, as `port.yaml` says it and as the table completes it."""

from __future__ import annotations

from dataclasses import replace

from pydantic import model_validator

from porttool.plan.part import Part
from porttool.plan.types import DottedName, Identifier, Line, refuse
from porttool.wrappers import Wrapper, known_wrapper


class WrapperPlan(Part):
    """What the experiment wraps objects in, and what that does to the objects' keys.

    A callee that porttool knows brings the rest along; the plan's own words count before it.
    """

    callee: DottedName = "torch.compile"
    unwrap: Identifier | None = None
    prefix: Line | None = None
    methods: tuple[Identifier, ...] | None = None

    @model_validator(mode="after")
    def _unknown_ones_are_described(self) -> WrapperPlan:
        missing = [f"{key}:" for key in ("unwrap", "prefix") if getattr(self, key) is None]
        if missing and known_wrapper(self.callee) is None:
            raise refuse(
                f"nothing is known of `{self.callee}`, and {' and '.join(missing)} is not given",
                next="add under wrapper: `unwrap:`, the attribute that holds the object inside, "
                'and `prefix:`, what the keys of its state_dict gain (`""` for nothing)',
            )
        return self

    def wrapper(self) -> Wrapper:
        """Return the wrapper, with what is known of its callee filled in."""
        row = known_wrapper(self.callee) or Wrapper(
            callee=self.callee,
            types=(self.callee.rpartition(".")[2],),
            twice="wrapped twice: one unwrapping does not reach the object inside",
            copied="the copy is wrapped too: copy the object inside",
        )
        return replace(
            row,
            unwrap=row.unwrap if self.unwrap is None else self.unwrap,
            prefix=row.prefix if self.prefix is None else self.prefix,
            methods=row.methods if self.methods is None else self.methods,
        )
