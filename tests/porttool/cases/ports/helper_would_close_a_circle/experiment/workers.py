"""Workers."""


def started(num_workers):
    return list(range(num_workers))
