"""Repositories of any size around one small port, made in one go by `git fast-import`.

Equal arguments give equal commits. A learner's one network is wrapped on `experiments/wrapped`;
`main` has gained modules that read its weights, some of them in files that the experiment never
saw, and everything else in the tree has nothing to do with it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

EXPERIMENT = "experiments/wrapped"
_FILES_IN_A_FOLDER = 50

_CONFIG = '''\
"""Settings."""

from dataclasses import dataclass, field


@dataclass
class Network:
    size: int = 4


@dataclass
class Config:
    network: Network = field(default_factory=Network)
'''
_LEARNER = '''\
"""One network and its optimizer."""

import torch
from torch import nn

from project.config import Config


class Learner:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.policy = nn.Linear(config.network.size, config.network.size)
        self.optimizer = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {"policy": self.policy.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, saved):
        self.policy.load_state_dict(saved["policy"])
'''
_CLEAN = """\


def _clean_state_dict(state_dict):
    return {name.removeprefix("_orig_mod."): value for name, value in state_dict.items()}
"""
_PUSH = """\

    def push(self, queue):
        queue.put(self.policy.state_dict())
"""
_CONSUMER = '''\
"""What worker group {number} does with the weights of a learner."""

from project.learner import Learner


def publish_{number}(learner: Learner, queue) -> None:
    queue.put(learner.policy.state_dict())


def total_{number}(rows: list[float], scale: float = {number}.5) -> float:
    total = 0.0
    for index, row in enumerate(rows):
        if row > scale:
            total += row / (index + 1)
    return total


def restore_{number}(learner: Learner, saved) -> float:
    learner.policy.load_state_dict(saved["policy"])
    return total_{number}([float(value) for value in saved["history"]])
'''
_STRANGER = '''\
"""Report number {number}: nothing in here knows of any network."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row{number}:
    name: str
    amount: float
    tags: tuple[str, ...] = ()


def chosen(rows: list[Row{number}], limit: float = {number}.25) -> dict[str, float]:
    found: dict[str, float] = {{}}
    for row in rows:
        if row.amount > limit and "hidden" not in row.tags:
            found[row.name] = found.get(row.name, 0.0) + row.amount
    return found
'''
_METHOD = """\

    def measure_{number}(self, rows, limit={number}):
        kept = [row for row in rows if row is not None and len(row) > limit]
        for index, row in enumerate(kept):
            if index % 7 == 3:
                self.history[index] = sum(row) / (limit + 1)
        return kept
"""
_PLAN = """\
name: wrapped
experiment: {{branch: {branch}, commits: [{commit}]}}
switch:
  module: project/config.py
  root: Config
  key: compile
  class: CompileConfig
  gate: compile.learner.enabled
  options: [dynamic]
  sections:
    - key: learner
      class: CompileLearnerConfig
      fields:
        - {{name: enabled, type: bool, default: false}}
        - {{name: dynamic, type: bool, default: false}}
"""


def write_grown(folder: Path, *, num_files: int, num_relevant: int = 2, num_lines: int = 0) -> None:
    """Write a repository of about `num_files` Python files and check out its main.

    `num_relevant` of them read the wrapped network on main, the learner's own included; the
    learner's file has at least `num_lines` lines.
    """
    base = {
        "project/__init__.py": "",
        "project/config.py": _CONFIG,
        "project/learner.py": _LEARNER + _methods(num_lines),
        **dict(_strangers(num_files - num_relevant - 2)),
    }
    learner = base["project/learner.py"]
    wrapped = (
        learner.replace("nn.Linear(config.network.size, config.network.size)", "_WRAPPED_")
        .replace("_WRAPPED_", "torch.compile(nn.Linear(config.network.size, config.network.size))")
        .replace("self.policy.state_dict()", "_clean_state_dict(self.policy.state_dict())")
        .replace(
            "self.policy.load_state_dict(",
            'getattr(self.policy, "_orig_mod", self.policy).load_state_dict(',
        )
        .replace("\n\nclass Learner", f"{_CLEAN}\n\nclass Learner")
    )
    moved_on = {"project/learner.py": learner + _PUSH}
    for number in range(1, num_relevant):
        moved_on[f"project/workers/consumer_{number}.py"] = _CONSUMER.format(number=number)
    _git(folder.parent, "init", "--quiet", "--initial-branch=main", "--template=", str(folder))
    for name, value in {"user.name": "Grown Tree", "user.email": "grown@example.org"}.items():
        _git(folder, "config", name, value)
    experiment = {"project/learner.py": wrapped}
    _import(folder, "main", base)
    _import(folder, EXPERIMENT, experiment, onto="main")
    commit = _git(folder, "rev-parse", EXPERIMENT).decode().strip()
    moved_on["patches/wrapped/port.yaml"] = _PLAN.format(branch=EXPERIMENT, commit=commit)
    _import(folder, "main", moved_on, onto="main")
    _git(folder, "reset", "--quiet", "--hard", "main")


def _methods(num_lines: int) -> str:
    missing = num_lines - _LEARNER.count("\n")
    count = -(-missing // _METHOD.count("\n"))
    return "".join(_METHOD.format(number=number) for number in range(count))


def _strangers(count: int) -> Iterator[tuple[str, str]]:
    for number in range(count):
        part = number // _FILES_IN_A_FOLDER
        yield f"reports/part_{part}/report_{number}.py", _STRANGER.format(number=number)


def _import(folder: Path, branch: str, files: Mapping[str, str], *, onto: str = "") -> None:
    """Make one commit of a branch, on top of another branch or of itself."""
    stream = [
        f"commit refs/heads/{branch}\n".encode(),
        b"committer Grown Tree <grown@example.org> 1700000000 +0000\n",
        _data(f"{branch} moves on\n"),
    ]
    if onto:
        stream.append(f"from refs/heads/{onto}^0\n".encode())
    for path, text in files.items():
        stream += [f"M 100644 inline {path}\n".encode(), _data(text)]
    _git(folder, "fast-import", "--quiet", "--date-format=raw", input=b"".join(stream))


def _data(text: str) -> bytes:
    data = text.encode()
    return b"data %d\n%s\n" % (len(data), data)


def _git(folder: Path, *args: str, input: bytes = b"") -> bytes:
    done = subprocess.run(["git", *args], cwd=folder, input=input, capture_output=True, check=True)
    return done.stdout
