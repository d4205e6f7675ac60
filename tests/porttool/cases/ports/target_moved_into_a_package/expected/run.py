from agents.learner import Learner, _clean_state_dict


def publish(cfg, queue):
    learner = Learner(cfg)
    queue.put(_clean_state_dict(learner.policy))
    return learner.opt.state_dict()
