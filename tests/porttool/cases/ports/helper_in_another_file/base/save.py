from trainer import Learner


def save(learner: Learner):
    return learner.net.state_dict()
