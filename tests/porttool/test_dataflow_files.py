"""Wrapped objects that cross files: imports, inheritance, constructors, processes, modules."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from porttool.deciding.dataflow import Flow, analyse
from porttool.deciding.dataflow.fixpoint import Answers
from porttool.deciding.dataflow.values import Nothing, Unknown, Value
from porttool.deciding.sites import PlacedSeed
from porttool.learning.lesson import Lesson, Seed, Wrapper
from porttool.source.syntax import Source, parse_source, span_of, statement_span

EMPTY = Lesson(
    wrapper=Wrapper(),
    rules=(),
    seeds=(),
    helpers=(),
    imports=(),
    residual={},
    hunks=(),
    touched=(),
    negatives=(),
)

LEARNER = """
import torch
from torch import nn

class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(2, 2))
        self.plain = nn.Linear(2, 2)
        self.nets = [torch.compile(nn.Linear(2, 2)) for _ in range(2)]
        self.by_name = {"a": torch.compile(nn.Linear(2, 2)), "b": nn.Linear(2, 2)}
        self.opts = [torch.optim.Adam(n.parameters()) for n in self.nets]
        self.opt = torch.optim.Adam(self.net.parameters())
"""


def sources(files: dict[str, str]) -> dict[str, Source]:
    return {path: parse_source(path, dedent(text).encode()) for path, text in files.items()}


def flow_of(files: dict[str, str]) -> Flow:
    return analyse(sources(files), (), EMPTY)


def receivers(flow: Flow, path: str) -> list[ast.expr]:
    """Return what `state_dict` is called on, in the order of the text."""
    calls = flow.project.files[path].calls["state_dict"]
    found = [call.func for call in calls if isinstance(call.func, ast.Attribute)]
    return [
        f.value for f in sorted(found, key=lambda f: (f.end_lineno or 0, f.end_col_offset or 0))
    ]


def test_subclass_in_another_file_through_a_reexport() -> None:
    flow = flow_of(
        {
            "pkg/learner.py": LEARNER,
            "pkg/__init__.py": "from .learner import Learner as Base",
            "pkg/dist.py": """
            from pkg import Base

            class Distributed(Base):
                def __init__(self, cfg):
                    super().__init__(cfg)

                def f(self):
                    return self.net.state_dict()
            """,
        }
    )
    found = flow.holds("pkg/dist.py", receivers(flow, "pkg/dist.py")[0])
    assert found.kind == "definite"
    assert found.chain == ("`self.net` is wrapped at learner.py:7",)


def test_override_in_a_subclass_makes_it_only_possible() -> None:
    flow = flow_of(
        {
            "learner.py": LEARNER + "\n    def f(self):\n        return self.net.state_dict()\n",
            "eager.py": """
            from torch import nn
            from learner import Learner

            class Eager(Learner):
                def __init__(self, cfg):
                    self.net = nn.Linear(2, 2)
            """,
        }
    )
    assert flow.holds("learner.py", receivers(flow, "learner.py")[0]).kind == "may"


def test_constructor_argument_kept_in_an_attribute() -> None:
    flow = flow_of(
        {
            "learner.py": LEARNER
            + "\n    def server(self):\n        return Server(self.net, self.opt)\n\n"
            "from serve import Server\n",
            "serve.py": """
            class Server:
                def __init__(self, model, other):
                    self._model = model
                    self._other = other

                def push(self):
                    return self._model.state_dict(), self._other.state_dict()
            """,
        }
    )
    model, other = receivers(flow, "serve.py")
    assert flow.holds("serve.py", model).chain == (
        "`self._model` is `model` (serve.py:4)",
        "`model` is given `self.net` (learner.py:15), wrapped at learner.py:7",
    )
    assert flow.holds("serve.py", other).kind == "no"


def test_function_run_in_a_process_gets_its_arguments() -> None:
    flow = flow_of(
        {
            "main.py": """
            import torch
            from torch import nn, multiprocessing as mp
            from worker import work

            def start():
                net = torch.compile(nn.Linear(2, 2))
                mp.Process(target=work, args=(nn.Linear(2, 2), net)).start()
            """,
            "worker.py": """
            def work(plain, net):
                plain.state_dict()
                net.state_dict()
            """,
        }
    )
    plain, net = receivers(flow, "worker.py")
    assert flow.holds("worker.py", plain).kind == "no"
    assert flow.holds("worker.py", net).kind == "definite"


def test_annotation_tells_the_class_where_no_call_does() -> None:
    flow = flow_of(
        {
            "learner.py": LEARNER,
            "tool.py": """
            from learner import Learner

            def export(learner: Learner, optimizer: "torch.optim.Optimizer"):
                return learner.net.state_dict(), optimizer.state_dict()
            """,
        }
    )
    net, optimizer = receivers(flow, "tool.py")
    assert flow.holds("tool.py", net).kind == "definite"
    assert flow.holds("tool.py", optimizer).kind == "no"


def test_attribute_of_an_unknown_object_is_judged_by_who_sets_it() -> None:
    flow = flow_of(
        {
            "learner.py": LEARNER,
            "tool.py": """
            def export(thing):
                return thing.net.state_dict(), thing.other.state_dict()
            """,
        }
    )
    net, other = receivers(flow, "tool.py")
    assert flow.holds("tool.py", net).kind == "may"
    assert flow.holds("tool.py", other).kind == "unknown"


@pytest.mark.parametrize(
    "parts",
    [
        "self.net = torch.compile(nn.Linear(2, 2))",
        "self.nets = nn.ModuleList([torch.compile(nn.Linear(2, 2))])",
        "self.inner = Inner()",
        "self.add_module('net', torch.compile(nn.Linear(2, 2)))\n        self.net = self.net",
    ],
)
def test_module_that_owns_a_wrapped_one(parts: str) -> None:
    flow = flow_of(
        {
            "agent.py": f"""
