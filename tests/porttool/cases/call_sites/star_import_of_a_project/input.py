from .common import *

net = build_model()
net = compile(net)
