"""Workers."""


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


def started(num_workers):
    return list(range(num_workers))


def shared(policy, num_workers):
    weights = _clean_state_dict(policy)
    return [weights for _ in range(num_workers)]
