from learner import Learner


def stored():
    return Learner(1).policy
