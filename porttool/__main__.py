"""`python -m porttool`: the command line without the console script."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # The folder that this is called in, which is a repository of somebody's: a file there that
        # is called like a library would be run in its place.
        del sys.path[0]

    from porttool.cli import main

    main()
