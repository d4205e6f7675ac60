"""The packed forward against the network that it was made from."""

import logging
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from coolrl_lost_cities.games.classic.deep_cfr import inference
from coolrl_lost_cities.games.classic.deep_cfr.config import build_rules, load_config
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.inference import (
    PrecisionUnsupported,
    check_precision,
    linear_layer,
    pack_network,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import (
    Network,
    build_network,
    forward_rows,
)

MLP = ["network.hidden_size=64", "network.num_layers=3"]
SHARED = [*MLP, "network.kind=color_shared"]
ATTENTION = [*SHARED, "network.color_attention_layers=1"]
SHAPES = {
    "mlp": MLP,
    "mlp_gelu": [*MLP, "network.activation=gelu"],
    "mlp_1": [*MLP, "network.num_layers=1"],
    "shared": SHARED,
    "shared_gelu": [*SHARED, "network.activation=gelu"],
    "attention": ATTENTION,
}
EVERY = pytest.mark.parametrize("overrides", SHAPES.values(), ids=SHAPES)
WIDTH = encoding_size(build_rules(load_config(None).rules))
CPU = torch.device("cpu")


def some_network(overrides: list[str]) -> Network:
    return build_network(load_config(None, overrides), torch.Generator().manual_seed(1))


def some_rows(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, WIDTH), np.uint8)


WAYS = ("skipping", "dense", "plain")


def take_way(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go where CPUs differ: skip zeros, or have oneDNN's packed products, or neither."""
    monkeypatch.setattr(inference, "_skipping_pays", lambda dtype: way == "skipping")
    if way == "plain":
        without_private_operators(monkeypatch)


def without_private_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the way that is left where torch has no packed linear."""
    monkeypatch.setattr(inference, "_packed_linear_works", lambda dtype: False)


@EVERY
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_packed_equals_the_network_up_to_rounding(
    overrides: list[str], way: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    network = some_network(overrides)
    wanted_BA = forward_rows(network, some_rows(rows))
    found_BA = pack_network(network)(some_rows(rows))
    assert found_BA.dtype == np.float32
    assert found_BA.shape == wanted_BA.shape
    # Bytes up to 255 where the network expects about 1: outputs in the tens.
    np.testing.assert_allclose(found_BA, wanted_BA, rtol=1e-5, atol=2e-5 * abs(wanted_BA).max())


def rounded_mlp(network: Network, features_BE: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Products of rounded numbers, summed in float64, rounded after each layer."""

    def rounded(tensor: Tensor) -> Tensor:
        return tensor.to(dtype).double()

    hidden = torch.from_numpy(features_BE).double()
    linears = [module for module in network.layers if isinstance(module, torch.nn.Linear)]
    for place, linear in enumerate(linears):
        weight = linear.weight * network.feature_scale if place == 0 else linear.weight
        sums = hidden @ rounded(weight).T + rounded(linear.bias)
        hidden = rounded(sums if place == len(linears) - 1 else sums.relu())
    return hidden.detach().float().numpy()


@pytest.mark.parametrize("way", WAYS)
def test_bf16_rounds_numbers_and_not_sums(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every CPU, with bf16 arithmetic or without: a sum rounded the other way is the most."""
    network = some_network(MLP)
    wanted_BA = rounded_mlp(network, some_rows(64), torch.bfloat16)
    take_way(way, monkeypatch)
    found_BA = pack_network(network, "bf16")(some_rows(64))
    exact_BA = forward_rows(network, some_rows(64))
    largest = abs(exact_BA).max()
    off = abs(found_BA - wanted_BA)
    assert (off == 0).mean() > 0.5
    assert off.max() < 0.02 * largest
    # That is not float32 under another name, and bf16 outputs have 8 bits.
    assert abs(found_BA - exact_BA).max() > 1e-4 * largest
    assert not (found_BA.view(np.uint32) & 0xFFFF).any()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("overrides", [MLP, SHARED], ids=["mlp", "shared"])
@pytest.mark.parametrize("way", ["skipping", "dense"])
def test_a_row_does_not_depend_on_its_companions(
    precision: str, overrides: list[str], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one thread, in whole blocks of 16 rows, in every place: what lanes and workers rest on."""
    take_way(way, monkeypatch)
    torch.set_num_threads(1)
    forward = pack_network(some_network(overrides), precision)
    together_BA = forward(some_rows(1024))
    for first, last in ((0, 16), (16, 64), (48, 304), (512, 1024), (1008, 1024)):
        np.testing.assert_array_equal(forward(some_rows(1024)[first:last]), together_BA[first:last])
    shuffled = np.random.default_rng(1).permutation(1024)
    np.testing.assert_array_equal(forward(some_rows(1024)[shuffled]), together_BA[shuffled])


@EVERY
@pytest.mark.parametrize("way", WAYS)
def test_weights_are_those_of_the_packing(
    overrides: list[str], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    network = some_network(overrides)
    forward = pack_network(network)
    before_BA = forward(some_rows(16))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.5)
    np.testing.assert_array_equal(forward(some_rows(16)), before_BA)
    assert abs(pack_network(network)(some_rows(16)) - before_BA).max() > 0.01


@pytest.mark.parametrize("way", WAYS)
def test_answers_outlive_the_next_question(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_way(way, monkeypatch)
    forward = pack_network(some_network(MLP))
    first_BA = forward(some_rows(16))
    kept_BA = first_BA.copy()
    forward(some_rows(16, seed=1))
    np.testing.assert_array_equal(first_BA, kept_BA)


@pytest.mark.parametrize(
    ("activation", "wanted"),
    [("none", lambda x: x), ("relu", functional.relu), ("gelu", functional.gelu)],
)
@pytest.mark.parametrize("biased", [True, False])
def test_one_layer_is_its_definition(
    activation: str, wanted: Callable[[Tensor], Tensor], biased: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    rows_BI = torch.randn(32, 20, generator=generator)
    weight_OI = torch.randn(12, 20, generator=generator)
    bias_O = torch.randn(12, generator=generator) if biased else None
    with torch.inference_mode():
        found_BO = linear_layer(weight_OI, bias_O, activation, torch.float32)(rows_BI)
    torch.testing.assert_close(found_BO, wanted(functional.linear(rows_BI, weight_OI, bias_O)))


def test_an_operator_that_computes_something_else_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inference, "_prepacked", lambda *_: lambda rows_BI: rows_BI.sum())
    assert not inference._packed_linear_works.__wrapped__(torch.float32)
    monkeypatch.undo()
    assert inference._packed_linear_works.__wrapped__(torch.float32) == (
        torch.backends.mkldnn.is_available()
    )


def test_half_precision_is_refused_where_the_cpu_has_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(inference, "_is_native", lambda dtype: dtype == torch.float32)
    for attempt in (
        lambda: pack_network(some_network(MLP), "fp16"),
        lambda: check_precision("fp16", CPU),
    ):
        with pytest.raises(PrecisionUnsupported, match=r"set run\.precision to fp32 or bf16"):
            attempt()
    with caplog.at_level(logging.WARNING):
        check_precision("fp32", CPU)
        check_precision("fp16", torch.device("cuda"))
        assert not caplog.messages
        check_precision("bf16", CPU)
    assert "take as long as in fp32" in caplog.text
