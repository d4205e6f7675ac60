"""What every class of the configuration is: strict about types, and closed to unknown keys."""

from pydantic import ConfigDict

CLOSED = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
