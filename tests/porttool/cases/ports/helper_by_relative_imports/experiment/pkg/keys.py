X = 1


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()
