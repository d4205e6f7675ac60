class Exporting:
    def exported(self):
        return self.policy

    def export(self):
        self.policy.state_dict()
        self.target.state_dict()
