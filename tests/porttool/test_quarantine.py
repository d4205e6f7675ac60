"""Work in a quarantine: exact objects, safe paths, patches, bundles, an untouched repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from porttool.errors import RepositoryError
from porttool.git.commits import CommitId, TreeId
from porttool.git.merge import merge_trees
from porttool.git.objects import Entry, parse_tree, tree_bytes
from porttool.git.quarantine import PatchConflict, Quarantine
from porttool.git.repo import open_repository

WHO = b"Grace Hopper <grace@example.org> 1700000000 +0000"
BODY = "".join(f"line {number}\n" for number in range(30))


@pytest.fixture
def busy(make_repo: Any) -> Any:
    """A repository in the middle of work: staged, dirty, untracked files, a stash, hooks, notes."""
    repo = make_repo({"a.py": BODY, "b.py": "y = 1\n", "dir/c.py": "z = 1\n"})
    repo.switch("experiment", "main")
    repo.commit({"a.py": BODY.replace("line 3\n", "theirs\n")}, "experiment")
    repo.switch("main")
    repo.commit({"a.py": BODY.replace("line 20\n", "ours\n")}, "moved on")
    repo.write({"b.py": "stashed\n"})
    repo.git("stash")
    repo.git("notes", "add", "-m", "a note", "HEAD")
    repo.write({"b.py": "staged\n"})
    repo.git("add", "b.py")
    repo.write({"dir/c.py": "dirty\n", "untracked.txt": "mine\n"})
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "user.signingKey", "nobody")
    for hook in ("pre-commit", "reference-transaction", "post-index-change", "applypatch-msg"):
        file = repo.path / ".git" / "hooks" / hook
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\ntouch '{repo.path}/hook-ran'\nexit 1\n")
        file.chmod(0o755)
    return repo


def _work(path: Path) -> CommitId:
    """Do everything that an apply does, short of publishing."""
    with open_repository(path) as repo, Quarantine(repo) as quarantine:
        main, experiment = repo.resolve("main"), repo.resolve("experiment")
        repo.grep(main, ["line"])
        repo.find_ported(main, experiment, "p")
        repo.identity()
        base = repo.commit(experiment).parents[0]
        merged = merge_trees(
            quarantine,
            base=repo.tree_of(base),
            ours=repo.tree_of(main),
            theirs=repo.tree_of(experiment),
        )
        assert merged.clean
        tree = quarantine.write_tree(merged.tree, {"new/x.py": b"x\n", "b.py": None})
        diff = b"--- a/dir/c.py\n+++ b/dir/c.py\n@@ -1 +1,2 @@\n z = 1\n+z = 2\n"
        tree = quarantine.apply_patch(tree, diff)
        return quarantine.write_commit(
            tree, [main], author=repo.commit(experiment).author, committer=WHO, message=b"port\n"
        )


def test_the_repository_is_left_byte_for_byte(busy: Any) -> None:
    status = busy.git("--no-optional-locks", "status", "--porcelain")
    before = busy.git_folder()
    first = _work(busy.path)
    after = busy.git_folder()
    assert after.keys() == before.keys()
    assert [name for name in before if before[name] != after[name]] == []
    assert busy.git("--no-optional-locks", "status", "--porcelain") == status
    assert not (busy.path / "hook-ran").exists()
    assert busy.try_git("cat-file", "-e", first).returncode != 0


def test_a_detached_head_and_a_linked_tree_are_left_as_they_are(busy: Any, tmp_path: Path) -> None:
    no_hooks = ("-c", f"core.hooksPath={os.devnull}")
    busy.git(*no_hooks, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    (tmp_path / "linked" / "a.py").write_text("dirty\n")
    before = busy.git_folder()
    assert _work(tmp_path / "linked") == _work(busy.path)
    assert busy.git_folder() == before


def test_equal_inputs_give_equal_ids_wherever_and_whatever_is_configured(
    busy: Any, tmp_path: Path
) -> None:
    first = _work(busy.path)
    busy.git("clone", "-q", "--bare", str(busy.path), str(tmp_path / "copy.git"))
    config = Path(os.environ["GIT_CONFIG_GLOBAL"])
    config.write_text(
        config.read_text() + "[merge]\n\tconflictStyle = diff3\n\trenames = false\n"
        "[core]\n\tautocrlf = true\n[diff]\n\tnoprefix = true\n"
        "[apply]\n\tignoreWhitespace = change\n"
    )
    assert _work(tmp_path / "copy.git") == first


def test_a_quarantine_leaves_no_folder_behind(
    busy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    _work(busy.path)

    def fail() -> None:
        with open_repository(busy.path) as repo, Quarantine(repo) as quarantine:
            quarantine.write_blob(b"x")
            assert list((tmp_path / "tmp").iterdir()) == [quarantine.path]
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.fixture
def two(make_repo: Any) -> Any:
    """A repository with an executable, a link and a folder; yields it, its quarantine, its tree."""
    repo = make_repo()
    repo.write({"run.sh": "echo\n", "a.py": BODY, "dir/b.py": "y\n", "dir/c.py": "z\n"})
    (repo.path / "run.sh").chmod(0o755)
    (repo.path / "link").symlink_to("a.py")
    repo.git("add", "-A")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    repo.commit_staged()
    with open_repository(repo.path) as opened, Quarantine(opened) as quarantine:
        yield repo, quarantine, opened.tree_of(opened.resolve("main"))


def test_write_tree_keeps_modes_and_all_that_it_does_not_change(two: Any) -> None:
    _, quarantine, base = two
    tree = quarantine.write_tree(
        base,
        {"run.sh": b"echo 2\n", "dir/b.py": None, "-x/y z.py": b"\r\n", "tool": b"#!\n"},
        modes={"tool": "100755"},
    )
    before, after = quarantine.paths(base), quarantine.paths(tree)
    assert after["run.sh"].mode == "100755"
    assert after["tool"].mode == "100755"
    assert after["-x/y z.py"].mode == "100644"
    assert before.keys() - after.keys() == {"dir/b.py"}
    assert {path for path in before if after.get(path) == before[path]} == {
        *("a.py", "link", "sub", "dir/c.py")
    }
    assert quarantine.read(tree, "-x/y z.py") == b"\r\n"
    assert quarantine.write_tree(base, {}) == base
    assert quarantine.write_tree(base, {"a.py": BODY.encode()}) == base


def test_a_folder_that_loses_its_last_file_is_gone(two: Any) -> None:
    _, quarantine, base = two
    tree = quarantine.write_tree(base, {"dir/b.py": None, "dir/c.py": None})
    assert "dir" not in quarantine.folder(tree)
    empty = quarantine.write_tree(base, {"dir/b.py": None, "dir/c.py": None, "dir/d.py": b""})
    assert set(quarantine.folder(quarantine.entry(empty, "dir").id)) == {"d.py"}


def test_paths_that_must_not_be_written_are_refused(two: Any) -> None:
    _, quarantine, base = two
    refused: list[tuple[dict[str, bytes | None], str]] = [
        ({"../x": b""}, r"`\.\.` is not a name"),
        ({"/x": b""}, "absolute"),
        ({".git/hooks/pre-commit": b""}, r"\.git"),
        ({"dir/.Git/config": b""}, r"\.git"),
        ({"": b""}, "empty"),
        ({"link": b"/etc/passwd"}, "symbolic link"),
        ({"link/x": b""}, "link is not a folder"),
        ({"a.py/x": b""}, r"a\.py is not a folder"),
        ({"dir": b""}, "a folder or a submodule"),
        ({"sub": b""}, "a folder or a submodule"),
        ({"sub/x": b""}, "sub is not a folder"),
        ({"none.py": None}, "not there"),
        ({"new": b"", "new/x": b""}, "a file in the same change"),
        ({"new/x": b"", "new": b""}, "a folder in the same change"),
    ]
    for changes, reason in refused:
        with pytest.raises(RepositoryError, match=reason):
            quarantine.write_tree(base, changes)


def test_a_mode_that_no_file_has_is_refused(two: Any) -> None:
    _, quarantine, base = two
    with pytest.raises(RepositoryError, match="160000 is not the mode of a file"):
        quarantine.write_tree(base, {"x": b""}, modes={"x": "160000"})


def test_written_objects_pass_fsck_and_have_git_s_ids(two: Any) -> None:
    repo, quarantine, base = two
    tree = quarantine.write_tree(base, {"a/b/c.py": b"1\n", "a.b": b"2\n", "a0": b"3\n"})
    commit = quarantine.write_commit(tree, [], author=WHO, committer=WHO, message=b"x\n")
    assert quarantine.git.run("fsck", "--strict", "--no-dangling", commit).out == b""
    assert quarantine.write_blob(b"1\n") == repo.git("hash-object", "--stdin", input=b"1\n")


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)
entries = st.builds(Entry, st.sampled_from(["100644", "40000"]), st.just("1" * 40))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names.filter(lambda name: name not in (".", "..")), entries, max_size=8))
def test_trees_are_ordered_and_parsed_as_git_does(tree: dict[str, Entry]) -> None:
    data = tree_bytes(tree)
    assert parse_tree(data, 20) == tree
    keys = [
        name.encode() + (b"/" if entry.mode == "40000" else b"")
        for name, entry in parse_tree(data, 20).items()
    ]
    assert keys == sorted(keys)


def test_commits_are_written_as_given(two: Any) -> None:
    _, quarantine, base = two
    commit = quarantine.write_commit(
        base,
        [CommitId("1" * 40), CommitId("2" * 40)],
        author="Jürgen <j@x> 1 -0930".encode("latin-1"),
        committer=WHO,
        message="Grüße\r\n\n\n".encode("latin-1"),
        encoding=b"ISO-8859-1",
    )
    assert quarantine.git.run("cat-file", "commit", commit).out == (
        f"tree {base}\nparent {'1' * 40}\nparent {'2' * 40}\n".encode()
        + b"author J\xfcrgen <j@x> 1 -0930\ncommitter "
        + WHO
        + b"\nencoding ISO-8859-1\n\nGr\xfc\xdfe\r\n\n\n"
    )


def test_a_patch_applies_at_an_offset_and_with_its_modes(two: Any) -> None:
    repo, quarantine, base = two
    repo.commit({"a.py": BODY.replace("line 20\n", "line twenty\n"), "dir/b.py": None})
    repo.write({"new.sh": "x\n", "bin": b"\0\xff\1"})
    (repo.path / "new.sh").chmod(0o755)
    repo.commit({})
    diff = repo.git_bytes("diff", "--binary", "main~2", "main")
    moved = quarantine.write_tree(base, {"a.py": ("inserted\n" * 5 + BODY).encode()})
    tree = quarantine.apply_patch(moved, diff)
    assert (
        quarantine.read(tree, "a.py")
        == ("inserted\n" * 5 + BODY.replace("line 20\n", "line twenty\n")).encode()
    )
    after = quarantine.paths(tree)
    assert after["new.sh"].mode == "100755"
    assert quarantine.read(tree, "bin") == b"\0\xff\1"
    assert "dir/b.py" not in after


def test_a_patch_with_changed_context_is_a_conflict_with_its_place(two: Any) -> None:
    repo, quarantine, base = two
    repo.commit({"a.py": BODY.replace("line 20\n", "line twenty\n")})
    diff = repo.git_bytes("diff", "main~1", "main")
    moved = quarantine.write_tree(base, {"a.py": BODY.replace("line 19\n", "other\n").encode()})
    with pytest.raises(PatchConflict) as caught:
        quarantine.apply_patch(moved, diff, name="0001-x.patch")
    assert (caught.value.path, caught.value.line) == ("a.py", 18)
    assert "0001-x.patch does not apply" in str(caught.value)
    assert caught.value.exit_code == 3
    with pytest.raises(PatchConflict, match=r"none\.py"):
        quarantine.apply_patch(base, diff.replace(b"a.py", b"none.py"))


def _new_file(path: str, mode: str = "100644", line: str = "x") -> bytes:
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\n"
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n"
    ).encode()


def test_a_patch_cannot_write_outside_the_tree(two: Any) -> None:
    _, quarantine, base = two
    for path in (
        *("../outside", "/outside", ".git/hooks/pre-commit", "dir/../../outside", ".GIT/x"),
        *("dir/.git/config", "git~1/x", ".g\u200cit/x", "link/x"),
    ):
        with pytest.raises(PatchConflict):
            quarantine.apply_patch(base, _new_file(path))


def test_a_patch_cannot_write_through_a_link_of_its_own(two: Any) -> None:
    _, quarantine, base = two
    diff = _new_file("way", "120000", "../outside") + _new_file("way/x")
    with pytest.raises(PatchConflict, match="way"):
        quarantine.apply_patch(base, diff)


def test_a_mailed_patch_gives_author_date_and_message(two: Any) -> None:
    repo, quarantine, base = two
    message = "trainer: warn below the threshold\n\nBecause of Ωmega.\n\nSigned-off-by: A <a@b>\n"
    id = repo.commit({"a.py": BODY + "more\n"}, message, author="Jürgen Ä <j@example.org>")
    mail = repo.git_bytes("format-patch", "-1", "--stdout", id)
    patch = quarantine.read_patch(mail)
    facts = quarantine.commit(CommitId(id))
    assert patch.message == message.encode()
    assert patch.author == facts.author
    tree = quarantine.apply_patch(base, patch.diff)
    assert tree == facts.tree
    made = quarantine.write_commit(
        tree, facts.parents, author=patch.author, committer=facts.committer, message=patch.message
    )
    assert made == id


def test_a_patch_that_is_no_mail_is_refused(two: Any) -> None:
    _, quarantine, _ = two
    for mail, missing in (
        (b"just text\n", "Author"),
        (b"From: A <a@b>\nSubject: [PATCH] x\n\n---\n", "Date"),
        (b"From: A <a@b>\nDate: someday\nSubject: [PATCH] x\n\n---\n", "Date"),
        (b"From: A <a@b>\nDate: Thu, 7 May 2026 10:00:00 +0200\n\nx\n---\n", "Subject"),
    ):
        with pytest.raises(RepositoryError, match=rf"{missing}\n[\s\S]*format-patch"):
            quarantine.read_patch(mail, name="0001.patch")


@pytest.mark.parametrize(
    ("mail", "why"),
    [
        (b"", "it is empty"),
        (b"\n \n", "it is empty"),
        (b"\x00\xff\x00", "it has no Author"),
        (
            b"From: A <a@b>\nContent-Type: text/plain; charset=nope\n\n\xe9\n---\n",
            "error: cannot convert from nope to UTF-8",
        ),
    ],
)
def test_an_empty_patch_is_named_and_no_file_of_the_quarantine(
    two: Any, mail: bytes, why: str
) -> None:
    _, quarantine, _ = two
    with pytest.raises(RepositoryError) as caught:
        quarantine.read_patch(mail, name="a b.patch")
    assert caught.value.as_dict() == {
        "error": "RepositoryError",
        "what": "a b.patch is not a patch in git's mail format",
        "where": "a b.patch",
        "why": why,
        "next": "write it anew: git format-patch -1 --stdout COMMIT > 'a b.patch'",
        "exit_code": 2,
    }
    assert str(quarantine.path) not in str(caught.value)


def test_a_mail_without_a_diff_is_named(two: Any) -> None:
    _, quarantine, base = two
    with pytest.raises(PatchConflict) as caught:
        quarantine.apply_patch(base, b"no diff\n", name="0001.patch")
    assert (caught.value.where, caught.value.why) == ("0001.patch", "it holds no diff")
    assert caught.value.exit_code == 3


def test_an_offset_west_of_greenwich_survives(two: Any) -> None:
    _, quarantine, _ = two
    mail = b"From: A <a@b>\nDate: Thu, 7 May 2026 10:00:00 -0330\nSubject: [PATCH 1/2] s\n\n---\n"
    patch = quarantine.read_patch(mail)
    assert patch.author == b"A <a@b> 1778160600 -0330"
    assert patch.message == b"s\n"


def test_a_bundle_brings_an_experiment_that_only_the_quarantine_sees(
    make_repo: Any, tmp_path: Path
) -> None:
    source = make_repo({"a.py": "x = 1\n"}, name="source")
    base = source.id("HEAD")
    source.git("clone", "-q", str(source.path), str(tmp_path / "user"))
    source.switch("experiment", "main")
    tip = source.commit({"a.py": "x = 2\n"}, "experiment")
    bundle = tmp_path / "-dash.bundle"
    source.git("bundle", "create", "-q", str(bundle), "experiment", "^main")
    with open_repository(tmp_path / "user") as repo, Quarantine(repo) as quarantine:
        assert not repo.has(CommitId(tip))
        assert quarantine.unbundle(bundle) == {"refs/heads/experiment": tip}
        assert quarantine.commit(CommitId(tip)).parents == (base,)
        assert quarantine.read(CommitId(tip), "a.py") == b"x = 2\n"
        changes = quarantine.changed(CommitId(base), CommitId(tip))
        assert [change.path for change in changes] == ["a.py"]
        assert not repo.has(CommitId(tip))


def test_a_bundle_that_is_missing_torn_or_incomplete_is_refused(
    make_repo: Any, tmp_path: Path
) -> None:
    source = make_repo({"a.py": "x = 1\n"}, name="source")
    source.commit({"a.py": "x = 2\n"})
    source.git("bundle", "create", "-q", str(tmp_path / "part"), "main", "^main~1")
    (tmp_path / "torn").write_bytes((tmp_path / "part").read_bytes()[:-30])
    other = make_repo({"b.py": "y\n"}, name="other")
    with open_repository(other.path) as repo, Quarantine(repo) as quarantine:
        with pytest.raises(RepositoryError, match=r"lacks these prerequisite[\s\S]*git fetch"):
            quarantine.unbundle(tmp_path / "part")
        with pytest.raises(RepositoryError, match="the bundle does not exist"):
            quarantine.unbundle(tmp_path / "none")
    with (
        open_repository(source.path) as repo,
        Quarantine(repo) as quarantine,
        pytest.raises(RepositoryError, match="torn cannot be read"),
    ):
        quarantine.unbundle(tmp_path / "torn")


def test_a_partial_clone_fetches_what_it_lacks_into_the_quarantine(
    make_repo: Any, tmp_path: Path
) -> None:
    source = make_repo({"a.py": BODY, "k": "k\n"}, name="source")
    base = source.id("HEAD")
    source.git("config", "uploadpack.allowFilter", "true")
    source.git("config", "uploadpack.allowAnySHA1InWant", "true")
    source.switch("experiment", "main")
    experiment = source.commit({"a.py": BODY.replace("line 3\n", "theirs\n")})
    source.switch("main")
    main = source.commit({"a.py": BODY.replace("line 20\n", "ours\n")})
    clone = tmp_path / "clone"
    source.git("clone", "-q", "--bare", "--filter=blob:none", f"file://{source.path}", str(clone))
    before = sorted(path for path in clone.rglob("*") if path.is_file())
    with open_repository(clone) as repo, Quarantine(repo) as quarantine:
        trees = [quarantine.tree_of(CommitId(id)) for id in (base, main, experiment)]
        result = merge_trees(quarantine, base=trees[0], ours=trees[1], theirs=trees[2])
        assert result.clean
        assert (
            quarantine.read(result.tree, "a.py")
            == BODY.replace("line 3\n", "theirs\n").replace("line 20\n", "ours\n").encode()
        )
    assert sorted(path for path in clone.rglob("*") if path.is_file()) == before


def test_objects_in_an_odd_folder_are_found(make_repo: Any) -> None:
    repo = make_repo({"a.py": "x\n"}, name='odd "quoted" \\ #folder')
    with open_repository(repo.path) as opened, Quarantine(opened) as quarantine:
        assert quarantine.read(opened.resolve("main"), "a.py") == b"x\n"


def test_a_sha256_repository_works_the_same(make_repo: Any) -> None:
    repo = make_repo({"a.py": BODY}, object_format="sha256")
    with open_repository(repo.path) as opened, Quarantine(opened) as quarantine:
        base = opened.tree_of(opened.resolve("main"))
        ours = quarantine.write_tree(base, {"a.py": (BODY + "ours\n").encode()})
        theirs = quarantine.write_tree(base, {"a.py": ("theirs\n" + BODY).encode()})
        result = merge_trees(quarantine, base=base, ours=ours, theirs=theirs)
        assert result.clean
        assert quarantine.read(result.tree, "a.py") == f"theirs\n{BODY}ours\n".encode()
        assert len(result.tree) == 64


def test_names_for_conflict_markers_are_checked(two: Any) -> None:
    _, quarantine, base = two
    ours = quarantine.write_tree(base, {"a.py": b"1\n"})
    theirs = quarantine.write_tree(base, {"a.py": b"2\n"})
    result = merge_trees(quarantine, base=base, ours=ours, theirs=theirs, labels=("main", "main/x"))
    assert quarantine.read(TreeId(result.tree), "a.py") == (
        b"<<<<<<< main\n1\n=======\n2\n>>>>>>> main/x\n"
    )
    with pytest.raises(RepositoryError, match="cannot name a commit"):
        merge_trees(quarantine, base=base, ours=ours, theirs=theirs, labels=("--help", "x"))
