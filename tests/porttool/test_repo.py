"""Reading the user's repository: kinds of repository, names, trees, history, identity."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from porttool.errors import RepositoryError
from porttool.git.commits import CommitId, commit_bytes
from porttool.git.objects import Change, Entry
from porttool.git.repo import Identity, environment, open_repository

AWKWARD = {
    "-dash.py": "torch.compile\n",
    "with space/ü.py": "x\n",
    'quo"te\\back.py': "y\n",
    "tab\tand\nline.py": "torch.compile\n",
    "dir/sub/x.py": "compile\n",
    "dir/notes.txt": "torch.compile\n",
}


def _folders(repo: Any, tmp_path: Path) -> dict[str, Path]:
    repo.git("worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
    repo.git("clone", "-q", "--bare", str(repo.path), str(tmp_path / "bare.git"))
    (repo.path / "dir").mkdir()
    return {
        "top": repo.path,
        "inside": repo.path / "dir",
        "dot git": repo.path / ".git",
        "linked": tmp_path / "linked",
        "bare": tmp_path / "bare.git",
    }


def test_opens_every_kind_of_repository(make_repo: Any, tmp_path: Path) -> None:
    base = make_repo({"a.py": "x = 1\n"})
    tip = base.id("HEAD")
    roots = {}
    for kind, folder in _folders(base, tmp_path).items():
        with open_repository(folder) as repo:
            roots[kind] = repo.root
            assert repo.resolve("main") == tip
            assert repo.read(repo.resolve("main"), "a.py") == b"x = 1\n"
            assert repo.grep(CommitId(tip), ["x"]) == ("a.py",)
    assert roots == {
        "top": base.path,
        "inside": base.path,
        "dot git": None,
        "linked": tmp_path / "linked",
        "bare": None,
    }


def test_what_comes_from_outside_does_not_choose_the_repository(
    make_repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = make_repo({"a": "mine\n"}), make_repo({"a": "other\n"}, name="other")
    for name, value in {
        "GIT_DIR": str(other.path / ".git"),
        "GIT_WORK_TREE": str(other.path),
        "GIT_INDEX_FILE": str(other.path / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(other.path / ".git/objects"),
        "GIT_COMMON_DIR": str(other.path / ".git"),
        "GIT_NAMESPACE": "elsewhere",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_TRACE": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
    }.items():
        monkeypatch.setenv(name, value)
    with open_repository(mine.path) as repo:
        assert repo.root == mine.path
        assert repo.read(repo.resolve("main"), "a") == b"mine\n"
        assert repo.grep(repo.resolve("main"), ["mine"], "a*") == ("a",)
    kept = environment()
    assert "GIT_DIR" not in kept
    assert "GIT_INDEX_FILE" not in kept
    assert "GIT_CONFIG_COUNT" not in kept
    assert kept["PATH"] == os.environ["PATH"]


def test_folders_without_a_repository_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match=r"not a git repository\n[\s\S]*--repo PATH"):
        open_repository(tmp_path)
    with pytest.raises(RepositoryError, match=r"no such folder[\s\S]*--repo PATH"):
        open_repository(tmp_path / "none")


def test_without_git_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment()  # git's list of variables is read once
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RepositoryError, match=r"git is not installed[\s\S]*2\.38"):
        open_repository(tmp_path)


def test_a_shallow_clone_is_refused_with_the_fetch_to_type(make_repo: Any, tmp_path: Path) -> None:
    repo = make_repo({"a": "1\n"})
    repo.commit({"a": "2\n"})
    repo.git("clone", "-q", "--depth=1", f"file://{repo.path}", str(tmp_path / "shallow"))
    with pytest.raises(RepositoryError, match=r"shallow[\s\S]*git -C .*shallow fetch --unshallow"):
        open_repository(tmp_path / "shallow")


def test_resolve_takes_what_a_person_types(make_repo: Any, tmp_path: Path) -> None:
    base = make_repo({"a": "1\n"})
    first = base.id("HEAD")
    base.git("tag", "-a", "v1", "-m", "annotated")
    second = base.commit({"a": "2\n"})
    base.git("tag", "main", first)  # a tag with a branch's name
    base.switch("experiments/x", "HEAD")
    third = base.commit({"a": "3\n"})
    base.git("clone", "-q", "-b", "main", str(base.path), str(tmp_path / "clone"))
    with open_repository(base.path) as repo:
        assert repo.resolve("main") == second
        assert repo.resolve("refs/tags/main") == first
        assert repo.resolve("v1") == first
        assert repo.resolve("HEAD") == third
        assert repo.resolve(first[:9]) == first
        assert repo.resolve(f"{third}~2") == first
        assert repo.ref("refs/heads/main") == second
        assert repo.ref("refs/heads/none") is None
    with open_repository(tmp_path / "clone") as clone:
        assert clone.resolve("experiments/x") == third
        with pytest.raises(RepositoryError, match="git fetch origin experiments/y"):
            clone.resolve("experiments/y")


@pytest.mark.parametrize("revision", ["", "none", "--all", "-x", "a\nb", "*", "main:a", "f" * 40])
def test_resolve_refuses_what_names_no_commit(make_repo: Any, revision: str) -> None:
    base = make_repo({"a": "1\n"})
    with open_repository(base.path) as repo:
        assert repo.find(revision) is None
        with pytest.raises(RepositoryError, match="there is no branch or commit"):
            repo.resolve(revision)


def test_a_name_that_is_nearly_a_branch_gets_the_branch(make_repo: Any) -> None:
    base = make_repo({"a": "1\n"})
    base.git("branch", "experiments/fast")
    base.git("update-ref", "refs/remotes/up/stale", base.id("main"))
    with open_repository(base.path) as repo:
        for typed, meant in (("experiment/fast", "experiments/fast"), ("stael", "stale")):
            with pytest.raises(RepositoryError) as caught:
                repo.resolve(typed)
            assert caught.value.what == (
                f"there is no branch or commit `{typed}`; did you mean `{meant}`?"
            )
            assert caught.value.next == (
                f"take {meant}, or another name that this lists: git branch --all"
            )
            assert caught.value.where == str(base.path)
            assert caught.value.exit_code == 2
        base.git("remote", "add", "up", "nowhere")
        base.git("remote", "add", "origin", "nowhere")
        assert repo.remotes() == ("origin", "up")
        with pytest.raises(RepositoryError) as caught:
            repo.resolve("zzz")
        assert caught.value.next == "git fetch origin zzz"


def test_a_branch_that_differs_between_remotes_is_asked_about(make_repo: Any) -> None:
    repo = make_repo({"a": "1\n"})
    first, second = repo.id("HEAD"), repo.commit({"a": "2\n"})
    repo.git("update-ref", "refs/remotes/one/x", first)
    repo.git("update-ref", "refs/remotes/two/x", first)
    repo.git("update-ref", "refs/remotes/one/deep/x", second)
    with open_repository(repo.path) as opened:
        assert opened.resolve("x") == first
        repo.git("update-ref", "refs/remotes/two/x", second)
        with pytest.raises(RepositoryError, match=r"different commit on each remote[\s\S]*two/x"):
            opened.resolve("x")


def test_an_empty_repository_has_no_commit_to_resolve(make_repo: Any) -> None:
    with open_repository(make_repo().path) as repo:
        assert repo.branches() == ()
        with pytest.raises(RepositoryError, match="there is no branch or commit `main`"):
            repo.resolve("main")


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_awkward_paths_are_listed_read_and_searched(make_repo: Any, object_format: str) -> None:
    base = make_repo(AWKWARD, object_format=object_format)
    (base.path / "link").symlink_to("-dash.py")
    (base.path / "-dash.py").chmod(0o755)
    base.commit({})
    with open_repository(base.path) as repo:
        tip = repo.resolve("HEAD")
        entries = repo.paths(tip)
        assert set(entries) == {*AWKWARD, "link"}
        assert entries["link"].mode == "120000"
        assert entries["-dash.py"].mode == "100755"
        assert entries == {path: repo.entry(tip, path) for path in entries}
        assert repo.read_many(tip, [*entries, "none", "dir"]) == {
            **{path: text.encode() for path, text in AWKWARD.items()},
            "link": b"-dash.py",
        }
        assert repo.read(tip, "dir") is None
        assert repo.read(tip, "-dash.py/x") is None
        assert repo.grep(tip, ["torch.compile", "-dash"]) == ("-dash.py", "tab\tand\nline.py")
        assert repo.grep(tip, ["ompile"]) == ()
        assert repo.grep(tip, []) == ()


def test_thousands_of_files_are_read_by_one_process(make_repo: Any) -> None:
    files = {f"d{number % 7}/f{number}.py": f"x = {number}\n" * 50 for number in range(1500)}
    base = make_repo(files)
    with open_repository(base.path) as repo:
        tip = repo.resolve("main")
        started = repo.git.num_processes
        read = repo.read_many(tip, files)
        assert repo.git.num_processes == started
    assert read == {path: text.encode() for path, text in files.items()}


def test_changed_lists_both_sides_of_everything(make_repo: Any) -> None:
    base = make_repo(
        {
            "a": "1\n",
            "b/c": "2\n",
            "b/d": "3\n",
            "e": "4\n",
            "f/g": "5\n",
            "m": "6\n",
            "\n-t": "7\n",
        }
    )
    before = base.id("HEAD")
    base.write({"a": "2\n", "b/c": None, "e": None, "f/g": None, "\n-t": None, "new/x": "7\n"})
    (base.path / "f").rmdir()
    base.write({"e/inner": "8\n", "f": "9\n"})
    (base.path / "m").chmod(0o755)
    (base.path / "\n-t").symlink_to("a")
    after = base.commit({})
    with open_repository(base.path) as repo:
        changes = repo.changed(CommitId(before), CommitId(after))
        assert changes == (
            Change("modified", "\n-t", "100644", "120000"),
            Change("modified", "a", "100644", "100644"),
            Change("deleted", "b/c", "100644", None),
            Change("deleted", "e", "100644", None),
            Change("added", "e/inner", None, "100644"),
            Change("added", "f", None, "100644"),
            Change("deleted", "f/g", "100644", None),
            Change("modified", "m", "100644", "100755"),
            Change("added", "new/x", None, "100644"),
        )
        assert repo.changed(CommitId(after), CommitId(after)) == ()


def test_objects_that_are_missing_or_of_another_kind_are_named(make_repo: Any) -> None:
    base = make_repo({"a": "1\n"})
    with open_repository(base.path) as repo:
        tip = repo.resolve("main")
        with pytest.raises(RepositoryError, match=f"the object {'1' * 40} is not"):
            repo.commit(CommitId("1" * 40))
        with pytest.raises(RepositoryError, match="is a tree, not a commit"):
            repo.commit(CommitId(repo.tree_of(tip)))
        with pytest.raises(RepositoryError, match=f"the blob {tip} is not"):
            repo.blobs([tip])
        assert repo.has(tip)
        assert not repo.has(CommitId("1" * 40))


def test_a_commit_without_its_parent_is_not_whole(make_repo: Any) -> None:
    base = make_repo({"a": "1\n"})
    orphan = base.git(
        "hash-object",
        "-t",
        "commit",
        "-w",
        "--stdin",
        "--literally",
        input=commit_bytes(
            base.git("rev-parse", "HEAD^{tree}"),
            ["2" * 40],
            author=b"a <a> 0 +0000",
            committer=b"a <a> 0 +0000",
            message=b"x\n",
        ),
    )
    with open_repository(base.path) as repo:
        assert repo.holds(CommitId(orphan))
        assert not repo.has(CommitId(orphan))


def _port(repo: Any, experiment: str, name: str = "p", path: str = "ported.py") -> str:
    message = f"trainer: compile\n\nPorted-from: {experiment}\nPort: {name}\n"
    return str(repo.commit({path: "ported\n"}, message))


@pytest.fixture
def history(make_repo: Any) -> tuple[Any, str]:
    """A main that moved on, and an experiment from before that."""
    repo = make_repo({"a.py": "x = 1\n"})
    repo.switch("experiment", "main")
    experiment = repo.commit({"a.py": "x = 2\n"})
    repo.switch("main")
    repo.commit({"b.py": "y\n"}, "mentions no port")
    return repo, experiment


def _find(repo: Any, experiment: str, name: str = "p") -> str | None:
    with open_repository(repo.path) as opened:
        return opened.find_ported(opened.resolve("main"), CommitId(experiment), name)


def test_a_port_is_found_after_fast_forward_merge_and_rebase(history: Any) -> None:
    repo, experiment = history
    assert _find(repo, experiment) is None
    repo.switch("port/p", "main")
    first = _port(repo, experiment)
    _port(repo, experiment, path="gate.py")
    repo.switch("main")
    repo.commit({"c.py": "z\n"})
    assert _find(repo, experiment) is None
    repo.git("merge", "-q", "--no-ff", "-m", "merge", "port/p")
    assert _find(repo, experiment) == first
    assert _find(repo, experiment, "another") is None
    assert _find(repo, "9" * 40) is None


def test_a_port_is_found_in_both_kinds_of_squash(history: Any) -> None:
    repo, experiment = history
    repo.switch("port/p", "main")
    _port(repo, experiment)
    repo.switch("main")
    start = repo.id("HEAD")
    repo.git("merge", "-q", "--squash", "port/p")
    indented = repo.commit_staged((repo.path / ".git/SQUASH_MSG").read_bytes())
    assert b"\n    Ported-from: " in repo.git_bytes("cat-file", "commit", indented)
    assert _find(repo, experiment) == indented
    repo.git("reset", "-q", "--hard", start)
    listed = repo.commit(
        {"ported.py": "ported\n"},
        f"Port it (#7)\n\n* compile\n\nPorted-from: {experiment}\nPort: p\n\n* next\n\nx\n",
    )
    assert _find(repo, experiment) == listed


def test_a_reverted_port_is_not_ported_until_the_revert_is_reverted(history: Any) -> None:
    repo, experiment = history
    first = _port(repo, experiment)
    repo.git("revert", "--no-edit", first)
    assert _find(repo, experiment) is None
    repo.git("revert", "--no-edit", "HEAD")
    assert _find(repo, experiment) == first
    repo.git("revert", "--no-edit", "HEAD")
    assert _find(repo, experiment) is None
    again = _port(repo, experiment, path="again.py")
    assert _find(repo, experiment) == again


def test_a_reverted_merge_takes_back_what_it_brought(history: Any) -> None:
    repo, experiment = history
    repo.switch("port/p", "main")
    _port(repo, experiment)
    repo.switch("main")
    repo.commit({"c.py": "z\n"})
    repo.git("merge", "-q", "--no-ff", "-m", "merge", "port/p")
    repo.git("revert", "--no-edit", "-m", "1", "HEAD")
    assert _find(repo, experiment) is None


def test_a_mention_of_the_experiment_is_not_a_port(history: Any) -> None:
    repo, experiment = history
    repo.commit({"d.py": "d\n"}, f"about\n\nPorted-from: {experiment} was never merged\nPort: p\n")
    repo.commit({"e.py": "e\n"}, f"half\n\nPorted-from: {experiment}\n")
    assert _find(repo, experiment) is None


def test_history_is_counted_and_compared(history: Any) -> None:
    repo, experiment = history
    with open_repository(repo.path) as opened:
        main, base = opened.resolve("main"), opened.resolve("main~1")
        assert opened.ahead_behind(CommitId(experiment), main) == (1, 1)
        assert opened.ahead_behind(main, main) == (0, 0)
        assert opened.merge_base(CommitId(experiment), main) == base
        assert opened.is_ancestor(base, main)
        assert not opened.is_ancestor(main, base)
        repo.git("switch", "-q", "--orphan", "alone")
        alone = repo.commit({"z": "z\n"})
        assert opened.merge_base(CommitId(alone), main) is None


def test_branches_say_where_they_are_checked_out(history: Any, tmp_path: Path) -> None:
    repo, experiment = history
    repo.git("update-ref", "refs/remotes/origin/x", experiment)
    repo.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/x")
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "experiment")
    with open_repository(repo.path) as opened:
        main = opened.resolve("main")
        found = {branch.name: branch for branch in opened.branches()}
        assert set(found) == {"main", "experiment", "origin/x"}
        assert found["main"].checked_out == str(repo.path)
        assert found["experiment"].checked_out == str(tmp_path / "linked")
        assert found["origin/x"].checked_out is None
        assert found["origin/x"].ref == "refs/remotes/origin/x"
        assert found["experiment"].committed == 1_700_000_060
        unmerged = opened.branches(not_merged_into=main)
        assert [branch.tip for branch in unmerged] == [experiment, experiment]


def test_identity_comes_from_the_configuration(make_repo: Any) -> None:
    repo = make_repo({"a": "1\n"})
    with open_repository(repo.path) as opened:
        assert opened.identity() == Identity("Grace Hopper", "grace@example.org")
        repo.git("config", "user.name", "Ünal <x")
        who = opened.identity()
        assert (who.name, who.email) == ("Ünal x", "grace@example.org")
        assert who.at(5, "+0200").raw() == "Ünal x <grace@example.org> 5 +0200".encode()


def test_a_missing_identity_is_refused_with_the_command(
    make_repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo({"a": "1\n"})
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with (
        open_repository(repo.path) as opened,
        pytest.raises(
            RepositoryError, match=r"who you are[\s\S]*git config --global user\.name"
        ) as caught,
    ):
        opened.identity()
    assert caught.value.why == "user.name and user.email are not both set in git's configuration"
    assert len(str(caught.value).splitlines()) == 4


def test_a_damaged_store_is_reported_not_waited_for(make_repo: Any) -> None:
    repo = make_repo({"a": "1\n"})
    blob = repo.id("HEAD:a")
    file = repo.path / ".git" / "objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(b"not zlib")
    with open_repository(repo.path) as opened, pytest.raises(RepositoryError, match=blob):
        opened.read(opened.resolve("main"), "a")


def test_entry_tells_files_from_the_rest() -> None:
    assert [Entry(mode, "0" * 40).is_file for mode in ("100644", "100755", "120000", "40000")] == [
        True,
        True,
        False,
        False,
    ]


def test_what_is_read_ahead_is_not_asked_for_again(make_repo: Any) -> None:
    work = make_repo({"a/b/c.py": "x = 1\n", "a/d.py": "y = 1\n", "e/f.py": "z = 1\n"})
    ids = [work.id("main")]
    ids.append(work.commit({"a/b/c.py": "x = 2\n", "new/g.py": "g\n"}))
    ids.append(work.commit({"e/f.py": None, "h": "h\n", "a/d.py": "y = 2\n"}))
    wanted = [CommitId(id) for id in ids]
    with open_repository(work.path) as repo:
        facts = repo.commits([*wanted, wanted[0]])
        assert [*facts] == wanted
        trees = [commit.tree for commit in facts.values()]
        pairs = list(pairwise(trees))
        repo.read_ahead(pairs)
        repo.close()
        num_processes = repo.git.num_processes
        found = [[change.path for change in repo.changed(*pair)] for pair in pairs]
        assert [repo.tree_of(id) for id in wanted] == trees
        assert repo.git.num_processes == num_processes
    assert found == [["a/b/c.py", "new/g.py"], ["a/d.py", "e/f.py", "h"]]


def test_many_commits_of_which_one_is_missing_are_refused(make_repo: Any) -> None:
    work = make_repo({"a.py": "x = 1\n"})
    with (
        open_repository(work.path) as repo,
        pytest.raises(RepositoryError, match="is not in this repository"),
    ):
        repo.commits([CommitId(work.id("main")), CommitId("0" * 40)])
