"""End the process groups named on standard input once that closes.

Started by `Processes`, whose death by whatever cause closes it: `+ID` names a group, `-ID` takes
it back.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Read to the end, then kill what was not taken back."""
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
