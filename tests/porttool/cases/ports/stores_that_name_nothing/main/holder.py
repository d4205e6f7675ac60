HELD = None


def hold(item):
    global HELD
    HELD = item


def held():
    return HELD
