"""Before and behind the gate: the switch's place, the variants, and where the experiment is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from porttool.errors import PlanError, RepositoryError
from porttool.experiment import find_experiment
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository, open_repository
from porttool.plan.plan import Plan, load_plan
from porttool.trees import check_switch, write_config

CASES = Path(__file__).parent / "cases" / "gate"
FILES = {
    name: (CASES / "onto" / name).read_text()
    for name in ("src/lab/config.py", "configs/default.yaml")
}


@pytest.fixture
def lab(make_repo: Any) -> Iterator[tuple[Any, Repository, Quarantine]]:
    """The sample trainer in a repository, opened, with a quarantine in front of it."""
    work = make_repo(FILES)
    with open_repository(work.path) as repo, Quarantine(repo) as quarantine:
        yield work, repo, quarantine


def _plan(folder: Path, old: str = "", new: str = "") -> Plan:
    text = (CASES / "port.yaml").read_text()
    assert old in text
    folder.mkdir()
    (folder / "port.yaml").write_text(text.replace(old, new, 1) if old else text)
    return load_plan(folder / "port.yaml")


def test_a_variant_is_written_once_and_over_nothing_else(
    lab: tuple[Any, Repository, Quarantine], tmp_path: Path
) -> None:
    _, repo, quarantine = lab
    plan = _plan(tmp_path / "port")
    tree = repo.tree_of(repo.resolve("main"))
    once = write_config(quarantine, tree, plan)
    assert write_config(quarantine, once, plan) == once
    other = quarantine.write_tree(tree, {"configs/large.yaml": b"mine: 1\n"})
    with pytest.raises(PlanError) as caught:
        write_config(quarantine, other, plan)
    assert caught.value.what == "variants: configs/large.yaml exists on onto"
    assert caught.value.where == f"{plan.path} (variants)"
    assert str(caught.value.next).endswith("git rm -- configs/large.yaml")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "case",
    [
        (
            "module: src/lab/config.py",
            "module: src/config.py",
            "switch.module: src/config.py is not in the tree that is ported onto",
            "switch.module",
            "write module: src/lab/config.py",
        ),
        (
            "module: src/lab/config.py",
            "module: nowhere/at_all.txt",
            "switch.module: nowhere/at_all.txt is not in the tree that is ported onto",
            "switch.module",
            "name the file with the project's config classes",
        ),
        (
            "root: LabConfig",
            "root: LabConfg",
            "switch.root: src/lab/config.py has no class LabConfg",
            "switch.root",
            "write root: LabConfig",
        ),
    ],
)
def test_a_switch_without_a_place_is_refused_before_anything_is_gated(
    lab: tuple[Any, Repository, Quarantine],
    tmp_path: Path,
    case: tuple[str, str, str, str, str],
) -> None:
    _, repo, quarantine = lab
    old, new, what, where, next = case
    tree = repo.tree_of(repo.resolve("main"))
    check_switch(quarantine, tree, _plan(tmp_path / "right"))
    plan = _plan(tmp_path / "wrong", old, new)
    with pytest.raises(PlanError) as caught:
        check_switch(quarantine, tree, plan)
    assert (caught.value.what, caught.value.next) == (what, next)
    assert caught.value.where == f"{plan.path} ({where})"
    assert caught.value.exit_code == 2


def test_an_experiment_that_is_nowhere_says_what_was_looked_for(
    lab: tuple[Any, Repository, Quarantine], tmp_path: Path
) -> None:
    work, repo, quarantine = lab
    id = "0123456789" * 4
    without = _plan(tmp_path / "without")
    named = _plan(tmp_path / "named", "switch:\n", "  bundle: x.bundle\nswitch:\n")
    bundle = tmp_path / "named" / "x.bundle"
    with pytest.raises(RepositoryError) as caught:
        find_experiment(repo, quarantine, without)
    assert caught.value.what == f"the experiment's commit {id} is not in this repository"
    assert "the port brings no bundle" in str(caught.value.why)
    assert "git bundle create experiment.bundle experiments/torch-compile" in str(caught.value.next)
    assert caught.value.exit_code == 2
    with pytest.raises(RepositoryError) as caught:
        find_experiment(repo, quarantine, named)
    assert caught.value.where == f"{named.path} (experiment.bundle)"
    assert str(caught.value.why).endswith(f"the bundle that the plan names is not there: {bundle}")
    assert "git bundle create x.bundle" in str(caught.value.next)
    work.git("remote", "add", "origin", "nowhere")
    for plan in (without, named):
        with pytest.raises(RepositoryError) as caught:
            find_experiment(repo, quarantine, plan)
        assert caught.value.next == "git fetch origin experiments/torch-compile"
    work.git("bundle", "create", "-q", str(bundle), "main")
    with pytest.raises(RepositoryError) as caught:
        find_experiment(repo, quarantine, named)
    assert caught.value.what == f"the bundle x.bundle does not hold the experiment's commit {id}"
    assert f"git bundle list-heads {bundle}" in str(caught.value.next)
    assert caught.value.exit_code == 2
