import torch as th

LIMIT = 3


def scale(a):
    return a


class A:
    def __init__(self, cfg):
        self.net = build(cfg)
        self.other = 1

    def save(self, path):
        th.save({"net": self.net.state_dict(keep_vars=True), "n": 1}, path)
        log("saved")

    def load(self, blob):
        self.net.load_state_dict(
            blob["net"],  # the network
        )
        if blob:
            self.loaded = 1
