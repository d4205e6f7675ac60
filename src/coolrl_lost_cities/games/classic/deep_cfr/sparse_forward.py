"""Whole networks by layers that skip zeros: the forward on CPUs where that beats dense products.

Rows go through a network in chunks, all layers of one chunk before the next: what lies between two
layers stays in the caches.

Axes: B rows, E encoding, A actions, O and I outputs and inputs of a layer, F features of a color,
G common features, H hidden units, K kinds of card in a color.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coolrl_lost_cities.games.classic.deep_cfr.networks import ColorSharedNetwork, DeepCFRMLP
from coolrl_lost_cities.games.classic.deep_cfr.sparse_layers import (
    BLOCK,
    Activations,
    SparseLayer,
    blocks_from,
    gather_outputs,
    joined_inputs,
    mean_of_groups,
    new_activations,
    new_layer,
    run_layer,
    spread_features,
)

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
_Rows = Callable[[U8], F32]
_Pack = Callable[[Tensor, Tensor | None], SparseLayer]
_Steps = TypeVar("_Steps")

# More rows read a layer's weights less often, fewer leave more of the caches to them.
_CHUNK = 256


def skips_zeros(network: nn.Module) -> bool:
    """Say whether a network is of a shape that `pack_sparse` takes."""
    if isinstance(network, DeepCFRMLP):
        return all(isinstance(module, nn.Linear | nn.ReLU) for module in network.layers)
    return (
        isinstance(network, ColorSharedNetwork)
        and network.attention is None
        and isinstance(network.activation, nn.ReLU)
    )


def pack_sparse(network: nn.Module, *, rounded: bool) -> _Rows:
    """Return the forward of a network, which `skips_zeros`, with its weights as they are now.

    A row has the same bits in any batch. With `rounded`, weights and the outputs of each layer are
    rounded to bf16, as on CPUs that compute in it; sums are float32 either way.
    """
    dtype = torch.bfloat16 if rounded else torch.float32

    def packed(weight_OI: Tensor, bias_O: Tensor | None) -> SparseLayer:
        weights = weight_OI.detach().to(dtype).float().numpy()
        return new_layer(
            weights, None if bias_O is None else bias_O.detach().to(dtype).float().numpy()
        )

    if isinstance(network, ColorSharedNetwork):
        return _color_shared(network, packed, rounded)
    assert isinstance(network, DeepCFRMLP)
    return _mlp(network, packed, rounded)


def _mlp(network: DeepCFRMLP, packed: _Pack, rounded: bool) -> _Rows:
    linears = [module for module in network.layers if isinstance(module, nn.Linear)]
    weights = [linears[0].weight * network.feature_scale, *(each.weight for each in linears[1:])]
    layers = [packed(weight, each.bias) for weight, each in zip(weights, linears, strict=True)]
    widths = [linears[0].in_features, *(each.out_features for each in linears)]

    def chunk(steps: list[Activations], features_BE: U8, out_BA: F32) -> None:
        count = len(features_BE)
        spread_features(features_BE, 0, widths[0], 1, steps[0])
        for layer, inputs, outputs in zip(layers, steps[:-1], steps[1:], strict=True):
            relu = layer is not layers[-1]
            run_layer(layer, inputs, layer.bias_JSL, count, count, outputs, relu, rounded)
        gather_outputs(steps[-1], out_BA)

    return _by_chunks(
        chunk, lambda: [new_activations(width, _CHUNK) for width in widths], _CHUNK, widths[-1]
    )


class _ColorSteps(NamedTuple):
    """Inputs of each layer and outputs of the last: of each color, and of the mean over colors."""

    colors: list[Activations]
    means: list[Activations]
    shared: Activations  # what the mean gives to the sums of each color


def _color_shared(network: ColorSharedNetwork, packed: _Pack, rounded: bool) -> _Rows:
    """Pack the layers over colors; the sums of a state's colors start from what the mean gives.

    What all colors share enters the first layer once a state, by way of the mean.
    """
    colors, width, kinds = network.num_colors, network.color_features, network.num_kinds
    blocks = colors * width
    scale_F, scale_G = network.feature_scale[:width], network.feature_scale[blocks:]
    owns = [cast(nn.Linear, layer) for layer in network.own_layers]
    means = [cast(nn.Linear, layer) for layer in network.mean_layers]
    own_OI, mean_OI = owns[0].weight, means[0].weight
    own_layers = [packed(own_OI[:, :width] * scale_F, None)]
    own_layers += [packed(own.weight, None) for own in owns[1:]]
    shared_OG = (own_OI[:, width:] + mean_OI[:, width:]) * scale_G
    mean_layers = [
        joined_inputs(packed(mean_OI[:, :width] * scale_F, owns[0].bias), packed(shared_OG, None))
    ]
    mean_layers += [
        packed(mean.weight, own.bias) for own, mean in zip(owns[1:], means[1:], strict=True)
    ]
    color_head = packed(network.color_head.weight, network.color_head.bias)
    deck_head = packed(network.deck_head.weight, network.deck_head.bias)
    hidden = owns[0].out_features
    num_outputs = 2 * kinds + 1
    chunk_states = max(1, _CHUNK // colors)

    def new_steps() -> _ColorSteps:
        color_widths = [width, *(hidden for _ in owns), num_outputs]
        first_mean = BLOCK * mean_layers[0].weights_JKLL.shape[1]
        mean_widths = [first_mean, *(hidden for _ in owns), 1]
        return _ColorSteps(
            [new_activations(each, chunk_states * colors) for each in color_widths],
            [new_activations(each, chunk_states) for each in mean_widths],
            new_activations(hidden, chunk_states),
        )

    def chunk(steps: _ColorSteps, features_BE: U8, out_BA: F32) -> None:
        count = len(features_BE)
        rows, shared = count * colors, steps.shared
        spread_features(features_BE, 0, width, colors, steps.colors[0])
        common = blocks_from(steps.means[0], len(steps.colors[0].nonzero_KB))
        spread_features(features_BE, blocks, features_BE.shape[1] - blocks, 1, common)
        for number, (own, mean) in enumerate(zip(own_layers, mean_layers, strict=True)):
            before, after = steps.colors[number], steps.colors[number + 1]
            mean_of_groups(before, colors, count, steps.means[number])
            run_layer(
                mean, steps.means[number], mean.bias_JSL, count, count, shared, False, rounded
            )
            run_layer(own, before, shared.values_KBL, colors, rows, after, True, rounded)
        mean_of_groups(steps.colors[-2], colors, count, steps.means[-2])
        for head, of, number in ((color_head, steps.colors, rows), (deck_head, steps.means, count)):
            run_layer(head, of[-2], head.bias_JSL, number, number, of[-1], False, rounded)
        heads_BCO = np.empty((count, colors, num_outputs), np.float32)
        gather_outputs(steps.colors[-1], heads_BCO.reshape(rows, num_outputs))
        cards = colors * kinds
        out_BA[:, :cards] = heads_BCO[:, :, :kinds].reshape(count, cards)
        out_BA[:, cards : 2 * cards] = heads_BCO[:, :, kinds : 2 * kinds].reshape(count, cards)
        out_BA[:, 2 * cards] = steps.means[-1].values_KBL[0, :count, 0]
        out_BA[:, 2 * cards + 1 :] = heads_BCO[:, :, 2 * kinds]

    return _by_chunks(chunk, new_steps, chunk_states, colors * num_outputs + 1)


def _by_chunks(
    chunk: Callable[[_Steps, U8, F32], None],
    new_steps: Callable[[], _Steps],
    chunk_rows: int,
    num_actions: int,
) -> _Rows:
    """Return what takes rows through a network a chunk at a time, in memory that is used again.

    Batches are filled up with zeros: the answer to those at the end is computed once, not again.
    """
    spare: list[_Steps] = []
    to_zeros: list[F32] = []

    def rows(features_BE: U8) -> F32:
        # Taken out while it is used: another thread that asks meanwhile makes its own.
        try:
            steps = spare.pop()
        except IndexError:
            steps = new_steps()
        features_BE = np.ascontiguousarray(features_BE)
        out_BA = np.empty((len(features_BE), num_actions), np.float32)
        count = _rows_with_features(features_BE)
        for first in range(0, count, chunk_rows):
            last = min(count, first + chunk_rows)
            chunk(steps, features_BE[first:last], out_BA[first:last])
        if count < len(features_BE):
            if not to_zeros:
                answer_1A = np.empty((1, num_actions), np.float32)
                chunk(steps, np.zeros((1, features_BE.shape[1]), np.uint8), answer_1A)
                to_zeros.append(answer_1A)
            out_BA[count:] = to_zeros[0]
        spare.append(steps)
        return out_BA

    return rows


def _rows_with_features(features_BE: U8) -> int:
    """Return how many rows are left without those at the end that are all zero."""
    count = len(features_BE)
    if count == 0 or features_BE[-1].any():
        return count
    least = 0
    while least < count:  # rows from `count` on are zero, and those before `least` are not all
        middle = (least + count) // 2
        if features_BE[middle:count].any():
            least = middle + 1
        else:
            count = middle
    return count
