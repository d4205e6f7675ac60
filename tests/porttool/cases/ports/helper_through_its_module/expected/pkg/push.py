from pkg import keys
from pkg.trainer import Learner


def push(learner: Learner):
    return keys._clean_state_dict(learner.net)
