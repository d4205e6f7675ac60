"""Prove that a settings file says what it said, but for the section of a switch that is off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from porttool.errors import NeedsPerson
from porttool.gating.settings import declared_values, plain_values, same_values
from porttool.plan.switch import FlatSwitch, Switch, SwitchPlan
from porttool.plan.types import fits


def settings_verdict(
    path: str, before: bytes, after: bytes, switch: Switch | None
) -> tuple[Literal["data only", "not proven"], str]:
    """Return what is proven of a changed settings file, and by what or what stands against it."""
    try:
        old, new = plain_values(before), plain_values(after)
    except NeedsPerson as error:
        return "not proven", f"it cannot be compared: {error.why}"
    if same_values(old, new):
        return "data only", "the same values"
    key = switch.key if switch else None
    section = new.get(key) if isinstance(new, dict) else None
    flat = isinstance(switch, FlatSwitch)
    if flat and isinstance(new, dict) and isinstance(old, dict) and key is not None:
        rest = {name: value for name, value in new.items() if name != key}
        if section is False and key not in old and same_values(old, rest):
            return "data only", f"`{key}: false` is added"
    if not isinstance(switch, SwitchPlan):
        return "not proven", _first_value(path, old, new, ())
    if not isinstance(section, dict) or not isinstance(old, dict):
        return "not proven", _first_value(path, old, new, ())
    rest = {name: value for name, value in new.items() if name != key}
    if key in old or not same_values(old, rest):
        return "not proven", _first_value(path, old, rest, ())
    why = _section_objection(section, switch)
    if why is not None:
        return "not proven", f"{path}: {why}"
    return "data only", f"`{key}` is added, with every switch off"


def _section_objection(section: Mapping[str, Any], switch: SwitchPlan) -> str | None:
    """Return why a settings file's section turns something on, or would not be read."""
    declared = declared_values(switch)
    types = {s.key: {f.name: f.type for f in s.fields} for s in switch.sections}
    for key, options in section.items():
        if key not in declared or not isinstance(options, dict):
            return f"`{switch.key}.{key}` is not a section that the plan declares"
        for name, value in options.items():
            if name not in declared[key]:
                return f"`{switch.key}.{key}.{name}` is not an option that the plan declares"
            if not fits(value, types[key][name]):
                return f"`{switch.key}.{key}.{name}` is {value!r}, expected {types[key][name]}"
            gate = name == switch.enabled.name
            if gate and value is not declared[key][name]:
                return f"`{switch.key}.{key}.{name}` is {value!r}, expected it to be off"
    return None


def _first_value(path: str, old: Any, new: Any, at: tuple[str, ...]) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in old or key not in new:
                side = "the branch" if key in new else "onto"
                return f"{path}: `{'.'.join((*at, str(key)))}` is only in {side}"
            if not same_values(old[key], new[key]):
                return _first_value(path, old[key], new[key], (*at, str(key)))
        return f"{path}: the keys of `{'.'.join(at)}` have another order"
    return f"{path}: `{'.'.join(at)}` is {old!r} on onto and {new!r} on the branch"
