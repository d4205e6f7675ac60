from learner import _clean_state_dict
class Exporting:
    def exported(self):
        return self.policy

    def export(self):
        _clean_state_dict(self.policy)
        self.target.state_dict()
