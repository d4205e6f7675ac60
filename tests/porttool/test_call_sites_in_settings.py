"""Calls of torch.compile where settings are in scope: the switch is read and declared there."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from porttool.calls.gating import Layout, Outcome, gate_files
from porttool.cli import app
from porttool.gating.idioms import lookup

CASES = Path(__file__).parent / "cases" / "gate_idioms"
FOLDERS = sorted(folder.parent.name for folder in CASES.glob("*/main"))
HEAD = """\
import argparse

import torch
from torch import nn

"""
PARSER = """\
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
"""
DECLARED = """\
parser.add_argument("--compile-model", action=argparse.BooleanOptionalAction, default=False)
"""


@pytest.mark.parametrize("name", FOLDERS)
def test_command_on_a_repository(
    name: str, make_repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole command, on the folders that show how a switch is declared: byte for byte."""
    main, expected = CASES / name / "main", CASES / name / "expected"
    files = {str(path.relative_to(main)): path.read_bytes() for path in main.rglob("*.*")}
    monkeypatch.chdir(make_repo(files).path)
    asks = json.loads((CASES / name / "expect.json").read_text())["ask"]
    for _ in range(2):
        done = CliRunner().invoke(app, ["gate", "."], catch_exceptions=False)
        assert done.exit_code == (3 if asks else 0)
        for path in files:
            assert Path(path).read_bytes() == (expected / path).read_bytes()
    assert CliRunner().invoke(app, ["gate", "--check", "."]).exit_code == (4 if asks else 0)


def gate(**files: str) -> Outcome:
    data = {f"{name}.py": textwrap.dedent(text).encode() for name, text in files.items()}
    return gate_files(data, switch="compile_model", env="COMPILE_MODEL")


