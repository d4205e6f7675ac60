"""Working trees for checks, outside of the user's repository, kept warm from one run to the next.

Each is a small repository of its own that borrows the user's objects, so that nothing is written
to the user's `.git`, as `git worktree add` would, and a second run rewrites only what differs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from porttool.errors import RepositoryError
from porttool.git.commits import CommitId
from porttool.git.objects import alternates
from porttool.git.plumbing import Git
from porttool.git.repo import Repository

_MAX_TREES = 64


def pool_folder(repo: Repository) -> Path:
    """Return where a repository's working trees are kept: in the cache, by its object store."""
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    base = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    key = hashlib.sha256(os.fsencode(repo.object_folder.resolve())).hexdigest()[:16]
    return base / "porttool" / key


@contextlib.contextmanager
def checkout(repo: Repository, commit: CommitId, *, pool: Path | None = None) -> Iterator[Path]:
    """Lend a working tree that holds exactly the files of a commit, nobody else's while it is lent.

    Submodules stay empty. What a run leaves behind, ignored files too, is gone at the next loan.
    Raises RepositoryError where the cache folder cannot be written.
    """
    folder = pool_folder(repo) if pool is None else pool
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RepositoryError(
            "the folder for working trees cannot be made",
            where=str(folder),
            why=error.strerror,
            next="set XDG_CACHE_HOME to a folder that can be written",
        ) from error
    with contextlib.ExitStack() as stack:
        tree = _lock_one(folder, stack)
        try:
            _bring_to(repo, tree, commit)
        except RepositoryError:
            # A killed run, or a prune of objects that only this tree used, can leave it unreadable.
            shutil.rmtree(tree)
            _bring_to(repo, tree, commit)
        yield tree


def _lock_one(folder: Path, stack: contextlib.ExitStack) -> Path:
    for number in range(_MAX_TREES):
        file = os.open(folder / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return folder / str(number)
    raise RepositoryError(
        f"all {_MAX_TREES} working trees are in use",
        where=str(folder),
        next="wait until another porttool verify has ended",
    )


def _bring_to(repo: Repository, tree: Path, commit: CommitId) -> None:
    git_dir = tree / ".git"
    if git_dir.is_symlink() or not git_dir.is_dir():
        shutil.rmtree(tree, ignore_errors=True)
    for inner in ("objects/info", "refs", "info"):
        (git_dir / inner).mkdir(parents=True, exist_ok=True)
    # What a check did to the configuration must not outlive it.
    extended = repo.object_format != "sha1"
    config = f"[core]\n\trepositoryFormatVersion = {int(extended)}\n\tbare = false\n"
    if extended:
        config += f"[extensions]\n\tobjectFormat = {repo.object_format}\n"
    (git_dir / "config").write_text(config)
    (git_dir / "objects" / "info" / "alternates").write_bytes(alternates(repo.object_folder))
    (git_dir / "HEAD").write_text(f"{commit}\n")
    (git_dir / "index.lock").unlink(missing_ok=True)  # of a killed run: the tree is ours alone
    git = Git(tree, git_dir=git_dir)
    git.run("read-tree", "--reset", "-u", commit)
    git.run("clean", "-ffdxq")
