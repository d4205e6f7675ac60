"""A drafted port written into the working tree: all its files, or none."""

from __future__ import annotations

import json
import shlex

from porttool.drafting.draft import Draft
from porttool.drafting.text import BUNDLE, SCHEMA_NAME, port_text
from porttool.errors import PlanError, RepositoryError
from porttool.git.replacing import replace_files
from porttool.git.repo import Repository
from porttool.plan.plan import PORTS_FOLDER, check_inside
from porttool.schemas import PORT_TITLE, port_schema


def draft_files(draft: Draft) -> dict[str, bytes]:
    """Return the files of a drafted port, by path: the plan, its bundle, and the plan's schema."""
    schema = json.dumps(port_schema(), indent=1) + "\n"
    files = {
        draft.path: port_text(draft).encode("utf-8", "surrogateescape"),
        f"{PORTS_FOLDER}/{SCHEMA_NAME}": schema.encode(),
    }
    if draft.bundle is not None:
        files[f"{PORTS_FOLDER}/{draft.name}/{BUNDLE}"] = draft.bundle
    return files


def check_free(repo: Repository, name: str) -> None:
    """Refuse a port's name that is taken, and a repository without a working tree.

    Raises PlanError or RepositoryError; a folder that holds anything counts as taken.
    """
    if repo.root is None:
        raise RepositoryError(
            "a port is drafted into a working tree, and this repository has none",
            where=str(repo.git_dir),
            next="run this in a clone with a working tree: git clone URL",
        )
    folder = repo.root / PORTS_FOLDER / name
    check_inside(repo.root, folder / "port.yaml")
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        raise PlanError(
            f"there is a port `{name}` already",
            where=str(folder),
            why="a draft overwrites nothing",
            next=f"porttool init COMMIT --name OTHER, or remove it: git rm -r -- "
            f"{shlex.quote(f'{PORTS_FOLDER}/{name}')}",
        )


def write_draft(repo: Repository, draft: Draft) -> tuple[str, ...]:
    """Write a draft's files and return their paths; raises PortError, with nothing written."""
    check_free(repo, draft.name)
    assert repo.root is not None
    files = draft_files(draft)
    schema = f"{PORTS_FOLDER}/{SCHEMA_NAME}"
    try:
        there = (repo.root / schema).read_bytes()
    except FileNotFoundError:
        there = None
    if there == files[schema] or (there is not None and not _is_ours(there)):
        del files[schema]
    before = {path: there if path == schema else None for path in files}
    replace_files(repo.root, before, files, prepare_in=(repo.git_dir,))
    return tuple(files)


def _is_ours(data: bytes) -> bool:
    try:
        found = json.loads(data)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("title") == PORT_TITLE
