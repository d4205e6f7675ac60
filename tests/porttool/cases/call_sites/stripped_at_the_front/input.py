PREFIX = "_orig_mod."


def clean(state):
    for key in list(state):
        if key.startswith(PREFIX):
            state[key[len(PREFIX) :]] = state.pop(key)
    return state
