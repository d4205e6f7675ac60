"""Where numba keeps compiled kernels: one folder for each state of this package's sources.

numba compares a kernel with its own file only. After a change of a function that the kernel calls
from another file it would go on using the old code, silently; a folder for each state of all
sources rules that out.
"""

import hashlib
import os
import shutil
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_KEPT = 8  # folders of earlier states, some megabytes each


def keep_kernels_by_source() -> None:
    """Point numba at this state's folder; has to run before numba is imported.

    A folder that the user chose (NUMBA_CACHE_DIR) stays. Where the user's cache cannot be written,
    numba falls back to `__pycache__`.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lost-cities"
    folder = base / sources_digest()
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _forget_old(base)
    except OSError:
        return
    if os.access(folder, os.W_OK):
        os.environ["NUMBA_CACHE_DIR"] = str(folder)


def sources_digest() -> str:
    """Return 16 hex digits that change with any source of this package."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(f"{path.relative_to(_PACKAGE)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _forget_old(base: Path) -> None:
    folders = sorted(base.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in folders[_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
