from .trainer import Learner, _clean_state_dict


def push(learner: Learner):
    return _clean_state_dict(learner.net)
