import io
from itertools import permutations

import numpy as np
import pytest
import torch

from coolrl_lost_cities.games.classic.counter_rng import next_unit
from coolrl_lost_cities.games.classic.deep_cfr.memory import (
    NodeSamples,
    ReservoirMemory,
    SampleShape,
    color_orders,
    dense,
    empty_batch,
    mask_bytes,
)

NUM_ACTIONS, MAX_LEGAL = 71, 5
LIMITS = [255] * 4 + [0, 1, 2, 3] + [1, 1, 0, 1, 1, 1, 0, 1] + [9, 15, 2, 3]  # 8, 1, 4 bits each
SHAPE = SampleShape(np.array(LIMITS, np.uint8), NUM_ACTIONS, MAX_LEGAL)


def features_of(number_S: np.ndarray) -> np.ndarray:
    bytes_S4 = number_S[:, None] // 256 ** np.arange(4) % 256
    small_SX = number_S[:, None] % (SHAPE.limits_E[4:].astype(int) + 1)
    return np.concatenate([bytes_S4, small_SX], axis=1).astype(np.uint8)


def numbered(first: int, count: int) -> NodeSamples:
    """Samples whose every part tells their number."""
    number_S = np.arange(first, first + count)
    legal_SA = np.zeros((count, NUM_ACTIONS), np.bool_)
    for shift in (0, 3, 61):
        legal_SA[np.arange(count), (number_S + shift) % NUM_ACTIONS] = True
    values_SL = np.zeros((count, MAX_LEGAL), np.float32)
    values_SL[:, :3] = number_S[:, None] + np.array([0.25, 0.5, 0.75])
    return NodeSamples(
        features_SE=features_of(number_S),
        legal_SM=np.packbits(legal_SA, axis=1, bitorder="little"),
        values_SL=values_SL,
        weights_S=number_S.astype(np.float32),
    )


def memory_of(capacity: int, seed: int = 0) -> ReservoirMemory:
    return ReservoirMemory(capacity, SHAPE, np.random.default_rng(seed))


def kept(memory: ReservoirMemory) -> list[int]:
    """The numbers of the samples in a memory, which are their weights, the last of a record."""
    records = memory.state_dict()["records"].numpy().copy().view(np.float32)
    # Six values and weights fill whole words, so there is no padding behind the weight.
    return records[:, -1].astype(int).tolist()


def test_dense_places_values_at_the_legal_actions() -> None:
    samples = numbered(100, 40)
    legal_SA, values_SA = dense(samples, NUM_ACTIONS)
    unpacked_SA = np.unpackbits(samples.legal_SM, axis=1, bitorder="little")[:, :NUM_ACTIONS]
    np.testing.assert_array_equal(legal_SA, unpacked_SA)
    assert samples.legal_SM.shape[1] == mask_bytes(NUM_ACTIONS)
    for s in range(40):
        actions = [a for a in range(NUM_ACTIONS) if legal_SA[s, a]]
        assert values_SA[s, actions].tolist() == [100 + s + x for x in (0.25, 0.5, 0.75)]
        assert np.count_nonzero(values_SA[s]) == 3


def test_everything_is_kept_in_order_until_full() -> None:
    memory = memory_of(50)
    for first, count in ((0, 20), (20, 0), (20, 30)):
        memory.add(numbered(first, count))
    assert len(memory) == memory.num_seen == 50
    assert kept(memory) == list(range(50))


def test_what_is_kept_follows_algorithm_r() -> None:
    """The same draws, one sample after the other, in plain Python."""
    memory, generator = memory_of(30, seed=4), np.random.default_rng(4)
    slots: list[int] = []
    for first, count in ((0, 10), (10, 45), (55, 1), (56, 200)):
        memory.add(numbered(first, count))
        word_1 = generator.integers(0, 1 << 64, 1, np.uint64)
        for number in range(first, first + count):
            if len(slots) < 30:
                slots.append(number)
            elif (drawn := int(next_unit(word_1, 0) * (number + 1))) < 30:
                slots[drawn] = number
    assert kept(memory) == slots


def test_every_sample_is_kept_equally_often() -> None:
    """Chi square over 300 samples, 60 places, 2,000 memories, at a false alarm rate of 1e-4."""
    counts = np.zeros(300)
    for seed in range(2000):
        memory = memory_of(60, seed)
        memory.add(numbered(0, 100))
        memory.add(numbered(100, 200))
        counts[kept(memory)] += 1
    expected = 2000 * 60 / 300
    # Each count is binomial with p = 0.2, so its variance is 0.8 of its mean; the sum is fixed.
    statistic = ((counts - expected) ** 2).sum() / (expected * 0.8)
    assert statistic == pytest.approx(299, abs=3.9 * np.sqrt(2 * 299))


def test_a_memory_of_the_latest_forgets_the_oldest_first() -> None:
    memory = ReservoirMemory(10, SHAPE, np.random.default_rng(0), "latest")
    for first, count in ((0, 7), (7, 6), (13, 25)):
        memory.add(numbered(first, count))
        newest = range(max(0, first + count - 10), first + count)
        assert sorted(kept(memory)) == list(newest)
    other = ReservoirMemory(10, SHAPE, np.random.default_rng(9), "latest")
    other.load_state_dict(memory.state_dict())
    for one in (memory, other):
        one.add(numbered(38, 3))
    assert kept(one) == kept(other)
    assert sorted(kept(memory)) == list(range(31, 41))


