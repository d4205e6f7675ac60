import pkg
import pkg.core as core_module
from pkg import Trainer, build, clean_net, core, get, shared


def use():
    Trainer(1).policy.state_dict()
    Trainer(1).target.state_dict()
    build().state_dict()
    get().state_dict()
    shared.state_dict()
    clean_net().state_dict()
    pkg.get().state_dict()
    pkg.build().state_dict()
    pkg.core.make().state_dict()
    pkg.core.make_plain().state_dict()
    core_module.make().state_dict()
    core.make().state_dict()
