"""The forward of a network whose weights stay as they are, in less time than its dense products.

A network is packed once for each set of weights, and the scale of the features goes into the first
layer. Whole numbers go in, float32 comes out. On a CPU without AVX512 networks with ReLU skip what
is zero (`sparse_forward.py`). All else goes through dense products: weights are reordered the way
oneDNN reads them, and bias and activation are computed where the product is written.

The packed product is a private operator of torch (checked with 2.13). Where it is missing or does
not compute what it should, `functional.linear` takes its place; what is private stays in this file.

bf16 means the same on every CPU: products of bf16 numbers, summed in float32, rounded to bf16 after
each layer. A CPU without bf16 arithmetic does that in float32, at the price of float32.

Axes: B rows, E encoding, A actions, C colors, F features of a color, G common features, H hidden
units; O and I are the outputs and inputs of one layer.
"""

import copy
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from coolrl_lost_cities.games.classic.deep_cfr.config import Precision
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.networks import (
    ColorSharedNetwork,
    DeepCFRMLP,
    forward_rows,
)
from coolrl_lost_cities.games.classic.deep_cfr.sparse_forward import pack_sparse, skips_zeros

# features_BE -> raw outputs_BA in an array of their own
Rows = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
_Layer = Callable[[Tensor], Tensor]

DTYPES: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
_ACTIVATIONS = {nn.ReLU: "relu", nn.GELU: "gelu"}


class PrecisionUnsupported(DeepCFRError):
    """The device has no arithmetic of the precision that the run asks for."""

    def __init__(self, precision: Precision, device: str) -> None:
        self.precision = precision
        self.device = device
        super().__init__(
            f"run.precision is {precision}, which torch computes many times slower than fp32 on "
            f"this {device}; set run.precision to fp32 or bf16"
        )


def check_precision(precision: Precision, device: torch.device) -> None:
    """Raise PrecisionUnsupported for fp16 where it is slow; log where bf16 gains nothing."""
    if device.type != "cpu" or precision == "fp32":
        return
    if precision == "fp16" and not _is_native(torch.float16):
        raise PrecisionUnsupported(precision, "CPU")
    if not _is_native(torch.bfloat16):
        logging.getLogger(__name__).warning(
            "run.precision is %s, but oneDNN does not compute in it on this CPU (it wants AVX512): "
            "forwards round to it and take as long as in fp32",
            precision,
        )


def training_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """Return what training steps multiply in: float32 where the CPU would only emulate less.

    There a step in bf16 was measured to take ten times as long.
    """
    dtype = DTYPES[precision]
    return dtype if device.type != "cpu" or _is_native(dtype) else torch.float32


