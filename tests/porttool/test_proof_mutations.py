from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from porttool.learning.lesson import Helper, Lesson, Rule, Wrapper
from porttool.plan.plan import load_plan
from porttool.plan.switch import SwitchPlan
from porttool.proving.proof import prove_off

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


# Mutations of the proven branch. Each changes what the program does with the switch off, or what
# can be known of it; a place that does not suit gives None, and another one is drawn.
Mutation = Callable[[Branch, random.Random], Branch | None]
GUARD = re.compile(
    r"(?m)^( *)if config\.compile\.trainer\.enabled:\n(?:\1    .*\n|\1 {4,}.*\n|\n)*?(?=\n|\1\S)"
)


def text_of(branch: Branch, path: str) -> str:
    return (branch[path] or b"").decode()


def replaced(branch: Branch, path: str, start: int, end: int, new: str) -> Branch:
    text = text_of(branch, path)
    return {**branch, path: (text[:start] + new + text[end:]).encode()}


def guard_of(branch: Branch) -> re.Match[str]:
    found = GUARD.search(text_of(branch, TRAINER))
    assert found is not None
    return found


def statements(branch: Branch, path: str) -> list[ast.stmt]:
    """Return the simple statements of functions that stand outside of the guard."""
    text = text_of(branch, path)
    first = last = 0
    if path == TRAINER:
        found = guard_of(branch)
        first = text.count("\n", 0, found.start()) + 1
        last = text.count("\n", 0, found.end())
    return [
        statement
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        for statement in ast.walk(function)
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Return)
        and not first <= statement.lineno <= last
    ]


def lines_span(text: str, node: ast.stmt) -> tuple[int, int]:
    lines = text.splitlines(keepends=True)
    assert node.end_lineno is not None
    start = sum(map(len, lines[: node.lineno - 1]))
    return start, sum(map(len, lines[: node.end_lineno]))


def ungate_a_seed(branch: Branch, rng: random.Random) -> Branch | None:
    found = guard_of(branch)
    lines = found.group().splitlines(keepends=True)
    choice = rng.randrange(4)
    if choice == 0:  # a whole body dedented
        new = "".join(line.removeprefix("    ") for line in lines[1:])
    elif choice == 1:  # the last line moved out
        new = "".join([*lines[:-1], lines[-1].removeprefix("    ")])
    elif choice == 2:
        test = rng.choice(["True", "self", "rate", "not config.compile.trainer.enabled"])
        new = lines[0].replace("config.compile.trainer.enabled", test) + "".join(lines[1:])
    else:
        other = rng.choice(["args", "self", "resume_from", "self._other", "LabConfig", "Path"])
        new = lines[0].replace("config.", f"{other}.") + "".join(lines[1:])
    return replaced(branch, TRAINER, found.start(), found.end(), new)


def wrap_somewhere(branch: Branch, rng: random.Random) -> Branch | None:
    text, guard = text_of(branch, TRAINER), guard_of(branch)
    places = [
        found
        for found in re.finditer(r"build_network\(config\)|self\._strategy_network(?=[,)])", text)
        if not guard.start() <= found.start() < guard.end()
    ]
    found = rng.choice(places)
    return replaced(branch, TRAINER, found.start(), found.end(), f"torch.compile({found.group()})")


def change_a_default(branch: Branch, rng: random.Random) -> Branch | None:
    text = text_of(branch, CONFIG)
    pattern = r'(?m)^    \w+: [^=\n]+ = (\d\S*|True|False|"[\w-]+")'
    found = rng.choice(list(re.finditer(pattern, text)))
    old = found.group(1)
    new = {"True": "False", "False": "True"}.get(old) or ('"other"' if '"' in old else f"1{old}")
    return replaced(branch, CONFIG, found.start(1), found.end(1), new)


def change_a_value(branch: Branch, rng: random.Random) -> Branch | None:
    text = text_of(branch, SETTINGS)
    own = text[: text.index("compile:")]
    gates = list(re.finditer(r"enabled: (false)", text))
    found = rng.choice([*re.finditer(r"(?m)^  \w+: (\S+)", own), *gates])
    new = rng.choice(["true", "7", "x", "null", "[1]"])
    return replaced(branch, SETTINGS, found.start(1), found.end(1), new)


