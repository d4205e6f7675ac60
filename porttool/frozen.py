"""`dataclass(frozen=True)` whose classes are ten times as cheap to define.

The standard decorator compiles six methods for every class at import: for the values of one port
that was a tenth of all processor time. Here a class shares its methods with all others, and its
constructor is compiled when the first value is made. Everything else is the standard library's:
fields, their order and defaults, `replace`, `fields`, `FrozenInstanceError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    # A checker sees the decorator that it knows.
    from dataclasses import dataclass
else:
    import dataclasses
    from dataclasses import MISSING, FrozenInstanceError, fields
    from operator import attrgetter
    from types import MemberDescriptorType

    def dataclass(cls=None, /, *, frozen=False, eq=True, order=False, slots=False):
        """Return what `dataclasses.dataclass` would; what is not frozen it makes itself."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, order=order, slots=slots)
        if not frozen or order:
            return dataclasses.dataclass(frozen=frozen, eq=eq, order=order, slots=slots)(cls)
        own = vars(cls)
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # else the standard library works a signature out
        bare = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots)
        bare.__init__ = _constructor_on_demand(bare)
        bare.__setattr__, bare.__delattr__ = _refuse_to_set, _refuse_to_delete
        if "__repr__" not in own:
            bare.__repr__ = _shown
        if eq:
            equal, hashed = _comparison(bare)
            if "__eq__" not in own:
                bare.__eq__ = equal
            if own.get("__hash__") is None:
                bare.__hash__ = hashed
        return bare

    def _constructor_on_demand(cls):
        def construct(self, *args, **kwargs):
            cls.__init__ = _constructor(cls)
            cls.__init__(self, *args, **kwargs)

        return construct

    def _constructor(cls):
        """Return the `__init__` that the standard decorator would have compiled."""
        known = {"_MISSING": MISSING, "_set": object.__setattr__}
        parameters, lines = [], []
        for field in fields(cls):
            name, value = field.name, field.name
            if field.default is not MISSING:
                known[f"_default_{name}"] = field.default
                parameters.append(f"{name}=_default_{name}")
            elif field.default_factory is not MISSING:
                known[f"_factory_{name}"] = field.default_factory
                parameters.append(f"{name}=_MISSING")
                value = f"_factory_{name}() if {name} is _MISSING else {name}"
            else:
                parameters.append(name)
            slot = getattr(cls, name, None)
            if isinstance(slot, MemberDescriptorType):
                known[f"_set_{name}"] = slot.__set__
                lines.append(f"    _set_{name}(self, {value})\n")
            else:
                lines.append(f"    _set(self, {name!r}, {value})\n")
        if hasattr(cls, "__post_init__"):
            lines.append("    self.__post_init__()\n")
        text = f"def __init__({', '.join(('self', *parameters))}):\n{''.join(lines) or '    pass'}"
        exec(text, known)
        made = known["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        return made

    def _comparison(cls):
        """Return `__eq__` and `__hash__` over the fields that are compared."""
        names = [field.name for field in fields(cls) if field.compare]
        if len(names) > 1:
            compared = attrgetter(*names)
        else:
            # Of one name `attrgetter` gives the bare value, of none it cannot be made.
            def compared(value):
                return tuple([getattr(value, name) for name in names])

        def equal(self, other):
            if other.__class__ is self.__class__:
                return compared(self) == compared(other)
            return NotImplemented

        def hashed(self):
            return hash(compared(self))

        return equal, hashed

    def _shown(self):
        parts = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr]
        return f"{self.__class__.__qualname__}({', '.join(parts)})"

    def _refuse_to_set(self, name, value):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
