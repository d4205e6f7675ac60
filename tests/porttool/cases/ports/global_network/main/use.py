import nets
from nets import NET as N, OTHER
import nets as m


def f():
    nets.NET.state_dict()
    N.state_dict()
    OTHER.state_dict()
    m.OTHER.state_dict()
    m.NET.state_dict()
