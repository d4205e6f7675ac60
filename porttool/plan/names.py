"""The names of a repository's ports, told from folders alone: a shell waits for them."""

from __future__ import annotations

from pathlib import Path

PLAN_NAME = "port.yaml"
PORTS_FOLDER = "patches"


def ports_above(folder: Path) -> tuple[str, ...]:
    """Return the ports of the working tree that a folder is in, by name; none where there is none.

    Neither git nor any plan is read.
    """
    try:
        here = folder.resolve()
        for place in (here, *here.parents):
            plans = sorted((place / PORTS_FOLDER).glob(f"*/{PLAN_NAME}"))
            if plans or (place / ".git").exists():
                return tuple(path.parent.name for path in plans)
    except OSError:
        return ()
    return ()
