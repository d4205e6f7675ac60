"""Files of a working tree replaced all or none: whatever is in the way, nothing is half done."""

import os
from pathlib import Path

import pytest

from porttool.errors import PortError
from porttool.git.replacing import replace_files

BEFORE = {"a": b"old a\n", "b": b"old b\n"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    for name, data in BEFORE.items():
        (root / name).write_bytes(data)
    return root


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.*")} | {
        path.name: path.read_bytes() for path in root.iterdir() if path.is_file()
    }


def test_old_and_new_files_and_folders(root: Path, tmp_path: Path) -> None:
    (root / "a").chmod(0o751)
    after = {"a": b"new a\n", "deep/er/c.x": b"new c\n"}
    replace_files(root, {**BEFORE, "deep/er/c.x": None}, after, prepare_in=[tmp_path])
    assert files(root) == {**after, "b": BEFORE["b"]}
    assert (root / "a").stat().st_mode & 0o777 == 0o751
    assert list(tmp_path.iterdir()) == [root]


def test_what_was_moved_already_is_moved_back(root: Path) -> None:
    """The last cannot be there, for what comes before it is no folder: seen when it is moved."""
    inode = (root / "a").stat().st_ino
    after = {"a": b"new a\n", "new/c.x": b"", "d": b"a file", "d/e": b"below it"}
    with pytest.raises(PortError, match="none was changed"):
        replace_files(root, {**BEFORE, "new/c.x": None, "d": None, "d/e": None}, after)
    assert files(root) == BEFORE
    assert sorted(os.listdir(root)) == ["a", "b"]
    assert (root / "a").stat().st_ino == inode


@pytest.mark.parametrize("kind", ["changed", "there", "gone", "link", "folder", "link in between"])
def test_what_is_not_as_it_was_is_not_replaced(root: Path, tmp_path: Path, kind: str) -> None:
    before: dict[str, bytes | None] = {**BEFORE}
    name = "b"
    outside = tmp_path / "outside"
    outside.mkdir()
    if kind == "changed":
        (root / "b").write_bytes(b"mine\n")
    elif kind == "there":
        before["b"] = None
    elif kind == "gone":
        (root / "b").unlink()
    elif kind == "link":
        (outside / "b").write_bytes(BEFORE["b"])
        (root / "b").unlink()
        (root / "b").symlink_to(outside / "b")
    elif kind == "folder":
        (root / "b").unlink()
        (root / "b").mkdir()
    else:
        name = "in/b"
        before[name] = None
        (root / "in").symlink_to(outside)
    kept = {path: path.read_bytes() for path in outside.iterdir()}
    with pytest.raises(PortError):
        replace_files(root, before, {"a": b"new a\n", name: b"new b\n"})
    assert (root / "a").read_bytes() == BEFORE["a"]
    assert {path: path.read_bytes() for path in outside.iterdir()} == kept
    assert set(os.listdir(root)) - {"in"} <= {"a", "b"}
