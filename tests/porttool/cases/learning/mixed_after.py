from collections import OrderedDict

import torch as th

LIMIT = 4
PREFIX = "_orig_mod."


def _strip(weights):
    out = OrderedDict()
    for k, v in weights.items():
        if k.startswith(PREFIX):
            k = k[len(PREFIX) :]
        out[k] = v
    return out


def scale(a, b=2):
    return a


class A:
    def __init__(self, cfg):
        self.net = th.compile(build(cfg, 7), mode="default")
        self.extra = th.compile(build(cfg, 8))
        self.other = 2

    def save(self, path):
        th.save({"net": _strip(self.net.state_dict(keep_vars=True)), "n": 1, "c": True}, path)
        log("saved", path)

    def load(self, blob):
        getattr(self.net, "_orig_mod", self.net).load_state_dict(
            blob["net"],  # the network
        )
        if blob:
            self.loaded = 1
        else:
            self.loaded = 0
