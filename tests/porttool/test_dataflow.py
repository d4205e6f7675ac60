"""Which expressions may hold a wrapped object, one kind of flow a test, with the reasons in words.

In the snippets `torch.compile(...)` stands where a seed would be; the receiver of the last
`.state_dict()` is what is asked about.
"""

from __future__ import annotations

import ast
from textwrap import dedent, indent

import pytest

from porttool.deciding.dataflow import Flow, Holding, analyse
from porttool.learning.lesson import Lesson, Wrapper
from porttool.source.syntax import parse_source

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


def receivers(flow: Flow, path: str) -> list[ast.expr]:
    """Return what `state_dict` is called on, in the order of the text."""
    calls = flow.project.files[path].calls["state_dict"]
    found = [call.func for call in calls if isinstance(call.func, ast.Attribute)]
    return [
        f.value for f in sorted(found, key=lambda f: (f.end_lineno or 0, f.end_col_offset or 0))
    ]


def holding(body: str) -> Holding:
    """Ask about the last `.state_dict()` of a text whose first part continues the class.

    What stands behind two blank lines is at the top level.
    """
    methods, *rest = dedent(body).strip("\n").split("\n\n\n")
    text = "\n\n\n".join([LEARNER + "\n" + indent(methods, "    "), *rest])
    flow = analyse({"learner.py": parse_source("learner.py", text.encode())}, (), EMPTY)
    return flow.holds("learner.py", receivers(flow, "learner.py")[-1])


