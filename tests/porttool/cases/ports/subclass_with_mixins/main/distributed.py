import learner
from learner import Learner
from mixins import Exporting


class Distributed(Learner):
    def __init__(self, cfg):
        super().__init__(cfg)
        self.extra = self.policy

    def net(self):
        return self.policy

    def push(self):
        self.policy.state_dict()
        self.target.state_dict()
        self.extra.state_dict()


class Mixed(learner.Learner, Exporting):
    def push(self):
        self.policy.state_dict()
        self.exported().state_dict()
