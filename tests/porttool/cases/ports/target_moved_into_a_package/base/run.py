from learner import Learner


def publish(cfg, queue):
    learner = Learner(cfg)
    queue.put(learner.policy.state_dict())
    return learner.opt.state_dict()
