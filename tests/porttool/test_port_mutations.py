"""Ports with one thing wrong in them, at random: the audit or the off-proof catches every one.

The ports are those of all cases that need nobody's answer, and of generated trainers, each made by
porttool's own functions, once with the objects wrapped in place and once behind a switch.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest

from porttool.auditing import audit_files, written_audit
from porttool.deciding.dataflow import analyse
from porttool.deciding.decide import decide, place_seeds
from porttool.deciding.edits import port_edits
from porttool.errors import PortError
from porttool.gating.gate import gate_edits
from porttool.gating.switch import declare_config
from porttool.git.commits import TreeId
from porttool.learning.learn import check_replay, for_gated_port, learn
from porttool.learning.lesson import Wrapper
from porttool.plan.plan import load_plan
from porttool.plan.switch import SwitchPlan
from porttool.proving.proof import prove_off
from porttool.proving.written import WrittenAudit
from porttool.source.syntax import Source, TextEdit, apply_edits, parse_source, span_of
from porttool.workbench import Decided

CASES = Path(__file__).parent / "cases" / "ports"
PLAN = "name: x\nexperiment: {branch: exp, commits: [" + "a" * 40 + "]}\n"
NUM_MUTANTS = 200
NUM_GENERATED = 12
CONFIG = """\
from dataclasses import dataclass


@dataclass(frozen=True)
class LabConfig:
    n_in: int = 4
    n_out: int = 2
"""
SWITCH = SwitchPlan.model_validate(
    {
        "module": "config.py",
        "root": "LabConfig",
        "key": "compile",
        "class": "CompileConfig",
        "gate": "compile.trainer.enabled",
        "options": ["dynamic"],
        "sections": [
            {
                "key": "trainer",
                "class": "CompileTrainerConfig",
                "fields": [
                    {"name": "enabled", "type": "bool", "default": False},
                    {"name": "dynamic", "type": "bool", "default": False},
                ],
            }
        ],
    }
)

Files = dict[str, bytes]


@dataclass(frozen=True)
class Port:
    """A port in memory: what it was made from, what was decided, and what was written."""

    name: str
    onto: Files
    decided: Decided
    written: Files
    switch: SwitchPlan | None

    @cached_property
    def audit(self) -> WrittenAudit:
        """What holds mutants against the decisions."""
        return written_audit(self.decided)

    def is_caught(self, mutant: Files) -> bool:
        """Tell whether the audit or the off-proof sees that something is wrong."""
        sources = {path: mutant[path] for path in self.decided.sources}
        if audit_files(sources, self.audit, self.switch):
            return True
        return self.switch is not None and not self.is_proven(mutant)

    def is_proven(self, files: Files) -> bool:
        """Tell whether the off-proof holds for these files."""
        changed = {path: data for path, data in files.items() if data != self.onto[path]}
        return prove_off(self.onto, changed, self.decided.lesson, self.switch).holds


# -- ports ------------------------------------------------------------------------------------


def ported(
    name: str,
    sides: tuple[Files, Files, Files],
    switch: SwitchPlan | None,
    wrapper: Wrapper,
) -> Port | None:
    """Make a port of base, experiment and main; None where it is refused or a person is asked."""
    try:
        return written(name, sides, switch, wrapper)
    except PortError:
        return None


def written(
    name: str,
    sides: tuple[Files, Files, Files],
    switch: SwitchPlan | None,
    wrapper: Wrapper,
) -> Port | None:
    """Make a port as `apply` does, but without a repository."""
    base, experiment, main = sides
    lesson = learn(base, experiment, wrapper)
    check_replay(lesson, base, experiment)
    if switch is not None:
        lesson = for_gated_port(lesson)
    if not set(lesson.touched) <= set(main) or lesson.residual:
        return None  # what main renamed, and what no rule explains, is for git to merge
    sources = {
        path: parse_source(path, data) for path, data in main.items() if path.endswith(".py")
    }
    placed, questions = place_seeds(sources, lesson)
    flow = analyse(sources, placed, lesson, questions)
    decisions = (*decide(sources, lesson, placed, flow), *questions)
    if any(decision.action == "ask" for decision in decisions):
        return None
    decided = Decided(lesson, TreeId(""), (), sources, placed, decisions)
    port = dict(main)
    for path, source in sources.items():
        here = [seed for seed in placed if seed.path == path]
        behind = here if switch else ()
        edits = port_edits(source, decisions, () if switch else here, lesson, behind)
        if switch is not None and here:
            gates, asked = gate_edits(source, here, switch, lesson)
            if asked:
                return None
            edits = (*edits, *gates)
        port[path] = apply_edits(source, edits)
    if any(port.get(helper.path) == main.get(helper.path) for helper in lesson.helpers):
        return None  # a helper for a file with nothing else to port is put there by the survey
    if switch is not None:
        config = parse_source(switch.module, port[switch.module])
        port[switch.module] = declare_config(config, switch)
        sources = {path: source for path, source in sources.items() if path != switch.module}
        decided = replace(decided, sources=sources)
    made = Port(name, main, decided, port, switch)
    return made if port != main and (switch is None or made.is_proven(port)) else None


def files_of(folder: Path) -> Files:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def with_config(files: Files) -> Files:
    """Give every function that takes a `cfg` the class that it is of, and the class a file."""
    found = dict(files)
    for path, data in files.items():
        new = re.sub(rb"(?<=def build\()cfg|(?<=\(self, )cfg(?=[,)])", b"cfg: LabConfig", data)
        if new != data:
            line = re.search(rb"(?m)^(?:import|from) (?!__future__)", new)
            if line is None:
                continue
            end = b"\r\n" if b"\r\n" in new else b"\n"
            import_it = b"from config import LabConfig" + end
            new = new[: line.start()] + import_it + new[line.start() :]
        found[path] = new
    return {**found, "config.py": CONFIG.encode()}


def ports(folder: Path) -> Iterator[Port]:
    """Yield all ports, those of cases first."""
    for case in sorted(CASES.iterdir()):
        if not (case / "experiment").is_dir():
            continue
        sides = tuple(files_of(case / side) for side in ("base", "experiment", "main"))
        extra = case / "port_extra.yaml"
        plan = folder / "port.yaml"
        plan.write_text(PLAN + (extra.read_text() if extra.exists() else ""))
        wrapper = load_plan(plan).wrapper.wrapper()
        yield from both(case.name, sides, wrapper)
    for number in range(NUM_GENERATED):
        yield from both(f"generated {number}", generated(random.Random(number)), Wrapper())


def both(name: str, sides: tuple[Files, ...], wrapper: Wrapper) -> Iterator[Port]:
    base, experiment, main = sides
    plain = ported(name, (base, experiment, main), None, wrapper)
    if plain is not None:
        yield plain
    base, experiment, main = (with_config(side) for side in sides)
    gated = ported(f"{name}, gated", (base, experiment, main), SWITCH, wrapper)
    if gated is not None:
        yield gated


# -- generated trainers -----------------------------------------------------------------------

HEAD = "import torch\nfrom torch import nn\n"
HELPER = """

