from ..trainer import Learner
from ..keys import _clean_state_dict


def push(learner: Learner):
    return _clean_state_dict(learner.net)
