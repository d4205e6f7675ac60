from agent import Agent


def publish(cfg, queue):
    queue.put(Agent(cfg).opt.state_dict())
