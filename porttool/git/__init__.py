"""Everything that talks to git: reading, a quarantine to work in, one step that publishes."""
