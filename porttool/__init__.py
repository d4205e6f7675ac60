"""Ports a stale experiment onto today's main, behind a switch that is proven harmless when off."""
