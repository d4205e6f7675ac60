"""What is stored on an object from outside: followed where it is known, doubted where it is not.

`learner.py` stores the wrapped network; the last `.state_dict()` of `server.py` is asked about.
"""

from __future__ import annotations

import ast
from textwrap import dedent, indent

import pytest

from porttool.deciding.dataflow import Holding, analyse
from porttool.learning.lesson import Lesson, Wrapper
from porttool.source.syntax import parse_source

LESSON = Lesson(
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
import dataclasses, importlib, sys
import library, server, torch
from torch import nn
from server import Server

class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(2, 2))
        self.opt = torch.optim.Adam(self.net.parameters())

"""
SERVER = """
class Server:
    net = None

    def publish(self):
        return self.net.state_dict()
"""


def holding(method: str, server: str = SERVER) -> Holding:
    texts = {
        "learner.py": LEARNER + indent(dedent(method).strip("\n"), "    "),
        "server.py": server,
    }
    sources = {path: parse_source(path, f"{text}\n".encode()) for path, text in texts.items()}
    flow = analyse(sources, (), LESSON)
    call = flow.project.files["server.py"].calls["state_dict"][-1]
    assert isinstance(call.func, ast.Attribute)
    return flow.judge("server.py", call.func.value)


UNKNOWN = [
    "server.net = self.net",
    "server.other.net = self.net",
    "server.net, self.last = self.net, None",
    'setattr(server, "net", self.net)',
    "setattr(server, cfg.name, self.net)",
    'object.__setattr__(server, "net", self.net)',
    'server.__setattr__("net", self.net)',
    'vars(server)["net"] = self.net',
    'server.__dict__["net"] = self.net',
    "server.__dict__.update(net=self.net)",
    'vars(server).update({"net": self.net})',
    "return dataclasses.replace(server, net=self.net)",
    "library.build(cfg.server).net = self.net",
]


@pytest.mark.parametrize("stores", UNKNOWN)
def test_what_an_unknown_object_is_given_may_be_any_class_s(stores: str) -> None:
    found = holding(f"def attach(self, server, cfg):\n    {stores}")
    assert (found.kind, found.sure) == ("unknown", True)
    assert "learner.py:13" in " ".join(found.chain)


@pytest.mark.parametrize("stores", UNKNOWN)
def test_another_object_that_it_is_given_is_no_doubt(stores: str) -> None:
    server = SERVER.replace("net = None", "net = object()")
    found = holding(
        f"def attach(self, server, cfg):\n    {stores}".replace("self.net", "cfg"), server
    )
    assert found.kind != "definite"
    assert not found.sure


@pytest.mark.parametrize(
    "method",
    [
        "def attach(self, server: Server):\n    server.net = self.net",
        "def attach(self):\n    server = Server()\n    server.net = self.net",
        'def attach(self):\n    setattr(Server(), "net", self.net)',
        'def attach(self):\n    vars(Server())["net"] = self.net',
        "def attach(self):\n    Server.net = self.net",
    ],
)
def test_what_a_known_object_is_given_is_its_class_s_alone(method: str) -> None:
    assert holding(method).kind == "definite"
    other = SERVER.replace("Server", "Other").replace("None", "object()")
    other = f"{SERVER}\n{other}"
    assert holding(method, other).kind == "no"


@pytest.mark.parametrize(
    ("adds", "made", "read"),
    [
        ("server.nets.append(self.net)", "[]", "[0]"),
        ("server.nets.extend([self.net])", "[]", "[0]"),
        ('server.nets["a"] = self.net', "{}", '["a"]'),
        ("server.nets.update(a=self.net)", "{}", '["a"]'),
        ("server.nets += [self.net]", "[]", "[0]"),
    ],
)
def test_what_an_unknown_object_s_container_is_given_may_be_in_any(
    adds: str, made: str, read: str
) -> None:
    server = f"""
    class Server:
        def __init__(self):
            self.nets = {made}

        def publish(self):
            return self.nets{read}.state_dict()
    """
    found = holding(f"def attach(self, server):\n    {adds}", dedent(server))
    assert (found.kind, found.sure) == ("unknown", True)


GLOBAL = "NET = None\n\ndef publish():\n    return NET.state_dict()"


@pytest.mark.parametrize(
    ("stores", "kind"),
    [
        ("server.NET = self.net", "definite"),
        ('setattr(server, "NET", self.net)', "definite"),
        ('vars(server)["NET"] = self.net', "definite"),
        ('importlib.import_module("server").NET = self.net', "unknown"),
        ('sys.modules["server"].NET = self.net', "unknown"),
        ("pass", "unknown"),
    ],
)
def test_a_global_name_is_what_other_files_make_of_it(stores: str, kind: str) -> None:
    assert holding(f"def attach(self):\n    {stores}", GLOBAL).kind == kind


def test_none_alone_is_not_the_whole_story_of_an_attribute() -> None:
    found = holding("def attach(self):\n    pass")
    assert found.kind == "unknown"
    assert found.chain == (
        "`self.net` is None as far as the analysed files show; somebody sets it",
    )


@pytest.mark.parametrize(
    ("stores", "read"),
    [
        ("library.current().net = self.net", "library.current().net"),
        ('library.register("net", self.net)', 'library.get("net")'),
        ("pass", 'functools.reduce(getattr, ["net"], Learner(None))'),
    ],
)
def test_what_a_library_keeps_it_may_give_back(stores: str, read: str) -> None:
    server = (
        "import functools, library\nfrom learner import Learner\n"
        f"class Server:\n    pass\ndef publish():\n    return {read}.state_dict()"
    )
    found = holding(f"def attach(self):\n    {stores}", server)
    assert (found.kind, found.sure) == ("unknown", True)


@pytest.mark.parametrize(
    "body",
    [
        "for net in sum([[Learner(0).net], []], []):\n    net.state_dict()",
        "class Known:\n    found = []\n"
        "    def __init_subclass__(cls):\n        Known.found.append(cls)\n"
        "class One(Known):\n    def __init__(self):\n        self.net = Learner(0).net\n"
        "for cls in Known.found:\n    cls().net.state_dict()",
        "class Held:\n    net = None\n    def __new__(cls):\n        held = super().__new__(cls)\n"
        "        held.net = Learner(0).net\n        return held\n"
        "    def publish(self):\n        return self.net.state_dict()",
        "class Link:\n    def __get__(self, owner, cls=None):\n        return Learner(0).net\n"
        "class Held:\n    net = Link()\n"
        "    def publish(self):\n        return self.net.state_dict()",
    ],
)
def test_what_classes_do_by_themselves_is_followed(body: str) -> None:
    server = f"from learner import Learner\nclass Server:\n    pass\n{body}"
    assert holding("def attach(self):\n    pass", server).kind == "definite"


def test_a_wrapper_around_a_wrapped_one_is_always_asked() -> None:
    found = holding(
        "def spread(self):\n    self.net = nn.DataParallel(self.net)",
        "from learner import Learner\nclass Server:\n    pass\nLearner(0).net.state_dict()",
    )
    assert (found.kind, found.sure) == ("may", True)


@pytest.mark.parametrize(
    ("stores", "kind"),
    [
        ("server.part = self.net", "unknown"),
        ('server.add_module("part", self.net)', "unknown"),
        ('Server().add_module("part", self.net)', "definite"),
        ("setattr(Server(), cfg.name, self.net)", "definite"),
        ("server.elsewhere = self.net", "no"),
        ("server.part = self.opt", "no"),
    ],
)
def test_a_module_owns_what_it_is_given_from_outside(stores: str, kind: str) -> None:
    server = """
    from torch import nn

    class Server(nn.Module):
        def forward(self, x):
            return self.part(x)

    def publish():
        return Server().state_dict()
    """
    found = holding(f"def attach(self, server, cfg):\n    {stores}", dedent(server))
    assert (found.kind, found.shape) == (kind, "object" if kind == "no" else "owner")


@pytest.mark.parametrize(
    ("stores", "pickles"), [("server.net = self.net", True), ("server.net = self.opt", False)]
)
def test_pickling_takes_along_what_attributes_hold(stores: str, pickles: bool) -> None:
    learner = f"{LEARNER}    def attach(self, server: Server):\n        {stores}\n"
    server = f"{SERVER}\n\nall_of_them = [Server()]\n"
    texts = {"learner.py": learner, "server.py": server}
    sources = {path: parse_source(path, text.encode()) for path, text in texts.items()}
    last = sources["server.py"].tree.body[-1]
    assert isinstance(last, ast.Assign)
    found = analyse(sources, (), LESSON).pickles("server.py", last.value)
    assert (found is not None) == pickles
