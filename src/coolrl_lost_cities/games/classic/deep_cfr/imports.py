"""The trainer imported in less time than by its first use."""

import gc
import sys
from importlib import import_module


def import_trainer() -> None:
    """Import what a run needs, and keep the garbage collector off it, now and at the end.

    What torch and numba make stays until the process ends. To search it again and again is a third
    of the processor time of importing torch and leaving. In a process that has torch already,
    nothing happens.
    """
    if "torch" in sys.modules:
        return
    collecting = gc.isenabled()
    gc.disable()
    try:
        import_module("coolrl_lost_cities.games.classic.deep_cfr.trainer")
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
