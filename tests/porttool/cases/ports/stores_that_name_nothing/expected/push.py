import plain_holder
import registry
from holder import held
from learner import _clean_state_dict


def push():
    _clean_state_dict(registry.lookup("policy"))
    _clean_state_dict(held())
    plain_holder.held().state_dict()
