"""A report shown to people: in the terminal, and as the body of a pull request."""
