"""Which paths and reference names are safe to take from a file that somebody else wrote.

`port.yaml`, patches and branch names are data from outside. Nothing they name may leave the
repository, reach into `.git`, or be read by git as an option. Every function answers with the
reason, or None when there is nothing to say against the name, so that every caller can put the
reason into its own error.
"""

from __future__ import annotations

# HFS+ ignores these when it compares names, so that ".g\u200cit" opens ".git".
_INVISIBLE = frozenset(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)


def unsafe_path(path: str) -> str | None:
    """Return why a repository path must not be written, or None.

    Holds for every file system that git supports, not for this one alone: a tree written here
    may be checked out on Windows or macOS, where `.GIT`, `git~1` and `.git::$INDEX_ALLOCATION`
    all mean `.git`.
    """
    if not path:
        return "it is empty"
    if "\0" in path:
        return "it holds a NUL"
    if path.startswith("/") or path[1:3] in (":/", ":\\"):
        return "it is absolute"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return f"`{part}` is not a name" if part else "it has an empty component"
        if _means_dot_git(part):
            return f"`{part}` reaches into the repository's own .git"
    return None


def unsafe_plan_path(path: str) -> str | None:
    """Return why a path in `port.yaml` is refused, or None: `unsafe_path` and plainer still."""
    if "\\" in path:
        return "it holds a backslash; separate folders by /"
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in path):
        return "it holds a control character"
    return unsafe_path(path)


def unsafe_ref(name: str) -> str | None:
    """Return why a reference name is refused, or None (the rules of git-check-ref-format)."""
    if not name:
        return "it is empty"
    if name.startswith("-"):
        return "it starts with -, which git would read as an option"
    if name == "@" or "@{" in name:
        return "@ has a meaning of its own in git"
    if name.endswith(".") or ".." in name:
        return "two dots, or a dot at the end, are not allowed"
    for character in name:
        if ord(character) <= 0x20 or ord(character) == 0x7F or character in "~^:?*[\\":
            return f"{character!r} is not allowed"
    for part in name.split("/"):
        if not part:
            return "it has an empty component"
        if part.startswith(".") or part.endswith(".lock"):
            return f"`{part}` starts with a dot or ends with .lock"
    return None


def _means_dot_git(part: str) -> bool:
    for name in part.split("\\"):
        visible = "".join(character for character in name if ord(character) not in _INVISIBLE)
        plain = visible.split(":", 1)[0].rstrip(". ").lower()
        if plain in (".git", "git~1"):
            return True
    return False
