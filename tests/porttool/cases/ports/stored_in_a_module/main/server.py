NET = None


def publish():
    return NET.state_dict()
