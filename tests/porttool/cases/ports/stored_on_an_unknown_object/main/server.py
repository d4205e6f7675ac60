class Server:
    net = None

    def publish(self):
        return self.net.state_dict()


class Worker:
    actor = None

    def push(self):
        return self.actor.state_dict()


class Monitor:
    watched = None
    optimizer = None

    def sample(self):
        return self.watched.state_dict(), self.optimizer.state_dict()


class Hub:
    def __init__(self):
        self.nets = []
        self.by_name = {}

    def spread(self):
        return [net.state_dict() for net in self.nets], self.by_name["policy"].state_dict()
