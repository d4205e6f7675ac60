import copy
import pickle

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

    def leave(self, path):
        {name: value for name, value in self.policy.named_parameters()}
        {name: value for name, value in self.target.named_parameters()}
        torch.save(self.policy, path)
        torch.save({"net": self.policy, "step": 1}, path)
        torch.save({"net": self.target}, path)
        torch.save({"net": self.policy.parameters()}, path)
        pickle.dumps(self.critics)
        pickle.dumps(self.target)
        self.policy.__getstate__()
        self.target.__getstate__()
        copy.copy(self.policy)
        torch.nn.utils.parameters_to_vector(self.policy.parameters())
        isinstance(self.policy, nn.Linear)
        isinstance(self.policy, nn.Module)
        isinstance(self.target, nn.Linear)
        self.policy.__class__.__name__
        self.policy.get_submodule("inner")
        torch.func.functional_call(self.policy, {}, ())