def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()
"""
BUILT = {
    "policy": "{w}nn.Linear(cfg.n_in, cfg.n_out){e}",
    "value": "{w}nn.Sequential(nn.Linear(cfg.n_in, 8), nn.ReLU()){e}",
    "critics": "[{w}nn.Linear(cfg.n_in, 1){e} for _ in range(2)]",
    "heads": '{{k: {w}nn.Linear(cfg.n_in, 1){e} for k in "ab"}}',
    "scorer": "build(cfg)",
}
SAVED = {
    "policy": '"policy": {s}self.policy{t}',
    "value": '"value": {s}self.value{t}',
    "critics": '"critics": [{s}c{t} for c in self.critics]',
    "heads": '"heads": {{k: {s}h{t} for k, h in self.heads.items()}}',
    "scorer": '"scorer": {s}self.scorer{t}',
}
LOADED = {
    "policy": '{}.load_state_dict(blob["policy"])',
    "value": '{}.load_state_dict(blob["value"])',
    "scorer": '{}.load_state_dict(blob["scorer"])',
}
# What main gains: `@` stands for a network that is one object.
GAINED = [
    "    def push(self, queue):\n        queue.put(self.@.state_dict())\n",
    "    def warm(self, weights):\n        self.@.load_state_dict(weights, strict=True)\n",
    "    def renamed(self):\n        net = self.@\n        return net.state_dict()\n",
    "    def plain_ones(self):\n        return self.opt.state_dict(), self.buffer.state_dict()\n",
    "    def resume(self, blob):\n        self.opt.load_state_dict(blob)\n",
    "    def steps(self):\n        sched = torch.optim.lr_scheduler.StepLR(self.opt, 10)\n"
    "        return sched.state_dict()\n",
]
GAINED_CRITICS = [
    "    def critics_out(self, queue):\n        for critic in self.critics:\n"
    "            queue.put(critic.state_dict())\n",
    "    def critics_in(self, blobs):\n        for critic, blob in zip(self.critics, blobs):\n"
    "            critic.load_state_dict(blob)\n",
    "    def numbered(self):\n        return {i: c.state_dict() for i, c in "
    "enumerate(self.critics)}\n",
    "    def first(self):\n        return self.critics[0].state_dict()\n",
]
GAINED_HEADS = [
    '    def head(self, name):\n        return self.heads[name].state_dict(), "a"\n',
    "    def heads_out(self, queue):\n        for head in self.heads.values():\n"
    "            queue.put(head.state_dict())\n",
]
OTHER_CLASS = """

