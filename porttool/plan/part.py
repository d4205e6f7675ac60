"""A part of `port.yaml`: closed, frozen, and an unknown key in it is named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

_Part = TypeVar("_Part", bound="Part")
_NO_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


class Part(BaseModel):
    """A mapping of the plan whose keys are all known."""

    # The checks of the whole plan are built once, when one is read, and not for each class.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

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


def read_part(kind: type[_Part], values: Any) -> _Part:
    """Return plain values as a part of the plan; raises pydantic's ValidationError.

    No plugin of pydantic has a say: looking for one reads the metadata of every package that is
    installed, and would start other people's code.
    """
    before = os.environ.get(_NO_PLUGINS)
    os.environ[_NO_PLUGINS] = "1"
    try:
        return kind.model_validate(values)
    finally:
        if before is None:
            del os.environ[_NO_PLUGINS]
        else:
            os.environ[_NO_PLUGINS] = before
