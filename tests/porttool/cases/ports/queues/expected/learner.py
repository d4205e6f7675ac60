import multiprocessing as mp
import queue

import torch
from torch import nn


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.target = nn.Linear(cfg.n_in, cfg.n_out)
        self.critics = [torch.compile(nn.Linear(cfg.n_in, 1)) for _ in range(2)]
        self.opt = torch.optim.Adam(self.policy.parameters())

    def save(self):
        return {
            "policy": _clean_state_dict(self.policy),
            "target": self.target.state_dict(),
            "critics": [_clean_state_dict(c) for c in self.critics],
            "opt": self.opt.state_dict(),
        }

    def load(self, blob):
        getattr(self.policy, "_orig_mod", self.policy).load_state_dict(blob["policy"])

    def send(self):
        online, frozen = queue.Queue(), queue.Queue()
        online.put(self.policy)
        frozen.put(self.target)
        _clean_state_dict(online.get())
        frozen.get().state_dict()
        pairs = mp.Queue()
        pairs.put((1, self.policy))
        step, net = pairs.get()
        _clean_state_dict(net)
        spawned = mp.get_context("spawn").SimpleQueue()
        spawned.put(self.policy)
        _clean_state_dict(spawned.get())
        here, there = mp.Pipe()
        here.send(self.policy)
        _clean_state_dict(there.recv())
        ranked = queue.PriorityQueue()
        ranked.put_nowait((0, self.policy))
        _clean_state_dict(ranked.get_nowait()[1])

    def start(self):
        jobs, plain_jobs = mp.Queue(), mp.Queue()
        jobs.put(self.policy)
        plain_jobs.put(self.target)
        mp.Process(target=work, args=(jobs,)).start()
        mp.Process(target=work_plain, args=(plain_jobs,)).start()


def work(jobs):
    _clean_state_dict(jobs.get())


def work_plain(jobs):
    jobs.get().state_dict()
