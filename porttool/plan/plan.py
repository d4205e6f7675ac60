"""`port.yaml` as a closed, frozen `Plan`; the only place that reads it.

Every field is checked here once, so that no later module has to distrust it: paths stay inside the
repository, names are identifiers, types are type expressions and nothing else, and an unknown key
fails with the nearest known one.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)

from porttool.errors import PlanError
from porttool.frozen import dataclass
from porttool.plan import names
from porttool.plan.part import Part, read_part
from porttool.plan.switch import SwitchDocument
from porttool.plan.text import Lines, explain, parse_yaml, quoted
from porttool.plan.types import (
    Answer,
    Branch,
    FullId,
    Identifier,
    KeyPath,
    Line,
    PortName,
    Prose,
    RepoPath,
    Scalar,
    all_different,
    refuse,
)
from porttool.plan.wrapping import WrapperPlan

PLAN_NAME = names.PLAN_NAME
PORTS_FOLDER = names.PORTS_FOLDER
RESOLUTIONS_FOLDER = "resolutions"
RESOLUTION_SUFFIX = ".resolution"
_WRITE_ONE = (
    f"porttool init COMMIT, or write {PORTS_FOLDER}/NAME/{PLAN_NAME}; a complete one with comments "
    f"is in what `porttool demo DIR` writes: DIR/{PORTS_FOLDER}/torch-compile/{PLAN_NAME}"
)
MAX_BYTES = 1 << 20


class ExperimentPlan(Part):
    """Where the experiment is: branch, commits (oldest first), and the bundle with them.

    `mainline` is the number of the parent that a merge commit is compared with, from 1.
    """

    branch: Branch
    commits: Annotated[tuple[FullId, ...], Field(min_length=1)]
    mainline: Annotated[StrictInt, Field(ge=1)] | None = None
    bundle: RepoPath | None = None


class VariantPlan(Part):
    """A config file derived from another one by setting a few keys."""

    path: RepoPath
    source: RepoPath = Field(alias="from")
    header: Prose = ""
    changes: Annotated[Mapping[KeyPath, Scalar], Field(alias="set", min_length=1)]


class ClausePlan(Part):
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


class ConditionPlan(Part):
    """Clauses that have to hold together."""

    all_of: Annotated[tuple[ClausePlan, ...], Field(alias="all", min_length=1)]


def _with_out(command: tuple[str, ...]) -> tuple[str, ...]:
    if not any("{out}" in word for word in command):
        raise refuse(
            "no word of the command holds {out}, so two runs would write to one place",
            next='add the words that choose the folder, such as [--out, "{out}"]',
        )
    return command


class RunPlan(Part):
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
        return _with_out(value)


class CheckPlan(Part):
    """One command that has to exit with 0 on the branch."""

    name: Line
    command: Annotated[tuple[Line, ...], Field(min_length=1)]


class MeasurePlan(Part):
    """A command that measures on the branch, and the JSON file that it leaves in `{out}`."""

    command: Annotated[tuple[Line, ...], Field(min_length=1)]
    result: RepoPath
    timeout_s: Annotated[StrictInt, Field(ge=1, le=7 * 86_400)] = 86_400

    @field_validator("command")
    @classmethod
    def _command_writes_somewhere(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _with_out(value)


class ThresholdPlan(MeasurePlan):
    """What is measured on the device that trains, and what has to hold of the result.

    `{config}` in the command is the precondition's config, as the branch has it or would have it.
    """

    all_of: Annotated[tuple[ClausePlan, ...], Field(alias="all", min_length=1)]
    timeout_s: Annotated[StrictInt, Field(ge=1, le=86_400)] = 900


class PreconditionPlan(Part):
    """What has to be true of the targeted config before the port makes sense at all.

    Any of the conditions will do; `measure` is one more.
    """

    config: RepoPath
    any_of: Annotated[tuple[ConditionPlan, ...], Field(alias="any", min_length=1)]
    measure: ThresholdPlan | None = None


class BenchPlan(MeasurePlan):
    """The bench, and the share of the time that the switch has to save to be worth its cost."""

    at_least: Annotated[StrictFloat, Field(gt=0, lt=1)] = 0.05


class VerifyPlan(Part):
    """How the branch is checked; `entries` is the document that `porttool record` writes into."""

    pythonpath: tuple[RepoPath, ...] = ()
    timeout_s: Annotated[StrictInt, Field(ge=1, le=86_400)] = 900
    env: Mapping[Identifier, Line] = {}
    run: RunPlan | None = None
    checks: tuple[CheckPlan, ...] = ()
    bench: BenchPlan | None = None
    drift: MeasurePlan | None = None
    entries: RepoPath = "docs/performance.md"


class PlanDocument(Part):
    """`port.yaml` as it is written; `Plan` adds what is read beside it."""

    name: PortName
    experiment: ExperimentPlan
    onto: Branch = "main"
    wrapper: WrapperPlan = Field(default_factory=dict, validate_default=True)
    switch: SwitchDocument | None = None
    variants: tuple[VariantPlan, ...] = ()
    precondition: PreconditionPlan | None = None
    patches: tuple[RepoPath, ...] = ()
    exclude: tuple[RepoPath, ...] = ()
    answers: Mapping[StrictStr, Answer] = {}
    verify: VerifyPlan = Field(default_factory=dict, validate_default=True)

    @model_validator(mode="after")
    def _names_differ(self) -> PlanDocument:
        all_different("patch", list(self.patches))
        all_different("variant", [variant.path for variant in self.variants])
        all_different("check", [check.name for check in self.verify.checks])
        return self


@dataclass(frozen=True)
class PatchFile:
    """A file that belongs to a port, as it lies beside `port.yaml`: a patch, or a resolution."""

    name: str
    data: bytes


class Plan(PlanDocument):
    """A port: the document, the patches and resolutions beside it, and the digest of them all.

    `answers_line` is where `answers` stands in port.yaml, 0 where it does not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    path: Path
    patch_files: tuple[PatchFile, ...] = ()
    resolution_files: tuple[PatchFile, ...] = ()
    answers_line: int = 0
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
    """Read a plan, the patches it names, and what a person has resolved for it.

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
        document = read_part(PlanDocument, raw)
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
    resolutions = _resolutions(path.parent)
    return Plan.model_construct(
        **values,
        path=path,
        patch_files=tuple(patches),
        resolution_files=resolutions,
        answers_line=lines.get(("answers",), 0),
        digest=_digest([PatchFile(PLAN_NAME, data), *patches, *resolutions]),
    )


def check_inside(root: Path, path: Path) -> None:
    """Refuse a plan that lies in a repository by its name, and elsewhere by a link on the way.

    Raises PlanError; a path that names no place below `root` is the user's own, and is taken.
    """
    # Not Path.resolve, which raises for links that lead round in a circle.
    real = os.path.realpath(root)
    folder = Path(os.path.abspath(path.parent))
    above = (folder, *folder.parents)
    named_there = any(os.path.realpath(one) == real for one in above)
    if not named_there or Path(os.path.realpath(folder)).is_relative_to(real):
        return
    link = next(one for one in above if one.is_symlink())
    raise PlanError(
        f"{link.name} leads out of the repository",
        where=str(link),
        why=f"it is a link to {os.readlink(link)}, and a port is read and written in its "
        "repository alone",
        next=f"replace the link by a folder of its own, or name the plan where it is: "
        f"{shlex.quote(os.path.realpath(path))}",
    )


def find_plan(root: Path, port: str | None = None) -> Path:
    """Return the path of a `port.yaml`: by name, by a path to it or its folder, or the only one.

    Raises PlanError that lists the ports of the repository, or for a link that leads out of it.
    """
    if port is None or not any(map(os.path.isfile, (port, os.path.join(port, PLAN_NAME)))):
        check_inside(root, root / PORTS_FOLDER / PLAN_NAME)
    found = _find_plan(root, port)
    check_inside(root, found)
    return found


def _find_plan(root: Path, port: str | None) -> Path:
    known = sorted(folder.parent.name for folder in (root / PORTS_FOLDER).glob(f"*/{PLAN_NAME}"))
    if port is None:
        if not known and _is_git_folder(root):
            raise no_working_tree(root)
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
            next=f"the same command with one of them, for instance {shlex.quote(known[0])}",
        )
    for candidate in (root / PORTS_FOLDER / port / PLAN_NAME, Path(port) / PLAN_NAME, Path(port)):
        # Not Path.is_file, which raises for a name that no file can have.
        if os.path.isfile(candidate):
            return candidate
    if not known and _is_git_folder(root):
        raise no_working_tree(root)
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


def no_working_tree(root: Path) -> PlanError:
    """Return the refusal to look for ports where no working tree is."""
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
    # Links that lead around in a circle are an error of `Path.resolve` in some versions of Python.
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise PlanError(
            f"{path.name} leads out of the port's folder",
            where=str(path),
            why="a plan is read from one folder, and links out of it are not followed",
            next="copy the file into that folder",
        )
    try:
        size = path.stat().st_size
        if path.is_file() and size <= MAX_BYTES:
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
        f"{path.name} is not a file of at most {MAX_BYTES} bytes",
        where=str(path),
        why=f"it has {size} bytes" if path.is_file() else "it is not a regular file",
        next="split it, or name another file" if path.is_file() else "put a plain file there",
    )


def _resolutions(folder: Path) -> tuple[PatchFile, ...]:
    """Read the stored resolutions of a port, by name; links out of the folder are refused."""
    paths = sorted((folder / RESOLUTIONS_FOLDER).glob(f"*{RESOLUTION_SUFFIX}"))
    return tuple(
        PatchFile(f"{RESOLUTIONS_FOLDER}/{path.name}", _read(path, folder)) for path in paths
    )


def _digest(files: list[PatchFile]) -> str:
    digest = hashlib.sha256()
    for file in files:
        head = f"{file.name}\0{len(file.data)}\0"
        digest.update(head.encode("utf-8", "surrogateescape"))
        digest.update(file.data)
    return digest.hexdigest()
