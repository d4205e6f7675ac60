from lib.nets import clean, Value, Policy  # both are served
from lib.train import Trainer


def publish(trainer: Trainer, queue):
    queue.put(clean(trainer.policy))
