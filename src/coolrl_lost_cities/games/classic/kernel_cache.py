"""Where numba keeps compiled kernels: one folder for each state of the kernels' sources.

numba compares a kernel with its own file only. After a change of a function that the kernel calls
from another file it would go on using the old code, silently; a folder for each state of all files
that hold kernels, and of all that those import, rules that out. Other files do not count: a change
of the command line compiles nothing.
"""

import hashlib
import os
import re
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_IMPORT = re.compile(rb"^\s*(?:from\s+([\w.]+)\s+)?import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_THIS = Path(__file__).resolve()
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


@cache
def sources_digest() -> str:
    """Return 16 hex digits that change with any source that a kernel depends on."""
    digest = hashlib.sha256()
    for path, text in sorted(_kernel_sources().items()):
        digest.update(f"{path.relative_to(_PACKAGE)}\0".encode())
        digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()[:16]


def _kernel_sources() -> dict[Path, bytes]:
    """Return the files that hold kernels and those that they import, however indirectly."""
    texts = {path: path.read_bytes() for path in _PACKAGE.rglob("*.py")}
    found: dict[Path, bytes] = {}
    waiting = [path for path, text in texts.items() if b"njit" in text and path != _THIS]
    while waiting:
        path = waiting.pop()
        if path in texts and path not in found:
            found[path] = texts[path]
            waiting += _imported(texts[path])
    return found


def _imported(text: bytes) -> list[Path]:
    """Return the files of this package that a source may import; some of them need not exist."""
    modules = []
    for origin, names in _IMPORT.findall(text):
        imported = re.findall(r"[\w.]+", names.decode())
        prefix = f"{origin.decode()}." if origin else ""
        modules += [origin.decode(), *(prefix + name for name in imported)]
    inside = [module.split(".") for module in modules if f".{_PACKAGE.name}." in f".{module}"]
    below = [parts[parts.index(_PACKAGE.name) + 1 :] for parts in inside]
    return [_PACKAGE.joinpath(*parts).with_suffix(".py") for parts in below if parts]


def is_compiled() -> bool:
    """Say whether a whole run's kernels have been compiled for these sources, here, before."""
    return _mark().exists()


def mark_compiled() -> None:
    """Note that they have been; where that cannot be written, the next run compiles them again."""
    with suppress(OSError):
        _mark().touch()


def _mark() -> Path:
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or _PACKAGE)
    return folder / f".compiled-{sources_digest()}"


def _forget_old(base: Path) -> None:
    folders = sorted(base.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in folders[_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
