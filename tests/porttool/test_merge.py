"""Merges of trees against real `git cherry-pick`, and every kind of conflict by its name."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from porttool.git.commits import CommitId, TreeId
from porttool.git.merge import MergeResult, merge_trees
from porttool.git.quarantine import Quarantine, attributes_in_folder
from porttool.git.repo import open_repository

Files = Mapping[str, bytes | str | None]
BODY = "".join(f"line {number}\n" for number in range(20))


def _merge(path: Path, base: str, ours: str, theirs: str) -> tuple[MergeResult, dict[str, bytes]]:
    """Return the merge and the merged tree's files."""
    with open_repository(path) as repo, Quarantine(repo) as quarantine:
        trees = [repo.tree_of(CommitId(id)) for id in (base, ours, theirs)]
        result = merge_trees(quarantine, base=trees[0], ours=trees[1], theirs=trees[2])
        entries = quarantine.paths(result.tree)
        names = [path for path, entry in entries.items() if entry.mode != "160000"]
        return result, quarantine.read_many(result.tree, names)


@pytest.fixture
def merged(make_repo: Callable[..., Any]) -> Callable[..., tuple[MergeResult, dict[str, bytes]]]:
    """Return a function of three states that merges base..theirs into ours."""

    def three(base: Files, ours: Files, theirs: Files) -> tuple[MergeResult, dict[str, bytes]]:
        repo = make_repo(base)
        first = repo.id("HEAD")
        repo.switch("theirs", "main")
        repo.commit(theirs)
        repo.switch("main")
        repo.commit(ours)
        return _merge(repo.path, first, repo.id("main"), repo.id("theirs"))

    return three


def test_one_side_unchanged_gives_the_other_and_starts_no_merge(make_repo: Any) -> None:
    repo = make_repo({"a.py": "x = 1\n"})
    base = repo.id("HEAD")
    ours = repo.commit({"a.py": "x = 2\n"})
    with open_repository(repo.path) as opened, Quarantine(opened) as quarantine:
        old, new = opened.tree_of(CommitId(base)), opened.tree_of(CommitId(ours))
        started = quarantine.git.num_processes
        for trees, expected in (
            ({"base": old, "ours": new, "theirs": old}, new),
            ({"base": old, "ours": old, "theirs": new}, new),
            ({"base": old, "ours": new, "theirs": new}, new),
        ):
            result = merge_trees(quarantine, **trees)
            assert result.tree == expected
            assert result.clean
        assert quarantine.git.num_processes == started


def test_edits_in_different_places_merge_cleanly(merged: Any) -> None:
    result, files = merged(
        {"a.txt": BODY},
        {"a.txt": BODY.replace("line 2\n", "ours\n")},
        {"a.txt": BODY.replace("line 17\n", "theirs\n"), "new.txt": "new\n"},
    )
    assert result.clean
    assert files == {
        "a.txt": BODY.replace("line 2\n", "ours\n").replace("line 17\n", "theirs\n").encode(),
        "new.txt": b"new\n",
    }


def test_content_conflict_names_the_sides_in_its_markers(merged: Any) -> None:
    result, files = merged({"a.txt": "1\n"}, {"a.txt": "2\n"}, {"a.txt": "3\n"})
    assert [(conflict.kind, conflict.paths) for conflict in result.conflicts] == [
        ("content", ("a.txt",))
    ]
    assert "Merge conflict in a.txt" in result.conflicts[0].message
    assert [stage.number for stage in result.stages["a.txt"]] == [1, 2, 3]
    assert files["a.txt"] == b"<<<<<<< onto\n2\n=======\n3\n>>>>>>> experiment\n"


def test_add_add_conflict(merged: Any) -> None:
    result, _ = merged({"a": "1\n"}, {"b": "2\n"}, {"b": "3\n"})
    assert [(conflict.kind, conflict.paths) for conflict in result.conflicts] == [
        ("add/add", ("b",))
    ]
    assert [stage.number for stage in result.stages["b"]] == [2, 3]


@pytest.mark.parametrize("deleted", ["ours", "theirs"])
def test_modify_delete_conflict(merged: Any, deleted: str) -> None:
    change, removal = {"a.txt": BODY + "more\n"}, {"a.txt": None, "kept.txt": "kept\n"}
    sides = (removal, change) if deleted == "ours" else (change, removal)
    result, files = merged({"a.txt": BODY}, *sides)
    assert [(conflict.kind, conflict.paths) for conflict in result.conflicts] == [
        ("modify/delete", ("a.txt",))
    ]
    assert files["a.txt"] == BODY.encode() + b"more\n"


