from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from multiprocessing import Pool
from threading import Thread, Timer

import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = nn.Linear(cfg.n_in, cfg.n_out)
        self.target = nn.Linear(cfg.n_in, cfg.n_out)
        self.critics = [nn.Linear(cfg.n_in, 1) for _ in range(2)]
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {
            "policy": self.policy.state_dict(),
            "target": self.target.state_dict(),
            "critics": [c.state_dict() for c in self.critics],
            "opt": self.opt.state_dict(),
        }

    def load(self, blob):
        self.policy.load_state_dict(blob["policy"])

    def run(self):
        with ThreadPoolExecutor() as executor:
            executor.submit(same, self.policy).result().state_dict()
            executor.submit(same, self.target).result().state_dict()
            executor.submit(self.mine).result().state_dict()
            executor.submit(lambda: self.target).result().state_dict()
            for net in executor.map(first_of, self.critics):
                net.state_dict()
            futures = [executor.submit(same, critic) for critic in self.critics]
            for future in as_completed(futures):
                future.result().state_dict()
            executor.submit(push, self.policy)
            executor.submit(push_plain, self.target)
        promised = Future()
        promised.set_result(self.policy)
        promised.result().state_dict()

    def pool(self):
        with Pool(2) as pool:
            pool.apply(same, (self.policy,)).state_dict()
            pool.apply(same, (self.target,)).state_dict()
            pool.apply_async(same, (self.policy,)).get().state_dict()
            for net in pool.starmap(first_of_two, [(self.policy, 1)]):
                net.state_dict()
        Thread(target=push_named, kwargs={"net": self.policy}).start()
        Timer(3, push_late, [self.policy]).start()

    def mine(self):
        return self.policy


def same(net):
    return net


def first_of(net):
    return net


def first_of_two(net, step):
    return net


def push(net):
    net.state_dict()


def push_plain(net):
    net.state_dict()


def push_named(net):
    net.state_dict()


def push_late(net):
    net.state_dict()
