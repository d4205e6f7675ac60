from pkg.trainer import Learner


def push(learner: Learner):
    return learner.net.state_dict()
