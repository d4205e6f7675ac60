import learner
from learner import Learner, _clean_state_dict
from mixins import Exporting


class Distributed(Learner):
    def __init__(self, cfg):
        super().__init__(cfg)
        self.extra = self.policy

    def net(self):
        return self.policy

    def push(self):
        _clean_state_dict(self.policy)
        self.target.state_dict()
        _clean_state_dict(self.extra)


class Mixed(learner.Learner, Exporting):
    def push(self):
        _clean_state_dict(self.policy)
        _clean_state_dict(self.exported())
