"""Which settings files could show a new switch: those that the code names, or a default of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from porttool.errors import PortError
from porttool.frozen import dataclass
from porttool.gating.reach import audit_reach
from porttool.gating.settings import declare_key, declare_yaml
from porttool.git.commits import TreeId
from porttool.git.quarantine import Quarantine
from porttool.plan.plan import Plan
from porttool.plan.switch import FlatSwitch, SwitchPlan
from porttool.source.syntax import parse_source
from porttool.trees import settings_reach

_READ = ("dataclass", "dict", "hydra", "pydantic")
_USUAL = ("default", "base", "config", "defaults", "settings")
MAX_SHOWN = 3


@dataclass(frozen=True)
class FoundSettings:
    """Settings files that can show the switch: those to begin with, and all others."""

    chosen: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def find_settings(
    quarantine: Quarantine, tree: TreeId, plan: Plan, switch: SwitchPlan | FlatSwitch
) -> FoundSettings:
    """Return the YAML files in which the switch could stand, off, on a tree."""
    if isinstance(switch, FlatSwitch) and switch.idiom not in _READ:
        return FoundSettings()
    if isinstance(switch, FlatSwitch) and switch.idiom == "dict" and switch.module is not None:
        return FoundSettings()
    planned = plan.model_copy(update={"switch": switch, "variants": ()})
    named = [
        reach.path
        for reach in settings_reach(quarantine, tree, planned)
        if reach.reaches and reach.path.endswith((".yaml", ".yml"))
    ]
    found = _that_take_it(quarantine, tree, named or _by_name(quarantine, tree, switch), switch)
    usual = [path for path in found if PurePosixPath(path).stem.lower() in _USUAL]
    chosen = usual or found
    if len(chosen) > MAX_SHOWN:
        chosen = chosen[:1]
    return FoundSettings(tuple(chosen), tuple(path for path in found if path not in chosen))


def _by_name(
    quarantine: Quarantine, tree: TreeId, switch: SwitchPlan | FlatSwitch
) -> Sequence[str]:
    """Return files of a usual name whose keys are all fields of the class with the settings."""
    if switch.module is None or switch.root is None:
        return ()
    module = quarantine.read(tree, switch.module)
    paths = [
        path
        for path in quarantine.paths(tree)
        if path.endswith((".yaml", ".yml")) and PurePosixPath(path).stem.lower() in _USUAL
    ]
    if module is None or not paths:
        return ()
    sources = {switch.module: parse_source(switch.module, module)}
    files = quarantine.read_many(tree, paths)
    return [reach.path for reach in audit_reach(sources, files, switch) if reach.reaches]


def _that_take_it(
    quarantine: Quarantine, tree: TreeId, paths: Sequence[str], switch: SwitchPlan | FlatSwitch
) -> list[str]:
    found = []
    for path, data in quarantine.read_many(tree, sorted(set(paths))).items():
        try:
            if isinstance(switch, FlatSwitch):
                declare_key(data, switch.key, path=path)
            else:
                declare_yaml(data, switch, path=path)
        except PortError:
            continue
        found.append(path)
    return found
