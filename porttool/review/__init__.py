"""A report shown to people: at a terminal, as a page, and as the body of a pull request."""
