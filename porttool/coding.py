"""Frozen dataclasses as JSON data and back: closed, typed, and with the place of what is wrong."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Literal

from porttool.errors import PortError


class ReportError(PortError):
    """A stored report is not one, or was written by a version that this one does not know."""


def encode(value: object) -> Any:
    """Return dataclasses as objects, tuples as lists, and everything else as it is."""
    if dataclasses.is_dataclass(value):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


def decode(data: Any, kind: Any, where: str) -> Any:
    """Return data as a value of a kind: a dataclass, tuple, Literal, `X | None` or a plain type.

    Raises ReportError with `where` and the way from there to the first thing that does not fit.
    """
    origin = typing.get_origin(kind)
    if origin is Literal:
        return _expect(
            data in typing.get_args(kind), data, where, f"one of {typing.get_args(kind)}"
        )
    if origin is types.UnionType:
        inner = next(arm for arm in typing.get_args(kind) if arm is not types.NoneType)
        return None if data is None else decode(data, inner, where)
    if origin is tuple:
        _expect(isinstance(data, list), data, where, "a list")
        item = typing.get_args(kind)[0]
        return tuple(decode(value, item, f"{where}[{index}]") for index, value in enumerate(data))
    if dataclasses.is_dataclass(kind):
        _expect(isinstance(data, dict), data, where, "an object")
        hints = typing.get_type_hints(kind)
        for name in data:
            _expect(name in hints, name, where, f"a field among {', '.join(hints)}")
        required = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING]
        for name in required:
            _expect(name in data, sorted(data), where, f"a field {name!r}")
        assert isinstance(kind, type)
        return kind(**{name: decode(data[name], hints[name], f"{where}.{name}") for name in data})
    if kind is float and type(data) is int:
        return float(data)
    return _expect(type(data) is kind, data, where, f"a {kind.__name__}")


def _expect(holds: bool, seen: Any, where: str, expected: str) -> Any:
    if not holds:
        raise ReportError(
            "the stored report cannot be read",
            where=where,
            why=f"saw {seen!r}, expected {expected}",
            next="porttool refresh, then porttool verify",
        )
    return seen
