__all__ = ["get", "shared"]
from .core import make

shared = make()


def get():
    return shared
