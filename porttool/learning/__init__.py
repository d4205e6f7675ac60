"""From an experiment's diff to rules, seeds, helpers and a residual."""
