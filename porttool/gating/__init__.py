"""The experiment behind a switch: where it stands, how it is declared, which files show it."""
