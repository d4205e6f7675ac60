"""Which switch a port could have: from the settings that are in scope where things get wrapped."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from porttool.calls.neighbours import Neighbours, Project
from porttool.deciding.sites import PlacedSeed
from porttool.errors import PortError
from porttool.frozen import dataclass
from porttool.gating.config_scope import config_expression
from porttool.gating.idioms.lookup import functions_around
from porttool.gating.idioms.reading import read_switch
from porttool.gating.idioms.values import SwitchRead, Unclear
from porttool.gating.switch import read_idiom
from porttool.git.commits import TreeId
from porttool.git.objects import Objects
from porttool.plan.part import read_part
from porttool.plan.switch import FlatSwitch, SwitchPlan
from porttool.source.nodes import nodes_of
from porttool.source.scopes import Function
from porttool.source.syntax import Names, Source, span_of, statement_span
from porttool.wrappers import Wrapper

_NAMES = {
    "torch.compile": ("compile_model", "torch_compile"),
    "torch.jit.script": ("script_model", "torch_script"),
    "torch.nn.DataParallel": ("data_parallel", "use_data_parallel"),
    "torch.nn.parallel.DistributedDataParallel": ("distributed", "data_parallel"),
    "torch.autocast": ("autocast", "use_autocast"),
}


_NO_SETTINGS = "an environment variable: no settings that could hold a switch were told apart"


@dataclass(frozen=True)
class Proposal:
    """A switch, where it comes from, and what a person should know before keeping it."""

    switch: SwitchPlan | FlatSwitch
    why: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Place:
    """Where the experiment wraps something: a statement of a file."""

    source: Source
    node: ast.stmt

    @property
    def line(self) -> str:
        return f"{self.source.path}:{self.node.lineno}"


class _Files(Mapping[str, bytes]):
    """The Python files of a tree, by path, read when one is asked for."""

    def __init__(self, objects: Objects, tree: TreeId) -> None:
        self._objects = objects
        self._tree = tree
        self._paths = [path for path in objects.paths(tree) if path.endswith(".py")]

    def __getitem__(self, path: str) -> bytes:
        data = self._objects.read(self._tree, path)
        if data is None:
            raise KeyError(path)
        return data

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def propose_switch(
    objects: Objects,
    tree: TreeId,
    placed: Sequence[PlacedSeed],
    sources: Mapping[str, Source],
    wrapper: Wrapper,
) -> Proposal:
    """Return the switch that most places can read; the environment where no settings are seen.

    `placed` are the seeds on `tree`, whose files are among `sources`.
    """
    project = Project(_Files(objects, tree))
    places = _first_of_each_function(_places(placed, sources))
    around = {place.source.path: Neighbours(place.source, project) for place in places}
    for name in _names(wrapper):
        reads = [
            read_switch(around[place.source.path], place.source.path, place.node, name)
            for place in places
        ]
        if not any(_is_taken(read) for read in reads):
            break
    doubts = [
        f"{place.line}: {'; '.join(read.reasons)}"
        for place, read in zip(places, reads, strict=True)
        if isinstance(read, Unclear)
    ]
    reads = [
        _likeliest(around[place.source.path], place, name, read)
        for place, read in zip(places, reads, strict=True)
    ]
    found = [read for read in reads if isinstance(read, SwitchRead)]
    usable = [read for read in found if _flat_form(read, name) is not None]
    if not usable:
        return _environment(name, places, reads, doubts)
    kinds = Counter((read.idiom, read.declared_in) for read in usable)
    (idiom, holder), _ = kinds.most_common(1)[0]
    chosen = next(one for one in usable if (one.idiom, one.declared_in) == (idiom, holder))
    doubts += [
        f"{place.line}: no settings are in scope"
        if read is None
        else f"{place.line}: `{read.expression}` is not of these settings"
        for place, read in zip(places, reads, strict=True)
        if not isinstance(read, Unclear) and (read is None or read.declared_in != holder)
    ]
    seen = next(
        place.line
        for place, read in zip(places, reads, strict=True)
        if isinstance(read, SwitchRead) and read.declared_in == holder
    )
    if holder is not None and idiom in ("dataclass", "pydantic"):
        module = next(f[holder.path] for f in around.values() if holder.path in f)
        nested = _nested(module, holder.name, places, wrapper)
        if nested is not None:
            why = f"{holder.name} in {holder.path} holds the settings, in sections; read at {seen}"
            return Proposal(nested, why, tuple(doubts))
    flat = _flat_form(chosen, name)
    assert flat is not None
    where = f"{holder.name or idiom} in {holder.path}" if holder else f"the {idiom} settings"
    also = ("this setting is there already, and off",) if chosen.declared else ()
    why = f"{where}, read as `{chosen.expression}` at {seen}"
    return Proposal(flat, why, (*also, *doubts))


def _likeliest(
    around: Neighbours, place: _Place, name: str, read: SwitchRead | Unclear | None
) -> SwitchRead | Unclear | None:
    """Return what several settings in scope are narrowed down to, by which declare what they hold.

    A parser or a class says what there is; a dict that was loaded from a file does not.
    """
    if not isinstance(read, Unclear):
        return read
    path, node = place.source.path, place.node
    named = [read_switch(around, path, node, name, text) for text in read.choices]
    declaring = [one for one in named if isinstance(one, SwitchRead) and one.declared_in]
    holders = Counter(one.declared_in for one in declaring)
    return declaring[0] if len(holders) == len(declaring) == 1 else read


def _first_of_each_function(places: Iterable[_Place]) -> list[_Place]:
    """Return one place for each function: the settings in it are the same for all of them."""
    found: dict[object, _Place] = {}
    for place in sorted(places, key=lambda one: (one.source.path, one.node.lineno)):
        found.setdefault((place.source.path, _function_of(place)), place)
    return list(found.values())


def _places(placed: Iterable[PlacedSeed], sources: Mapping[str, Source]) -> Iterator[_Place]:
    for seed in placed:
        source = sources[seed.path]
        for node in nodes_of(source.tree):
            if isinstance(node, ast.stmt) and seed.binding in (
                span_of(source, node),
                statement_span(source, node),
            ):
                yield _Place(source, node)
                break


def _names(wrapper: Wrapper) -> tuple[str, ...]:
    """Return names for the switch, the usual one first."""
    last = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", wrapper.callee.rpartition(".")[2]).lower()
    return _NAMES.get(wrapper.callee, (f"use_{last}", f"{last}_enabled"))


def _is_taken(read: SwitchRead | Unclear | None) -> bool:
    reasons = read.reasons if isinstance(read, Unclear) else ()
    return any("cannot take the switch" in reason for reason in reasons)


def _flat_form(read: SwitchRead, name: str) -> FlatSwitch | None:
    """Return a flat switch for a way of reading; None where a plan has no word for it."""
    holder = read.declared_in
    if holder is None and read.idiom == "dict" and ".get(" in read.expression:
        # Complete with the settings files that it is loaded from, which are looked for later.
        return FlatSwitch.model_construct(
            idiom="dict", name=name, module=None, root=None, env=None, yaml=()
        )
    values: dict[str, object] = {"idiom": read.idiom, "name": name}
    if holder is not None:
        values["module"] = holder.path
        if read.idiom != "absl":
            values["root"] = holder.name
    try:
        return read_part(FlatSwitch, values)
    except ValueError:  # constants of a module
        return None


def is_loaded(switch: SwitchPlan | FlatSwitch) -> bool:
    """Tell whether a switch lives in nothing but the settings files that a dict is loaded from."""
    return isinstance(switch, FlatSwitch) and switch.idiom == "dict" and switch.module is None


def instead_of_loaded(proposal: Proposal) -> Proposal:
    """Return the proposal for a dict of which no settings file was found."""
    switch = read_part(FlatSwitch, {"idiom": "env", "name": proposal.switch.key})
    doubt = f"{proposal.why}; no settings file was found that it is loaded from"
    return Proposal(switch, _NO_SETTINGS, (doubt, *proposal.doubts))


def _environment(
    name: str,
    places: Sequence[_Place],
    reads: Sequence[SwitchRead | Unclear | None],
    doubts: Sequence[str],
) -> Proposal:
    switch = read_part(FlatSwitch, {"idiom": "env", "name": name})
    others = [
        f"{place.line}: `{read.expression}` could hold it, which needs more than can be guessed"
        for place, read in zip(places, reads, strict=True)
        if isinstance(read, SwitchRead)
    ]
    return Proposal(switch, _NO_SETTINGS, (*doubts, *others))


def _nested(
    module: Source, root: str, places: Sequence[_Place], wrapper: Wrapper
) -> SwitchPlan | None:
    """Return a section of its own for the switch, where the root's other settings are sections."""
    classes = {node.name: node for node in module.tree.body if isinstance(node, ast.ClassDef)}
    if root not in classes:
        return None
    fields = [one for one in classes[root].body if isinstance(one, ast.AnnAssign)]
    inside = [
        one
        for one in fields
        if isinstance(one.annotation, ast.Name) and one.annotation.id in classes
    ]
    if len(inside) * 2 <= len(fields):
        return None
    try:
        read_idiom(module, classes[root], Names(module.tree))
    except PortError:
        return None  # nobody could write the section in the other sections' manner
    key = wrapper.callee.rpartition(".")[2].lower()
    taken = {ast.unparse(one.target) for one in fields} | set(classes)
    stem = "".join(part.capitalize() for part in key.split("_"))
    part = _section_name(places)
    section = "".join(word.capitalize() for word in part.split("_"))
    suffix = _class_suffix(classes, inside)
    names_of_classes = {f"{stem}{suffix}", f"{stem}{section}{suffix}"}
    if key in taken or names_of_classes & taken:
        return None
    values = {
        "module": module.path,
        "root": root,
        "key": key,
        "class": f"{stem}{suffix}",
        "gate": f"{key}.{part}.enabled",
        "sections": [
            {
                "key": part,
                "class": f"{stem}{section}{suffix}",
                "fields": [{"name": "enabled", "type": "bool", "default": False}],
            }
        ],
    }
    switch = read_part(SwitchPlan, values)
    for place in places:
        around = _function_of(place)
        if around is None or not isinstance(config_expression(place.source, around, switch), str):
            return None
    return switch


def _function_of(place: _Place) -> Function | None:
    """Return the function that a place is in."""
    return next(iter(functions_around(place.source, place.node)), None)


def _class_suffix(classes: Mapping[str, ast.ClassDef], inside: Sequence[ast.AnnAssign]) -> str:
    """Return how the names of the sections' classes end: Config, Settings, or with nothing."""
    names = [ast.unparse(one.annotation) for one in inside]
    for suffix in ("Config", "Settings", "Options", "Cfg", "Conf"):
        if sum(name.endswith(suffix) for name in names) * 2 > len(names):
            return suffix
    return ""


def _section_name(places: Sequence[_Place]) -> str:
    """Return the word for what is wrapped: the module that most of it is in."""
    stems = Counter(PurePosixPath(place.source.path).stem for place in places)
    name = re.sub(r"\W+", "_", stems.most_common(1)[0][0]).strip("_").lower()
    return name if name.isidentifier() else "model"
