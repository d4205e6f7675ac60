"""How projects hold their settings, and how a flat switch is declared and read in each way."""
