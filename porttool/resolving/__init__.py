"""Conflicts that only a person can resolve: told, opened, and remembered."""