DEFINITE = {
    "attribute": "def f(self): return self.net.state_dict()",
    "index": "def f(self, i): return self.nets[i].state_dict()",
    "negative index": "def f(self): return self.nets[-1].state_dict()",
    "slice": "def f(self):\n    for n in self.nets[1:]:\n        n.state_dict()",
    "local": "def f(self):\n    net = self.net\n    return net.state_dict()",
    "two locals": "def f(self):\n    a = self.net\n    b = a\n    return b.state_dict()",
    "for": "def f(self):\n    for n in self.nets:\n        n.state_dict()",
    "zip": "def f(self):\n    for n, o in zip(self.nets, self.opts):\n        n.state_dict()",
    "zip keyword": (
        "def f(self):\n"
        "    for o, n in zip(self.opts, self.nets, strict=True):\n        n.state_dict()"
    ),
    "enumerate": "def f(self):\n    for i, n in enumerate(self.nets):\n        n.state_dict()",
    "enumerate of zip": (
        "def f(self):\n    for i, (n, o) in enumerate(zip(self.nets, self.opts)):\n"
        "        n.state_dict()"
    ),
    "reversed": "def f(self):\n    for n in reversed(self.nets):\n        n.state_dict()",
    "sorted": "def f(self):\n    for n in sorted(self.nets, key=id):\n        n.state_dict()",
    "list copy": "def f(self):\n    ns = list(self.nets)\n    ns[0].state_dict()",
    "tuple": "def f(self):\n    pair = (1, self.net)\n    pair[1].state_dict()",
    "joined lists": "def f(self):\n    for n in self.nets + [self.net]:\n        n.state_dict()",
    "unpacking": "def f(self):\n    a, b = 1, self.net\n    b.state_dict()",
    "starred target": (
        "def f(self):\n    a, *b = [1, self.net]\n    b, = self.nets\n    b.state_dict()"
    ),
    "swap of locals": "def f(self):\n    a, b = 1, self.net\n    a, b = b, a\n    a.state_dict()",
    "dict key": "def f(self): return self.by_name['a'].state_dict()",
    "dict get": "def f(self): return self.by_name.get('a').state_dict()",
    "dict of lists": "def f(self):\n    d = {'x': self.nets}\n    d['x'][0].state_dict()",
    "items": (
        "def f(self):\n    d = {'x': self.net}\n    for k, n in d.items():\n        n.state_dict()"
    ),
    "values": (
        "def f(self):\n    d = {'x': self.net}\n    for n in d.values():\n        n.state_dict()"
    ),
    "item assignment": "def f(self):\n    d = {}\n    d['x'] = self.net\n    d['x'].state_dict()",
    "append": "def f(self):\n    l = []\n    l.append(self.net)\n    l[0].state_dict()",
    "extend": "def f(self):\n    l = []\n    l.extend(self.nets)\n    l[0].state_dict()",
    "augmented": "def f(self):\n    l = []\n    l += self.nets\n    l[0].state_dict()",
    "update": "def f(self):\n    d = {}\n    d.update(x=self.net)\n    d['x'].state_dict()",
    "pop": "def f(self): return self.nets.pop().state_dict()",
    "next": "def f(self): return next(iter(self.nets)).state_dict()",
    "list comprehension": "def f(self): return [n.state_dict() for n in self.nets]",
    "set comprehension": "def f(self): return {n.state_dict() for n in self.nets}",
    "generator": "def f(self): return sum(n.state_dict() for n in self.nets)",
    "dict comprehension": (
        "def f(self): return {i: n.state_dict() for i, n in enumerate(self.nets)}"
    ),
    "comprehension with condition": (
        "def f(self): return [n.state_dict() for n in self.nets if n.training]"
    ),
    "nested comprehension": (
        "def f(self): return [n.state_dict() for ns in [self.nets] for n in ns]"
    ),
    "walrus": "def f(self):\n    if (n := self.net):\n        n.state_dict()",
    "walrus in comprehension": (
        "def f(self):\n    [m for n in self.nets if (m := n)]\n    m.state_dict()"
    ),
    "conditional": "def f(self, c): return (self.net if c else self.nets[0]).state_dict()",
    "or": "def f(self): return (None or self.net).state_dict()",
    "chained method": "def f(self): return self.net.to('cpu').eval().state_dict()",
    "parameter": ("def f(self): return g(self.net)\n\n\ndef g(net):\n    return net.state_dict()"),
    "getattr by constant": "def f(self): return getattr(self, 'net').state_dict()",
    "getattr with default": "def f(self): return getattr(self, 'net', None).state_dict()",
    "deepcopy": "def f(self):\n    import copy\n    return copy.deepcopy(self.net).state_dict()",
    "lambda": "def f(self): return (lambda n: n.state_dict())(self.net)",
    "closure": (
        "def f(self):\n    net = self.net\n    def inner():\n        return net.state_dict()\n"
        "    return inner()"
    ),
    "setattr by constant": (
        "def f(self):\n    setattr(self, 'late', self.net)\n    self.late.state_dict()"
    ),
    "with": (
        "def f(self):\n    from contextlib import nullcontext\n"
        "    with nullcontext(self.net) as n:\n"
        "        n.state_dict()"
    ),
    "none first": (
        "def f(self):\n    n = None\n    if self.opts:\n        n = self.net\n    n.state_dict()"
    ),
    "min": "def f(self): return min(self.nets, key=id).state_dict()",
    "map": "def f(self): return list(map(lambda n: n.state_dict(), self.nets))",
    "nested containers": (
        "def f(self):\n    rows = [[n] for n in self.nets]\n"
        "    for row in rows:\n        for n in row:\n"
        "            n.state_dict()"
    ),
    "while loop": (
        "def f(self):\n    n = self.nets[0]\n"
        "    while n:\n        n.state_dict()\n        n = self.nets[1]"
    ),
    "try": (
        "def f(self):\n    try:\n        n = self.net\n"
        "    except ValueError:\n        n = self.nets[0]\n"
        "    n.state_dict()"
    ),
    "match": (
        "def f(self, k):\n    match k:\n        case 1:\n"
        "            n = self.net\n        case _:\n"
        "            n = self.nets[0]\n    n.state_dict()"
    ),
    "ModuleList": "def f(self):\n    l = nn.ModuleList(self.nets)\n    l[0].state_dict()",
    "ModuleDict": "def f(self):\n    d = nn.ModuleDict({'a': self.net})\n    d['a'].state_dict()",
    "Sequential": "def f(self):\n    s = nn.Sequential(self.net)\n    s[0].state_dict()",
    "chain": (
        "def f(self):\n    import itertools\n    for n in itertools.chain(self.nets, [self.net]):\n"
        "        n.state_dict()"
    ),
    "dict of zip": (
        "def f(self):\n    d = dict(zip('ab', self.nets))\n"
        "    for n in d.values():\n        n.state_dict()"
    ),
    "merged dicts": (
        "def f(self):\n    d = {'x': self.net} | {'y': self.net}\n    for n in d.values():\n"
        "        n.state_dict()"
    ),
    "generator method": (
        "def each(self):\n    yield from self.nets\n    yield self.net\n"
        "def f(self):\n    for n in self.each():\n        n.state_dict()"
    ),
    "context manager": (
        "@contextmanager\ndef held(self):\n    yield self.net\n"
        "def f(self):\n    with self.held() as n:\n        n.state_dict()"
    ),
    "iterator class": (
        "def f(self):\n    for n in Each(self.nets):\n        n.state_dict()\n\n\n"
        "class Each:\n    def __init__(self, nets):\n        self.nets = nets\n"
        "    def __iter__(self):\n        return self\n"
        "    def __next__(self):\n        return self.nets[0]"
    ),
    "global": (
        "def f(self):\n    g(self.net)\n    return kept.state_dict()\n\n\n"
        "def g(net):\n    global kept\n    kept = net"
    ),
    "set on the class": "def f(self):\n    Learner.late = self.net\n    self.late.state_dict()",
    "set from outside": (
        "def f(self):\n    return self.given.state_dict()\n\n\n"
        "def g():\n    l = Learner(1)\n    l.given = l.net"
    ),
    "class method": (
        "@classmethod\ndef make(cls, cfg):\n    return cls(cfg)\n\n\n"
        "Learner.make(1).net.state_dict()"
    ),
    "static method": (
        "@staticmethod\ndef same(n):\n    return n\n"
        "def f(self):\n    self.same(self.net).state_dict()"
    ),
    "partial": (
        "def f(self):\n    from functools import partial\n    partial(g, self.net)()\n\n\n"
        "def g(net):\n    return net.state_dict()"
    ),
    "submitted": (
        "def f(self, pool):\n    pool.submit(g, self.net)\n\n\n"
        "def g(net):\n    return net.state_dict()"
    ),
    "mapped": ("def f(self):\n    map(g, self.nets)\n\n\ndef g(net):\n    return net.state_dict()"),
    "keyword argument": (
        "def f(self):\n    g(1, net=self.net)\n\n\ndef g(a, *, net):\n    return net.state_dict()"
    ),
    "default argument": (
        "def f(self, net=kept):\n    net.state_dict()\n\n\n"
        "kept = torch.compile(nn.Linear(2, 2))\nLearner(1).f()"
    ),
    "replaced field": (
        "def f(self):\n    b = Box(None)\n    b = replace(b, net=self.net)\n"
        "    b.net.state_dict()\n\n\n"
        "from dataclasses import dataclass, replace\n@dataclass\nclass Box:\n    net: object"
    ),
    "field with a factory": (
        "def f(self):\n    b = Box()\n    b.nets.append(self.net)\n"
        "    b.nets[0].state_dict()\n\n\n"
        "from dataclasses import dataclass, field\n@dataclass\nclass Box:\n"
        "    nets: list = field(default_factory=list)"
    ),
    "call operator": (
        "def f(self):\n    Get(self.net)().state_dict()\n\n\n"
        "class Get:\n    def __init__(self, net):\n        self.net = net\n"
        "    def __call__(self):\n        return self.net"
    ),
    "await": (
        "async def late(self):\n    return self.net\n"
        "async def f(self):\n    (await self.late()).state_dict()"
    ),
    "spread": "def f(self):\n    l = [*self.nets, self.net]\n    l[0].state_dict()",
}


