def clean(network):
    return getattr(network, "_orig_mod", network).state_dict()
