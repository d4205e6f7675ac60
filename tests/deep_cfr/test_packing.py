"""Packed rows: the same rows again, in as many bits as the limits of their features need."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coolrl_lost_cities.games.classic.deep_cfr import packing
from coolrl_lost_cities.games.classic.deep_cfr.encoding import feature_limits
from coolrl_lost_cities.games.classic.rules import Rules


def round_trip(limits_E: np.ndarray, features_SE: np.ndarray) -> tuple[np.ndarray, list[bool]]:
    """Pack all rows, then unpack them; also say of each whether it was over a limit."""
    plan = packing.packing_of(limits_E)
    words = packing.packed_words(plan)
    rows = packing.rows_of_words(np.full((len(features_SE), words + 1), 77, np.uint64))
    work = packing.scratch(plan)
    excess = [
        bool(packing.pack_one(plan, rows, s, features_E, work))
        for s, features_E in enumerate(features_SE)
    ]
    assert (rows.words_SW[:, words] == 77).all()  # what lies behind a row is left alone
    unpacked_SE = np.empty_like(features_SE)
    for s in range(len(features_SE)):
        packing.unpack_one(plan, rows, s, work)
        unpacked_SE[s] = work.features[: features_SE.shape[1]]
    return unpacked_SE, excess


@settings(max_examples=60, deadline=None)
@given(
    limits=st.lists(st.sampled_from([0, 1, 2, 3, 4, 9, 15, 16, 255]), min_size=1, max_size=70),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_within_their_limits_come_back(limits: list[int], seed: int) -> None:
    limits_E = np.array(limits, np.uint8)
    features_SE = np.random.default_rng(seed).integers(0, limits_E + 1.0, (5, len(limits)))
    features_SE = np.concatenate([features_SE.astype(np.uint8), limits_E[None]])
    unpacked_SE, excess = round_trip(limits_E, features_SE)
    np.testing.assert_array_equal(unpacked_SE, features_SE)
    assert excess == [False] * 6


@pytest.mark.parametrize(("limit", "bits"), [(1, 1), (2, 2), (3, 2), (4, 4), (15, 4), (16, 8)])
def test_a_feature_beyond_its_bits_is_noticed(limit: int, bits: int) -> None:
    limits_E = np.full(19, limit, np.uint8)
    assert packing.packed_words(packing.packing_of(limits_E)) == -(-3 * bits // 8)
    features_SE = np.tile(limits_E, (19, 1))
    excess = round_trip(limits_E, features_SE)[1]
    assert excess == [False] * 19
    if bits < 8:
        np.fill_diagonal(features_SE, 1 << bits)
        assert round_trip(limits_E, features_SE)[1] == [True] * 19


def test_the_standard_encoding_takes_192_bytes() -> None:
    assert 8 * packing.packed_words(packing.packing_of(feature_limits(Rules()))) == 192
