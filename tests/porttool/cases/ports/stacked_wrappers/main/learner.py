import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel
from accelerate import Accelerator


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

    def stack(self):
        parallel = nn.DataParallel(self.policy)
        parallel.state_dict()
        parallel.module.state_dict()
        nn.DataParallel(self.target).state_dict()
        distributed = DDP(self.policy, device_ids=[0])
        distributed.state_dict()
        distributed.module.load_state_dict({})
        scripted = torch.jit.script(self.policy)
        scripted.state_dict()
        averaged = AveragedModel(self.policy)
        averaged.state_dict()
        averaged.module.state_dict()
        AveragedModel(self.target).state_dict()
        prepared = Accelerator().prepare(self.policy)
        prepared.state_dict()
        Accelerator().prepare(self.target).state_dict()
        normed = torch.nn.utils.parametrizations.weight_norm(self.policy)
        normed.state_dict()
