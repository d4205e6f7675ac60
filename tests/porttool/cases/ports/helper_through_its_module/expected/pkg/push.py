from pkg.trainer import Learner
from pkg import keys


def push(learner: Learner):
    return keys._clean_state_dict(learner.net)
