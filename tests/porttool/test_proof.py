from __future__ import annotations

import re
from pathlib import Path

import pytest

from porttool.learning.lesson import Helper, Lesson, Rule, Wrapper
from porttool.plan.plan import load_plan
from porttool.plan.switch import SwitchPlan
from porttool.proving.proof import FileProof, Proof, prove_off
from porttool.proving.reach import search_words

CASE = Path(__file__).parent / "cases" / "gate"
TRAINER = "src/lab/trainer.py"
CONFIG = "src/lab/config.py"
SETTINGS = "configs/default.yaml"
VARIANT = "configs/large.yaml"
CHANGED = (TRAINER, CONFIG, SETTINGS, VARIANT)
HELPER = '''\
def _clean_state_dict(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state dict without the prefix that a compiled module adds to its keys."""
    return {key.removeprefix("_orig_mod."): value for key, value in state_dict.items()}
'''
CLEAN = Rule(
    "clean state dict",
    "$X.state_dict()",
    "_clean_state_dict($X.state_dict())",
    (),
    True,
    ("_clean_state_dict",),
)
ROUTE = Rule(
    "routed load",
    "$X.load_state_dict($ARGS)",
    'getattr($X, "_orig_mod", $X).load_state_dict($ARGS)',
    (),
    True,
)
LESSON = Lesson(
    Wrapper(),
    (CLEAN, ROUTE),
    (),
    (Helper("_clean_state_dict", TRAINER, HELPER, None, None),),
    (),
    {},
    (),
    (TRAINER,),
    (),
)
Branch = dict[str, bytes | None]


@pytest.fixture
def switch() -> SwitchPlan:
    found = load_plan(CASE / "port.yaml").switch
    assert found is not None
    return found


@pytest.fixture
def onto() -> dict[str, bytes]:
    root = CASE / "onto"
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.suffix in (".py", ".yaml")
    }


@pytest.fixture
def branch() -> Branch:
    return {path: (CASE / "branch" / path).read_bytes() for path in CHANGED}


def edited(branch: Branch, path: str, old: str, new: str) -> Branch:
    """Return the branch with one text replaced that must be there once."""
    text = (branch[path] or b"").decode()
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    return {**branch, path: text.replace(old, new).encode()}


def only(proof: Proof, path: str) -> FileProof:
    return next(file for file in proof.files if file.path == path)


def test_a_branch_that_changes_nothing_is_proven(
    onto: dict[str, bytes], switch: SwitchPlan
) -> None:
    assert prove_off(onto, {}, LESSON, switch) == Proof(True, "syntax", (), ())
    same = prove_off(onto, {TRAINER: onto[TRAINER]}, LESSON, None)
    assert same.files == (FileProof(TRAINER, "identical tree", "no byte is changed"),)


def test_layout_and_comments_are_no_difference(onto: dict[str, bytes], switch: SwitchPlan) -> None:
    text = onto[CONFIG].decode().replace("\n", "  # a comment\n", 1).replace(" = ", "  =  ")
    (file,) = prove_off(onto, {CONFIG: text.encode()}, LESSON, switch).files
    assert file == FileProof(CONFIG, "identical tree", "only layout or comments differ")


def test_the_gated_port_is_proven(
    onto: dict[str, bytes], branch: Branch, switch: SwitchPlan
) -> None:
    proof = prove_off(onto, branch, LESSON, switch)
    assert (proof.holds, proof.tier) == (True, "syntax")
    assert {file.path: file.verdict for file in proof.files} == {
        TRAINER: "identical tree",
        CONFIG: "declaration only",
        SETTINGS: "data only",
        VARIANT: "added, unreachable from onto",
    }
    assert only(proof, TRAINER).detail == (
        "1 read of the switch folded. undone: clean state dict, routed load. "
        "added: _clean_state_dict()"
    )
    assert only(proof, CONFIG).detail == (
        "added: from typing import Literal; class CompileTrainerConfig; "
        "class CompileInferenceServerConfig; class CompileConfig; "
        "compile: CompileConfig = field(default_factory=CompileConfig)"
    )
    assert "`config` at src/lab/trainer.py:42 is a LabConfig" in proof.assumes
    assert "nothing of onto loads files by pattern from configs" in proof.assumes


