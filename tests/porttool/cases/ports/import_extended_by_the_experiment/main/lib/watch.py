from .nets import Value
from .train import Trainer


def watch(trainer: Trainer):
    return Value, trainer.policy.state_dict()
