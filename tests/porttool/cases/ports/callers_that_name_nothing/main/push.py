from learner import Learner


def push(net):
    net.state_dict()


def push_plain(net):
    net.state_dict()


def use():
    push(Learner(1).target)
    push_plain(Learner(1).target)
