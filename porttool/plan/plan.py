"""`port.yaml` as a closed, frozen `Plan`; the only place that reads it.

Every field is checked here once, so that no later module has to distrust it: paths stay inside the
repository, names are identifiers, types are type expressions and nothing else, and an unknown key
fails with the nearest known one.
"""

from __future__ import annotations

import difflib
import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from porttool.errors import PlanError
from porttool.plan.text import Lines, explain, parse_yaml, quoted
from porttool.plan.types import (
    Answer,
    Branch,
    DottedName,
    FullId,
    Identifier,
    KeyPath,
    Line,
    PortName,
    Prose,
    RepoPath,
    Scalar,
    TypeText,
    all_different,
    fits,
    refuse,
)

PLAN_NAME = "port.yaml"
PORTS_FOLDER = "patches"
_WRITE_ONE = (
    f"write {PORTS_FOLDER}/NAME/{PLAN_NAME}; a complete one with comments is in what "
    f"`porttool demo DIR` writes: DIR/{PORTS_FOLDER}/torch-compile/{PLAN_NAME}"
)
_MAX_BYTES = 1 << 20


class _Part(BaseModel):
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


class ExperimentPlan(_Part):
    """Where the experiment is: branch, commits (oldest first), and the bundle with them."""

    branch: Branch
    commits: Annotated[tuple[FullId, ...], Field(min_length=1)]
    bundle: RepoPath | None = None


class WrapperPlan(_Part):
    """What the experiment wraps objects in, and what that does to the objects' keys."""

    callee: DottedName = "torch.compile"
    unwrap: Identifier = "_orig_mod"
    prefix: Line = "_orig_mod."
    methods: tuple[Identifier, ...] = (
        "state_dict",
        "load_state_dict",
        "named_parameters",
        "named_buffers",
        "named_modules",
        "named_children",
    )


class FieldPlan(_Part):
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