def test_batches_are_rows_of_the_memory_with_their_weights() -> None:
    memory = memory_of(500)
    memory.add(numbered(0, 400), iteration_weight=3.0)
    batch = memory.sample(10_000, np.random.default_rng(1))
    number_B = np.round(batch.weights_B / 3.0).astype(int)
    assert set(number_B) == set(range(400))
    samples = numbered(0, 400)
    legal_SA, values_SA = dense(samples, NUM_ACTIONS)
    np.testing.assert_array_equal(batch.features_BE, samples.features_SE[number_B])
    np.testing.assert_array_equal(batch.legal_BA, legal_SA[number_B])
    np.testing.assert_array_equal(batch.targets_BA, values_SA[number_B])


def test_value_scale_is_the_weighted_root_mean_square() -> None:
    memory = memory_of(10)
    assert memory.value_scale() == 1.0
    samples = numbered(0, 2)
    memory.add(samples)
    squares_S = (samples.values_SL.astype(float) ** 2).sum(axis=1)
    assert memory.value_scale() == pytest.approx(np.sqrt(squares_S[1]))  # weights are 0 and 1


def test_a_restored_memory_goes_on_as_the_stored_one() -> None:
    stored, restored = memory_of(40, seed=1), memory_of(40, seed=2)
    stored.add(numbered(0, 90))
    file = io.BytesIO()
    torch.save(stored.state_dict(), file)
    file.seek(0)
    restored.load_state_dict(torch.load(file, weights_only=True))
    for memory in (stored, restored):
        memory.add(numbered(90, 100))
    assert max(kept(stored)) >= 90
    assert kept(restored) == kept(stored)
    one = stored.sample(64, np.random.default_rng(0))
    other = restored.sample(64, np.random.default_rng(0))
    np.testing.assert_array_equal(one.targets_BA, other.targets_BA)


def test_a_state_holds_what_is_filled_and_nothing_twice() -> None:
    memory = memory_of(1000)
    memory.add(numbered(0, 40))
    records = memory.state_dict()["records"]
    assert records.untyped_storage().nbytes() == 40 * memory.num_bytes // 1000
    memory.load_state_dict(memory.state_dict())
    memory.num_seen = 0
    memory.add(numbered(7, 1))
    assert memory.state_dict()["records"].data_ptr() == records.data_ptr()


def test_a_state_of_another_size_is_refused_and_changes_nothing() -> None:
    memory = memory_of(40)
    memory.add(numbered(0, 5))
    with pytest.raises(ValueError, match="capacity of 50, this one of 40"):
        memory.load_state_dict(memory_of(50).state_dict())
    wider = SampleShape(np.append(SHAPE.limits_E, 1).astype(np.uint8), NUM_ACTIONS, MAX_LEGAL)
    with pytest.raises(ValueError, match="has 21 features, this one 20"):
        memory.load_state_dict(ReservoirMemory(40, wider, np.random.default_rng(0)).state_dict())
    longer = SampleShape(SHAPE.limits_E, NUM_ACTIONS, MAX_LEGAL + 1)
    with pytest.raises(ValueError, match="have 64 bytes, here 56"):
        memory.load_state_dict(ReservoirMemory(40, longer, np.random.default_rng(0)).state_dict())
    assert kept(memory) == [0, 1, 2, 3, 4]


def test_samples_that_do_not_fit_are_refused() -> None:
    memory = memory_of(40)
    beyond = numbered(0, 5)
    beyond.features_SE[3, 9] = 7
    with pytest.raises(ValueError, match="feature 9 is 7; expected at most 1, the limit"):
        memory.add(beyond)
    short = numbered(0, 5)
    with pytest.raises(ValueError, match=r"\(20, 8, 5\) .* expected \(20, 9, 5\)"):
        memory.add(
            NodeSamples(short.features_SE, short.legal_SM[:, 1:], short.values_SL, short.weights_S)
        )
    assert len(memory) == 0


def test_a_batch_is_written_into_the_arrays_given() -> None:
    memory = memory_of(500)
    memory.add(numbered(0, 400))
    fresh = memory.sample(200, np.random.default_rng(1))
    out = empty_batch(SHAPE, 200)
    for array in (out.features_BE, out.legal_BA, out.targets_BA, out.weights_B):
        array[:] = 1
    assert memory.sample(200, np.random.default_rng(1), out=out) is out
    for name in ("features_BE", "legal_BA", "targets_BA", "weights_B"):
        assert getattr(out, name).dtype == getattr(fresh, name).dtype
        np.testing.assert_array_equal(getattr(out, name), getattr(fresh, name))


def test_samples_without_colors_cannot_be_permuted() -> None:
    memory = memory_of(5)
    memory.add(numbered(0, 5))
    with pytest.raises(ValueError, match="name no colors"):
        memory.sample(2, np.random.default_rng(1), permute_colors=True)


def test_every_order_of_the_colors_is_equally_frequent() -> None:
    """Chi square over the 24 orders of 4 colors, at a false alarm rate of 1e-4."""
    orders_BC = color_orders(123, 24_000, 4)
    counts = [int((orders_BC == order).all(axis=1).sum()) for order in permutations(range(4))]
    assert sum(counts) == 24_000
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 23 + 3.9 * np.sqrt(2 * 23)
    assert not np.array_equal(orders_BC, color_orders(124, 24_000, 4))
