import pkg
import pkg.core as core_module
from pkg import Trainer, build, clean_net, core, get, shared
from learner import _clean_state_dict


def use():
    _clean_state_dict(Trainer(1).policy)
    Trainer(1).target.state_dict()
    _clean_state_dict(build())
    _clean_state_dict(get())
    _clean_state_dict(shared)
    clean_net().state_dict()
    _clean_state_dict(pkg.get())
    _clean_state_dict(pkg.build())
    _clean_state_dict(pkg.core.make())
    pkg.core.make_plain().state_dict()
    _clean_state_dict(core_module.make())
    _clean_state_dict(core.make())
