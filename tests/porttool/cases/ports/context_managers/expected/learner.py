import contextlib
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, nullcontext

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
            _clean_state_dict(net)
            other.state_dict()
        with Held(self.policy) as net:
            _clean_state_dict(net)
        with HeldTarget(self.target) as net:
            net.state_dict()
        with nullcontext(self.policy) as net:
            _clean_state_dict(net)
        with closing(self.policy) as net:
            _clean_state_dict(net)
        with ExitStack() as stack:
            entered = stack.enter_context(self.online())
            other = stack.enter_context(self.frozen())
            _clean_state_dict(entered)
            other.state_dict()

    @asynccontextmanager
    async def online_later(self):
        yield self.policy

    async def use_later(self):
        async with self.online_later() as net:
            _clean_state_dict(net)
        async with Later(self.policy) as net:
            _clean_state_dict(net)


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
