import asyncio

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

    async def online(self):
        return self.policy

    async def frozen(self):
        return self.target

    async def stream(self):
        yield self.policy

    async def use(self):
        _clean_state_dict(await self.online())
        (await self.frozen()).state_dict()
        async for net in self.stream():
            _clean_state_dict(net)
        first, second = await asyncio.gather(self.online(), self.frozen())
        _clean_state_dict(first)
        second.state_dict()
        task = asyncio.create_task(self.online())
        _clean_state_dict(await task)
        _clean_state_dict(task.result())
        other = asyncio.create_task(self.frozen())
        (await other).state_dict()
        waited = await asyncio.wait_for(self.online(), 3)
        _clean_state_dict(waited)
        for done in asyncio.as_completed([self.online()]):
            _clean_state_dict(await done)
        threaded = await asyncio.to_thread(same, self.policy)
        _clean_state_dict(threaded)
        loop = asyncio.get_event_loop()
        executed = await loop.run_in_executor(None, same, self.policy)
        _clean_state_dict(executed)

    async def queue(self):
        online, frozen = asyncio.Queue(), asyncio.Queue()
        await online.put(self.policy)
        await frozen.put(self.target)
        _clean_state_dict(await online.get())
        (await frozen.get()).state_dict()


def same(net):
    return net
