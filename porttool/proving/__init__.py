"""The proof that off means off, by code that shares nothing with what made the branch."""
