import hydra
import torch
from omegaconf import DictConfig
from torch import nn


def build(cfg: DictConfig):
    torch.manual_seed(0)
    return nn.Linear(cfg.width, 3)


@hydra.main(version_base=None, config_path="conf", config_name="base")
def main(cfg):
    net = build(cfg)
    print(net.state_dict())
