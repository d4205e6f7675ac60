import contextlib
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, nullcontext

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

    @contextmanager
    def online(self):
        yield self.policy

    @contextlib.contextmanager
    def frozen(self):
        try:
            yield self.target
        finally:
            pass

    def use(self):
        with self.online() as net, self.frozen() as other:
            net.state_dict()
            other.state_dict()
        with Held(self.policy) as net:
            net.state_dict()
        with HeldTarget(self.target) as net:
            net.state_dict()
        with nullcontext(self.policy) as net:
            net.state_dict()
        with closing(self.policy) as net:
            net.state_dict()
        with ExitStack() as stack:
            entered = stack.enter_context(self.online())
            other = stack.enter_context(self.frozen())
            entered.state_dict()
            other.state_dict()

    @asynccontextmanager
    async def online_later(self):
        yield self.policy

    async def use_later(self):
        async with self.online_later() as net:
            net.state_dict()
        async with Later(self.policy) as net:
            net.state_dict()


class Held:
    def __init__(self, net):
        self.net = net

    def __enter__(self):
        return self.net

    def __exit__(self, *exc):
        pass


class HeldTarget:
    def __init__(self, net):
        self.net = net

    def __enter__(self):
        return self.net

    def __exit__(self, *exc):
        pass


class Later:
    def __init__(self, net):
        self.net = net

    async def __aenter__(self):
        return self.net

    async def __aexit__(self, *exc):
        pass
