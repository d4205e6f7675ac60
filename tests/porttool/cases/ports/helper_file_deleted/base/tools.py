def seeded(seed):
    return seed + 1


def unused(seed):
    return seed + 2
