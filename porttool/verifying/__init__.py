"""The project's own programs, run on a branch, and the verdict."""
