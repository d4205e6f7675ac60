import hydra
import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn


def _clean_state_dict(network):
    return getattr(network, "_orig_mod", network).state_dict()


def _gated(wrap, module, enabled):
    return wrap(module) if enabled else module


def build(cfg: DictConfig):
    torch.manual_seed(0)
    return _gated(
        torch.compile,
        nn.Linear(cfg.width, 3),
        OmegaConf.select(cfg, "compile_model", default=False),
    )


@hydra.main(version_base=None, config_path="conf", config_name="base")
def main(cfg):
    net = build(cfg)
    print(_clean_state_dict(net))
    torch.save(_clean_state_dict(net), cfg.out)
