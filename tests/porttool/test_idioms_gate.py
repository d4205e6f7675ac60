"""`porttool gate` on projects that hold their settings in a known idiom, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from porttool.cli import app

CASES = Path(__file__).parent / "cases" / "gate_idioms"
NAMES = [path.name for path in sorted(CASES.iterdir()) if (path / "expect.json").exists()]


def texts(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git/" not in path.as_posix()
    }


def gate(repo, *options):
    done = CliRunner().invoke(app, ["gate", "--repo", str(repo.path), *options, str(repo.path)])
    return done.exit_code, done.output


@pytest.mark.parametrize("name", NAMES)
def test_a_case_is_gated_as_expected_or_asked(make_repo, name):
    expect = json.loads((CASES / name / "expect.json").read_text())
    repo = make_repo(texts(CASES / name / "main"))
    code, _ = gate(repo)
    assert code == (3 if expect["ask"] else 0)
    assert texts(repo.path) == texts(CASES / name / "expected")
    assert gate(repo)[0] == code
    assert texts(repo.path) == texts(CASES / name / "expected"), "a second run changes nothing"


def test_settings_files_that_reach_the_switch_and_that_do_not_are_told(make_repo):
    files = texts(CASES / "hydra_dictconfig" / "main")
    repo = make_repo(
        {
            **files,
            "conf/base.yaml": "width: 3\n",
            "conf/fast.yaml": "width: 3\ncompile_model: true\n",
            "conf/model/small.yaml": "depth: 1\n",
            "elsewhere.yaml": "depth: 1\n",
        }
    )
    code, output = gate(repo, "--json")
    assert code == 0
    told = {
        one["path"].rpartition("conf/")[2]: one["what"]
        for one in json.loads(output)["findings"]
        if one["path"].endswith(".yaml")
    }
    assert told == {
        "base.yaml": "can turn `compile_model` on: train.py starts from it",
        "fast.yaml": "turns `compile_model` on",
        "model/small.yaml": "cannot turn `compile_model` on: its keys end up under `model`, "
        "not at the top",
    }


def test_a_flag_is_out_of_reach_of_settings_files(make_repo):
    files = texts(CASES / "argparse_flag" / "main")
    text = files["train.py"].replace('"--out"', '"--out", default="out.yaml"')
    repo = make_repo({"train.py": text, "out.yaml": "width: 3\n"})
    code, output = gate(repo)
    assert code == 0
    assert (
        "out.yaml:1:1: cannot turn `compile_model` on: the switch is a flag of train.py" in output
    )
