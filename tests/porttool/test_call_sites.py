"""Every way in which projects call torch.compile: gated, run off and on, and gated once more.

Each folder under `cases/call_sites` is a program. `rewrite`: off it compiles nothing and computes
what it would if torch.compile gave back what it is given; on it compiles, with no key prefixed and
no wrapper bound. `flag`: reported with its line, the file left as it is. `leave`: no word about it.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule

from porttool.calls.gating import Outcome, gate_files, ungated_calls

CASES = Path(__file__).parent / "cases" / "call_sites"
FACTS = {folder.name: json.loads((folder / "case.json").read_text()) for folder in CASES.iterdir()}
ENV = "COMPILE_MODEL"


def named(action: str) -> list[str]:
    return sorted(name for name, facts in FACTS.items() if facts["action"] == action)


def source(name: str) -> bytes:
    return (CASES / name / "input.py").read_bytes()


def gated(data: bytes) -> Outcome:
    return gate_files({"input.py": data}, switch="compile_model", env=ENV)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """Return a function that runs a program as `__main__`, every compile with a counting backend.

    With `plain`, torch.compile gives back what it is given.
    """
    real = torch.compile
    settings = torch._dynamo.config.get_config_copy()
    monkeypatch.chdir(tmp_path)

    def run(code: bytes, *, on: bool = False, plain: bool = False) -> dict[str, Any]:
        graphs: list[int] = []

        def count(module: Any, inputs: Any) -> Any:
            graphs.append(1)
            return module.forward

        def compile(model: Any = None, **options: Any) -> Any:
            if plain:
                return model if model is not None else (lambda given: given)
            if not callable(options.get("backend")):
                options = {k: v for k, v in options.items() if k not in ("mode", "options")}
                options["backend"] = count
            return real(model, **options)

        torch._dynamo.reset()
        torch.manual_seed(0)
        monkeypatch.setattr(torch, "compile", compile)
        monkeypatch.setenv(ENV, "1" if on else "0")
        module = types.ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", module)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(__builtins__["compile"](code, "input.py", "exec"), module.__dict__)
        finally:
            monkeypatch.setattr(torch, "compile", real)
        return {**module.__dict__, "compiled graphs": len(graphs)}

    yield run
    # Some of the programs set it for the whole process, which other tests have to share.
    for name, value in torch._dynamo.config.get_config_copy().items():
        if value != settings[name]:
            setattr(torch._dynamo.config, name, settings[name])
    torch._dynamo.reset()


def leaks(names: dict[str, Any]) -> list[str]:
    """Return the names of a module that show a wrapper: in a key, or by being one."""
    found = []
    for name, value in names.items():
        if isinstance(value, OptimizedModule):
            found.append(name)
        for keys in all_keys(value):
            if "_orig_mod" in keys.split("."):
                found.append(f"{name}: {keys}")
    return found


def all_keys(value: Any, depth: int = 3) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(value, nn.Module):
        yield from value.state_dict()
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from [key] if isinstance(key, str) else []
            yield from all_keys(inner, depth - 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from all_keys(inner, depth - 1)
    elif hasattr(value, "__dict__") and not isinstance(value, type | types.ModuleType):
        for name, inner in vars(value).items():
            yield from all_keys(inner, depth - 1) if name[:2] != "__" else []


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [one for inner in value.values() for one in tensors(inner)]
    if isinstance(value, list | tuple):
        return [one for inner in value for one in tensors(inner)]
    return []


def same(left: Any, right: Any, *, exactly: bool) -> bool:
    ours, theirs = tensors(left), tensors(right)
    alike: Callable[..., bool] = torch.equal if exactly else torch.allclose
    return len(ours) == len(theirs) and all(map(alike, ours, theirs))


@pytest.mark.parametrize("name", named("rewrite"))
def test_gated(name: str, run: Callable[..., dict[str, Any]]) -> None:
    outcome = gated(source(name))
    assert list(outcome.open) == []
    code = outcome.changes["input.py"]
    off = run(code)
    assert off["compiled graphs"] == 0
    assert leaks(off) == []
    warm = FACTS[name].get("warm")
    if warm:
        assert off[warm] == 0
    if not FACTS[name].get("needs_wrapper"):
        plain = run(source(name), plain=True)
        if not warm:
            assert same(off.get("out"), plain.get("out"), exactly=True)
        assert list(all_keys(off.get("ckpt"))) == list(all_keys(plain.get("ckpt")))
    on = run(code, on=True)
    assert leaks(on) == []
    assert (on["compiled graphs"] > 0) is FACTS[name]["compiles"]
    if not warm:
        assert same(off.get("out"), on.get("out"), exactly=False)
    assert list(all_keys(off.get("ckpt"))) == list(all_keys(on.get("ckpt")))


@pytest.mark.parametrize("name", named("rewrite"))
def test_a_second_run_changes_nothing(name: str) -> None:
    code = gated(source(name)).changes["input.py"]
    again = gated(code)
    assert again.changes == {}
    assert list(again.open) == []
    assert ungated_calls({"input.py": code}, switch="compile_model") == ()


@pytest.mark.parametrize("name", named("flag"))
def test_flagged(name: str) -> None:
    outcome = gated(source(name))
    assert outcome.changes == {}
    lines = [one.line for one in outcome.open]
    assert set(FACTS[name].get("lines", lines[:1])) <= set(lines)
    assert lines
    assert 0 < min(lines) <= max(lines) <= source(name).count(b"\n")


@pytest.mark.parametrize("name", named("leave"))
def test_left(name: str) -> None:
    outcome = gated(source(name))
    assert outcome.changes == {}
    assert outcome.findings == ()
    assert ungated_calls({"input.py": source(name)}, switch="compile_model") == ()
