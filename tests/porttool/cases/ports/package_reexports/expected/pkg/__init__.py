from . import core
from .core import Trainer as Trainer
from .core import make as build
from .nets import *
from .plain import *
