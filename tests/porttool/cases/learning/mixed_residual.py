import torch as th

LIMIT = 4


def scale(a, b=2):
    return a


class A:
    def __init__(self, cfg):
        self.net = build(cfg, 7)
        self.extra = build(cfg, 8)
        self.other = 2

    def save(self, path):
        th.save({"net": self.net.state_dict(keep_vars=True), "n": 1, "c": True}, path)
        log("saved", path)

    def load(self, blob):
        self.net.load_state_dict(
            blob["net"],  # the network
        )
        if blob:
            self.loaded = 1
        else:
            self.loaded = 0
