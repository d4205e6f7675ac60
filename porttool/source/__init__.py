"""Python sources as values: spans, names, scopes, and text laid out as a formatter would."""
