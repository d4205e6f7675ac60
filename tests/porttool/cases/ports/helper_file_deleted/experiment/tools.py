def seeded(seed):
    return seed + 1


def unused(seed):
    return seed + 2


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()
