from .trainer import Learner


def other(learner: Learner):
    return learner.net.state_dict()
