from lib.nets import (
    Policy,
    Value,
)
from lib.train import Trainer


def push(trainer: Trainer, store):
    store.kinds = (Policy, Value)
    store.put(trainer.policy.state_dict())