class Evaluator:
    def __init__(self, cfg):
        self.@ = nn.Linear(cfg.n_in, cfg.n_out)
        self.opt = torch.optim.SGD(self.@.parameters(), lr=0.1)

    def save(self):
        return self.@.state_dict(), self.opt.state_dict()
"""
SUBCLASS = """from trainer import Trainer


class Remote(Trainer):
    def send(self, comm):
        comm.send(self.@.state_dict())
        comm.send(self.opt.state_dict())
"""


def generated(rng: random.Random) -> tuple[Files, Files, Files]:
    """Return base, experiment and main of a trainer that nobody wrote."""
    single = rng.sample(["policy", "value", "scorer"], rng.choice([1, 2, 3]))
    nets = single + rng.sample(["critics", "heads"], rng.choice([0, 1, 2]))
    one = single[0]
    gained = rng.sample(GAINED, 4)
    gained += rng.sample(GAINED_CRITICS, 2) if "critics" in nets else []
    gained += GAINED_HEADS if "heads" in nets else []
    rng.shuffle(gained)
    more = [text.replace("@", one) for text in gained]
    main = trainer(nets, wrapped=False, more=more)
    if rng.random() < 0.7:
        main += OTHER_CLASS.replace("@", one)
    base, experiment = (trainer(nets, wrapped=wrapped) for wrapped in (False, True))
    files = {"trainer.py": main.encode()}
    if rng.random() < 0.5:
        files["remote.py"] = SUBCLASS.replace("@", one).encode()
    return {"trainer.py": base.encode()}, {"trainer.py": experiment.encode()}, files


def trainer(nets: list[str], *, wrapped: bool, more: list[str] | None = None) -> str:
    """Write a trainer with these networks, as it is without or with the experiment."""
    wrap, end = ("torch.compile(", ")") if wrapped else ("", "")
    save = ("_clean_state_dict(", ")") if wrapped else ("", ".state_dict()")
    lines = [f"        self.{net} = {BUILT[net].format(w=wrap, e=end)}" for net in nets]
    lines.append(f"        self.opt = torch.optim.Adam(self.{nets[0]}.parameters())")
    lines.append("        self.buffer = ReplayBuffer()")
    saved = ", ".join(SAVED[net].format(s=save[0], t=save[1]) for net in nets)
    loads = []
    for net in nets:
        if net in LOADED:
            receiver = f'getattr(self.{net}, "_orig_mod", self.{net})' if wrapped else f"self.{net}"
            loads.append(f"        {LOADED[net].format(receiver)}")
    methods = [
        "    def __init__(self, cfg):\n        self.cfg = cfg\n" + "\n".join(lines) + "\n",
        f'    def save(self):\n        return {{{saved}, "opt": self.opt.state_dict()}}\n',
        "    def load(self, blob):\n" + "\n".join(loads) + "\n",
        *(more or []),
    ]
    buffer = "\n\nclass ReplayBuffer:\n    def state_dict(self):\n        return {}\n"
    build = f"\n\ndef build(cfg):\n    return {wrap}nn.Linear(cfg.n_in, 1){end}\n"
    buffer += build if "scorer" in nets else ""
    helper = HELPER if wrapped else ""
    return HEAD + helper + buffer + "\n\nclass Trainer:\n" + "\n".join(methods)


# -- mutations --------------------------------------------------------------------------------

Mutation = Callable[[Port, random.Random], "Files | None"]


def replaced(port: Port, path: str, start: int, end: int, new: str) -> Files:
    source = parse_source(path, port.written[path])
    return {**port.written, path: apply_edits(source, [TextEdit(start, end, new)])}


def nodes(port: Port, kind: type[ast.AST]) -> list[tuple[str, Source, ast.AST]]:
    """Return all nodes of a kind outside of the helpers, in the files that were looked at."""
    found: list[tuple[str, Source, ast.AST]] = []
    helpers = {helper.name for helper in port.decided.lesson.helpers}
    for path in port.decided.sources:
        source = parse_source(path, port.written[path])
        inside = {
            part
            for node in source.tree.body
            if getattr(node, "name", None) in {*helpers, "_gated"}
            for part in ast.walk(node)
        }
        found += [
            (path, source, node)
            for node in ast.walk(source.tree)
            if isinstance(node, kind) and node not in inside
        ]
    return found


def span(source: Source, node: ast.AST) -> tuple[int, int]:
    found = span_of(source, node)
    return found.start, found.end


def pick(
    port: Port, rng: random.Random, test: Callable[[ast.AST], bool], kind: type[ast.AST] = ast.Call
) -> tuple[str, Source, ast.AST] | None:
    found = [item for item in nodes(port, kind) if test(item[2])]
    return rng.choice(found) if found else None


def is_routed_save(node: ast.AST) -> bool:
    return bool(re.fullmatch(r"_clean\w*\(.*\)", ast.unparse(node)))


def is_routed_load(node: ast.AST) -> bool:
    return bool(
        re.match(r"getattr\([\w.\[\]'\"]+, '\w+', [\w.\[\]'\"]+\)\.load_st", ast.unparse(node))
    )


def is_plain_save(node: ast.AST) -> bool:
    text = ast.unparse(node)
    return text.endswith(".state_dict()") and "getattr" not in text and "_clean" not in text


def is_wrapper(node: ast.AST) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    name = getattr(function, "attr", getattr(function, "id", None))
    return name in ("compile", "DataParallel", "DistributedDataParallel", "EMA", "script")


def inner(source: Source, node: ast.AST) -> str:
    assert isinstance(node, ast.Call)
    start, end = span(source, node.args[0])
    return source.text[start:end]


def leave_a_site_out(port: Port, rng: random.Random) -> Files | None:
    found = pick(port, rng, lambda node: is_routed_save(node) or is_routed_load(node))
    if found is None:
        return None
    path, source, node = found
    assert isinstance(node, ast.Call)
    if is_routed_save(node):
        return replaced(port, path, *span(source, node), inner(source, node) + ".state_dict()")
    assert isinstance(node.func, ast.Attribute)
    return replaced(port, path, *span(source, node.func.value), inner(source, node.func.value))


def route_a_plain_one(port: Port, rng: random.Random) -> Files | None:
    found = pick(port, rng, is_plain_save)
    if found is None or not port.decided.lesson.helpers:
        return None
    path, source, node = found
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Attribute)
    start, end = span(source, node.func.value)
    helper = port.decided.lesson.helpers[0].name
    return replaced(port, path, *span(source, node), f"{helper}({source.text[start:end]})")


def route_twice(port: Port, rng: random.Random) -> Files | None:
    found = pick(port, rng, lambda node: is_routed_save(node) or is_routed_load(node))
    if found is None:
        return None
    path, source, node = found
    assert isinstance(node, ast.Call)
    start, end = span(source, node)
    text = source.text[start:end]
    if is_routed_save(node):
        return replaced(port, path, start, end, f"{text.partition('(')[0]}({text})")
    assert isinstance(node.func, ast.Attribute)
    start, end = span(source, node.func.value)
    whole = source.text[start:end]
    return replaced(port, path, start, end, f'getattr({whole}, "_orig_mod", {whole})')


def drop_the_helper(port: Port, rng: random.Random) -> Files | None:
    helpers = {helper.name for helper in port.decided.lesson.helpers}
    for path in port.decided.sources:
        source = parse_source(path, port.written[path])
        for node in source.tree.body:
            if getattr(node, "name", None) in helpers:
                return replaced(port, path, *span(source, node), "")
    return None


def change_the_helper(port: Port, rng: random.Random) -> Files | None:
    helpers = {helper.name for helper in port.decided.lesson.helpers}
    for path in port.decided.sources:
        source = parse_source(path, port.written[path])
        for node in source.tree.body:
            if getattr(node, "name", None) in helpers and "_orig_mod" in ast.unparse(node):
                start, end = span(source, node)
                text = source.text[start:end]
                old, new = rng.choice([("_orig_mod", "_orig_mods"), ("state_dict", "parameters")])
                return replaced(port, path, start, end, text.replace(old, new))
    return None


def drop_an_import(port: Port, rng: random.Random) -> Files | None:
    found = [*nodes(port, ast.Import), *nodes(port, ast.ImportFrom)]
    if not found:
        return None
    path, source, node = rng.choice(found)
    return replaced(port, path, *span(source, node), "")


def drop_an_imported_name(port: Port, rng: random.Random) -> Files | None:
    found = pick(port, rng, lambda node: len(getattr(node, "names", ())) > 1, ast.ImportFrom)
    if found is None:
        return None
    path, source, node = found
    assert isinstance(node, ast.ImportFrom)
    node = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(node, ast.ImportFrom)
    node.names.pop(rng.randrange(len(node.names)))
    return replaced(port, path, *span(source, found[2]), ast.unparse(node))


def unwrap_a_seed(port: Port, rng: random.Random) -> Files | None:
    found = pick(port, rng, lambda n: is_wrapper(n) and bool(getattr(n, "args", None)))
    if found is None:
        return None
    path, source, node = found
    return replaced(port, path, *span(source, node), inner(source, node))


def wrap_twice(port: Port, rng: random.Random) -> Files | None:
    found = pick(port, rng, lambda n: is_wrapper(n) and bool(getattr(n, "args", None)))
    if found is None:
        return None
    path, source, node = found
    assert isinstance(node, ast.Call)
    start, end = span(source, node)
    text = source.text[start:end]
    return replaced(port, path, start, end, f"{ast.unparse(node.func)}({text})")


def wrap_one_more(port: Port, rng: random.Random) -> Files | None:
    found = pick(port, rng, lambda n: ast.unparse(n).startswith(("nn.", "torch.optim", "Replay")))
    if found is None:
        return None
    path, source, node = found
    start, end = span(source, node)
    return replaced(port, path, start, end, f"torch.compile({source.text[start:end]})")


def guards(port: Port) -> list[tuple[str, Source, ast.If]]:
    return [
        (path, source, node)
        for path, source, node in nodes(port, ast.If)
        if isinstance(node, ast.If) and "enabled" in ast.unparse(node.test)
    ]


def drop_the_gate(port: Port, rng: random.Random) -> Files | None:
    found = guards(port)
    if not found:
        return None
    path, source, node = rng.choice(found)
    start, end = span(source, node)
    body = "\n".join(ast.unparse(part) for part in node.body)
    indent = " " * node.col_offset
    return replaced(port, path, start, end, body.replace("\n", "\n" + indent))


def hand_past_the_gate(port: Port, rng: random.Random) -> Files | None:
    found = pick(port, rng, lambda node: ast.unparse(node).startswith("_gated("))
    if found is None:
        return None
    path, source, node = found
    assert isinstance(node, ast.Call)
    wrap, value = (ast.unparse(argument) for argument in node.args[:2])
    new = rng.choice([value, f"{wrap}({value})", ast.unparse(node).replace(value, "None", 1)])
    return replaced(port, path, *span(source, node), new)


def turn_the_gate_round(port: Port, rng: random.Random) -> Files | None:
    found = guards(port)
    if not found:
        return None
    path, source, node = rng.choice(found)
    return replaced(port, path, *span(source, node.test), f"not {ast.unparse(node.test)}")


def drop_a_line_of_the_guard(port: Port, rng: random.Random) -> Files | None:
    found = [
        item for item in guards(port) if any("compile(" in ast.unparse(s) for s in item[2].body)
    ]
    if not found:
        return None
    path, source, node = rng.choice(found)
    line = rng.choice([part for part in node.body if "compile(" in ast.unparse(part)])
    return replaced(port, path, *span(source, line), "pass")


def add_a_line_to_the_guard(port: Port, rng: random.Random) -> Files | None:
    found = guards(port)
    if not found:
        return None
    path, source, node = rng.choice(found)
    _, end = span(source, node)
    lines = ["self.other = torch.compile(self.other)", "self.opt = torch.compile(self.opt)"]
    lines += [ast.unparse(node.body[-1])]
    return replaced(port, path, end, end, f"\n{' ' * node.body[0].col_offset}{rng.choice(lines)}")


def flip_a_default(port: Port, rng: random.Random) -> Files | None:
    if port.switch is None:
        return None
    text = port.written[port.switch.module].decode()
    found = rng.choice(list(re.finditer(r"= (False|\d)", text)))
    new = {"False": "True"}.get(found.group(1), "7")
    return replaced(port, port.switch.module, found.start(1), found.end(1), new)


def take_another_receiver(port: Port, rng: random.Random) -> Files | None:
    found = pick(port, rng, lambda node: is_routed_save(node) or is_routed_load(node))
    if found is None:
        return None
    path, source, node = found
    assert isinstance(node, ast.Call)
    call = node
    if is_routed_load(node):
        assert isinstance(node.func, ast.Attribute)
        assert isinstance(node.func.value, ast.Call)
        call = node.func.value
    argument = rng.choice([part for part in call.args if not isinstance(part, ast.Constant)])
    return replaced(port, path, *span(source, argument), "self.opt")


def take_another_argument(port: Port, rng: random.Random) -> Files | None:
    found = pick(port, rng, is_routed_load)
    if found is None:
        return None
    path, source, node = found
    assert isinstance(node, ast.Call)
    return replaced(port, path, *span(source, node.args[0]), "None")


def drop_a_statement(port: Port, rng: random.Random) -> Files | None:
    kinds = (ast.Assign, ast.Expr, ast.Return, ast.For)
    found = [item for kind in kinds for item in nodes(port, kind)]
    path, source, node = rng.choice(found)
    return replaced(port, path, *span(source, node), "pass")


def add_a_statement(port: Port, rng: random.Random) -> Files | None:
    found = [item for kind in (ast.Assign, ast.Expr, ast.Return) for item in nodes(port, kind)]
    path, source, node = rng.choice(found)
    start, _ = span(source, node)
    line = rng.choice(["torch.manual_seed(0)", "import os", "pass", "weights = None"])
    assert isinstance(node, ast.stmt)
    return replaced(port, path, start, start, f"{line}\n{' ' * node.col_offset}")


MUTATIONS: tuple[Mutation, ...] = (
    leave_a_site_out,
    route_a_plain_one,
    route_twice,
    drop_the_helper,
    change_the_helper,
    drop_an_import,
    drop_an_imported_name,
    unwrap_a_seed,
    wrap_twice,
    wrap_one_more,
    drop_the_gate,
    hand_past_the_gate,
    turn_the_gate_round,
    drop_a_line_of_the_guard,
    add_a_line_to_the_guard,
    flip_a_default,
    take_another_receiver,
    take_another_argument,
    drop_a_statement,
    add_a_statement,
)


def is_a_program(files: Mapping[str, bytes]) -> bool:
    """Tell whether every file parses; one that does not is caught before anybody counts."""
    try:
        for path, data in files.items():
            if path.endswith(".py"):
                ast.parse(data)
    except SyntaxError:
        return False
    return True


def is_the_same(left: Mapping[str, bytes], right: Mapping[str, bytes]) -> bool:
    """Tell whether two ports are one program: equal trees in every file, whatever the layout.

    The only mutants that count as equivalent: `ast` keeps everything that Python acts on.
    """
    return all(
        data == right[path]
        or (path.endswith(".py") and ast.dump(ast.parse(data)) == ast.dump(ast.parse(right[path])))
        for path, data in left.items()
    )


@pytest.mark.slow
def test_two_hundred_ports_with_one_mistake_are_all_caught(tmp_path: Path) -> None:
    rng = random.Random(1843)
    made = list(ports(tmp_path))
    assert len(made) > 50
    assert [port.name for port in made if port.is_caught(port.written)] == []
    tried: Counter[str] = Counter()
    survivors = []
    while tried.total() < NUM_MUTANTS:
        # The rarest first, so that each mutation is tried on some port that it fits.
        mutation = min(rng.sample(MUTATIONS, 6), key=lambda one: tried[one.__name__])
        port = rng.choice(made)
        mutant = mutation(port, rng)
        if mutant is None or not is_a_program(mutant) or is_the_same(mutant, port.written):
            continue
        tried[mutation.__name__] += 1
        if not port.is_caught(mutant):
            changed = [path for path, data in mutant.items() if data != port.written[path]]
            survivors.append(
                (mutation.__name__, port.name, mutant[changed[0]].decode(errors="replace"))
            )
    assert survivors == []
    assert set(tried) == {mutation.__name__ for mutation in MUTATIONS}


def test_layout_alone_is_the_same_program_and_a_changed_name_is_not() -> None:
    left = {"a.py": b"x = f(1, 2)\n"}
    assert is_the_same(left, {"a.py": b"x = f(\n    1,  # one\n    2,\n)\n"})
    assert not is_the_same(left, {"a.py": b"x = g(1, 2)\n"})
    assert not is_the_same({"a.txt": b"x = f(1, 2)\n"}, {"a.txt": b"x = f(1,2)\n"})
