from .nets import Value, clean
from .train import Trainer


def watch(trainer: Trainer):
    return Value, clean(trainer.policy)
