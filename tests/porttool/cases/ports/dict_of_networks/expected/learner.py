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

    def export(self):
        nets = {"policy": self.policy, "target": self.target}
        named = dict(online=self.policy, frozen=self.target)
        frozen = {"target": self.target}
        return [
            _clean_state_dict(nets["policy"]),
            nets["target"].state_dict(),
            _clean_state_dict(named["online"]),
            named.get("frozen").state_dict(),
            {name: net.state_dict() for name, net in frozen.items()},
            {name: _clean_state_dict(net) for name, net in named.items()},
        ]