def pack_network(network: nn.Module, precision: Precision = "fp32") -> Rows:
    """Return the forward of a network with its weights as they are now, on the device they are on.

    Later changes of the network are not seen. A row has the same bits in any batch where zeros are
    skipped, and on one thread of a CPU where torch's packed linear works; elsewhere in multiples
    of 16 rows. A network of another shape (attention over the colors) is copied and called as it
    is, in float32.

    Raises PrecisionUnsupported.
    """
    device = next(network.parameters()).device
    if precision == "fp16" and device.type == "cpu" and not _is_native(torch.float16):
        raise PrecisionUnsupported(precision, "CPU")
    dtype = DTYPES[precision]
    with torch.inference_mode():
        if device.type == "cpu" and _skipping_pays(dtype) and skips_zeros(network):
            return pack_sparse(network, rounded=dtype != torch.float32)
        if isinstance(network, DeepCFRMLP):
            packed = _packed_mlp(network, dtype)
        elif isinstance(network, ColorSharedNetwork) and network.attention is None:
            packed = _packed_color_shared(network, dtype)
        else:
            frozen = copy.deepcopy(network).eval()
            return lambda features_BE: forward_rows(frozen, features_BE)
    working = dtype if _is_native(dtype) or device.type != "cpu" else torch.float32

    def rows(features_BE: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            # Whole numbers up to 255: bf16 holds them exactly, and no float32 copy is made.
            features = torch.as_tensor(features_BE, device=device).to(working)
            outputs_BA: NDArray[np.float32] = packed(features).float().cpu().numpy()
        return outputs_BA

    return rows


def _packed_mlp(network: DeepCFRMLP, dtype: torch.dtype) -> _Layer:
    modules = list(network.layers)
    layers = []
    scale_E: Tensor | None = network.feature_scale
    for linear, activation in zip(modules[::2], [*modules[1::2], None], strict=True):
        assert isinstance(linear, nn.Linear)
        weight_OI = linear.weight if scale_E is None else linear.weight * scale_E
        name = "none" if activation is None else _ACTIVATIONS[type(activation)]
        layers.append(linear_layer(weight_OI, linear.bias, name, dtype))
        scale_E = None

    def packed(hidden: Tensor) -> Tensor:
        for layer in layers:
            hidden = layer(hidden)
        return hidden

    return packed


def _packed_color_shared(network: ColorSharedNetwork, dtype: torch.dtype) -> _Layer:
    """Pack the layers over colors; those over their mean, one row a state, add to them.

    What all colors share enters the first layer once a state, by way of the mean.
    """
    colors, width = network.num_colors, network.color_features
    scale_F = network.feature_scale[:width]
    scale_G = network.feature_scale[colors * width :]
    owns = [cast(nn.Linear, layer) for layer in network.own_layers]
    means = [cast(nn.Linear, layer) for layer in network.mean_layers]
    own_OI, mean_OI = owns[0].weight, means[0].weight
    own_layers = [linear_layer(own_OI[:, :width] * scale_F, owns[0].bias, "none", dtype)]
    shared_OG = (own_OI[:, width:] + mean_OI[:, width:]) * scale_G
    weight_OI = torch.cat([mean_OI[:, :width] * scale_F, shared_OG], dim=1)
    mean_layers = [linear_layer(weight_OI, None, "none", dtype)]
    for own, mean in zip(owns[1:], means[1:], strict=True):
        own_layers.append(linear_layer(own.weight, own.bias, "none", dtype))
        mean_layers.append(linear_layer(mean.weight, None, "none", dtype))
    color_head = linear_layer(network.color_head.weight, network.color_head.bias, "none", dtype)
    deck_head = linear_layer(network.deck_head.weight, network.deck_head.bias, "none", dtype)
    activation = network.activation
    act = torch.relu_ if isinstance(activation, nn.ReLU) else activation
    kinds = network.num_kinds

    def packed(features_BE: Tensor) -> Tensor:
        num_rows = len(features_BE)
        hidden_BCH = features_BE[:, : colors * width].unflatten(1, (colors, width))
        mean_BH = torch.cat([hidden_BCH.mean(dim=1), features_BE[:, colors * width :]], dim=1)
        for own, mean in zip(own_layers, mean_layers, strict=True):
            # The operator takes rows, and colors are rows of their own.
            own_BCH = own(hidden_BCH.reshape(num_rows * colors, -1)).view(num_rows, colors, -1)
            hidden_BCH = act(own_BCH.add_(mean(mean_BH)[:, None]))
            mean_BH = hidden_BCH.mean(dim=1)
        heads_BCK = color_head(hidden_BCH.flatten(0, 1)).view(num_rows, colors, -1)
        play_BK = heads_BCK[:, :, :kinds].flatten(1)
        discard_BK = heads_BCK[:, :, kinds : 2 * kinds].flatten(1)
        pile_BC = heads_BCK[:, :, 2 * kinds]
        return torch.cat([play_BK, discard_BK, deck_head(mean_BH), pile_BC], dim=1)

    return packed


def linear_layer(
    weight_OI: Tensor, bias_O: Tensor | None, activation: str, dtype: torch.dtype
) -> _Layer:
    """Return `activation(x W^T + b)` with weights kept in a dtype, by the fastest way there is.

    `activation` is none, relu or gelu. In: rows of `dtype`, or of float32 where the CPU has no
    arithmetic of that dtype; out: the same.
    """
    weight_OI = weight_OI.detach().to(dtype)
    bias_O = None if bias_O is None else bias_O.detach().to(dtype)
    if weight_OI.device.type != "cpu":
        return _plain(weight_OI, bias_O, activation)
    if _packed_linear_works(dtype):
        return _prepacked(weight_OI, bias_O, activation)
    if dtype == torch.float32 or _is_native(dtype):
        return _plain(weight_OI, bias_O, activation)
    layer = linear_layer(
        weight_OI.float(), None if bias_O is None else bias_O.float(), activation, torch.float32
    )
    return lambda rows_BI: layer(rows_BI).to(dtype).float()


def _prepacked(weight_OI: Tensor, bias_O: Tensor | None, activation: str) -> _Layer:
    operators = torch.ops.mkldnn
    packed = operators._reorder_linear_weight(weight_OI.contiguous(), None)
    bias_O = None if bias_O is None else bias_O.clone()
    algorithm = "none" if activation == "gelu" else ""  # GELU by erf, not by tanh
    linear_pointwise = operators._linear_pointwise

    def layer(rows_BI: Tensor) -> Tensor:
        outputs_BO: Tensor = linear_pointwise(rows_BI, packed, bias_O, activation, [], algorithm)
        return outputs_BO

    return layer


def _plain(weight_OI: Tensor, bias_O: Tensor | None, activation: str) -> _Layer:
    weight_OI = weight_OI.clone()
    bias_O = None if bias_O is None else bias_O.clone()
    act: _Layer | None = {"none": None, "relu": torch.relu_, "gelu": functional.gelu}[activation]

    def layer(rows_BI: Tensor) -> Tensor:
        outputs_BO = functional.linear(rows_BI, weight_OI, bias_O)
        return outputs_BO if act is None else act(outputs_BO)

    return layer


@lru_cache(maxsize=3)
def _is_native(dtype: torch.dtype) -> bool:
    """Say whether oneDNN computes in a dtype on this CPU rather than emulating it."""
    if dtype == torch.float32:
        return True
    question = {
        torch.bfloat16: "_is_mkldnn_bf16_supported",
        torch.float16: "_is_mkldnn_fp16_supported",
    }[dtype]
    try:
        return bool(getattr(torch.ops.mkldnn, question)())
    except (AttributeError, RuntimeError):  # private: not in every torch, nor in every build
        return False


@lru_cache(maxsize=3)
def _skipping_pays(dtype: torch.dtype) -> bool:
    """Say whether to multiply what is not zero, in float32, rather than all of it by oneDNN.

    Measured with AVX2. With AVX512 registers are twice as wide, and dense products gain from that.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    return capability != "AVX512" and (dtype == torch.float32 or not _is_native(dtype))


@lru_cache(maxsize=3)
def _packed_linear_works(dtype: torch.dtype) -> bool:
    """Try the private operator on a small product; say whether it gives what it should."""
    if not _is_native(dtype):
        return False
    rows_BI = torch.arange(48.0).remainder(7).reshape(16, 3).to(dtype)
    weight_OI = torch.arange(24.0).remainder(5).sub(2).reshape(8, 3).to(dtype)
    bias_O = torch.arange(8.0).to(dtype)
    wanted_BO = functional.linear(rows_BI.float(), weight_OI.float(), bias_O.float()).relu()
    try:
        with torch.inference_mode():
            found_BO = _prepacked(weight_OI, bias_O, "relu")(rows_BI)
    except (AttributeError, RuntimeError):
        return False
    # Small whole numbers: every dtype holds the results exactly.
    return torch.equal(found_BO.float(), wanted_BO)
