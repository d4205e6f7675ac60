"""Measurements, each a script that prints one JSON line; never part of the tests."""
