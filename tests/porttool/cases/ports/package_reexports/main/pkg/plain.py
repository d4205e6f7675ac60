from .core import make_plain as clean_net
