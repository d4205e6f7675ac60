"""What runs on other machines runs here: the action, the examples for CI, the hook for commits."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/guides/nightly.md").read_text(encoding="utf-8")
UNGATED = "import torch\n\n\ndef fast(net):\n    return torch.compile(net)\n"
GATED = UNGATED.replace("(net):", "(net, cfg):").replace(
    "    return", "    if cfg.compile:\n        return"
)


def example(name):
    """Return a file as the guide shows it."""
    found = re.search(rf'^```yaml title="{re.escape(name)}"\n(.*?)^```$', GUIDE, re.M | re.S)
    return YAML(typ="safe").load(found[1])


ACTION = YAML(typ="safe").load(ROOT / "action.yml")
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}
WORKFLOW, GITLAB = example(".github/workflows/porttool.yml"), example(".gitlab-ci.yml")
HOOKS = YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")


def lines(job):
    """Return a GitLab job's script as its runner runs it."""
    return "set -eo pipefail\n" + "\n".join(job["script"])


SCRIPTS = {
    **{name: step["run"] for name, step in STEPS.items()},
    **{name: lines(job) for name, job in GITLAB.items() if "script" in job},
}


def bash(script, folder, **environment):
    """Run a script as GitHub's runner runs a step, with the porttool that is tested."""
    env = {**os.environ, **environment}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_is_one(name):
    done = subprocess.run(["bash", "-n", "-c", SCRIPTS[name]], capture_output=True, check=False)
    assert done.stderr == b""


def test_the_action_gives_its_steps_what_they_read():
    for name, step in STEPS.items():
        read = set(re.findall(r"\$\{?([A-Z_]+)", step["run"])) - {"GITHUB_ACTION_PATH"}
        assert read == set(step.get("env", {})), name
        # An input that is put into a script's text would be run.
        assert "${{" not in step["run"], name
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])


def test_the_workflow_calls_the_action_as_it_is():
    calls = [
        step
        for job in WORKFLOW["jobs"].values()
        for step in job["steps"]
        if step["uses"].startswith("OWNER/porttool@")
    ]
    assert [call["with"]["run"] for call in calls] == ["check", "refresh"]
    for call in calls:
        assert set(call["with"]) <= set(ACTION["inputs"])
    [upload] = [step for step in WORKFLOW["jobs"]["check"]["steps"] if "sarif" in step["uses"]]
    assert upload["with"]["sarif_file"] == "${{ steps.porttool.outputs.sarif }}"
    assert set(ACTION["outputs"]) == {"sarif"}


@pytest.mark.parametrize(("content", "code"), [(UNGATED, 4), (GATED, 0)], ids=["ungated", "gated"])
def test_a_pull_request_with_an_ungated_call_fails(make_repo, content, code):
    repo = make_repo({"src/a b.py": content, "other/b.py": UNGATED})
    check = STEPS["Check that compiled code is behind a switch"]["run"]
    done = bash(check, repo.path, CHECKED="src/a b.py\nsrc\n", SARIF="out.sarif")
    assert done.returncode == code, done.stderr
    assert '"version": "2.1.0"' in (repo.path / "out.sarif").read_text()
    assert bash(lines(GITLAB["ungated calls"]), repo.path).returncode == code


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder for a remote whose port is older than its main; the first test fills it."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def nightly(make_port, made, tmp_path):
    """Return a clone as CI makes one, of such a remote, and where the port's branch is there."""
    if not any(made.iterdir()):
        repo = make_port()
        repo.git("clone", "-q", "--bare", ".", str(made / "remote.git"))
        repo.git("remote", "add", "origin", str(made / "remote.git"))
        assert bash("porttool apply -q", repo.path).returncode == 0
        repo.git("push", "-q", "origin", "port/compile-it", "refs/notes/porttool")
        repo.commit({"src/other.py": "x = 1\n"}, "moved on")
        repo.git("push", "-q", "origin", "main")
        (made / "tip").write_text(repo.id("port/compile-it"))
    shutil.copytree(made / "remote.git", tmp_path / "remote.git", symlinks=True)
    clone = [
        "git",
        "clone",
        "-q",
        "-b",
        "main",
        str(tmp_path / "remote.git"),
        str(tmp_path / "clone"),
    ]
    subprocess.run(clone, check=True)
    return tmp_path / "clone", (made / "tip").read_text()


@pytest.mark.parametrize("where", ["GitHub", "GitLab"])
def test_a_port_is_made_again_at_night(nightly, where, tmp_path):
    clone, before = nightly
    script = STEPS["Make every port again"]["run"]
    if where == "GitLab":
        script = lines(GITLAB["refresh ports"])
    address = str(tmp_path / "remote.git")
    done = bash(script, clone, REMOTE="origin", VERIFY="false", PORTTOOL_REMOTE=address)
    assert done.returncode == 0, done.stdout + done.stderr
    there = subprocess.run(
        ["git", "ls-remote", address, "refs/heads/port/compile-it"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[0]
    assert there != before
    base = subprocess.run(
        ["git", "merge-base", "--is-ancestor", "main", there], cwd=clone, check=False
    )
    assert base.returncode == 0


def test_a_merged_port_whose_branch_nobody_deleted_does_not_fail_the_night(nightly, tmp_path):
    clone, _ = nightly
    for words in (
        ("config", "user.name", "Ada"),
        ("config", "user.email", "ada@example.org"),
        ("fetch", "-q", "origin", "refs/notes/porttool:refs/notes/porttool"),
        ("merge", "-q", "--no-ff", "--no-edit", "origin/port/compile-it"),
        ("push", "-q", "origin", "main"),
    ):
        subprocess.run(["git", *words], cwd=clone, check=True)
    script = STEPS["Make every port again"]["run"]
    done = bash(script, clone, REMOTE="origin", VERIFY="false")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compile-it is already ported" in done.stdout
    [ports] = [line.strip() for line in script.splitlines() if "ports=" in line]
    assert ports in GITLAB["refresh ports"]["script"]


@pytest.mark.parametrize(("content", "code"), [(UNGATED, 4), (GATED, 0)], ids=["ungated", "gated"])
def test_the_hook_for_commits_runs(make_repo, content, code):
    """As pre-commit runs it: the entry's words, then the files that are committed."""
    repo = make_repo({"a.py": content})
    [hook] = HOOKS
    assert (hook["id"], hook["language"], hook["types"]) == ("porttool-gate", "python", ["python"])
    assert bash(f"{hook['entry']} {shlex.quote('a.py')}", repo.path).returncode == code
    [entry] = example(".pre-commit-config.yaml")["repos"]
    assert [one["id"] for one in entry["hooks"]] == [hook["id"]]
