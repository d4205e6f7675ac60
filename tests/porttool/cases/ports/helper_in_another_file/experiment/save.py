from tools import _clean_state_dict
from trainer import Learner


def save(learner: Learner):
    return _clean_state_dict(learner.net)
