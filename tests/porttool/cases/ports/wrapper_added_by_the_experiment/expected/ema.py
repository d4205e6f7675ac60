X = 1


class EMA:
    def __init__(self, model):
        self.model = model

    def __getattr__(self, name):
        return getattr(self.model, name)

    def state_dict(self):
        return {'model.' + k: v for k, v in self.model.state_dict().items()}


Y = 2
