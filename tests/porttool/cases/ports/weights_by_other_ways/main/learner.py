import copy
import pickle

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
