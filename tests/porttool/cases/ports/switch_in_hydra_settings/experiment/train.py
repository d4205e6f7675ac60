import hydra
import torch
from omegaconf import DictConfig
from torch import nn


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


def build(cfg: DictConfig):
    torch.manual_seed(0)
    return torch.compile(nn.Linear(cfg.width, 3))


@hydra.main(version_base=None, config_path="conf", config_name="base")
def main(cfg):
    net = build(cfg)
    print(_clean_state_dict(net))
