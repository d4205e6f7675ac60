"""Helpers of every kind behind a switch: what is written, and that off is proven by syntax."""

from __future__ import annotations

import pytest

from porttool.apply import apply
from porttool.errors import NeedsPerson
from porttool.git.repo import open_repository
from porttool.plan.plan import load_plan

PLAN = """\
name: x
experiment: {{branch: exp, commits: [{commit}]}}
switch:
  module: conf.py
  root: Config
  key: perf
  class: Perf
  gate: perf.comp.enabled
  sections:
    - key: comp
      class: Comp
      fields:
        - {{name: enabled, type: bool, default: false}}
"""
CONF = """\
from dataclasses import dataclass, field


@dataclass
class Inner:
    size: int = 4


@dataclass
class Config:
    inner: Inner = field(default_factory=Inner)
"""
CLEAN = """\
def clean(network):
    return getattr(network, "_orig_mod", network).state_dict()
"""
GUARD = """\
        if config.perf.comp.enabled:
            self.net = torch.compile(self.net)
"""
PUSHED = """
    def push(self, queue) -> None:
        queue.put({push})
"""


def learner(
    *,
    save: str = "self.net.state_dict()",
    push: str | None = None,
    net: str = "nn.Linear(2, 2)",
    guard: str = "",
    top: str = "",
    imports: str = "",
    method: str = "",
    bases: str = "",
) -> str:
    """Return a learner's file; `push` is what main has gained."""
    return f"""\
{imports}import torch
from torch import nn

from conf import Config
{top}

class Learner{bases}:
    def __init__(self, config: Config) -> None:
        self.net = {net}
{guard}
    def save(self) -> dict:
        return {save}
{method}{PUSHED.format(push=push) if push else ""}"""


def wrapped(save: str, **parts: str) -> str:
    """Return the learner as the experiment has it."""
    return learner(save=save, net="torch.compile(nn.Linear(2, 2))", **parts)


def gated(save: str, push: str, **parts: str) -> str:
    """Return the learner as the port has it."""
    return learner(save=save, push=push, guard=GUARD, **parts)


MAIN = learner(push="self.net.state_dict()")


def stale(make_repo, base, experiment, main):
    """Make a repository whose main has moved on from the experiment's base; its plan is on disk."""
    repo = make_repo()
    sides = {"base": base, "exp": {**base, **experiment}, "main": {**base, **main}}
    for number, (branch, files) in enumerate(sides.items(), start=1):
        lines = [f"commit refs/heads/{branch}", f"mark :{number}", "committer A <a@b> 1 +0000"]
        lines += ["data 1", "x", *(["from :1"] if number > 1 else []), "deleteall"]
        for path, text in files.items():
            if text is None:
                continue
            lines += [f"M 644 inline {path}", f"data {len(text.encode())}", text]
        sides[branch] = "\n".join(lines) + "\n"
    repo.git("fast-import", "--quiet", input="".join(sides.values()).encode())
    repo.write({"patches/x/port.yaml": PLAN.format(commit=repo.id("exp"))})
    return repo


def run(repo):
    with open_repository(repo.path) as opened:
        plan = load_plan(repo.path / "patches/x/port.yaml")
        return apply(opened, plan, onto="main", progress=lambda step: None)


def changed(repo) -> dict[str, str]:
    """Return the files that the port changed, the switch's own apart."""
    paths = repo.git("diff", "--name-only", "--no-renames", "main", "port/x").split()
    return {path: repo.show("port/x", path).decode() for path in paths if path != "conf.py"}


def ported(make_repo, experiment, main, expected, *, base=None):
    """Apply a port; hold that it is proven, that `expected` is written and nothing else changed."""
    base = {"conf.py": CONF, "learner.py": learner()} | (base or {})
    repo = stale(make_repo, base, experiment, main)
    applied = run(repo)
    assert applied.outcome == "created", applied.message
    assert changed(repo) == expected
    assert applied.report.proof.holds
    assert applied.report.proof.tier == "syntax"