def gate_one(body: str) -> str:
    """Gate a program whose `main(args)` has a body; return the body that comes out."""
    indented = textwrap.indent(textwrap.dedent(body), "    ")
    program = f"{HEAD}\n{PARSER}\n\ndef main(args):\n{indented}\n\nmain(parser.parse_args())\n"
    outcome = gate(train=program)
    assert list(outcome.open) == []
    text = outcome.changes["train.py"].decode()
    assert text.count(DECLARED) == 1
    inside = text.partition("def main(args):\n")[2].partition("\n\nmain(")[0]
    return textwrap.dedent(inside)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "net = torch.compile(nn.Linear(3, 3))\nprint(net(torch.ones(3)))\n",
            "net = _gated(torch.compile, nn.Linear(3, 3), args.compile_model)\n"
            "print(net(torch.ones(3)))\n",
            id="kept local",
        ),
        pytest.param(
            'net = torch.compile(nn.Linear(3, 3), mode="default", dynamic=False)\n'
            "net(torch.ones(3))\n",
            "net = _gated(torch.compile, nn.Linear(3, 3), args.compile_model, "
            'mode="default", dynamic=False)\nnet(torch.ones(3))\n',
            id="options stay",
        ),
        pytest.param(
            "net = torch.compile(model=nn.Linear(3, 3))\nnet(torch.ones(3))\n",
            "net = _gated(torch.compile, nn.Linear(3, 3), args.compile_model)\n"
            "net(torch.ones(3))\n",
            id="named model",
        ),
        pytest.param(
            "net = torch.compile(  # fast\n    (nn.Linear(3, 3)),  # small\n)\n"
            "net(torch.ones(3))\n",
            "net = _gated(  # fast\n"
            "    torch.compile, (nn.Linear(3, 3)), args.compile_model,  # small\n"
            ")\nnet(torch.ones(3))\n",
            id="comments and parentheses",
        ),
        pytest.param(
            'net = torch.compile(nn.Linear(3, 3), mode="default")\n'
            'torch.save(net.state_dict(), "net.pt")\n',
            'net = _maybe_compile(nn.Linear(3, 3), mode="default", enabled=args.compile_model)\n'
            'torch.save(net.state_dict(), "net.pt")\n',
            id="saved: in place",
        ),
        pytest.param(
            "nets = [torch.compile(nn.Linear(3, 3)) for _ in range(2)]\nnets[0](torch.ones(3))\n",
            "nets = [_maybe_compile(nn.Linear(3, 3), enabled=args.compile_model) "
            "for _ in range(2)]\n"
            "nets[0](torch.ones(3))\n",
            id="in a container: in place",
        ),
        pytest.param(
            "raw = nn.Linear(3, 3)\nfast = torch.compile(raw)\nprint(fast(torch.ones(3)), raw)\n",
            "raw = nn.Linear(3, 3)\n"
            "fast = _maybe_compiled_calls(raw, enabled=args.compile_model)\n"
            "print(fast(torch.ones(3)), raw)\n",
            id="two handles",
        ),
        pytest.param(
            "nets = list(map(torch.compile, [nn.Linear(3, 3)]))\nnets[0](torch.ones(3))\n",
            "nets = list(map(functools.partial(_maybe_compile, enabled=args.compile_model), "
            "[nn.Linear(3, 3)]))\nnets[0](torch.ones(3))\n",
            id="bare reference",
        ),
        pytest.param(
            "@torch.compile(dynamic=False)\ndef double(x):\n    return 2 * x\n\n"
            "@torch.compile\ndef half(x):\n    return x / 2\n\ndouble(half(torch.ones(3)))\n",
            "@_maybe_compile(dynamic=False, enabled=args.compile_model)\ndef double(x):\n"
            "    return 2 * x\n\n@_maybe_compile(enabled=args.compile_model)\ndef half(x):\n"
            "    return x / 2\n\ndouble(half(torch.ones(3)))\n",
            id="nested functions decorated",
        ),
        pytest.param(
            "net = nn.Linear(3, 3)\nnet.compile(dynamic=False,)\nnet(torch.ones(3))\n",
            "net = nn.Linear(3, 3)\n"
            "_maybe_compile(net, dynamic=False, enabled=args.compile_model,)\nnet(torch.ones(3))\n",
            id="the module's own method",
        ),
        pytest.param(
            "net = nn.Linear(3, 3)\nnet.compile()\nnet(torch.ones(3))\n",
            "net = nn.Linear(3, 3)\n_maybe_compile(net, enabled=args.compile_model)\n"
            "net(torch.ones(3))\n",
            id="the module's own method without options",
        ),
        pytest.param(
            "opt = torch.optim.SGD([torch.ones(3)], args.lr)\n"
            "opt.step = torch.compile(\n    opt.step,\n    fullgraph=False,\n)\nopt.step()\n",
            "opt = torch.optim.SGD([torch.ones(3)], args.lr)\nif args.compile_model:\n"
            "    opt.step = torch.compile(\n        opt.step,\n        fullgraph=False,\n    )\n"
            "opt.step()\n",
            id="a method rebound: guard",
        ),
        pytest.param(
            "torch._dynamo.config.recompile_limit = 64\nnet = torch.compile(nn.Linear(3, 3))\n"
            "for _ in range(3):\n    net(torch.zeros(3))\nprint(net(torch.ones(3)))\n",
            "if args.compile_model:\n    torch._dynamo.config.recompile_limit = 64\n"
            "net = _gated(torch.compile, nn.Linear(3, 3), args.compile_model)\n"
            "if args.compile_model:\n    for _ in range(3):\n        net(torch.zeros(3))\n"
            "print(net(torch.ones(3)))\n",
            id="settings of the compiler and a warm-up",
        ),
    ],
)
def test_form(body: str, expected: str) -> None:
    assert gate_one(body) == expected


PROGRAM = """
def main(args):
    net = torch.compile(nn.Linear(3, 3), backend="eager")
    nets = list(map(torch.compile, [nn.Linear(3, 3)]))
    raw = nn.Linear(3, 3)
    fast = torch.compile(raw, backend="eager")

    @torch.compile(backend="eager")
    def double(x):
        return 2 * x

    both = [torch.compile(nn.Linear(3, 3), backend="eager") for _ in range(2)]
    made = nn.Linear(3, 3)
    made.compile(backend="eager")
    double(fast(net(torch.ones(3)))), raw(torch.ones(3)), both[0](made(torch.ones(3)))
    return type(net), [*net.state_dict(), *nets[0].state_dict(), *both[0].state_dict()]


kind, keys = main(parser.parse_args())
"""


