"""The switch of a port: a section of the project's config, or one setting in its own idiom."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from porttool.plan.part import Part
from porttool.plan.text import quoted
from porttool.plan.types import (
    DottedName,
    Identifier,
    KeyPath,
    Line,
    RepoPath,
    Scalar,
    TypeText,
    all_different,
    fits,
    refuse,
)

FlatIdiom = Literal[
    "absl", "argparse", "click", "dataclass", "dict", "env", "fire", "hydra", "pydantic", "typer"
]
_UNDECLARED = ("env", "hydra")  # nothing in Python declares the switch
_ROOTED = {
    "click": "the command's function",
    "dataclass": "the class",
    "dict": "the dict",
    "fire": "the function",
    "pydantic": "the class",
    "typer": "the command's function",
}


class FieldPlan(Part):
    """One option of a config section: the annotation as it will be written, and its default."""

    name: Identifier
    type: TypeText
    default: Scalar
    comment: Line | None = None

    @model_validator(mode="after")
    def _defaultfits(self) -> FieldPlan:
        if not fits(self.default, self.type):
            raise refuse(
                f"the default {self.default!r} is not a value of the type {self.type}",
                next="give a default of that type, or the type of that default",
            )
        return self


class SectionPlan(Part):
    """One section under the switch's root key, and the class that declares it."""

    key: Identifier
    class_name: Identifier = Field(alias="class")
    fields: Annotated[tuple[FieldPlan, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _fields_differ(self) -> SectionPlan:
        all_different("field", [field.name for field in self.fields])
        return self


class SwitchPlan(Part):
    """The config that puts the experiment behind a switch which is off."""

    module: RepoPath
    root: Identifier
    key: Identifier
    class_name: Identifier = Field(alias="class")
    gate: KeyPath
    options: tuple[Identifier, ...] = ()
    sections: Annotated[tuple[SectionPlan, ...], Field(min_length=1)]
    yaml: tuple[RepoPath, ...] = ()

    @property
    def section(self) -> SectionPlan:
        """Return the section that the gate is in."""
        return next(section for section in self.sections if section.key == self.gate.split(".")[1])

    @property
    def enabled(self) -> FieldPlan:
        """Return the boolean field that the gate names."""
        return next(field for field in self.section.fields if field.name == self.gate.split(".")[2])

    @model_validator(mode="after")
    def _gate_is_a_switch_that_is_off(self) -> SwitchPlan:
        all_different("section", [section.key for section in self.sections])
        all_different(
            "class", [self.class_name, *(section.class_name for section in self.sections)]
        )
        parts = self.gate.split(".")
        possible = [
            f"{self.key}.{section.key}.{field.name}"
            for section in self.sections
            for field in section.fields
            if field.type == "bool" and field.default is False
        ]
        nearest = difflib.get_close_matches(self.gate, possible, n=1, cutoff=0.0)
        advice = (
            f"write gate: {nearest[0]}"
            if nearest
            else "add a field to a section: {name: enabled, type: bool, default: false}"
        )
        if len(parts) != 3 or parts[0] != self.key:
            raise refuse(f"gate `{self.gate}` has to be {self.key}.SECTION.FIELD", next=advice)
        section = next((section for section in self.sections if section.key == parts[1]), None)
        if section is None:
            raise refuse(
                f"gate `{self.gate}` names no section; "
                f"there are {quoted(section.key for section in self.sections)}",
                next=advice,
            )
        names = {field.name: field for field in section.fields}
        if parts[2] not in names:
            raise refuse(
                f"gate `{self.gate}` names no field of {section.key}; there are {quoted(names)}",
                next=advice,
            )
        switch = names[parts[2]]
        if switch.type != "bool" or switch.default is not False:
            raise refuse(
                f"gate `{self.gate}` is {switch.type} = {switch.default!r}; "
                "a switch is bool and off (default: false)",
                next=advice,
            )
        for option in self.options:
            if option not in names or option == parts[2]:
                raise refuse(
                    f"option `{option}` is not an option in section {section.key}; "
                    f"there are {quoted(names)}",
                    next=f"remove it from options, or add a field of that name to {section.key}",
                )
        if {"mode", "options"} <= set(self.options):
            raise refuse(
                "`mode` and `options` exclude each other in torch.compile; keep one of them",
                next="remove `mode` or `options` from options",
            )
        return self


class FlatSwitch(Part):
    """One setting that is off, declared and read in the idiom of the project's other settings.

    `root` is what declares it: a class, a command's function, a dict, a parser with the function
    that makes it ("parse.parser"); argparse may leave it out where the module has one parser. A
    dict that is loaded from a settings file has neither module nor root.
    """

    idiom: FlatIdiom
    name: Identifier
    module: RepoPath | None = None
    root: DottedName | None = None
    env: Identifier | None = None
    yaml: tuple[RepoPath, ...] = ()

    @property
    def variable(self) -> str:
        """Return the environment variable that turns an `env` switch on when it is "1"."""
        return self.env or self.name.upper()

    @property
    def is_parameter(self) -> bool:
        """Tell whether the switch is a parameter of the function that reads it."""
        return self.idiom in ("click", "fire", "typer")

    @property
    def gate(self) -> str:
        """Return what the switch is called."""
        return self.variable if self.idiom == "env" else self.name

    @property
    def key(self) -> str:
        """Return the key of the switch in settings files."""
        return self.name

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of the wrapper that come from the config: a flat switch has none."""
        return ()

    @model_validator(mode="after")
    def _what_the_idiom_needs(self) -> FlatSwitch:
        if self.idiom in _UNDECLARED:
            for key in ("module", "root"):
                if getattr(self, key) is not None:
                    raise refuse(
                        f"{key} has no meaning for {self.idiom}: no Python declares the switch",
                        next=f"remove {key}, or name another idiom",
                    )
        elif self.module is None and (self.idiom != "dict" or self.root is not None):
            raise refuse(
                f"{self.idiom} needs the file in which the switch is declared: module",
                next="add `module: PATH`",
            )
        if self.idiom in _ROOTED and self.root is None and self.module is not None:
            raise refuse(
                f"{self.idiom} needs {_ROOTED[self.idiom]} that declares the switch: root",
                next="add `root: NAME`",
            )
        if self.idiom == "dict" and self.module is None and not self.yaml:
            raise refuse(
                "dict needs the file that writes it, or the settings files that it is loaded from",
                next="add `module: PATH` and `root: NAME`, or `yaml: [PATH]`",
            )
        if self.env is not None and self.idiom != "env":
            raise refuse(
                f"env has no meaning for {self.idiom}", next="remove env, or write idiom: env"
            )
        if self.yaml and self.idiom in ("argparse", "click", "env", "fire", "typer", "absl"):
            raise refuse(
                f"{self.idiom} reads no settings file, so yaml would turn nothing on",
                next="remove yaml",
            )
        return self


def _form(value: Any) -> str:
    keys = value if isinstance(value, dict) else {}
    flat = isinstance(value, FlatSwitch) or "idiom" in keys
    return FLAT_TAG if flat else NESTED_TAG


# pydantic puts these names into the places of its errors, where they are no keys of the file.
FLAT_TAG, NESTED_TAG = "(flat switch)", "(nested switch)"
Switch = SwitchPlan | FlatSwitch
SwitchDocument = Annotated[
    Annotated[SwitchPlan, Tag(NESTED_TAG)] | Annotated[FlatSwitch, Tag(FLAT_TAG)],
    Discriminator(_form),
]
