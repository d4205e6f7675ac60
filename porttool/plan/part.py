"""A part of `port.yaml`: closed, frozen, and an unknown key in it is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError


class Part(BaseModel):
    """A mapping of the plan whose keys are all known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _unknown_keys(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            for key in value:
                if key not in known:
                    raise PydanticCustomError(
                        "unknown_key", "unknown key", {"key": key, "known": known}
                    )
        return value