def add_a_statement(branch: Branch, rng: random.Random) -> Branch | None:
    path = rng.choice([TRAINER, CONFIG])
    node = rng.choice(statements(branch, path))
    text = text_of(branch, path)
    start, _ = lines_span(text, node)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return None  # in front of a docstring is another mutation
    # Statements that are planted in the branch, the idle ones too: the proof has to see each.
    line = rng.choice(
        [
            "pass",
            "print(1)",
            "torch.manual_seed(0)",
            "import os",
            "x = [].append(1)",
            "assert True",  # text for a mutant, no assertion of ours: idle, and still to be seen
        ]
    )
    return replaced(branch, path, start, start, " " * node.col_offset + line + "\n")


def add_at_the_top(branch: Branch, rng: random.Random) -> Branch | None:
    path = rng.choice([TRAINER, CONFIG])
    line = rng.choice(
        [
            "print(1)",
            "torch.manual_seed(0)",
            "LIMIT = len('a')",
            "import lab.extra",
            "from lab.config import MissingConfig",
            "import numpy",
            "if True:\n    X = 1",
            "class More(dict):\n    pass",
            "Tensor: type = int",
            "nn = describe = None" if path == TRAINER else "field = dataclass = None",
            "Path = 1" if path == TRAINER else "CLOSED = None",
        ]
    )
    text = text_of(branch, path)
    place = text.index("\n\n\nclass Evaluator") if path == TRAINER else text.index("\n\n\ndef desc")
    return replaced(branch, path, place, place, f"\n\n\n{line}")


def take_another_receiver(branch: Branch, rng: random.Random) -> Branch | None:
    text = text_of(branch, TRAINER)
    pattern = (
        r"_clean_state_dict\((.+?)\.state_dict\(\)|getattr\(([\w.]+), \"_orig_mod\", ([\w.]+)\)"
    )
    found = rng.choice(list(re.finditer(pattern, text)))
    group = rng.choice([number for number in (1, 2, 3) if found.group(number)])
    new = rng.choice(
        ["self._other", "self._strategy_networks", "self._advantage_networks[1]", "weights"]
    )
    return replaced(branch, TRAINER, found.start(group), found.end(group), new)


def take_another_argument(branch: Branch, rng: random.Random) -> Branch | None:
    text = text_of(branch, TRAINER)
    found = rng.choice(list(re.finditer(r"\.(load_)?state_dict\(([^()]*)\)", text)))
    new = rng.choice(["None", "strict=False", "*[]", "prefix"])
    return replaced(branch, TRAINER, found.start(2), found.end(2), new)


def drop_a_statement(branch: Branch, rng: random.Random) -> Branch | None:
    path = rng.choice([TRAINER, CONFIG])
    node = rng.choice(statements(branch, path))
    text = text_of(branch, path)
    start, end = lines_span(text, node)
    try:
        result = replaced(branch, path, start, end, "")
        ast.parse(text_of(result, path))
    except SyntaxError:
        return replaced(branch, path, start, end, " " * node.col_offset + "pass\n")
    return result


def shadow_a_name(branch: Branch, rng: random.Random) -> Branch | None:
    text = text_of(branch, TRAINER)
    name = rng.choice(
        [
            "Evaluator",
            "_on_cpu",
            "build_network",
            "describe",
            "json",
            "torch",
            "zip",
            "range",
            "getattr",
            "Mapping",
            "str",
            "_clean_state_dict",
        ]
    )
    place = rng.choice([text.index("class Evaluator"), text.index("def _on_cpu"), len(text)])
    return replaced(branch, TRAINER, place, place, f"def {name}(*a, **k):\n    return a\n\n\n")


def add_an_else(branch: Branch, rng: random.Random) -> Branch | None:
    found = guard_of(branch)
    body = rng.choice(["pass", "self._log = []", "compile_kwargs = {}", "print(1)"])
    new = f"{found.group(1)}else:\n{found.group(1)}    {body}\n"
    return replaced(branch, TRAINER, found.end(), found.end(), new)


def use_the_options_outside(branch: Branch, rng: random.Random) -> Branch | None:
    found = guard_of(branch)
    line = rng.choice(
        [
            "print(compile_kwargs)",
            "self.kwargs = compile_kwargs",
            "compile_kwargs = None",
            "return",
            "self._net = torch.compile(self._strategy_network, **compile_kwargs)",
        ]
    )
    if line == "compile_kwargs = None":
        line += "\n        self.kwargs = compile_kwargs"
    return replaced(branch, TRAINER, found.end(), found.end(), f"        {line}\n")


