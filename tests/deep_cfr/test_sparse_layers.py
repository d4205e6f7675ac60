"""Layers that skip zeros against products written out in float64."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from coolrl_lost_cities.games.classic.deep_cfr.config import load_config
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network
from coolrl_lost_cities.games.classic.deep_cfr.sparse_forward import pack_sparse, skips_zeros
from coolrl_lost_cities.games.classic.deep_cfr.sparse_layers import (
    Activations,
    gather_outputs,
    joined_inputs,
    mean_of_groups,
    new_activations,
    new_layer,
    run_layer,
    spread_features,
)

ROWS = 9
KINDS = {
    "mlp": ["network.kind=mlp"],
    "color_shared": ["network.kind=color_shared"],
}


def sparse_bytes(rows: int, width: int, seed: int = 0) -> np.ndarray:
    """Bytes of which three in four are 0; the first row is 0 and the last has no zero."""
    generator = np.random.default_rng(seed)
    kept = generator.random((rows, width)) < 0.25
    found = generator.integers(1, 256, (rows, width), np.uint8) * kept
    found[0], found[-1] = 0, 1
    return found.astype(np.uint8)


def spread(features_BE: np.ndarray) -> Activations:
    inputs = new_activations(features_BE.shape[1], len(features_BE) + 3)
    spread_features(features_BE, 0, features_BE.shape[1], 1, inputs)
    return inputs


def some_weights(outputs: int, inputs: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    weights_OI = generator.standard_normal((outputs, inputs)).astype(np.float32)
    return weights_OI, generator.standard_normal(outputs).astype(np.float32)


@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (64, 64), (65, 63), (130, 445)])
@pytest.mark.parametrize("relu", [True, False])
def test_a_layer_is_its_definition(outputs: int, inputs: int, relu: bool) -> None:
    features_BE = sparse_bytes(ROWS, inputs)
    weights_OI, bias_O = some_weights(outputs, inputs)
    layer = new_layer(weights_OI, bias_O)
    written = new_activations(outputs, ROWS)
    run_layer(layer, spread(features_BE), layer.bias_JSL, ROWS, ROWS, written, relu, False)
    found_BO = np.empty((ROWS, outputs), np.float32)
    gather_outputs(written, found_BO)
    wanted_BO = features_BE.astype(float) @ weights_OI.T.astype(float) + bias_O
    wanted_BO = wanted_BO.clip(0) if relu else wanted_BO
    np.testing.assert_allclose(found_BO, wanted_BO, rtol=1e-5, atol=1e-6 * abs(wanted_BO).max())
    # The words say what is not zero, padding included, for the layer that reads this next.
    bits_BJL = written.values_KBL.transpose(1, 0, 2) != 0
    words_BJ = np.packbits(bits_BJL, axis=2, bitorder="little").view(np.uint64)[..., 0]
    np.testing.assert_array_equal(written.nonzero_KB.T, words_BJ)


def test_sums_start_from_what_another_layer_gave() -> None:
    features_BE = sparse_bytes(6, 70)
    weights_OI, _ = some_weights(64, 70)
    starts_JSL = np.random.default_rng(2).standard_normal((1, 2, 64)).astype(np.float32)
    written = new_activations(64, 6)
    run_layer(
        new_layer(weights_OI, None), spread(features_BE), starts_JSL, 3, 6, written, False, False
    )
    products_BO = features_BE.astype(float) @ weights_OI.T.astype(float)
    wanted_BO = products_BO + starts_JSL[0].repeat(3, axis=0)
    np.testing.assert_allclose(written.values_KBL[0], wanted_BO, rtol=1e-4, atol=1e-2)


def test_rounded_outputs_are_those_of_torch() -> None:
    features_BE = sparse_bytes(ROWS, 100)
    layer = new_layer(*some_weights(64, 100))
    exact, rounded = new_activations(64, ROWS), new_activations(64, ROWS)
    for written, is_rounded in ((exact, False), (rounded, True)):
        run_layer(
            layer, spread(features_BE), layer.bias_JSL, ROWS, ROWS, written, False, is_rounded
        )
    wanted = torch.from_numpy(exact.values_KBL).bfloat16().float().numpy()
    np.testing.assert_array_equal(rounded.values_KBL, wanted)
    assert (exact.values_KBL != wanted).any()


def test_runs_of_features_become_rows_and_have_means() -> None:
    features_BE = sparse_bytes(4, 2 + 3 * 70)
    inputs, means = new_activations(70, 12), new_activations(70, 4)
    spread_features(features_BE, 2, 70, 3, inputs)
    found_BF = np.empty((12, 70), np.float32)
    gather_outputs(inputs, found_BF)
    np.testing.assert_array_equal(found_BF, features_BE[:, 2:].reshape(12, 70))
    mean_of_groups(inputs, 3, 4, means)
    gather_outputs(means, found_BF[:4])
    wanted_BF = features_BE[:, 2:].reshape(4, 3, 70).mean(axis=1)
    np.testing.assert_allclose(found_BF[:4], wanted_BF, rtol=1e-6)


def test_joined_layers_are_one_layer_over_both_inputs() -> None:
    first_OI, bias_O = some_weights(10, 64)
    second_OI, _ = some_weights(10, 30, seed=2)
    joined = joined_inputs(new_layer(first_OI, bias_O), new_layer(second_OI, None))
    whole = new_layer(np.concatenate([first_OI, second_OI], axis=1), bias_O)
    np.testing.assert_array_equal(joined.weights_JKLL, whole.weights_JKLL)
    np.testing.assert_array_equal(joined.bias_JSL, whole.bias_JSL)


@pytest.mark.parametrize("overrides", KINDS.values(), ids=KINDS)
def test_any_part_of_a_batch_has_the_same_bits(overrides: list[str]) -> None:
    """Not only in blocks of 16 rows; 600 rows are several chunks."""
    network = build_network(load_config(None, ["network.hidden_size=96", *overrides]))
    features_BE = sparse_bytes(600, len(network.feature_scale))
    forward = pack_sparse(network, rounded=False)
    together_BA = forward(features_BE)
    for first, last in ((0, 1), (3, 20), (250, 263), (599, 600)):
        np.testing.assert_array_equal(forward(features_BE[first:last]), together_BA[first:last])
    every_other = features_BE[::2]  # not contiguous
    np.testing.assert_array_equal(forward(every_other), together_BA[::2])
    with torch.inference_mode():
        wanted_BA = network(torch.from_numpy(features_BE)).numpy()
    np.testing.assert_allclose(together_BA, wanted_BA, rtol=1e-4, atol=2e-5 * abs(wanted_BA).max())


@pytest.mark.parametrize("overrides", KINDS.values(), ids=KINDS)
def test_zeros_that_fill_up_a_batch_get_what_computing_them_gives(overrides: list[str]) -> None:
    network = build_network(load_config(None, ["network.hidden_size=96", *overrides]))
    features_BE = sparse_bytes(300, len(network.feature_scale))
    forward = pack_sparse(network, rounded=False)
    for count in (0, 1, 2, 63, 255, 256, 257, 299):
        filled_BE = features_BE.copy()
        filled_BE[count:] = 0
        closed_BE = np.concatenate([filled_BE, features_BE[-1:]])  # no zeros at the end: computed
        np.testing.assert_array_equal(forward(filled_BE), forward(closed_BE)[:-1])
    assert forward(filled_BE)[-1].any()


def test_threads_that_ask_at_once_do_not_write_over_each_other() -> None:
    network = build_network(load_config(None, ["network.hidden_size=64"]))
    forward = pack_sparse(network, rounded=False)
    batches = [sparse_bytes(300, len(network.feature_scale), seed) for seed in range(8)]
    wanted = [forward(batch_BE) for batch_BE in batches]
    with ThreadPoolExecutor(4) as threads:
        for found_BA, wanted_BA in zip(threads.map(forward, batches), wanted, strict=True):
            np.testing.assert_array_equal(found_BA, wanted_BA)


def test_only_networks_whose_hidden_units_are_often_zero_are_taken() -> None:
    shapes = {
        "": True,
        "network.kind=color_shared": True,
        "network.activation=gelu": False,
        "network.kind=color_shared network.activation=gelu": False,
        "network.kind=color_shared network.color_attention_layers=1": False,
    }
    found = {
        shape: skips_zeros(build_network(load_config(None, shape.split()))) for shape in shapes
    }
    assert found == shapes