class SectionPlan(_Part):
    """One section under the switch's root key, and the class that declares it."""

    key: Identifier
    class_name: Identifier = Field(alias="class")
    fields: Annotated[tuple[FieldPlan, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _fields_differ(self) -> SectionPlan:
        all_different("field", [field.name for field in self.fields])
        return self


class SwitchPlan(_Part):
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


class VariantPlan(_Part):
    """A config file derived from another one by setting a few keys."""

    path: RepoPath
    source: RepoPath = Field(alias="from")
    header: Prose = ""
    changes: Annotated[Mapping[KeyPath, Scalar], Field(alias="set", min_length=1)]


class ClausePlan(_Part):
    """One condition on a config value: a lower bound or an exact value."""

    key: KeyPath
    at_least: StrictInt | StrictFloat | None = None
    equals: Scalar = None

    @model_validator(mode="after")
    def _one_condition(self) -> ClausePlan:
        given = {"at_least", "equals"} & self.model_fields_set
        if len(given) != 1:
            raise refuse(
                f"`{self.key}` needs exactly one of at_least and equals",
                next=f"write {{key: {self.key}, at_least: 1024}}, or equals: with a value",
            )
        return self


class ConditionPlan(_Part):
    """Clauses that have to hold together."""

    all_of: Annotated[tuple[ClausePlan, ...], Field(alias="all", min_length=1)]


class PreconditionPlan(_Part):
    """What has to be true of the targeted config before the port makes sense at all."""

    config: RepoPath
    any_of: Annotated[tuple[ConditionPlan, ...], Field(alias="any", min_length=1)]


class RunPlan(_Part):
    """The seeded run that is made on onto and on the branch, with the switch off and on."""

    command: Annotated[tuple[Line, ...], Field(min_length=1)]
    on: tuple[Line, ...] = ()
    metrics: RepoPath
    checkpoint: RepoPath | None = None
    ignore: tuple[Line, ...] = ()
    resume: tuple[Line, ...] = ()

    @model_validator(mode="after")
    def _resume_names_a_checkpoint(self) -> RunPlan:
        if self.resume and self.checkpoint is None:
            raise refuse(
                "resume needs the name of the checkpoint that a run leaves: checkpoint",
                next="add `checkpoint:` with the file's name in {out}, or remove resume",
            )
        if self.resume and not any("{checkpoint}" in word for word in self.resume):
            raise refuse(
                "no word of resume holds {checkpoint}, so nothing would be loaded",
                next='add the words that load one, such as [--resume, "{checkpoint}"]',
            )
        return self

    @field_validator("command")
    @classmethod
    def _command_writes_somewhere(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not any("{out}" in word for word in value):
            raise refuse(
                "no word of the command holds {out}, so two runs would write to one place",
                next='add the words that choose the folder, such as [--out, "{out}"]',
            )
        return value


class CheckPlan(_Part):
    """One command that has to exit with 0 on the branch."""

    name: Line
    command: Annotated[tuple[Line, ...], Field(min_length=1)]


class VerifyPlan(_Part):
    """How the branch is checked."""

    pythonpath: tuple[RepoPath, ...] = ()
    timeout_s: Annotated[StrictInt, Field(ge=1, le=86_400)] = 900
    env: Mapping[Identifier, Line] = {}
    run: RunPlan | None = None
    checks: tuple[CheckPlan, ...] = ()


class PlanDocument(_Part):
    """`port.yaml` as it is written; `Plan` adds what is read beside it."""

    name: PortName
    experiment: ExperimentPlan
    onto: Branch = "main"
    wrapper: WrapperPlan = WrapperPlan()
    switch: SwitchPlan | None = None
    variants: tuple[VariantPlan, ...] = ()
    precondition: PreconditionPlan | None = None
    patches: tuple[RepoPath, ...] = ()
    exclude: tuple[RepoPath, ...] = ()
    answers: Mapping[StrictStr, Answer] = {}
    verify: VerifyPlan = VerifyPlan()

    @model_validator(mode="after")
    def _names_differ(self) -> PlanDocument:
        all_different("patch", list(self.patches))
        all_different("variant", [variant.path for variant in self.variants])
        all_different("check", [check.name for check in self.verify.checks])
        return self


@dataclass(frozen=True)
class PatchFile:
    """A follow-up patch in git's mail format, as it lies beside `port.yaml`."""

    name: str
    data: bytes


class Plan(PlanDocument):
    """A port: the document, the patches beside it, and the digest of both."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    path: Path
    patch_files: tuple[PatchFile, ...] = ()
    digest: str

    @property
    def folder(self) -> Path:
        """Return the folder that `port.yaml` lies in."""
        return self.path.parent

    @property
    def bundle_path(self) -> Path | None:
        """Return where the experiment's bundle should lie, whether it does or not."""
        return None if self.experiment.bundle is None else self.folder / self.experiment.bundle

    @property
    def review_branch(self) -> str:
        """Return the name of the branch that `apply` makes."""
        return f"port/{self.name}"


def load_plan(path: Path) -> Plan:
    """Read a plan and the patches it names.

    Raises PlanError with the dotted key, its line, and the nearest known key.
    """
    try:
        data = _read(path, path.parent)
    except FileNotFoundError:
        raise PlanError(
            "there is no such port", where=str(path), why="no such file", next=_WRITE_ONE
        ) from None
    raw, lines = parse_yaml(path, data)
    try:
        document = PlanDocument.model_validate(raw)
    except ValidationError as error:
        raise explain(path, error, lines) from None
    _check_folder(path, document.name, lines)
    patches = []
    for name in document.patches:
        try:
            patches.append(PatchFile(name, _read(path.parent / name, path.parent)))
        except FileNotFoundError:
            raise PlanError(
                f"the patch {name} does not exist",
                where=f"{path}:{lines.get(('patches',), 1)} (patches)",
                why=f"there is no file {path.parent / name}",
                next="remove it from patches, or write it: git format-patch -1 --stdout COMMIT > "
                f"{shlex.quote(str(path.parent / name))}",
            ) from None
    values = {name: getattr(document, name) for name in PlanDocument.model_fields}
    digest = _digest([PatchFile(PLAN_NAME, data), *patches])
    return Plan.model_construct(**values, path=path, patch_files=tuple(patches), digest=digest)


def find_plan(root: Path, port: str | None = None) -> Path:
    """Return the path of a `port.yaml`: by name, by a path to it or its folder, or the only one.

    Raises PlanError that lists the ports of the repository.
    """
    known = sorted(folder.parent.name for folder in (root / PORTS_FOLDER).glob(f"*/{PLAN_NAME}"))
    if port is None:
        if not known and _is_git_folder(root):
            raise _no_working_tree(root)
        if len(known) == 1:
            return root / PORTS_FOLDER / known[0] / PLAN_NAME
        if not known:
            raise PlanError(
                "this repository has no port",
                where=str(root / PORTS_FOLDER),
                why=f"no folder under {PORTS_FOLDER}/ holds a {PLAN_NAME}",
                next=_WRITE_ONE,
            )
        raise PlanError(
            f"there are {len(known)} ports and none was named",
            where=str(root / PORTS_FOLDER),
            why=f"the ports here are {quoted(known)}",
            next=f"name one of them, for instance: porttool apply {shlex.quote(known[0])}",
        )
    for candidate in (root / PORTS_FOLDER / port / PLAN_NAME, Path(port) / PLAN_NAME, Path(port)):
        if candidate.is_file():
            return candidate
    if not known and _is_git_folder(root):
        raise _no_working_tree(root)
    nearest = difflib.get_close_matches(port, known, n=1)
    raise PlanError(
        f"there is no port `{port}`" + (f"; did you mean `{nearest[0]}`?" if nearest else ""),
        where=str(root / PORTS_FOLDER),
        why=f"the ports here are {quoted(known)}" if known else "this repository has no port",
        next=f"porttool apply {shlex.quote((nearest or known)[0])}, or a path to a {PLAN_NAME}"
        if known
        else _WRITE_ONE,
    )


def _is_git_folder(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _no_working_tree(root: Path) -> PlanError:
    return PlanError(
        f"{PORTS_FOLDER}/ was not found: this is no working tree",
        where=str(root),
        why=f"ports are read from {PORTS_FOLDER}/ in a working tree; a bare repository and the "
        "inside of .git have none",
        next=f"name the plan by its path: porttool apply PATH/TO/{PLAN_NAME} "
        f"--repo {shlex.quote(str(root))}",
    )


def _check_folder(path: Path, name: str, lines: Lines) -> None:
    """Hold a port's name against its folder's, by which commands find it."""
    folder = path.parent.resolve()
    if folder.parent.name == PORTS_FOLDER and folder.name != name:
        raise PlanError(
            f"the port `{name}` lies in the folder `{folder.name}`",
            where=f"{path}:{lines.get(('name',), 1)} (name)",
            why="commands find a port by its folder, and its branch is named by its name",
            next=f"write name: {folder.name}, or rename the folder: "
            f"mv {shlex.quote(str(folder))} {shlex.quote(str(folder.parent / name))}",
        )


def plan_schema() -> dict[str, Any]:
    """Return the JSON schema of `port.yaml`, for editors."""
    return PlanDocument.model_json_schema(by_alias=True)


def _read(path: Path, folder: Path) -> bytes:
    inside = folder.resolve()
    if not path.resolve().is_relative_to(inside):
        raise PlanError(
            f"{path.name} leads out of the port's folder",
            where=str(path),
            why="a plan is read from one folder, and links out of it are not followed",
            next="copy the file into that folder",
        )
    try:
        size = path.stat().st_size
        if path.is_file() and size <= _MAX_BYTES:
            return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise PlanError(
            f"{path.name} cannot be read: {error.strerror}",
            where=str(path),
            next=f"ls -ld {shlex.quote(str(path.parent))} {shlex.quote(str(path))}",
        ) from error
    raise PlanError(
        f"{path.name} is not a file of at most {_MAX_BYTES} bytes",
        where=str(path),
        why=f"it has {size} bytes" if path.is_file() else "it is not a regular file",
        next="split it, or name another file" if path.is_file() else "put a plain file there",
    )


def _digest(files: list[PatchFile]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{len(file.data)}\0".encode())
        digest.update(file.data)
    return digest.hexdigest()
