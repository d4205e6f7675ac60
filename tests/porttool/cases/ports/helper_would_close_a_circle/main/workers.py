"""Workers."""


def started(num_workers):
    return list(range(num_workers))


def shared(policy, num_workers):
    weights = policy.state_dict()
    return [weights for _ in range(num_workers)]