@pytest.mark.parametrize(("words", "num_frames"), [([], 0), (["--compile-model"], 5)])
def test_forms_run(words: list[str], num_frames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    code = gate(train=f"{HEAD}\n{PARSER}\n{PROGRAM}").changes["train.py"]
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters["frames"]
    before = counters["ok"]
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    names: dict[str, Any] = {"__name__": "train"}
    exec(compile(code, "train.py", "exec"), names)
    assert counters["ok"] - before == num_frames
    assert names["kind"] is torch.nn.Linear
    assert names["keys"] == ["weight", "bias"] * 3


@pytest.mark.parametrize("line_length", [100, 60])
def test_lines_are_broken_only_where_the_project_breaks_them(line_length: int) -> None:
    program = (
        f"{HEAD}\n{PARSER}\n\ndef main(args):\n    net = torch.compile(nn.Linear(3, 3))\n"
        "    return net(torch.ones(3))\n\n\nmain(parser.parse_args())\n"
    )
    outcome = gate_files(
        {"a.py": program.encode()},
        switch="compile_model",
        env="COMPILE_MODEL",
        layout=Layout(line_length, breaks_lines=True),
    )
    lines = outcome.changes["a.py"].decode().splitlines()
    assert max(map(len, lines)) <= line_length
    flat = "    net = _gated(torch.compile, nn.Linear(3, 3), args.compile_model)"
    assert (flat in lines) is (line_length == 100)


def test_a_decorator_runs_before_there_are_settings() -> None:
    """The environment decides it at its first call, and a note says so."""
    outcome = gate(
        train=f"{HEAD}\n@torch.compile\ndef double(x):\n    return 2 * x\n\n\ndef main(args):\n"
        "    net = torch.compile(nn.Linear(3, 3))\n    print(double(net(torch.ones(3))))\n\n\n"
        f'if __name__ == "__main__":\n{textwrap.indent(PARSER, "    ")}'
        "    main(parser.parse_args())\n"
    )
    text = outcome.changes["train.py"].decode()
    assert "@_maybe_compile_lazily\n" in text
    assert "_gated(torch.compile, nn.Linear(3, 3), args.compile_model)" in text
    assert outcome.env == "COMPILE_MODEL"
    notes = {one.line: one.what for one in outcome.findings if "COMPILE_MODEL" in one.what}
    assert notes == {7: "no settings are there yet when this runs: COMPILE_MODEL=1 turns it on"}
    assert list(outcome.open) == []


def test_a_decorator_in_front_of_the_settings_of_a_script() -> None:
    outcome = gate(
        train=f"{HEAD}\n@torch.compile\ndef double(x):\n    return 2 * x\n\n\n{PARSER}"
        "args = parser.parse_args([])\nnet = torch.compile(nn.Linear(3, 3))\n"
        "print(double(net(torch.ones(3))))\n"
    )
    text = outcome.changes["train.py"].decode()
    assert "@_maybe_compile_lazily\n" in text
    assert "net = _maybe_compile(nn.Linear(3, 3), enabled=args.compile_model)\n" in text
    assert list(outcome.open) == []


def test_settings_declared_in_a_file_that_is_not_gated_itself() -> None:
    """The file with the class is read because the first imports it, and changed once."""
    conf = "from dataclasses import dataclass\n\n\n@dataclass\nclass Config:\n    width: int = 3\n"
    build = (
        "import torch\nfrom torch import nn\n\nfrom conf import Config\n\n\n"
        "def {name}(config: Config):\n    return torch.compile(nn.Linear(config.width, 3))\n"
    )
    outcome = gate_files(
        {f"{name}.py": build.format(name=name).encode() for name in ("actor", "critic")},
        switch="compile_model",
        env="COMPILE_MODEL",
        imported={"conf.py": conf.encode(), "broken.py": b"def ("},
    )
    assert outcome.changes["conf.py"].decode() == conf + "    compile_model: bool = False\n"
    for name in ("actor", "critic"):
        assert b"nn.Linear(config.width, 3), config.compile_model)" in outcome.changes[f"{name}.py"]


def test_what_a_caller_shows_is_compiled_in_place() -> None:
    """The same function as in the case of an argparse flag, but its result is saved in sight."""
    outcome = gate(
        train=f"{HEAD}\n{PARSER}\n\ndef build(args):\n"
        "    return torch.compile(nn.Linear(3, 3))\n\n\n"
        "model = build(parser.parse_args())\n"
        'torch.save(model.state_dict(), "model.pt")\n'
    )
    text = outcome.changes["train.py"].decode()
    assert "return _maybe_compile(nn.Linear(3, 3), enabled=args.compile_model)" in text


def test_another_file_that_takes_the_result_shows_it() -> None:
    outcome = gate(
        train=f"{HEAD}\n{PARSER}\n\ndef parse():\n    return parser.parse_args()\n\n\n"
        "def build(args):\n    return torch.compile(nn.Linear(3, 3))\n",
        save="import train\n\nmodel = train.build(train.parse())\n",
    )
    text = outcome.changes["train.py"].decode()
    assert "return _maybe_compile(nn.Linear(3, 3), enabled=args.compile_model)" in text


def test_two_candidates_are_asked_about() -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\ndef build(cfg, args):\n"
        "    return torch.compile(nn.Linear(cfg.width, args.n))\n"
    )
    outcome = gate(train=text)
    assert outcome.changes == {}
    assert [(one.kind, one.line, one.column) for one in outcome.open] == [("ask", 6, 12)]
    assert "`cfg`" in outcome.open[0].what
    assert "`args`" in outcome.open[0].what


