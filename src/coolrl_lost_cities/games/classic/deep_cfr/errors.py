"""What all errors of the trainer have in common that a person, not a programmer, can put right."""


class DeepCFRError(Exception):
    """Says in one line what is wrong, where, and what to do next."""
