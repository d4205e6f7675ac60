"""What the README, CI, make and the constraints say agrees."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def name_of(requirement):
    return re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower().replace("_", "-")


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_every_requirement_is_pinned_once():
    wanted = set(map(name_of, PROJECT["dependencies"]))
    for extra in PROJECT["optional-dependencies"].values():
        wanted |= set(map(name_of, extra))
    pinned = [name_of(name) for name in pins()]
    assert len(pinned) == len(set(pinned))
    assert wanted <= set(pinned)
    assert pins()["torch"] == "2.13.0"


def test_ranges_in_the_project_file_stay_loose():
    extras = PROJECT["optional-dependencies"].values()
    every = [*PROJECT["dependencies"], *(item for extra in extras for item in extra)]
    assert [item for item in every if "==" in item or "<" in item] == []


def test_ci_runs_the_readmes_test_command_and_lint():
    readme = (ROOT / "README.md").read_text()
    run = (ROOT / ".ci" / "run").read_text().splitlines()
    words = [word for line in run if line.startswith("make ") for word in line.split()[1:]]
    commands = [f"make {word}" for word in words if word != "--jobs=2"]
    assert commands == ["make lint", "make test"]
    for command in commands:
        assert re.search(rf"^{command}\b", readme, re.MULTILINE), command


def test_the_package_needs_no_torch():
    assert not {"torch", "numpy", "numba"} & set(map(name_of, PROJECT["dependencies"]))