@pytest.mark.parametrize("kind", DEFINITE)
def test_definite(kind: str) -> None:
    assert holding(DEFINITE[kind]).kind == "definite"


NO = {
    "plain attribute": "def f(self): return self.plain.state_dict()",
    "optimizer": "def f(self): return self.opt.state_dict()",
    "optimizers": "def f(self): return [o.state_dict() for o in self.opts]",
    "other side of zip": (
        "def f(self):\n    for n, o in zip(self.nets, self.opts):\n        o.state_dict()"
    ),
    "other key": "def f(self): return self.by_name['b'].state_dict()",
    "other position": "def f(self):\n    pair = (self.net, self.plain)\n    pair[1].state_dict()",
    "swapped away": (
        "def f(self):\n    a, b = self.plain, self.net\n    a, b = b, a\n    b.state_dict()"
    ),
    "assigned anew": "def f(self):\n    n = self.net\n    n = self.plain\n    n.state_dict()",
    "loop variable used again": (
        "def f(self):\n    for n in self.nets:\n        pass\n    for n in [self.plain]:\n"
        "        n.state_dict()"
    ),
    "unwrapped": "def f(self): return self.net._orig_mod.state_dict()",
    "unwrapped by getattr": (
        "def f(self): return getattr(self.net, '_orig_mod', self.net).state_dict()"
    ),
    "unwrapped if it has one": (
        "def f(self):\n    m = self.net._orig_mod if hasattr(self.net, '_orig_mod') else self.net\n"
        "    return m.state_dict()"
    ),
    "part of a wrapped module": "def f(self): return self.net.head.state_dict()",
    "built in a worker": (
        "def f(self, weights):\n    actor = nn.Linear(2, 2)\n    actor.state_dict()"
    ),
    "built by a function": (
        "def f(self):\n    return g(3).state_dict()\n\n\ndef g(n):\n    return nn.Linear(n, n)"
    ),
    "scheduler": (
        "def f(self):\n    s = torch.optim.lr_scheduler.StepLR(self.opt, 10)\n    s.state_dict()"
    ),
    "scaler": "def f(self):\n    s = torch.amp.GradScaler('cpu')\n    s.state_dict()",
    "output": "def f(self, x): return self.net(x).state_dict()",
    "same helper, plain argument": (
        "def f(self):\n    same(self.net)\n    return same(self.plain).state_dict()\n\n\n"
        "def same(m):\n    return m"
    ),
}