import torch
from torch import nn

class Inner(nn.Module):
    def __init__(self):
        self.net = torch.compile(nn.Linear(2, 2))

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        {parts}

def export():
    agent = Agent()
    return agent.state_dict()
"""
        }
    )
    found = flow.holds("agent.py", receivers(flow, "agent.py")[0])
    assert (found.kind, found.shape) == ("definite", "owner")
    assert found.chain[0] == (
        "`agent` is a module that owns a wrapped one: its own keys carry `_orig_mod.` further in"
    )


def test_module_of_plain_parts_is_plain() -> None:
    flow = flow_of(
        {
            "agent.py": """
            from torch import nn

            class Agent(nn.Module):
                def __init__(self):
                    self.net = nn.Linear(2, 2)

            agent = Agent()
            agent.state_dict()
            """
        }
    )
    assert flow.holds("agent.py", receivers(flow, "agent.py")[0]).kind == "no"


@pytest.mark.parametrize(
    ("annotation", "kind"), [("int", "no"), ("int | None", "no"), ("", "unknown")]
)
def test_annotation_without_room_for_a_module_settles_starred_arguments(
    annotation: str, kind: str
) -> None:
    """A size that comes through `*overrides` cannot be a wrapped part of the network."""
    size = f"size: {annotation}" if annotation else "size"
    flow = flow_of(
        {
            "nets.py": f"""
                from torch import nn

                class Net(nn.Module):
                    def __init__(self, {size}):
                        super().__init__()
                        self.inner = nn.Linear(size, 2)
                        self.given = size

                def build(*overrides):
                    return Net(first(overrides)).state_dict()

                register(build)
                """
        }
    )
    (receiver,) = receivers(flow, "nets.py")
    assert flow.holds("nets.py", receiver).kind == kind


def test_long_chains_do_not_overflow_the_stack() -> None:
    lines = ["import torch", "from torch import nn", "a0 = torch.compile(nn.Linear(2, 2))"]
    lines += [f"a{i} = a{i - 1}" for i in range(1, 1500)]
    flow = flow_of({"chain.py": "\n".join([*lines, "a1499.state_dict()"])})
    found = flow.holds("chain.py", receivers(flow, "chain.py")[0])
    assert found.kind == "definite"
    assert found.chain[-2:] == (
        "(1494 more steps)",
        "`a1` is `a0` (chain.py:4), wrapped at chain.py:3",
    )


def test_module_attribute_set_from_another_file() -> None:
    flow = flow_of(
        {
            "state.py": "net = None",
            "main.py": """
            import torch
            import state
            from torch import nn

            state.net = torch.compile(nn.Linear(2, 2))
            """,
            "use.py": """
            import state as s

            def f():
                return s.net.state_dict()
            """,
        }
    )
    assert flow.holds("use.py", receivers(flow, "use.py")[0]).kind == "definite"


def test_iterator_that_is_its_own_iterator_comes_to_an_end() -> None:
    flow = flow_of(
        {
            "loop.py": """
            class Endless:
                def __iter__(self):
                    return iter(self)

            for thing in Endless():
                thing.state_dict()
            """
        }
    )
    assert flow.holds("loop.py", receivers(flow, "loop.py")[0]).kind != "definite"


def test_name_shadowed_by_a_local_is_no_wrapper() -> None:
    flow = flow_of(
        {
            "other.py": """
            from re import compile

            def f(torch, net):
                a = torch.compile(net)
                b = compile("x")
                return b.state_dict()
            """
        }
    )
    assert flow.holds("other.py", receivers(flow, "other.py")[0]).kind == "no"


def test_file_of_a_standard_module_name_is_not_mistaken_for_it() -> None:
    flow = flow_of(
        {
            "app/random.py": "def choice(xs): return xs[0]",
            "app/main.py": """
            import random
            import torch
            from torch import nn

            nets = [torch.compile(nn.Linear(2, 2))]
            random.choice(nets).state_dict()
            """,
        }
    )
    found = flow.holds("app/main.py", receivers(flow, "app/main.py")[0])
    assert found.kind == "unknown"
    assert found.sure


def seed_at(source: Source, text: str, kind: str = "object") -> PlacedSeed:
    """Mark the expression of that text as what the experiment wrapped."""
    node = next(
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.expr) and ast.unparse(node) == text
    )
    statement = next(
        s for s in ast.walk(source.tree) if isinstance(s, ast.Assign) and node in ast.walk(s)
    )
    target = ast.unparse(statement.targets[0])
    seed = Seed(source.path, "f", target, kind, text, "torch.compile($X)", 1, 0)  # type: ignore[arg-type]
    return PlacedSeed(
        seed=seed,
        path=source.path,
        scope="f",
        line=node.lineno,
        binding=statement_span(source, statement),
        value=span_of(source, node),
        target=target,
        kind=kind,  # type: ignore[arg-type]
        call="torch.compile($X)",
    )


def test_placed_seed_counts_as_wrapped() -> None:
    files = sources(
        {
            "train.py": """
            from nets import build

            def f(cfg):
                net = build(cfg)
                other = build(cfg.small)
                return net.state_dict(), other.state_dict()
            """
        }
    )
    flow = analyse(files, [seed_at(files["train.py"], "build(cfg)")], EMPTY)
    net, other = receivers(flow, "train.py")
    assert flow.holds("train.py", net).chain == ("`net` is wrapped at train.py:5",)
    assert flow.holds("train.py", other).kind == "no"


def counting(answers: Answers, last: int) -> Value:
    """Ask question 0 of a row in which each rests on the next, and the last one on the first."""

    def ask(number: int) -> Value:
        if number < last:
            return answers.cell(number + 1, lambda: ask(number + 1))
        return answers.cell(0, lambda: ask(0)) | {Nothing(): None}

    return answers.settled(0, lambda: ask(0))


def test_circle_of_questions_settles_on_what_its_last_one_knows() -> None:
    assert counting(Answers(), 5) == {Nothing(): None}


def test_questions_without_end_are_given_up_and_doubted() -> None:
    doubt = Unknown("the files are too entangled to follow it", sure=True)
    assert counting(Answers(budget=3), 5) == {doubt: None}


def test_questions_in_no_circle_are_worked_out_once() -> None:
    answers, asked = Answers(), []

    def ask(number: int) -> Value:
        asked.append(number)
        if number == 5:
            return {Nothing(): None}
        return answers.cell(number + 1, lambda: ask(number + 1))

    assert answers.settled(0, lambda: ask(0)) == {Nothing(): None}
    assert asked == [0, 1, 2, 3, 4, 5]


def test_question_answered_in_part_is_asked_again_when_the_rest_is_known() -> None:
    answers = Answers()

    def first() -> Value:
        return answers.cell("second", second) | {Nothing(): None}

    def second() -> Value:
        return dict(answers.cell("first", first))

    assert answers.settled("first", first) == {Nothing(): None}
    assert answers.settled("second", second) == {Nothing(): None}