def test_what_is_behind_the_gate_is_free(
    onto: dict[str, bytes], branch: Branch, switch: SwitchPlan
) -> None:
    gate = "        if config.compile.trainer.enabled:\n"
    free = edited(
        branch, TRAINER, gate, gate + "            import logging\n\n            warn(1)\n"
    )
    free = edited(
        free,
        TRAINER,
        "self._log = [describe(config)]",
        "self._log = [describe(config)] if not config.compile.trainer.enabled else []",
    )
    free = edited(
        free,
        TRAINER,
        "        contents = torch.load(",
        "        settings = self._config.compile.trainer\n"
        '        if settings.enabled and settings.mode == "default":\n'
        "            print(settings)\n"
        "        contents = torch.load(",
    )
    free = edited(
        free,
        TRAINER,
        "class Evaluator:",
        "def warn(limit: int = 3) -> None:\n    print(limit)\n\n\nclass Evaluator:",
    )
    proof = prove_off(onto, free, LESSON, switch)
    assert proof.holds, [file.detail for file in proof.files]


def test_the_call_form_is_proven(onto: dict[str, bytes], switch: SwitchPlan) -> None:
    helper = (
        "def _gated(wrap, module, enabled, **options):\n"
        "    return wrap(module, **options) if enabled else module\n\n\n"
    )
    text = onto[TRAINER].decode().replace("class Evaluator:", helper + "class Evaluator:")
    text = text.replace(
        "self._evaluator = Evaluator(self._strategy_network)",
        "self._evaluator = Evaluator(_gated(torch.compile, self._strategy_network, "
        "config.compile.trainer.enabled, mode=config.compile.trainer.mode))",
    )
    assert prove_off(onto, {TRAINER: text.encode()}, LESSON, switch).holds
    wrong = text.replace("if enabled else module", "if enabled else wrap(module)")
    assert not prove_off(onto, {TRAINER: wrong.encode()}, LESSON, switch).holds
    wrong = text.replace("mode=config.compile.trainer.mode))", "mode=print(1)))")
    assert not prove_off(onto, {TRAINER: wrong.encode()}, LESSON, switch).holds


NOT_PROVEN = [
    # what is changed, old text, new text, and a part of what is said of it
    (
        TRAINER,
        "if config.compile.trainer.enabled:",
        "if True:",
        "onto has `self._log = [describe(config)]` (src/lab/trainer.py:43), "
        "the branch has `if True: compile_kwargs = dict(",
    ),
    (
        TRAINER,
        "if config.compile.trainer.enabled:",
        "if resume_from.compile.trainer.enabled:",
        "src/lab/trainer.py:42: `resume_from` in `resume_from.compile.trainer.enabled` "
        "is not known to be a LabConfig",
    ),
    (
        TRAINER,
        "_clean_state_dict(self._advantage_networks[player].state_dict())",
        "_clean_state_dict(self._advantage_networks[0].state_dict())",
        "onto has `player` (src/lab/trainer.py:58), the branch has `0`",
    ),
    (
        TRAINER,
        'getattr(network, "_orig_mod", network)',
        'getattr(network, "_orig_mod", self._strategy_network)',
        "the branch has `getattr(network,",
    ),
    (
        TRAINER,
        "        self.iteration += 1\n",
        "",
        "onto has `self.iteration += 1` (src/lab/trainer.py:72), the branch has `return total",
    ),
    (TRAINER, 'removeprefix("_orig_mod.")', 'removeprefix("")', "is not the learned one"),
    (
        TRAINER,
        "        self._log = [describe(config)]\n",
        "        self._log = [describe(config)]\n        print(compile_kwargs)\n",
        "`compile_kwargs` is bound behind the switch and read outside of it",
    ),
    (
        TRAINER,
        "def _on_cpu(",
        "def Evaluator():\n    pass\n\n\ndef _on_cpu(",
        "the name Evaluator means something else in this file",
    ),
    (
        TRAINER,
        "import json\n",
        "import json\nimport numpy\n",
        "did not import numpy before, and importing it may do something",
    ),
    (TRAINER, "import json\n", "from json import *\nimport json\n", "what the whole file means"),
    (
        TRAINER,
        '"""A trainer with two',
        'import json\n"""A trainer with two',
        '`"""A trainer with two',
    ),
    (CONFIG, "hidden_size: PositiveInt = 512", "hidden_size: PositiveInt = 513", "has `513`"),
    (
        CONFIG,
        '    enabled: bool = False\n    mode: Literal["default", "reduce-overhead"] =',
        '    enabled: bool = True\n    mode: Literal["default", "reduce-overhead"] =',
        "has `enabled: bool = True` where the plan has `enabled: bool = False`",
    ),
    (
        CONFIG,
        "    compile: CompileConfig = field(default_factory=CompileConfig)\n",
        "    compile: CompileConfig = field(default_factory=dict)\n",
        "it is not the field that the plan declares",
    ),
    (SETTINGS, "num_layers: 3", "num_layers: 4", "`network.num_layers` is 3 on onto and 4"),
    (SETTINGS, "num_layers: 3", "num_layers: 3.0", "is 3 on onto and 3.0 on the branch"),
    (SETTINGS, "network:\n", "more: 1\nnetwork:\n", "`more` is only in the branch"),
    (
        SETTINGS,
        "  trainer:\n    enabled: false",
        "  trainer:\n    enabled: true",
        "`compile.trainer.enabled` is True, expected it to be off",
    ),
    (
        SETTINGS,
        "mode: default\n    # safer",
        "mode: fast\n    # safer",
        "is 'fast', expected Literal",
    ),
    (SETTINGS, "    dynamic: true", "    dynamik: true", "is not an option that the plan declares"),
]