def test_rename_rename_conflict_names_all_three_paths(merged: Any) -> None:
    result, _ = merged(
        {"a.txt": BODY}, {"a.txt": None, "b.txt": BODY}, {"a.txt": None, "c.txt": BODY}
    )
    (conflict,) = result.conflicts
    assert conflict.kind == "rename/rename"
    assert set(conflict.paths) == {"a.txt", "b.txt", "c.txt"}


def test_rename_delete_conflict(merged: Any) -> None:
    result, _ = merged({"a.txt": BODY, "k": "k\n"}, {"a.txt": None}, {"a.txt": None, "b.txt": BODY})
    assert [conflict.kind for conflict in result.conflicts] == ["rename/delete"]


def test_a_rename_on_one_side_takes_the_edit_of_the_other(merged: Any) -> None:
    result, files = merged(
        {"a.txt": BODY}, {"a.txt": None, "b.txt": BODY}, {"a.txt": BODY + "more\n"}
    )
    assert result.clean
    assert files == {"b.txt": BODY.encode() + b"more\n"}


def test_a_folder_that_was_renamed_asks_where_a_new_file_belongs(merged: Any) -> None:
    result, _ = merged(
        {"old/a.txt": BODY, "old/b.txt": BODY + "b\n"},
        {
            "old/a.txt": None,
            "old/b.txt": None,
            "new/a.txt": BODY,
            "new/b.txt": BODY + "b\n",
        },
        {"old/c.txt": "c\n"},
    )
    (conflict,) = result.conflicts
    assert conflict.kind == "directory rename"
    assert "new/c.txt" in conflict.paths


def test_a_file_in_the_place_of_a_folder_conflicts(merged: Any) -> None:
    result, _ = merged({"k": "k\n"}, {"x": "file\n"}, {"x/y": "in a folder\n"})
    assert [conflict.kind for conflict in result.conflicts] == ["file/directory"]


def test_binary_conflict(merged: Any) -> None:
    result, files = merged({"a.bin": b"\0\1"}, {"a.bin": b"\0\2"}, {"a.bin": b"\0\3"})
    assert [(conflict.kind, conflict.paths) for conflict in result.conflicts] == [
        ("binary", ("a.bin",))
    ]
    assert files["a.bin"] == b"\0\2"


def test_two_modes_for_one_new_file_conflict(make_repo: Any) -> None:
    repo = make_repo({"k": "k\n"})
    base = repo.id("HEAD")
    repo.switch("theirs", "main")
    repo.write({"run.sh": "echo\n"})
    (repo.path / "run.sh").chmod(0o755)
    theirs = repo.commit({})
    repo.switch("main")
    ours = repo.commit({"run.sh": "echo\n"})
    result, _ = _merge(repo.path, base, ours, theirs)
    assert [(conflict.kind, conflict.paths) for conflict in result.conflicts] == [
        ("mode", ("run.sh",))
    ]


def test_a_link_on_one_side_and_an_edit_on_the_other_conflict_in_mode(make_repo: Any) -> None:
    repo = make_repo({"a": BODY, "k": "k\n"})
    base = repo.id("HEAD")
    repo.switch("theirs", "main")
    (repo.path / "a").unlink()
    (repo.path / "a").symlink_to("k")
    theirs = repo.commit({})
    repo.switch("main")
    ours = repo.commit({"a": BODY + "more\n"})
    result, _ = _merge(repo.path, base, ours, theirs)
    assert [conflict.kind for conflict in result.conflicts] == ["mode"]


def test_submodules_that_moved_apart_conflict(make_repo: Any) -> None:
    inner = make_repo({"x": "1\n"}, name="inner")
    ids = [inner.id("HEAD"), inner.commit({"x": "2\n"}), inner.commit({"x": "3\n"})]
    repo = make_repo({"k": "k\n"})

    def point_to(id: str) -> str:
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{id},sub")
        return repo.commit_staged()

    base = point_to(ids[0])
    repo.switch("theirs", "main")
    theirs = point_to(ids[1])
    repo.switch("main")
    ours = point_to(ids[2])
    result, _ = _merge(repo.path, base, ours, theirs)
    assert [(conflict.kind, conflict.paths) for conflict in result.conflicts] == [
        ("submodule", ("sub",))
    ]


def test_merge_attributes_hold_at_the_top_and_in_folders(merged: Any) -> None:
    attributes = {"deep/er/.gitattributes": "*.log merge=union\n", ".gitattributes": "x -merge\n"}
    base = {"deep/er/in/a.log": "1\n", "a.log": "1\n", "x": "1\n", **attributes}
    result, files = merged(
        base,
        {"deep/er/in/a.log": "1\n2\n", "a.log": "1\n2\n", "x": "2\n"},
        {"deep/er/in/a.log": "1\n3\n", "a.log": "1\n3\n", "x": "3\n"},
    )
    assert files["deep/er/in/a.log"] == b"1\n2\n3\n"
    assert {(conflict.kind, conflict.paths) for conflict in result.conflicts} == {
        ("content", ("a.log",)),
        ("binary", ("x",)),
    }


