"""The last step: objects, references and notes, all or none; and working trees lent for checks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from porttool.errors import RepositoryError
from porttool.git.checkout import checkout, pool_folder
from porttool.git.commits import CommitId, Signature
from porttool.git.publish import (
    NOTES,
    RefCheckedOut,
    RefMoved,
    RefUpdate,
    publish,
    publish_with_note,
    read_note,
    refused_references,
    write_note,
)
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Repository, open_repository

BY = Signature("Grace Hopper", "grace@example.org", 1_700_000_000, "+0000")
BRANCH = "refs/heads/port/p"


@pytest.fixture
def base(make_repo: Any) -> Any:
    """A main of two commits in a repository whose hooks all fail."""
    repo = make_repo({"a.py": "x = 1\n", "dir/b.py": "y = 1\n"})
    repo.commit({"a.py": "x = 2\n"})
    repo.git("config", "commit.gpgSign", "true")
    for hook in ("reference-transaction", "post-checkout", "update", "pre-commit"):
        file = repo.path / ".git" / "hooks" / hook
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\ntouch '{repo.path}/hook-ran'\nexit 1\n")
        file.chmod(0o755)
    return repo


def _series(repo: Repository, quarantine: Quarantine, text: bytes = b"x = 3\n") -> list[CommitId]:
    """Write two commits on main."""
    main = repo.resolve("refs/heads/main")
    tree = quarantine.write_tree(repo.tree_of(main), {"a.py": text})
    first = quarantine.write_commit(
        tree, [main], author=b"Ada <ada@x> 5 +0100", committer=BY.raw(), message=b"one\n"
    )
    tree = quarantine.write_tree(tree, {"new/c.py": b"z\n"})
    second = quarantine.write_commit(
        tree, [first], author=BY.raw(), committer=BY.raw(), message=b"two\n"
    )
    return [first, second]


def _apply(path: Path, text: bytes = b"x = 3\n", old: str | None = None) -> CommitId:
    with open_repository(path) as repo, Quarantine(repo) as quarantine:
        main = repo.resolve("refs/heads/main")
        tip = _series(repo, quarantine, text)[-1]
        note = write_note(repo, quarantine, tip, b"report of " + text, BY)
        branch = RefUpdate(BRANCH, None if old is None else CommitId(old), tip)
        guard = RefUpdate("refs/heads/main", main, main)
        publish(repo, quarantine, [branch, guard, note], reason="porttool apply: p")
        return tip


def test_a_branch_appears_with_its_objects_and_nothing_else_changes(base: Any) -> None:
    before = base.git_folder()
    objects = set(base.git("cat-file", "--batch-check", "--batch-all-objects").splitlines())
    tip = _apply(base.path)
    after = base.git_folder()
    assert base.id("port/p") == tip
    assert base.listing("port/p") == {
        "a.py": b"x = 3\n",
        "dir/b.py": b"y = 1\n",
        "new/c.py": b"z\n",
    }
    changed = {name for name in after if after[name] != before.get(name)}
    assert before.keys() <= after.keys()
    assert {name for name in changed if not name.startswith("objects/")} == {
        *("refs/heads/port/p", "logs/refs/heads/port/p"),
        *("refs/notes/porttool", "logs/refs/notes/porttool"),
    }
    now = set(base.git("cat-file", "--batch-check", "--batch-all-objects").splitlines())
    kinds = sorted(line.split()[1] for line in now - objects)
    # Two commits with three new trees and two new files; the note: its commit, tree and blob.
    assert kinds == ["blob"] * 3 + ["commit"] * 3 + ["tree"] * 4
    assert base.git("fsck", "--strict") == ""
    assert not (base.path / "hook-ran").exists()
    assert base.git("reflog", "show", "--format=%gs", "port/p") == "porttool apply: p"


def test_publishing_twice_from_equal_inputs_gives_one_result(base: Any, tmp_path: Path) -> None:
    base.git("clone", "-q", "--bare", str(base.path), str(tmp_path / "copy.git"))
    tips = {_apply(base.path), _apply(tmp_path / "copy.git")}
    assert len(tips) == 1
    notes = {base.id(NOTES), base.git("rev-parse", NOTES, cwd=tmp_path / "copy.git")}
    assert len(notes) == 1


def test_a_branch_is_replaced_only_by_who_knows_it(base: Any) -> None:
    first = _apply(base.path)
    with pytest.raises(RefMoved) as caught:
        _apply(base.path, b"x = 4\n")
    assert (caught.value.ref, caught.value.expected, caught.value.seen) == (BRANCH, None, first)
    second = _apply(base.path, b"x = 4\n", old=first)
    assert base.id("port/p") == second
    with pytest.raises(RefMoved):
        _apply(base.path, b"x = 5\n", old=first)
    assert base.id("port/p") == second


@pytest.mark.parametrize(
    ("ref", "step"),
    [
        ("refs/heads/main", "for-each-ref"),
        ("refs/heads/main", "unpack-objects"),
        (BRANCH, "update-ref"),
        (NOTES, "update-ref"),
    ],
)
def test_a_reference_that_moves_meanwhile_stops_everything(
    base: Any, monkeypatch: pytest.MonkeyPatch, ref: str, step: str
) -> None:
    moved = base.id("main~1")
    with open_repository(base.path) as repo, Quarantine(repo) as quarantine:
        main = repo.resolve("main")
        tip = _series(repo, quarantine)[-1]
        note = write_note(repo, quarantine, tip, b"report", BY)
        run = repo.git.run

        def run_while_somebody_moves_it(*args: str, **options: Any) -> Any:
            if args[0] == step:
                file = base.path / ".git" / ref
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(moved + "\n")
            return run(*args, **options)

        monkeypatch.setattr(repo.git, "run", run_while_somebody_moves_it)
        updates = [RefUpdate(BRANCH, None, tip), note, RefUpdate("refs/heads/main", main, main)]
        with pytest.raises(RefMoved, match="nothing was published") as caught:
            publish(repo, quarantine, updates, reason="apply")
        assert (caught.value.ref, caught.value.seen) == (ref, moved)
    refs = base.git("for-each-ref", "--format=%(refname)").split()
    assert refs == sorted({"refs/heads/main", ref})


def test_a_branch_in_use_is_not_moved(base: Any, tmp_path: Path) -> None:
    first = _apply(base.path)
    base.git(
        *("-c", f"core.hooksPath={os.devnull}", "worktree", "add", "-q"),
        *(str(tmp_path / "linked"), "port/p"),
    )
    with pytest.raises(RefCheckedOut, match="switch --detach") as caught:
        _apply(base.path, b"x = 4\n", old=first)
    assert caught.value.folder == str(tmp_path / "linked")
    assert base.id("port/p") == first


def test_a_branch_named_like_the_folder_is_explained(base: Any) -> None:
    (base.path / ".git/refs/heads/port").write_text(base.id("main") + "\n")
    with pytest.raises(
        RepositoryError, match=r"'refs/heads/port' exists[\s\S]*git branch -m port NEW"
    ):
        _apply(base.path)
    assert base.git("for-each-ref", "--format=%(refname)").split() == [
        *("refs/heads/main", "refs/heads/port")
    ]


def test_a_lock_that_was_left_behind_is_named(base: Any) -> None:
    lock = base.path / ".git/refs/heads/port/p.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("")
    with pytest.raises(RepositoryError) as caught:
        _apply(base.path)
    assert caught.value.what == "a reference is locked, so nothing was published"
    assert caught.value.where == f"{BRANCH}, {NOTES}"
    assert str(caught.value.why).endswith(f"Unable to create '{lock}': File exists")
    assert caught.value.next == f"when no other git runs here, remove the lock: rm {lock}"
    assert caught.value.exit_code == 2
    lock.unlink()
    assert _apply(base.path) == base.id("port/p")


@pytest.mark.parametrize(
    ("reason", "what", "next"),
    [
        ("Permission denied", "references cannot be written", "ls -ldR '/a b/.git/refs'"),
        ("Read-only file system", "references cannot be written", "ls -ldR '/a b/.git/refs'"),
        ("Is a directory", "git refused to set the references", "--git-dir='/a b/.git' fsck"),
    ],
)
def test_what_git_says_of_references_decides_the_advice(reason: str, what: str, next: str) -> None:
    words = f"fatal: cannot lock ref 'x': Unable to create '/a b/.git/refs/x.lock': {reason}"
    refusal = refused_references([BRANCH], words, Path("/a b/.git"))
    assert what in refusal.what
    assert next in str(refusal.next)
    assert (refusal.where, refusal.why, refusal.exit_code) == (BRANCH, words, 2)


def test_an_object_store_that_cannot_be_written_is_named(base: Any) -> None:
    objects = base.path / ".git/objects"
    for number in range(256):
        folder = objects / f"{number:02x}"
        if not folder.exists():
            folder.write_text("")  # a file where git has to make a folder
    with pytest.raises(RepositoryError) as caught:
        _apply(base.path)
    assert "object store cannot be written" in caught.value.what
    assert caught.value.where == str(objects)
    assert f"ls -ld {objects}" in str(caught.value.next)
    assert caught.value.exit_code == 2
    assert base.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_a_note_of_another_port_in_between_is_kept_and_ours_is_added(
    base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race is made certain: another port is published right before our references are set."""
    with open_repository(base.path) as repo, Quarantine(repo) as quarantine:
        main, tip = repo.resolve("main"), _series(repo, quarantine)[-1]
        run = repo.git.run
        rivals = [b"first"]

        def run_after_a_rival(*args: str, **options: Any) -> Any:
            if args[0] == "update-ref" and rivals:
                _note(base.path, main, rivals.pop())
            return run(*args, **options)

        monkeypatch.setattr(repo.git, "run", run_after_a_rival)
        update = RefUpdate(BRANCH, None, tip)
        publish_with_note(
            repo, quarantine, [update], commit=tip, text=b"ours", by=BY, reason="apply"
        )
        assert (read_note(repo, main), read_note(repo, tip)) == (b"first", b"ours")
        assert repo.ref(BRANCH) == tip
        rivals += [b"third", b"second"]
        publish_with_note(repo, quarantine, [], commit=tip, text=b"new", by=BY, reason="again")
        assert (read_note(repo, main), read_note(repo, tip)) == (b"third", b"new")
        rivals += [b"%d" % number for number in range(100)]
        with pytest.raises(RefMoved) as caught:
            publish_with_note(repo, quarantine, [], commit=tip, text=b"lost", by=BY, reason="again")
        assert (caught.value.ref, caught.value.where) == (NOTES, NOTES)
        assert read_note(repo, tip) == b"new"


