from lib.nets import (
    Policy,
    Value,
    clean,
)
from lib.train import Trainer


def push(trainer: Trainer, store):
    store.kinds = (Policy, Value)
    store.put(clean(trainer.policy))