@pytest.mark.parametrize(
    ("folder", "line", "expected"),
    [
        ("", b"*.py text\n", b"*.py text\n"),
        ("a/b", b"*.py text\n", b'"a/b/**/*.py" text\n'),
        ("a", b"/x.py -text merge=union", b'"a/x.py" -text merge=union\n'),
        ("a", b"sub/x.py text", b'"a/sub/x.py" text\n'),
        ("a", b'"with space" text', b'"a/**/with space" text\n'),
        ("a [1]*", b"x text", b'"a \\\\[1\\\\]\\\\*/**/x" text\n'),
        ("a", b"# comment\n\n[attr]macro text\n", b""),
    ],
)
def test_attributes_of_a_folder_mean_the_same_from_the_top(
    folder: str, line: bytes, expected: bytes
) -> None:
    assert attributes_in_folder(folder, line) == expected


def _grow(rng: random.Random, files: dict[str, str]) -> dict[str, bytes | str | None]:
    """Return random edits: lines changed, added, removed; files made, removed, renamed, copied."""
    changes: dict[str, bytes | str | None] = {}
    before = set(files)
    for _ in range(rng.randint(1, 4)):
        present = sorted(files)
        name = rng.choice(present)
        step = rng.random()
        if step < 0.6:
            lines = files[name].splitlines(keepends=True)
            at = rng.randrange(len(lines) + 1)
            lines[at : at + rng.randint(0, 3)] = [
                f"{rng.choice('xyz')} {rng.randint(0, 3)}\n" for _ in range(rng.randint(0, 3))
            ]
            files[name] = "".join(lines)
            changes[name] = files[name]
        elif step < 0.75:
            new = f"{rng.choice(['', 'd/', 'd/e/'])}{rng.choice('pqrs')}.txt"
            if new not in files:
                files[new] = "".join(f"new {rng.randint(0, 9)}\n" for _ in range(8))
                changes[new] = files[new]
        elif len(present) > 3:
            content = files.pop(name)
            if name in changes and name not in before:
                del changes[name]
            else:
                changes[name] = None
            if step > 0.85:
                new = f"{rng.choice(['', 'd/', 'f/'])}{rng.choice('tuvw')}.txt"
                if new not in files:
                    files[new] = content
                    changes[new] = content
    return changes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_equals_cherry_pick_on_generated_histories(make_repo: Any, seed: int) -> None:
    """Each commit of one branch, picked onto the other: the same tree or the same conflicts."""
    rng = random.Random(seed)
    start = {
        f"{folder}{name}.txt": "".join(f"{name} {number}\n" for number in range(12))
        for folder, name in (("", "a"), ("", "b"), ("d/", "c"), ("d/", "g"), ("d/e/", "h"))
    }
    repo = make_repo(start)
    repo.switch("experiment", "main")
    files = dict(start)
    picks = [repo.commit(_grow(rng, files)) for _ in range(12)]
    repo.switch("main")
    files = dict(start)
    for _ in range(6):
        ours = repo.commit(_grow(rng, files))
    seen = set()
    for pick in picks:
        base = repo.id(f"{pick}^")
        repo.git("reset", "--quiet", "--hard", ours)
        done = repo.try_git(
            *("-c", "merge.directoryRenames=conflict", "cherry-pick", "--allow-empty"),
            *("--keep-redundant-commits", "--no-commit", pick),
        )
        unmerged = repo.git("diff", "--name-only", "--diff-filter=U").split()
        result, merged_files = _merge(repo.path, base, ours, pick)
        seen.add(result.clean)
        assert result.clean == (done.returncode == 0), done.stderr
        if result.clean:
            assert result.tree == TreeId(repo.git("write-tree"))
            continue
        assert set(result.stages) == set(unmerged)
        repo.git("add", "-A")
        picked = {
            name: repo.git_bytes("cat-file", "blob", f":{name}")
            for name in repo.git("ls-files").split()
        }
        assert {name: _unlabelled(data) for name, data in merged_files.items()} == {
            name: _unlabelled(data) for name, data in picked.items()
        }
    assert seen == {True, False}


def _unlabelled(data: bytes) -> bytes:
    """Return the file with bare conflict markers: git's own name the commit's subject."""
    return b"\n".join(
        line[:7] if line.startswith((b"<<<<<<<", b">>>>>>>")) else line
        for line in data.split(b"\n")
    )