def test_a_branch_that_moved_is_not_tried_again(base: Any) -> None:
    first = _apply(base.path)
    with open_repository(base.path) as repo, Quarantine(repo) as quarantine:
        tip = _series(repo, quarantine, b"x = 9\n")[-1]
        update = RefUpdate(BRANCH, None, tip)
        with pytest.raises(RefMoved) as caught:
            publish_with_note(repo, quarantine, [update], commit=tip, text=b"", by=BY, reason="a")
    assert (caught.value.ref, base.id("port/p")) == (BRANCH, first)


def _note(path: Path, commit: CommitId, text: bytes) -> None:
    with open_repository(path) as repo, Quarantine(repo) as quarantine:
        publish(repo, quarantine, [write_note(repo, quarantine, commit, text, BY)], reason="n")


@pytest.mark.parametrize("ref", ["HEAD", "port/p", "refs/heads/-..x", "refs/heads/a b", ""])
def test_only_full_reference_names_are_set(base: Any, ref: str) -> None:
    with open_repository(base.path) as repo, Quarantine(repo) as quarantine:
        tip = _series(repo, quarantine)[-1]
        with pytest.raises(RepositoryError, match="cannot be a reference"):
            publish(repo, quarantine, [RefUpdate(ref, None, tip)], reason="apply")


