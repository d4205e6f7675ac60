import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.net = nn.Linear(cfg.n_in, cfg.n_out)
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        return {"net": self.net.state_dict(), "opt": self.opt.state_dict()}

    def push(self, queue):   
        a = 1; b = self.net.state_dict(); queue.put(a, b)
        if a: b = self.net.state_dict()
        for _ in range(2): queue.put(self.net.state_dict()); a += 1
        with queue: queue.put(self.net.state_dict())

    def later(self, queue):
        later = lambda: self.net.state_dict()
        if (state := self.net.state_dict()):
            queue.put(later, [s for _ in "ab" if (s := self.net.state_dict())])
        return lambda q=self.net.state_dict(): q

    def laid_out(self, queue):
        queue.put(self \
            .net \
            .state_dict())
        state = (
            self
            .net
        ).state_dict()
        queue.put(state, ((self.net)).state_dict())
        return (self.net
                .state_dict())

    def typed(self):
        # type: () -> dict
        state = self.net.state_dict()  # type: dict
        return state
   
	
    def wide(self, queue):
        queue.put('é漢😀', self.net.state_dict()); путь = {'ü': self.net.state_dict()}