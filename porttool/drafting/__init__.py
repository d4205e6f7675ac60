"""A first `port.yaml` from a commit: what can be found is written, what cannot is said."""
