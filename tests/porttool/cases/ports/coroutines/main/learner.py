import asyncio

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

    async def online(self):
        return self.policy

    async def frozen(self):
        return self.target

    async def stream(self):
        yield self.policy

    async def use(self):
        (await self.online()).state_dict()
        (await self.frozen()).state_dict()
        async for net in self.stream():
            net.state_dict()
        first, second = await asyncio.gather(self.online(), self.frozen())
        first.state_dict()
        second.state_dict()
        task = asyncio.create_task(self.online())
        (await task).state_dict()
        task.result().state_dict()
        other = asyncio.create_task(self.frozen())
        (await other).state_dict()
        waited = await asyncio.wait_for(self.online(), 3)
        waited.state_dict()
        for done in asyncio.as_completed([self.online()]):
            (await done).state_dict()
        threaded = await asyncio.to_thread(same, self.policy)
        threaded.state_dict()
        loop = asyncio.get_event_loop()
        executed = await loop.run_in_executor(None, same, self.policy)
        executed.state_dict()

    async def queue(self):
        online, frozen = asyncio.Queue(), asyncio.Queue()
        await online.put(self.policy)
        await frozen.put(self.target)
        (await online.get()).state_dict()
        (await frozen.get()).state_dict()


def same(net):
    return net
