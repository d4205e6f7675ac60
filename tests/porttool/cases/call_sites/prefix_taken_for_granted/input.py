prefix = "_orig_mod."


def cut(state):
    return {key[len(prefix) :]: value for key, value in state.items()}


def split(state):
    return {key.split("_orig_mod.")[1]: value for key, value in state.items()}


def part(state):
    return {key.partition("_orig_mod.")[2]: value for key, value in state.items()}


def count(model):
    # without "_orig_mod."
    return {key[10:]: value for key, value in model.state_dict().items()}


def pick(state):
    return {key: value for key, value in state.items() if "_orig_mod." in key}


def careful(state):
    clean = {}
    for key, value in state.items():
        key = key.split("_orig_mod.")[-1]
        clean[key[10:] if key.startswith("something.") else key] = value
    return clean


def check(state):
    assert not [key for key in state if "_orig_mod" in key]
    return sum(1 for key in state if key.startswith("_orig_mod."))
