import plain_holder
import registry
from holder import held


def push():
    registry.lookup("policy").state_dict()
    held().state_dict()
    plain_holder.held().state_dict()
