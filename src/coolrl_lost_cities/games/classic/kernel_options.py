"""How the kernels that run once for each state of a game are compiled."""

from typing import Any

from numba.core.options import DefaultOptions

# Every array that a kernel takes out of a tuple or views a part of would be counted, atomically, in
# and out: a third of the time of what advances games. What a kernel works on belongs to its caller
# and outlives it, so those that make no array of their own count nothing; numba refuses to compile
# one that does. The option is private to numba (0.68 has it).
_UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}

KERNEL: dict[str, Any] = {"cache": True, "nogil": True, **_UNCOUNTED}

# Kernels that are called from kernels only need no way in from Python, which takes time to compile.
INNER: dict[str, Any] = {**KERNEL, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
