from fast_agent import FastAgent


def publish(cfg, queue):
    queue.put(FastAgent(cfg).opt.state_dict())
