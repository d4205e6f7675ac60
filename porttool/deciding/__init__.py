"""From rules and dataflow to a decision about every site on onto."""
