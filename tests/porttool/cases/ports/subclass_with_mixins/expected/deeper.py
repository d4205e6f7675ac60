from distributed import Distributed
from learner import _clean_state_dict


class Deeper(Distributed):
    def push_deeper(self):
        _clean_state_dict(self.policy)
        self.target.state_dict()


class Overriding(Distributed):
    def net(self):
        return self.target

    def push_over(self):
        self.net().state_dict()