def test_an_experiment_that_came_in_a_bundle_is_not_copied(base: Any, tmp_path: Path) -> None:
    base.git("config", "--unset", "commit.gpgSign")
    (base.path / ".git/hooks/reference-transaction").unlink()
    base.git("clone", "-q", str(base.path), str(tmp_path / "user"))
    base.git("-c", f"core.hooksPath={os.devnull}", "switch", "-q", "-c", "experiment")
    experiment = base.commit({"secret.py": "only here\n"})
    base.git("bundle", "create", "-q", str(tmp_path / "b"), "experiment", "^main")
    with open_repository(tmp_path / "user") as repo, Quarantine(repo) as quarantine:
        quarantine.unbundle(tmp_path / "b")
        tip = _series(repo, quarantine)[-1]
        publish(repo, quarantine, [RefUpdate(BRANCH, None, tip)], reason="apply")
        assert repo.resolve("port/p") == tip
        assert not repo.holds(CommitId(experiment))


def test_notes_keep_their_bytes_and_each_other(base: Any) -> None:
    text = b"\n  # report\r\n\xff\n\n"
    with open_repository(base.path) as repo:
        main = repo.resolve("main")
        assert read_note(repo, main) is None
        for id, note in ((main, text), (repo.resolve("main~1"), b""), (main, b"new\n")):
            with Quarantine(repo) as quarantine:
                publish(repo, quarantine, [write_note(repo, quarantine, id, note, BY)], reason="n")
            assert read_note(repo, id) == note
        assert read_note(repo, repo.resolve("main~1")) == b""
        assert read_note(repo, CommitId("1" * 40)) is None
        with Quarantine(repo) as quarantine:
            long_ago = Signature("Ada", "ada@x", 5, "-0100")
            note = write_note(repo, quarantine, main, b"old\n", long_ago)
            assert quarantine.commit(note.new).author == b"Ada <ada@x> 5 -0100"
    assert base.git("notes", f"--ref={NOTES}", "show", "main") == "new"
    assert base.git("log", "-1", "--format=%an %ad", "--date=raw", NOTES) == (
        "Grace Hopper 1700000000 +0000"
    )


