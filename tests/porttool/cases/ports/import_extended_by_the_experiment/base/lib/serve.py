from lib.nets import Value, Policy  # both are served
from lib.train import Trainer


def publish(trainer: Trainer, queue):
    queue.put(trainer.policy.state_dict())
