import torch
from torch import nn


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


class Learner:
    def __init__(self, cfg):
        self.net = torch.compile(nn.Linear(cfg.n_in, cfg.n_out))
        self.opt = torch.optim.Adam(self.net.parameters())

    def save(self):
        return {"net": _clean_state_dict(self.net), "opt": self.opt.state_dict()}

    def push(self, queue):   
        a = 1; b = _clean_state_dict(self.net); queue.put(a, b)
        if a: b = _clean_state_dict(self.net)
        for _ in range(2): queue.put(_clean_state_dict(self.net)); a += 1
        with queue: queue.put(_clean_state_dict(self.net))

    def later(self, queue):
        later = lambda: _clean_state_dict(self.net)
        if (state := _clean_state_dict(self.net)):
            queue.put(later, [s for _ in "ab" if (s := _clean_state_dict(self.net))])
        return lambda q=_clean_state_dict(self.net): q

    def laid_out(self, queue):
        queue.put(_clean_state_dict(self \
            .net))
        state = _clean_state_dict(self
            .net)
        queue.put(state, _clean_state_dict(self.net))
        return (_clean_state_dict(self.net))

    def typed(self):
        # type: () -> dict
        state = _clean_state_dict(self.net)  # type: dict
        return state
   
	
    def wide(self, queue):
        queue.put('é漢😀', _clean_state_dict(self.net)); путь = {'ü': _clean_state_dict(self.net)}