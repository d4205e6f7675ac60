def publish_weights(agent, queue):
    queue.put(agent.policy.state_dict())