OLD_KEYS = "WIDTH = 4\n"
FROM_KEYS = "from keys import clean\n"
BARE = "def clean(network):\n    return network._orig_mod.state_dict()\n"
KEYS_CLASS = "class Keys:\n    width = 4\n"
STATIC = """
    @staticmethod
    def clean(network):
        return getattr(network, "_orig_mod", network).state_dict()
"""
MORE = f'''"""Names of parameters."""

from __future__ import annotations

import logging
from typing import TypeVar

import torch

__all__ = ["clean"]
log = logging.getLogger(__name__)
Network = TypeVar("Network")
_NAMES = ["_orig_mod"]


class Odd(Exception):
    """No network."""


{CLEAN}'''
NEW_KEYS = f"{OLD_KEYS}\n\n{CLEAN}"
STATE = 'getattr(network, "_orig_mod", network).state_dict()'


def method(decorator: str, head: str, body: str = f"return {STATE}") -> str:
    """Return a helper that is a method."""
    return f"\n{decorator}    def _clean({head}):\n        {body}\n"


def same(save: str, *, imports: str = "", top: str = "", method: str = "", bases: str = ""):
    """Return the sides of a port whose helper is in the learner's file, and whose calls agree.

    An import comes behind those that are there.
    """
    opening = f"{imports}\n" if imports else ""
    parts = {"method": method, "bases": bases}
    return (
        {"learner.py": wrapped(save, imports=opening, top=top, **parts)},
        {"learner.py": learner(push="self.net.state_dict()", bases=bases)},
        {"learner.py": gated(save, save, top=imports + top, **parts)},
        {"learner.py": learner(bases=bases)},
    )


def elsewhere(save, old: dict, new: dict, *, imports: str):
    """Return the sides of a port whose helper is in a file that existed."""
    parts = {"top": imports}
    return (
        {"learner.py": wrapped(save, **parts)} | new,
        {"learner.py": MAIN},
        {"learner.py": gated(save, save, **parts)} | new,
        old,
    )


