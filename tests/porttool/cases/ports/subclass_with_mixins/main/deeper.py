from distributed import Distributed


class Deeper(Distributed):
    def push_deeper(self):
        self.policy.state_dict()
        self.target.state_dict()


class Overriding(Distributed):
    def net(self):
        return self.target

    def push_over(self):
        self.net().state_dict()