def test_a_bare_repository_is_published_to(base: Any, tmp_path: Path) -> None:
    base.git("clone", "-q", "--bare", str(base.path), str(tmp_path / "bare.git"))
    tip = _apply(tmp_path / "bare.git")
    assert base.git("rev-parse", "port/p", cwd=tmp_path / "bare.git") == tip


def test_few_processes_do_it_all(base: Any) -> None:
    with open_repository(base.path) as repo, Quarantine(repo) as quarantine:
        tip = _series(repo, quarantine)[-1]
        assert quarantine.git.num_processes == 1  # the reader
        publish(repo, quarantine, [RefUpdate(BRANCH, None, tip)], reason="apply")
        assert quarantine.git.num_processes == 2  # and pack-objects
        assert repo.git.num_processes == 4  # reader, for-each-ref, unpack-objects, update-ref


def test_a_working_tree_holds_exactly_the_commit_each_time(base: Any) -> None:
    before = base.git_folder()
    with open_repository(base.path) as repo:
        new, old = repo.resolve("main"), repo.resolve("main~1")
        with checkout(repo, new) as tree:
            assert _files(tree) == base.listing("main")
            (tree / "a.py").write_text("changed by a check\n")
            (tree / "dir" / "b.py").unlink()
            (tree / "left" / "__pycache__").mkdir(parents=True)
            (tree / "left" / "__pycache__" / "x.pyc").write_bytes(b"")
            (tree / ".git" / "info" / "exclude").write_text("left\n")
            (tree / ".git" / "index.lock").write_bytes(b"")
            (tree / ".git" / "config").write_text("[core]\n\tworktree = /nowhere\n")
            first = tree
        with checkout(repo, new) as tree:
            assert tree == first
            assert _files(tree) == base.listing("main")
            assert base.git("status", "--porcelain", cwd=tree) == ""
            assert base.git("rev-parse", "HEAD", cwd=tree) == new
        with checkout(repo, old) as tree:
            assert _files(tree) == base.listing("main~1")
        assert tree.is_relative_to(pool_folder(repo))
        assert tree.is_relative_to(os.environ["XDG_CACHE_HOME"])
    assert base.git_folder() == before


def test_two_at_once_get_two_trees_and_a_ruined_one_is_made_anew(base: Any, tmp_path: Path) -> None:
    with open_repository(base.path) as repo:
        main = repo.resolve("main")
        with checkout(repo, main) as one, checkout(repo, main) as two:
            assert one != two
            assert _files(one) == _files(two) == base.listing("main")
        (one / ".git" / "index").write_bytes(b"ruined")
        with checkout(repo, main) as again:
            assert again == one
            assert _files(again) == base.listing("main")
        (tmp_path / "file").write_text("")
        with (
            pytest.raises(RepositoryError, match=r"cannot be made[\s\S]*XDG_CACHE_HOME"),
            checkout(repo, main, pool=tmp_path / "file" / "pool"),
        ):
            raise AssertionError("a tree was lent from a folder that cannot be")


def _files(tree: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(tree)): file.read_bytes()
        for file in tree.rglob("*")
        if file.is_file() and ".git" not in file.relative_to(tree).parts
    }
