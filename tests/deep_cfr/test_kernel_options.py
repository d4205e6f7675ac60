# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""Kernels of states count no references to arrays, and refuse to make arrays of their own."""

import sys
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.errors import NumbaError

from coolrl_lost_cities.games.classic.deep_cfr import lockstep
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encode_one
from coolrl_lost_cities.games.classic.kernel_options import KERNEL


class Pair(NamedTuple):
    table_GR: np.ndarray
    sums_G: np.ndarray


def add_row(pair: Pair, g: int) -> None:
    row_R = pair.table_GR[g]
    for value in row_R:
        pair.sums_G[g] += value


def compiled(work: Any, **options: Any) -> Any:
    return numba.njit(**{**options, "cache": False})(work)


def test_what_a_kernel_takes_out_of_a_tuple_is_not_counted() -> None:
    pair = Pair(np.arange(6.0).reshape(2, 3), np.zeros(2))
    found = {}
    for name, options in (("plain", {}), ("kernel", KERNEL)):
        kernel = compiled(add_row, **options)
        kernel(pair, 1)
        (text,) = kernel.inspect_llvm().values()
        found[name] = "call void @NRT_incref" in text or "call void @NRT_decref" in text
    assert found == {"plain": True, "kernel": False}
    assert pair.sums_G.tolist() == [0.0, 24.0]


def test_arrays_that_were_given_to_a_kernel_are_let_go_of() -> None:
    pair = Pair(np.zeros((2, 3)), np.zeros(2))
    kernel = compiled(add_row, **KERNEL)
    kernel(pair, 0)
    before = sys.getrefcount(pair.table_GR)
    for _ in range(10):
        kernel(pair, 0)
    after = sys.getrefcount(pair.table_GR)
    assert after == before


def test_a_kernel_that_makes_an_array_does_not_compile() -> None:
    def total() -> float:
        return np.zeros(3).sum()

    with pytest.raises(NumbaError):
        compiled(total, **KERNEL)()


def test_the_kernels_of_traversals_are_compiled_so() -> None:
    for kernel in (lockstep.advance, lockstep._take_action, lockstep._lay_out, encode_one):
        assert kernel.targetoptions["_nrt"] is False
    assert lockstep._take_action.targetoptions["no_cpython_wrapper"] is True