@pytest.mark.parametrize(("path", "old", "new", "told"), NOT_PROVEN)
def test_what_is_not_the_same_is_told_with_its_place(
    onto: dict[str, bytes],
    branch: Branch,
    switch: SwitchPlan,
    *,
    path: str,
    old: str,
    new: str,
    told: str,
) -> None:
    proof = prove_off(onto, edited(branch, path, old, new), LESSON, switch)
    assert (proof.holds, proof.tier, proof.assumes) == (False, "none", ())
    file = only(proof, path)
    assert file.verdict == "not proven"
    assert told in file.detail
    others = [other for other in proof.files if other.path != path]
    assert all(other.verdict != "not proven" for other in others)


def test_a_rule_that_is_not_neutral_is_not_undone(
    onto: dict[str, bytes], branch: Branch, switch: SwitchPlan
) -> None:
    forced = Rule("forced", ROUTE.before, "$X._orig_mod.load_state_dict($ARGS)", (), False)
    lesson = Lesson(Wrapper(), (CLEAN, forced), (), LESSON.helpers, (), {}, (), (TRAINER,), ())
    text = (branch[TRAINER] or b"").decode()
    text = re.sub(r'getattr\(([\w.]+), "_orig_mod", \1\)', r"\1._orig_mod", text)
    proof = prove_off(onto, {**branch, TRAINER: text.encode()}, lesson, switch)
    assert "the rule forced is not neutral" in only(proof, TRAINER).detail


def test_a_receiver_with_effects_is_not_evaluated_twice(
    onto: dict[str, bytes], switch: SwitchPlan
) -> None:
    before = b"def f(nets, weights):\n    nets.pop().load_state_dict(weights)\n"
    after = before.replace(b"nets.pop()", b'getattr(nets.pop(), "_orig_mod", nets.pop())')
    proof = prove_off({**onto, "a.py": before}, {"a.py": after}, LESSON, switch)
    assert "evaluates $X 2 times" in only(proof, "a.py").detail


def test_a_yield_behind_the_switch_is_told(onto: dict[str, bytes], switch: SwitchPlan) -> None:
    old = "        return total / settings.steps\n"
    new = "        if self._config.compile.trainer.enabled:\n            yield 1\n" + old
    text = onto[TRAINER].decode().replace(old, new)
    (file,) = prove_off(onto, {TRAINER: text.encode()}, LESSON, switch).files
    assert file.detail == "src/lab/trainer.py:74: a `yield` behind the switch makes a generator"


def test_without_a_switch_an_ungated_port_is_not_proven(
    onto: dict[str, bytes], branch: Branch
) -> None:
    proof = prove_off(onto, branch, LESSON, None)
    assert not proof.holds
    assert only(proof, SETTINGS).detail == f"{SETTINGS}: `compile` is only in the branch"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("src/lab/json.py", "src/lab/trainer.py:3 imports it"),
        ("src/json.py", "src/lab/trainer.py:3 imports it"),
        ("torch.py", "imports it"),
        ("conftest.py", "a new conftest.py is loaded without being imported"),
        ("src/lab/more/__init__.py", "a new __init__.py makes another package of a folder"),
        ("src/lab/native.so", "what reads a new .so file is not known"),
        ("pytest.ini", "what reads a new .ini file is not known"),
    ],
)
def test_a_new_file_that_something_may_load_is_told(
    onto: dict[str, bytes], switch: SwitchPlan, path: str, told: str
) -> None:
    (file,) = prove_off(onto, {path: b""}, LESSON, switch).files
    assert file.verdict == "not proven"
    assert told in file.detail