VARIANTS = {
    "function": same("clean(self.net)", top=f"\n\n{CLEAN}"),
    "method": same("self._clean(self.net)", method=method("", "self, network")),
    "static method": same("self._clean(self.net)", method=method("    @staticmethod\n", "network")),
    "static method by its class": same(
        "Learner._clean(self.net)", method=method("    @staticmethod\n", "network")
    ),
    "class method": same(
        "self._clean(self.net)", method=method("    @classmethod\n", "cls, network")
    ),
    "lambda": same("clean(self.net)", top=f"\n\nclean = lambda network: {STATE}\n"),
    "default argument": same(
        "clean(self.net)",
        top='\n\ndef clean(network, name="_orig_mod"):\n'
        "    return getattr(network, name, network).state_dict()\n",
    ),
    "more arguments": same(
        "clean(self.net)",
        top="\n\ndef clean(network, *args, **options):\n"
        '    return getattr(network, "_orig_mod", network).state_dict(*args, **options)\n',
    ),
    "annotated": same(
        "clean(self.net)",
        top=f"\n\ndef clean(network: nn.Module) -> dict[str, torch.Tensor]:\n    return {STATE}\n",
    ),
    "annotation that needs an import": same(
        "clean(self.net)",
        imports="from typing import Any\n",
        top=f"\n\ndef clean(network: Any) -> dict[str, Any]:\n    return {STATE}\n",
    ),
    "decorated": same(
        "clean(self.net)", top=f"\n\n@torch.no_grad()\ndef clean(network):\n    return {STATE}\n"
    ),
    "partial": same(
        "clean(self.net)",
        imports="from functools import partial\n",
        top="\n\ndef inner(network, name):\n"
        "    return getattr(network, name, network).state_dict()\n\n\n"
        'clean = partial(inner, name="_orig_mod")\n',
    ),
    "constant": same(
        "clean(self.net)",
        top='\n\nINNER = "_orig_mod"\n\n\ndef clean(network):\n'
        "    return getattr(network, INNER, network).state_dict()\n",
    ),
    "in another file": elsewhere(
        "clean(self.net)",
        {"keys.py": OLD_KEYS},
        {"keys.py": NEW_KEYS},
        imports="from keys import clean\n",
    ),
    "alias": elsewhere(
        "c(self.net)",
        {"keys.py": OLD_KEYS},
        {"keys.py": NEW_KEYS},
        imports="from keys import clean as c\n",
    ),
    "module": elsewhere(
        "keys.clean(self.net)",
        {"keys.py": OLD_KEYS},
        {"keys.py": NEW_KEYS},
        imports="import keys\n",
    ),
    "module alias": elsewhere(
        "k.clean(self.net)",
        {"keys.py": OLD_KEYS},
        {"keys.py": NEW_KEYS},
        imports="import keys as k\n",
    ),
    "package init": elsewhere(
        "clean(self.net)",
        {"pkg/__init__.py": OLD_KEYS},
        {"pkg/__init__.py": NEW_KEYS},
        imports="from pkg import clean\n",
    ),
    "reexported": elsewhere(
        "clean(self.net)",
        {"pkg/__init__.py": "from pkg.keys import WIDTH\n", "pkg/keys.py": OLD_KEYS},
        {"pkg/__init__.py": "from pkg.keys import WIDTH, clean\n", "pkg/keys.py": NEW_KEYS},
        imports="from pkg import clean\n",
    ),
    "new module": elsewhere(
        "clean(self.net)", {}, {"keys.py": CLEAN}, imports="from keys import clean\n"
    ),
    "new module through it": elsewhere(
        "keys.clean(self.net)", {}, {"keys.py": CLEAN}, imports="import keys\n"
    ),
    "new module of a kind that does more": elsewhere(
        "clean(self.net)",
        {},
        {"keys.py": MORE},
        imports="from keys import clean\n",
    ),
    "new package": elsewhere(
        "clean(self.net)",
        {},
        {"pkg/__init__.py": "from pkg.keys import clean\n", "pkg/keys.py": CLEAN},
        imports="from pkg import clean\n",
    ),
    "method of a derived class": same(
        "self._clean(self.net)", method=method("", "self, network"), bases="(nn.Module)"
    ),
    "that needs a wrapped object": (
        {"learner.py": wrapped("clean(self.net)", top=f"\n\n{BARE}")},
        {"learner.py": MAIN},
        {"learner.py": gated("clean(self.net)", "clean(self.net)", top=f"\n\n{CLEAN}")},
    ),
    "that needs a wrapped object, in a new module": (
        {"learner.py": wrapped("clean(self.net)", top=FROM_KEYS), "keys.py": BARE},
        {"learner.py": MAIN},
        {
            "learner.py": gated("clean(self.net)", "clean(self.net)", top=FROM_KEYS),
            "keys.py": CLEAN,
        },
    ),
    "method that needs a wrapped object": (
        {
            "learner.py": wrapped(
                "self._clean(self.net)",
                method=method("", "self, network", "return network._orig_mod.state_dict()"),
            )
        },
        {"learner.py": MAIN},
        {
            "learner.py": gated(
                "self._clean(self.net)",
                "self._clean(self.net)",
                method=method("", "self, network"),
            )
        },
    ),
    "that existed in this file": (
        {"learner.py": wrapped("clean(self.net)", top=f"\n\n{CLEAN}")},
        {"learner.py": learner(push="self.net.state_dict()", top=f"\n\n{CLEAN}")},
        {"learner.py": gated("clean(self.net)", "clean(self.net)", top=f"\n\n{CLEAN}")},
        {"learner.py": learner(top=f"\n\n{CLEAN}")},
    ),
    "that existed in another file": (
        {"learner.py": wrapped("clean(self.net)", top=FROM_KEYS)},
        {"learner.py": MAIN},
        {"learner.py": gated("clean(self.net)", "clean(self.net)", top=FROM_KEYS)},
        {"keys.py": CLEAN},
    ),
    "in a file that main renamed": (
        {"learner.py": wrapped("clean(self.net)", top=FROM_KEYS), "keys.py": NEW_KEYS},
        {"learner.py": MAIN, "keys.py": None, "names.py": OLD_KEYS},
        {
            "learner.py": gated(
                "clean(self.net)", "clean(self.net)", top=FROM_KEYS.replace("keys", "names")
            ),
            "names.py": NEW_KEYS,
        },
        {"keys.py": OLD_KEYS, "other.py": "from keys import WIDTH\n"},
    ),
    "by a relative import": (
        {
            "pkg/learner.py": wrapped("clean(self.net)", top="from .keys import clean\n"),
            "pkg/keys.py": NEW_KEYS,
        },
        {"pkg/learner.py": MAIN},
        {
            "pkg/learner.py": gated(
                "clean(self.net)", "clean(self.net)", top="from .keys import clean\n"
            ),
            "pkg/keys.py": NEW_KEYS,
        },
        {"pkg/learner.py": learner(), "pkg/keys.py": OLD_KEYS, "pkg/__init__.py": ""},
    ),
    "through a module by a relative import": (
        {
            "pkg/learner.py": wrapped("keys.clean(self.net)", top="from . import keys\n"),
            "pkg/keys.py": NEW_KEYS,
        },
        {"pkg/learner.py": MAIN},
        {
            "pkg/learner.py": gated(
                "keys.clean(self.net)", "keys.clean(self.net)", top="from . import keys\n"
            ),
            "pkg/keys.py": NEW_KEYS,
        },
        {"pkg/learner.py": learner(), "pkg/keys.py": OLD_KEYS, "pkg/__init__.py": ""},
    ),
    "static method of a class in another file": (
        {
            "learner.py": wrapped("Keys.clean(self.net)", top="from keys import Keys\n"),
            "keys.py": KEYS_CLASS + STATIC,
        },
        {"learner.py": MAIN},
        {
            "learner.py": gated(
                "Keys.clean(self.net)", "Keys.clean(self.net)", top="from keys import Keys\n"
            ),
            "keys.py": KEYS_CLASS + STATIC,
        },
        {"keys.py": KEYS_CLASS},
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_helper_of_any_kind_is_ported_and_proven(make_repo, name):
    experiment, main, expected, *base = VARIANTS[name]
    ported(make_repo, experiment, main, expected, base=base[0] if base else None)


EXTRA = "\n\ndef extra(network):\n    return network\n\n\nclass Extra:\n    pass\n"
TOLD = "\n\ndef told(config) -> None:\n    print(config)\n"


def without_torch(text: str) -> str:
    return text.replace("import torch\n", "", 1)


def test_the_wrappers_module_is_imported_where_the_file_loads_it_anyway(make_repo):
    top = f"\n\n{CLEAN}"
    option = 'torch.compile(nn.Linear(2, 2), mode="default")'
    experiment = learner(save="clean(self.net)", net=option, top=top)
    guard = GUARD.replace("self.net)", 'self.net, mode="default")')
    ported(
        make_repo,
        {"learner.py": experiment},
        {"learner.py": without_torch(MAIN)},
        {
            "learner.py": learner(
                save="clean(self.net)", push="clean(self.net)", guard=guard, top=top
            )
        },
        base={"learner.py": without_torch(learner())},
    )


def test_the_wrappers_module_is_not_imported_where_nothing_else_loads_it(make_repo):
    def built(text: str) -> str:
        text = text.replace("from torch import nn\n", "from nets import build\n")
        return text.replace("nn.Linear(2, 2)", "build()")

    nets = "from torch import nn\n\n\ndef build():\n    return nn.Linear(2, 2)\n"
    base = {"conf.py": CONF, "nets.py": nets, "learner.py": without_torch(built(learner()))}
    experiment = {"learner.py": built(wrapped("clean(self.net)", top=f"\n\n{CLEAN}"))}
    repo = stale(make_repo, base, experiment, {"learner.py": without_torch(built(MAIN))})
    with pytest.raises(NeedsPerson) as caught:
        run(repo)
    assert "`torch.compile` is not imported in this file" in str(caught.value)
    assert "with `import torch` on onto it could" in str(caught.value)


def test_a_definition_that_no_rewrite_needs_comes_along(make_repo):
    top = f"\n\n{CLEAN}{EXTRA}"
    ported(
        make_repo,
        {"learner.py": wrapped("clean(self.net)", top=top)},
        {"learner.py": MAIN},
        {"learner.py": gated("clean(self.net)", "clean(self.net)", top=top)},
    )


def test_a_definition_that_only_unexplained_code_calls_comes_along(make_repo):
    def calls(text: str) -> str:
        return text.replace("        self.net =", "        told(config)\n        self.net =", 1)

    top = f"\n\n{CLEAN}{TOLD}"
    experiment = {"learner.py": calls(wrapped("clean(self.net)", top=top))}
    repo = stale(
        make_repo, {"conf.py": CONF, "learner.py": learner()}, experiment, {"learner.py": MAIN}
    )
    plan = PLAN.format(commit=repo.id("exp"))
    repo.write({"patches/x/port.yaml": plan[: plan.index("switch:")]})
    run(repo)
    push = "clean(self.net)"
    assert changed(repo) == {"learner.py": calls(wrapped("clean(self.net)", push=push, top=top))}


def test_a_helper_that_unexplained_code_calls_too_comes_along_without_its_sites(make_repo):
    told = "        print(clean(self))\n        self.net ="
    experiment = wrapped("clean(self.net)", top=f"\n\n{CLEAN}").replace(
        "        self.net =", told, 1
    )
    main = {"learner.py": learner(save="{}")}
    base = {"conf.py": CONF, "learner.py": learner()}
    repo = stale(make_repo, base, {"learner.py": experiment}, main)
    plan = PLAN.format(commit=repo.id("exp"))
    repo.write({"patches/x/port.yaml": plan[: plan.index("switch:")]})
    run(repo)
    expected = wrapped("{}", top=f"\n\n{CLEAN}").replace("        self.net =", told, 1)
    assert changed(repo) == {"learner.py": expected}


def test_a_helper_that_a_new_file_imports_comes_along_without_its_sites(make_repo):
    experiment = wrapped("clean(self.net)", top=f"\n\n{CLEAN}")
    tool = (
        "from learner import Learner, clean\n\n\ndef keys(one: Learner):\n    return clean(one)\n"
    )
    main = {"learner.py": learner(save="{}")}
    base = {"conf.py": CONF, "learner.py": learner()}
    repo = stale(make_repo, base, {"learner.py": experiment, "tool.py": tool}, main)
    plan = PLAN.format(commit=repo.id("exp"))
    repo.write({"patches/x/port.yaml": plan[: plan.index("switch:")]})
    run(repo)
    expected = wrapped("{}", top=f"\n\n{CLEAN}")
    assert changed(repo) == {"learner.py": expected, "tool.py": tool}


def test_a_helper_that_nothing_on_main_calls_is_said_to_be_dropped(make_repo):
    experiment = {"learner.py": wrapped("clean(self.net)", top=f"\n\n{CLEAN}")}
    main = {"learner.py": learner(save="{}")}
    repo = stale(make_repo, {"conf.py": CONF, "learner.py": learner()}, experiment, main)
    report = run(repo).report
    assert changed(repo) == {"learner.py": learner(save="{}", guard=GUARD)}
    (entry,) = [entry for entry in report.ledger if entry.after.startswith("def clean")]
    assert (entry.outcome, entry.why) == ("dropped", "onto needs no clean from here")


OTHER = "def width():\n    return 4\n"
CACHED = f"import functools\n\n\n@functools.cache\n{CLEAN}"
PURGING = f"import re\n\nre.purge()\n\n\n{CLEAN}"
GRID = "from grids import Grid\n\n\n" + CLEAN.replace("(network)", "(network: Grid)")
OWN = """\
from learner import Learner


def clean(text):
    return text.strip()


def push(learner: Learner):
    return learner.net.state_dict()
"""
HOOK = """
    def on_save(self, found: dict) -> None:
        found.clear()
"""
# The experiment, main, what both came from, and what stands in the refusal.
REFUSED = {
    "a cached one": (
        {"learner.py": wrapped("clean(self.net)", top=FROM_KEYS), "keys.py": CACHED},
        {"learner.py": MAIN},
        {},
        ("learner.py:12, learner.py:15", "nothing tells that `keys.clean($X)` gives what"),
    ),
    "a new module that does something": (
        {"learner.py": wrapped("clean(self.net)", top=FROM_KEYS), "keys.py": PURGING},
        {"learner.py": MAIN},
        {},
        ("keys.py, learner.py", "it is not known to do nothing then: line 3, `re.purge()` runs"),
    ),
    "a change that nothing turns off": (
        {"learner.py": wrapped("clean(self.net)", top=f"\n\n{CLEAN}"), "other.py": OTHER[:-2]},
        {"learner.py": MAIN},
        {"other.py": OTHER},
        ("other.py", "more than a switch can turn off"),
    ),
    "a hook that a framework may call": (
        {
            "learner.py": wrapped(
                "clean(self.net)", top=f"\n\n{CLEAN}", method=HOOK, bases="(nn.Module)"
            )
        },
        {"learner.py": learner(push="self.net.state_dict()", bases="(nn.Module)")},
        {"learner.py": learner(bases="(nn.Module)")},
        ("learner.py", "no rewrite calls on_save, and nn.Module may"),
    ),
    "main has another one of that name": (
        {"learner.py": wrapped("clean(self.net)", top=f"\n\n{CLEAN}")},
        {"learner.py": learner(push="self.net.state_dict()", top="\n\nclean = dict\n")},
        {},
        ("learner.py:7", "learner.py has another clean than the experiment brings"),
    ),
    "a file of main has one of that name of its own": (
        {"learner.py": wrapped("clean(self.net)", top=f"\n\n{CLEAN}")},
        {"push.py": OWN},
        {"learner.py": learner(top=f"\n\n{CLEAN}")},
        ("push.py:4", "push.py has a function clean of its own, not the one of learner.py"),
    ),
    "one that imports what may do something": (
        {"learner.py": wrapped("clean(self.net)", top=GRID)},
        {"learner.py": MAIN},
        {},
        ("learner.py", "`clean` needs `from grids import Grid`, and learner.py imports no grids"),
    ),
    "main has changed it": (
        {"learner.py": wrapped("clean(self.net)", top=FROM_KEYS)},
        {"learner.py": MAIN, "keys.py": CLEAN.replace("state_dict()", "state_dict().copy()")},
        {"keys.py": CLEAN},
        ("keys.py:1", "`clean`, which the experiment calls, is another function by now"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_proven_is_refused_with_its_reason(make_repo, name):
    experiment, main, more, (where, told) = REFUSED[name]
    repo = stale(make_repo, {"conf.py": CONF, "learner.py": learner(), **more}, experiment, main)
    with pytest.raises(NeedsPerson) as caught:
        run(repo)
    assert caught.value.where == where
    assert told in str(caught.value)
    assert repo.try_git("rev-parse", "--verify", "port/x").returncode


SIZES = "from pkg.sizes import WIDTH\n\n"
PUSH = "import os\n\n\ndef push(learner, queue):\n    queue.put(learner.net.state_dict())\n"


def test_an_answered_place_imports_a_helper_that_its_file_did_not_know_of(make_repo):
    base = {
        "conf.py": CONF,
        "lib/pkg/__init__.py": "",
        "lib/pkg/learner.py": learner(imports=SIZES),
        "lib/pkg/sizes.py": "WIDTH = 2\n",
        "tools/push.py": "import os\n",
    }
    experiment = wrapped("clean(self.net)", top=f"\n\n{CLEAN}", imports=SIZES)
    repo = stale(make_repo, base, {"lib/pkg/learner.py": experiment}, {"tools/push.py": PUSH})
    (ask,) = run(repo).report.asks
    plan = (repo.path / "patches/x/port.yaml").read_text()
    repo.write({"patches/x/port.yaml": f'{plan}answers:\n  "{ask.key}": rewrite\n'})
    assert run(repo).outcome == "created"
    assert changed(repo)["tools/push.py"] == PUSH.replace(
        "import os\n", "import os\nfrom pkg.learner import clean\n"
    ).replace("learner.net.state_dict()", "clean(learner.net)")
