from policy import Learner, _clean_state_dict

__all__ = ["Buffer", "Learner", "stored"]


class Buffer:
    def __init__(self, size):
        self.size = size
        self.rows = []

    def add(self, row):
        self.rows.append(row)
        del self.rows[: -self.size]

    def state_dict(self):
        return {"size": self.size, "rows": list(self.rows)}

    def load_state_dict(self, state):
        self.size, self.rows = state["size"], list(state["rows"])


def stored(cfg):
    return _clean_state_dict(Learner(cfg).policy)
