_ITEMS = {}


def register(name, item):
    _ITEMS[name] = item


def lookup(name):
    return _ITEMS[name]