def test_a_new_module_may_be_loaded_behind_the_switch_only(
    onto: dict[str, bytes], branch: Branch, switch: SwitchPlan
) -> None:
    gate = "        if config.compile.trainer.enabled:\n"
    line = "            from lab.compiling import warn\n\n            warn(config)\n"
    new: Branch = {"src/lab/compiling.py": b"def warn(config):\n    print(config)\n"}
    behind = edited(branch, TRAINER, gate, gate + line) | new
    assert prove_off(onto, behind, LESSON, switch).holds
    before = "from lab.config import LabConfig, describe\n"
    above = edited(branch, TRAINER, before, "from lab.compiling import warn\n" + before) | new
    proof = prove_off(onto, above, LESSON, switch)
    assert proof.holds
    assert only(proof, "src/lab/compiling.py").verdict == "added, does nothing by itself"
    new = {"src/lab/compiling.py": b"import re\n\nre.purge()\n\n\ndef warn(config): ...\n"}
    proof = prove_off(onto, above | new, LESSON, switch)
    does = "line 3, `re.purge()` runs"
    assert only(proof, "src/lab/compiling.py").detail == (
        f"{TRAINER}:11 imports it, and it is not known to do nothing then: {does}"
    )
    assert f"it loads src/lab/compiling.py, which is new: {does}" in only(proof, TRAINER).detail


def test_deleted_and_unknown_files_are_not_proven(
    onto: dict[str, bytes], switch: SwitchPlan
) -> None:
    files = {**onto, "Makefile": b"a:\n", "README.md": b"a\n", "x.py": b"a = (\n"}
    changes: Branch = {CONFIG: None, "Makefile": b"b:\n", "README.md": b"b\n", "x.py": b"a = 1\n"}
    proof = prove_off(files, changes, LESSON, switch)
    assert [(file.path, file.verdict) for file in proof.files] == [
        ("Makefile", "not proven"),
        ("README.md", "text only"),
        (CONFIG, "not proven"),
        ("x.py", "not proven"),
    ]


def test_search_words_name_what_could_be_reached(onto: dict[str, bytes], branch: Branch) -> None:
    anchor = "    def snapshot(self"
    more = edited(branch, TRAINER, anchor, "    def report(self): ...\n\n" + anchor)
    more |= {"src/lab/extra.py": b"", "tests/test_it.py": b""}
    before = {path: onto[path] for path in more if path in onto}
    assert search_words(before, more) == (
        "config",
        "extra",
        "large.yaml",
        "report",
        "test_it",
    )
    assert search_words(before, dict(before)) == ()


def test_a_method_that_something_else_mentions_is_not_free(
    onto: dict[str, bytes], branch: Branch, switch: SwitchPlan
) -> None:
    anchor = "    def snapshot(self"
    added = edited(branch, TRAINER, anchor, "    def report(self):\n        return 1\n\n" + anchor)
    assert prove_off(onto, added, LESSON, switch).holds
    elsewhere = {**onto, "src/lab/cli.py": b"def main(t):\n    return getattr(t, 'report', None)\n"}
    proof = prove_off(elsewhere, added, LESSON, switch)
    assert "the name report is used elsewhere" in only(proof, TRAINER).detail


def test_a_public_name_that_a_star_import_takes_over_is_told(
    onto: dict[str, bytes], switch: SwitchPlan
) -> None:
    text = onto[TRAINER] + b"\n\ndef fresh(): ...\n"
    (file,) = prove_off(onto, {TRAINER: text}, LESSON, switch).files
    assert file.detail == "added: fresh()"
    star = {**onto, "src/lab/cli.py": b"from lab.trainer import *\n"}
    (file,) = prove_off(star, {TRAINER: text}, LESSON, switch).files
    assert file.detail == "src/lab/cli.py:1 takes all its names, fresh too"
