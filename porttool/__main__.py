"""`python -m porttool`: the command line without the console script."""

from porttool.cli import main

if __name__ == "__main__":
    main()