@pytest.mark.parametrize("kind", NO)
def test_no(kind: str) -> None:
    assert holding(NO[kind]).kind == "no"


MAY = {
    "conditional": "def f(self, c): return (self.net if c else self.plain).state_dict()",
    "branches": (
        "def f(self, c):\n    n = self.plain\n    if c:\n        n = self.net\n    n.state_dict()"
    ),
    "swapped attributes": (
        "def f(self):\n    self.net, self.plain = self.plain, self.net\n    self.plain.state_dict()"
    ),
    "mixed list": "def f(self, i):\n    l = [self.net, self.plain]\n    l[i].state_dict()",
    "all values": "def f(self): return [n.state_dict() for n in self.by_name.values()]",
    "two callers": (
        "def f(self):\n    g(self.net)\n    g(self.plain)\n"
        "\n\ndef g(net):\n    return net.state_dict()"
    ),
    "default": "def f(self, other=None): return (other or self.net).state_dict()",
}


@pytest.mark.parametrize("kind", MAY)
def test_may(kind: str) -> None:
    assert holding(MAY[kind]).kind == "may"


UNKNOWN = {
    "no caller": ("def f(self, net): return net.state_dict()", "says what `net` of `f` is given"),
    "computed attribute": (
        "def f(self, k): return getattr(self, k).state_dict()",
        "the attribute's name is computed (learner.py:14)",
    ),
    "formatted attribute": (
        "def f(self, k): return getattr(self, f'{k}_net').state_dict()",
        "the attribute's name is computed",
    ),
    "vars": ("def f(self): return vars(self)['net'].state_dict()", "through `vars()`"),
    "__dict__": ("def f(self): return self.__dict__['net'].state_dict()", "through `__dict__`"),
    "double star": (
        "def f(self, run):\n    run(g)\n\n\ndef g(**kw):\n    kw['net'].state_dict()",
        "it comes through `**kw` of `g`",
    ),
    "star": (
        "def f(self, run):\n    run(g)\n\n\ndef g(*nets):\n    nets[0].state_dict()",
        "it comes through `*nets` of `g`",
    ),
    "given to a stranger": (
        "def f(self, fabric):\n    import lib\n    lib.setup(self.net).state_dict()",
        "`setup` is given a wrapped module at learner.py:16 and may hand it back",
    ),
    "never set": ("def f(self): return self.late.state_dict()", "sets `late` of Learner"),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_unknown(kind: str) -> None:
    body, reason = UNKNOWN[kind]
    found = holding(body)
    assert found.kind == "unknown"
    assert reason in found.chain[0]


CHAINS = {
    "def f(self): return self.net.state_dict()": ("`self.net` is wrapped at learner.py:7",),
    "def f(self):\n    for n, o in zip(self.nets, self.opts):\n        n.state_dict()": (
        "`n` is an element of `self.nets` (learner.py:15), wrapped at learner.py:9",
    ),
    "def f(self):\n    net = self.net\n    return net.state_dict()": (
        "`net` is `self.net` (learner.py:15), wrapped at learner.py:7",
    ),
    "def f(self): return g(self.net)\n\n\ndef g(net):\n    return net.state_dict()": (
        "`net` is given `self.net` (learner.py:14), wrapped at learner.py:7",
    ),
    "def f(self): return self.g().state_dict()\ndef g(self): return self.nets[0]": (
        "`g` returns `self.nets[0]` (learner.py:15)",
        "`self.nets` is wrapped at learner.py:9",
    ),
    "def f(self): return self.opt.state_dict()": (
        "`self.opt` is an optimizer built at learner.py:12",
    ),
    "def f(self): return self.plain.state_dict()": (
        "`self.plain` is made by `nn.Linear(2, 2)` at learner.py:8, never wrapped",
    ),
    "def f(self, c):\n    n = self.net if c else self.plain\n    n.state_dict()": (
        "`n` is `self.net if c else self.plain` (learner.py:15)",
        "`self.net` is wrapped at learner.py:7",
        "or else `n` is `self.net if c else self.plain` (learner.py:15); "
        "`self.plain` is made by `nn.Linear(2, 2)` at learner.py:8, never wrapped",
    ),
}


@pytest.mark.parametrize("body", CHAINS)
def test_reasons(body: str) -> None:
    assert holding(body).chain == CHAINS[body]


def test_property_and_dataclass_field() -> None:
    found = holding(
        """
        @property
        def model(self):
            return self.net

        def bundle(self):
            return Bundle(net=self.model, step=1)

        def f(self):
            b = self.bundle()
            return b.net.state_dict()


        from dataclasses import dataclass

        @dataclass
        class Bundle:
            net: nn.Module
            step: int
        """
    )
    assert found.kind == "definite"
    assert found.chain == (
        "`b` is `self.bundle()` (learner.py:22)",
        "`bundle` returns `Bundle(net=self.model, step=1)` (learner.py:19)",
        "`Bundle.net` is given `self.model` (learner.py:19)",
        "`model` returns `self.net` (learner.py:16), wrapped at learner.py:7",
    )


def test_function_handed_on_may_be_called_by_anybody() -> None:
    found = holding(
        """
        def f(self):
            register(g)
            g(self.net)


        def g(net):
            return net.state_dict()
        """,
    )
    assert found.kind == "may"


def test_wrapper_around_a_wrapped_module() -> None:
    found = holding("def f(self):\n    dp = nn.DataParallel(self.net)\n    dp.state_dict()")
    assert (found.kind, found.shape) == ("definite", "nested")
    assert found.chain == (
        "`dp` is `nn.DataParallel(self.net)` (learner.py:15)",
        "`self.net` is wrapped at learner.py:7",
        "its keys become `module._orig_mod.*`, which the rule does not clean",
    )


def test_container_of_modules_has_keys_of_its_own() -> None:
    found = holding("def f(self):\n    l = nn.ModuleList(self.nets)\n    l.state_dict()")
    assert (found.kind, found.shape) == ("definite", "owner")


def test_recursion_and_circles_settle() -> None:
    found = holding(
        """
        def f(self, n):
            if n:
                return self.g(n - 1)
            return self.net

        def g(self, n):
            self.last = self.f(n)
            return self.last

        def h(self):
            return self.last.state_dict()
        """,
    )
    assert found.kind == "definite"
