import copy
import pickle

from learner import Learner


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.learners = [Learner(cfg)]

    def fork(self):
        return copy.deepcopy(self), pickle.dumps(self.cfg)


class Light(Trainer):
    def __getstate__(self):
        return {"cfg": self.cfg}


def send(cfg):
    return pickle.dumps(Light(cfg))
