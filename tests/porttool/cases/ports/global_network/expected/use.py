import nets
from nets import NET as N, OTHER, _clean
import nets as m


def f():
    _clean(nets.NET)
    _clean(N)
    OTHER.state_dict()
    m.OTHER.state_dict()
    _clean(m.NET)