def add_a_module(branch: Branch, rng: random.Random) -> Branch | None:
    path = rng.choice(
        [
            "src/lab/extra.py",
            "src/json.py",
            "pathlib.py",
            "src/torch/nn.py",
            "src/lab/__init__.pyx",
            "sitecustomize.py",
            "src/lab/collections.py",
        ]
    )
    result: Branch = {**branch, path: b"print(1)\n"}
    if path == "src/lab/extra.py":
        text = text_of(branch, TRAINER)
        line = rng.choice(
            [
                "from lab import extra\n",
                "from lab.extra import thing\n",
                "import lab.extra\n",
                "from . import extra\n",
                "from .extra import thing\n",
            ]
        )
        place = text.index("import torch\n")
        result = replaced(result, TRAINER, place, place, line)
    return result


def change_the_helper(branch: Branch, rng: random.Random) -> Branch | None:
    old, new = rng.choice(
        [
            ("_orig_mod.", "_orig_mod"),
            ("removeprefix", "removesuffix"),
            (": value for", ": value.half() for"),
            ("state_dict.items()}", "state_dict.items() if key}"),
            ("state_dict: Mapping[str, Tensor])", "state_dict: Mapping[str, Tensor] = {})"),
            ("def _clean", "@staticmethod\ndef _clean"),
            ("    return {key.", "    state_dict = {}\n    return {key."),
        ]
    )
    text = text_of(branch, TRAINER)
    start = text.index("def _clean_state_dict")
    helper = text[start : text.index("def _on_cpu")]
    return replaced(branch, TRAINER, start, start + len(helper), helper.replace(old, new, 1))


def change_the_declaration(branch: Branch, rng: random.Random) -> Branch | None:
    old, new = rng.choice(
        [
            ("compile: CompileConfig =", "compile: object ="),
            ("(default_factory=CompileConfig)", "(default=None)"),
            (
                "    trainer: CompileTrainerConfig = field",
                "    trainers: CompileTrainerConfig = field",
            ),
            ("class CompileConfig:", "class CompileConfig(dict):"),
            ("    dynamic: bool = True ", "    more: int = 3\n    dynamic: bool = True "),
            ("    is_small", "    is_big"),
            ("class CompileTrainerConfig:", "class CompileTrainerConfigs:"),
            ('Literal["default", "reduce-overhead"] =', "str ="),
            ("@property", "@property\n    @print"),
            ('extra="forbid"', 'extra="allow"'),
        ]
    )
    text = text_of(branch, CONFIG)
    if old not in text:
        return None
    return {**branch, CONFIG: text.replace(old, new, 1).encode()}


MUTATIONS: tuple[Mutation, ...] = (
    ungate_a_seed,
    wrap_somewhere,
    change_a_default,
    change_a_value,
    add_a_statement,
    add_at_the_top,
    take_another_receiver,
    take_another_argument,
    drop_a_statement,
    shadow_a_name,
    add_an_else,
    use_the_options_outside,
    add_a_module,
    change_the_helper,
    change_the_declaration,
)
NUM_MUTATIONS = 200


@pytest.mark.slow
def test_two_hundred_random_mutations_are_all_caught(
    onto: dict[str, bytes], branch: Branch, switch: SwitchPlan
) -> None:
    rng = random.Random(20)
    assert prove_off(onto, branch, LESSON, switch).holds
    tried: dict[str, int] = {}
    missed = []
    while sum(tried.values()) < NUM_MUTATIONS:
        mutation = rng.choice(MUTATIONS)
        mutant = mutation(branch, rng)
        if mutant is None or mutant == branch or not all(map(parses, mutant.items())):
            continue
        tried[mutation.__name__] = tried.get(mutation.__name__, 0) + 1
        # Files that are as before are proven above.
        changed = {path: data for path, data in mutant.items() if data != branch.get(path)}
        if prove_off(onto, changed, LESSON, switch).holds:
            missed.append((mutation.__name__, text_of(mutant, min(changed))))
    assert missed == []
    assert set(tried) == {mutation.__name__ for mutation in MUTATIONS}


def parses(item: tuple[str, bytes | None]) -> bool:
    """Tell whether a mutant is a program at all: one that is none would be caught for that."""
    path, data = item
    try:
        ast.parse((data or b"").decode() if path.endswith(".py") else "")
    except SyntaxError:
        return False
    return True