@pytest.mark.parametrize(
    ("config", "expression"),
    [("cfg", 'getattr(cfg, "compile_model", False)'), ("args", 'args.get("compile_model", False)')],
)
def test_two_candidates_and_the_answer(
    config: str, expression: str, make_repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question names what to type, and that gates the call; what has no such setting is off."""
    text = (
        "import torch\nfrom torch import nn\n\n\ndef build(cfg, args):\n"
        '    return torch.compile(nn.Linear(cfg.width, args["n"]))\n'
    )
    monkeypatch.chdir(make_repo({"a b.py": text.encode()}).path)
    asked = CliRunner().invoke(app, ["gate", "."])
    answer = f"porttool gate --config {config} 'a b.py'"
    assert (asked.exit_code, answer in asked.stdout) == (3, True)
    _, *words = shlex.split(answer)
    assert CliRunner().invoke(app, words).exit_code == 0
    assert f'args["n"]), {expression})' in Path("a b.py").read_text()
    assert CliRunner().invoke(app, ["gate", "--check", "."]).exit_code == 0
    refused = CliRunner().invoke(app, ["gate", "--config", "cfg()", "."])
    assert (refused.exit_code, "--config cfg, or --config self.cfg" in refused.stderr) == (2, True)


def test_settings_of_another_name_in_scope_do_not_hinder_the_answer() -> None:
    """Where the named object is not in scope, what is there counts as it does without the name."""
    text = (
        "import torch\nfrom torch import nn\n\n\ndef build(cfg, args):\n"
        "    return torch.compile(nn.Linear(cfg.width, args.n))\n\n\n"
        "class Trainer:\n    def __init__(self, cfg, options):\n"
        "        self.cfg = cfg\n        self.options = options\n"
        "        self.width = self.options.width\n\n"
        "    def build(self):\n        return torch.compile(nn.Linear(self.width, 1))\n"
    )
    outcome = gate_files(
        {"a.py": text.encode()}, switch="compile_model", env="COMPILE_MODEL", config="cfg"
    )
    assert outcome.changes == {}
    assert [one.line for one in outcome.open if one.kind == "ask"] == [16]


@pytest.mark.parametrize(
    "signature",
    ["*args", "args: tuple", "args: Sequence[int]", "args"],
)
def test_arguments_in_a_row_are_no_settings(signature: str) -> None:
    text = (
        f"import torch\nfrom torch import nn\n\n\ndef build({signature}):\n"
        "    net = nn.Linear(*args)\n    return torch.compile(net)\n"
    )
    outcome = gate(train=text)
    assert list(outcome.open) == []
    assert outcome.env == "COMPILE_MODEL"


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (
            "from nets import Net\n\nnet = torch.compile(Net(3, 3).eval())\n",
            "`Net` has a `__call__`",
        ),
        ("net = torch.compile(nn.Linear(3, 3))\n", "`net.forward(...)` (other.py:3) runs"),
        (
            "def make():\n    return torch.compile(nn.Linear(3, 3))\n",
            "`made.forward(...)` (other.py:5) runs",
        ),
    ],
)
def test_what_other_files_say_of_a_module_in_place(use: str, what: str) -> None:
    """A base class's own `__call__`, and calls of `forward`: both go around what is compiled."""
    outcome = gate(
        use=f"import torch\nfrom torch import nn\n\n{use}",
        nets="from torch import nn\n\n\nclass Base(nn.Linear):\n"
        "    def __call__(self, x):\n        return self.forward(x)\n\n\n"
        "class Net(Base):\n    pass\n",
        other="from use import net, make\n\nnet.forward(1)\nmade = make()\nmade.forward(1)\n",
    )
    assert outcome.changes == {}
    assert [one.path for one in outcome.open if one.what.startswith(what)] == ["use.py"]


def test_a_call_that_goes_on_to_the_module_is_compiled() -> None:
    outcome = gate(
        use="import torch\nfrom torch import nn\n\n\nclass Net(nn.Linear):\n"
        "    def __call__(self, x):\n        return super().__call__(x)\n\n\n"
        "net = torch.compile(Net(3, 3))\n",
    )
    assert list(outcome.open) == []
    assert b"net = _maybe_compile(Net(3, 3))\n" in outcome.changes["use.py"]


def test_a_comment_says_what_is_there_for_compile() -> None:
    outcome = gate(
        use="import torch\nfrom torch import nn\n\nnet = torch.compile(nn.Linear(3, 3))\n"
        "# Static shapes only:\n# the compiler sees each of them.\n"
        "x = nn.functional.pad(torch.ones(2), (0, 1))\n"
        "y = x[:3]  # no recompilation\n# net = torch.compile(net)\nprint(net(y))\n"
    )
    assert [(one.kind, one.line) for one in outcome.findings] == [("note", 7), ("note", 8)]


def test_a_large_file_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its statements bind is asked for each of its names, and walked for once."""
    names = range(60)
    text = (
        "import torch\nfrom torch import nn\n"
        + "".join(f"def f{n}(a):\n    return a\nX{n} = f{n}({n})\n" for n in names)
        + "def build(args):\n"
        + "".join(f"    v{n} = f{n}(args.n)\n" for n in names)
        + "    return torch.compile(nn.Linear(args.n, 3))\n"
    )
    walked: list[str] = []

    def counted(name: str, names_of: Callable[[Any], set[str]]) -> None:
        def walk(part: Any) -> set[str]:
            walked.append(name)
            return names_of(part)

        monkeypatch.setattr(lookup, name, walk)

    counted("bound_names", lookup.bound_names)
    counted("local_names", lookup.local_names)
    gate(train=text)
    assert 0 < len(walked) < 2 * text.count("\n")


def test_a_switch_by_another_name() -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\ndef build():\n"
        "    net = torch.compile(nn.Linear(3, 3))\n"
        "    net.forward = net.forward\n    return net\n"
    )
    outcome = gate_files({"a.py": text.encode()}, switch="fast", env="GO_FAST")
    code = outcome.changes["a.py"].decode()
    assert 'os.environ.get("GO_FAST", "0")' in code
    assert "def _fast_is_on():" in code
    again = gate_files({"a.py": code.encode()}, switch="fast", env="GO_FAST")
    assert (again.changes, list(again.open)) == ({}, [])
