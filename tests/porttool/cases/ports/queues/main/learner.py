import multiprocessing as mp
import queue

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

    def send(self):
        online, frozen = queue.Queue(), queue.Queue()
        online.put(self.policy)
        frozen.put(self.target)
        online.get().state_dict()
        frozen.get().state_dict()
        pairs = mp.Queue()
        pairs.put((1, self.policy))
        step, net = pairs.get()
        net.state_dict()
        spawned = mp.get_context("spawn").SimpleQueue()
        spawned.put(self.policy)
        spawned.get().state_dict()
        here, there = mp.Pipe()
        here.send(self.policy)
        there.recv().state_dict()
        ranked = queue.PriorityQueue()
        ranked.put_nowait((0, self.policy))
        ranked.get_nowait()[1].state_dict()

    def start(self):
        jobs, plain_jobs = mp.Queue(), mp.Queue()
        jobs.put(self.policy)
        plain_jobs.put(self.target)
        mp.Process(target=work, args=(jobs,)).start()
        mp.Process(target=work_plain, args=(plain_jobs,)).start()


def work(jobs):
    jobs.get().state_dict()


def work_plain(jobs):
    jobs.get().state_dict()
