import numpy as np
import pytest
import torch

from coolrl_lost_cities.games.classic.deep_cfr.memory import (
    NodeSamples,
    ReservoirMemory,
    dense,
    mask_bytes,
)

NUM_ACTIONS, MAX_LEGAL, WIDTH = 19, 5, 7


def numbered(first: int, count: int) -> NodeSamples:
    """Samples whose every part tells their number."""
    number_S = np.arange(first, first + count)
    legal_SA = np.zeros((count, NUM_ACTIONS), np.bool_)
    for shift in (0, 3, 11):
        legal_SA[np.arange(count), (number_S + shift) % NUM_ACTIONS] = True
    values_SL = np.zeros((count, MAX_LEGAL), np.float32)
    values_SL[:, :3] = number_S[:, None] + np.array([0.25, 0.5, 0.75])
    return NodeSamples(
        features_SE=(number_S[:, None] // 256 ** np.arange(WIDTH) % 256).astype(np.uint8),
        legal_SM=np.packbits(legal_SA, axis=1, bitorder="little"),
        values_SL=values_SL,
        weights_S=number_S.astype(np.float32),
    )


def memory_of(capacity: int, seed: int = 0) -> ReservoirMemory:
    return ReservoirMemory(capacity, WIDTH, NUM_ACTIONS, MAX_LEGAL, np.random.default_rng(seed))


def kept(memory: ReservoirMemory) -> list[int]:
    return memory.state_dict()["weights_S"].long().tolist()


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
        for number, drawn in enumerate(generator.integers(0, np.arange(first, first + count) + 1)):
            if len(slots) < 30:
                slots.append(first + number)
            elif drawn < 30:
                slots[drawn] = first + number
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
    state = stored.state_dict()
    assert {name for name, value in state.items() if isinstance(value, torch.Tensor)} == {
        "features_SE", "legal_SM", "values_SL", "weights_S",
    }  # fmt: skip
    restored.load_state_dict(state)
    for memory in (stored, restored):
        memory.add(numbered(90, 100))
    assert max(kept(stored)) >= 90
    assert kept(restored) == kept(stored)
    one = stored.sample(64, np.random.default_rng(0))
    other = restored.sample(64, np.random.default_rng(0))
    np.testing.assert_array_equal(one.targets_BA, other.targets_BA)


def test_a_stored_state_does_not_change_with_the_memory() -> None:
    memory = memory_of(40)
    memory.add(numbered(0, 40))
    state = memory.state_dict()
    memory.add(numbered(40, 400))
    assert state["weights_S"].tolist() == list(range(40))


def test_a_state_of_another_size_is_refused_and_changes_nothing() -> None:
    memory = memory_of(40)
    memory.add(numbered(0, 5))
    with pytest.raises(ValueError, match="capacity of 50, this one of 40"):
        memory.load_state_dict(memory_of(50).state_dict())
    wider = ReservoirMemory(40, WIDTH + 1, NUM_ACTIONS, MAX_LEGAL, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"features_SE .* \(8,\), here \(7,\)"):
        memory.load_state_dict(wider.state_dict())
    assert kept(memory) == [0, 1, 2, 3, 4]
