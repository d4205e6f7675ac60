# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""Layers that skip what is zero in their inputs, as compiled kernels.

Three in four features of an information state are 0, and so is about half of what a ReLU leaves:
a dense product spends most of its multiplications on zeros. These kernels go through the inputs of
a row that are not zero and add the weights of each, 64 outputs at a time, which stay in registers.
The weights of 64 inputs for 64 outputs, 16 KiB, stay in the first-level cache while the rows of a
chunk pass by.

The sum of a row is taken in the order of its inputs, whatever stands in the other rows: a row has
the same bits in any batch, at any place in it, on any number of threads.

Axes: B rows, E features, I inputs and O outputs of a layer, padded to blocks of 64; J blocks of
outputs, K blocks of inputs, L the 64 places of a block; S rows of starting sums.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]

BLOCK = 64  # bits of a word that says which inputs of a block are not zero

_LANES = 8  # of float32 in a register of AVX2; LLVM makes of it what there is elsewhere
_ALIGNMENT = 64  # bytes of a cache line, so that no register is loaded from two
_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_LANES_F32 = ir.VectorType(_F32, _LANES)
_BLOCK_F32 = ir.VectorType(_F32, BLOCK)


class Activations(NamedTuple):
    """Inputs or outputs of a layer for the rows of a chunk, and which of them are not zero.

    Block after block, so that what is read and written at a time lies side by side.
    """

    values_KBL: F32
    nonzero_KB: U64  # bit l of a word: place l of the block


class SparseLayer(NamedTuple):
    """Weights in blocks, and what the sums of each row start from where nothing else is given."""

    weights_JKLL: F32  # [outputs' block, inputs' block, input, output]
    bias_JSL: F32  # S is 1


def new_activations(width: int, num_rows: int) -> Activations:
    """Return zeros for so many rows of so many values."""
    blocks = _blocks(width)
    return Activations(_aligned((blocks, num_rows, BLOCK)), np.zeros((blocks, num_rows), np.uint64))


def new_layer(weights_OI: F32, bias_O: F32 | None) -> SparseLayer:
    """Return a layer; its outputs and inputs are padded with zeros to whole blocks."""
    outputs, inputs = weights_OI.shape
    out_blocks, in_blocks = _blocks(outputs), _blocks(inputs)
    padded_OI = np.zeros((out_blocks * BLOCK, in_blocks * BLOCK), np.float32)
    padded_OI[:outputs, :inputs] = weights_OI
    weights_JKLL = _aligned((out_blocks, in_blocks, BLOCK, BLOCK))
    blocks_JLKL = padded_OI.reshape(out_blocks, BLOCK, in_blocks, BLOCK)
    weights_JKLL[:] = blocks_JLKL.transpose(0, 2, 3, 1)
    bias_JSL = _aligned((out_blocks, 1, BLOCK))
    if bias_O is not None:
        bias_JSL.reshape(-1)[:outputs] = bias_O
    return SparseLayer(weights_JKLL, bias_JSL)


def joined_inputs(first: SparseLayer, second: SparseLayer) -> SparseLayer:
    """Return the layer that adds two layers of the same outputs, their inputs side by side.

    The bias is the first one's. The second's inputs begin with a block of their own.
    """
    weights = [first.weights_JKLL, second.weights_JKLL]
    blocks = sum(array.shape[1] for array in weights)
    joined_JKLL = _aligned((len(first.weights_JKLL), blocks, BLOCK, BLOCK))
    np.concatenate(weights, axis=1, out=joined_JKLL)
    return SparseLayer(joined_JKLL, first.bias_JSL)


def blocks_from(activations: Activations, first: int) -> Activations:
    """Return a view of the blocks that follow the first so many."""
    return Activations(activations.values_KBL[first:], activations.nonzero_KB[first:])


def _blocks(width: int) -> int:
    return -(-width // BLOCK)


def _aligned(shape: tuple[int, ...]) -> F32:
    size = int(np.prod(shape))
    room = np.zeros(size + _ALIGNMENT // 4, np.float32)
    first = -room.ctypes.data % _ALIGNMENT // 4
    aligned: F32 = room[first : first + size].reshape(shape)
    return aligned


def _address(context: Any, builder: Any, signature: Any, arguments: Any, number: int) -> Any:
    """Return where an array's element lies; the argument after the array is its flat index."""
    array = context.make_array(signature.args[number])(context, builder, arguments[number])
    return builder.gep(array.data, [arguments[number + 1]])


def _nonzero_word_in_llvm(_: Any, values: Any, at: Any) -> Any:
    """Return which of the 64 values from a flat index on are not zero, one bit each."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments, 0)
        values = builder.load(builder.bitcast(place, _BLOCK_F32.as_pointer()), align=4)
        unequal = builder.fcmp_unordered("!=", values, ir.Constant(_BLOCK_F32, None))
        return builder.bitcast(unequal, _I64)

    return types.uint64(values, at), generate


def _add_products_in_llvm(  # noqa: PLR0917 -- kernels take no keywords
    _: Any,
    word: Any,
    inputs: Any,
    i: Any,
    weights: Any,
    w: Any,
    starts: Any,
    s: Any,
    outputs: Any,
    o: Any,
    least: Any,
) -> Any:
    """Write 64 sums: of starts, and of products with the inputs whose bits are set in a word.

    Sums below `least` become it. Each array is followed by the flat index at which its block
    begins. In LLVM's words, because numba has none for sums that stay in registers from one pass
    of a loop to the next.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        input_at = _address(context, builder, signature, arguments, 1)
        weights_at = _address(context, builder, signature, arguments, 3)
        starts_at = _address(context, builder, signature, arguments, 5)
        outputs_at = _address(context, builder, signature, arguments, 7)
        undefined = ir.Constant(_LANES_F32, ir.Undefined)

        def in_all_lanes(value: Any) -> Any:
            lane_0 = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
            lanes = ir.Constant(ir.VectorType(_I32, _LANES), None)
            return builder.shuffle_vector(lane_0, undefined, lanes)

        def parts(place: Any) -> list[Any]:
            offsets = [ir.Constant(_I64, lane) for lane in range(0, BLOCK, _LANES)]
            pointer = _LANES_F32.as_pointer()
            return [builder.bitcast(builder.gep(place, [lane]), pointer) for lane in offsets]

        before, head, body, after = (
            builder.block,
            *(builder.append_basic_block(name) for name in ("head", "body", "after")),
        )
        loaded = [builder.load(part, align=4) for part in parts(starts_at)]
        builder.branch(head)

        builder.position_at_end(head)
        left = builder.phi(_I64)
        sums = [builder.phi(_LANES_F32) for _ in loaded]
        builder.cbranch(builder.icmp_unsigned("!=", left, ir.Constant(_I64, 0)), body, after)

        builder.position_at_end(body)
        place = builder.cttz(left, ir.Constant(ir.IntType(1), 1))
        fewer = builder.and_(left, builder.sub(left, ir.Constant(_I64, 1)))
        factor = in_all_lanes(builder.load(builder.gep(input_at, [place])))
        row = builder.gep(weights_at, [builder.mul(place, ir.Constant(_I64, BLOCK))])
        added = []
        for total, part in zip(sums, parts(row), strict=True):
            weight = builder.load(part, align=4)
            product = builder.fmul(factor, weight, flags=("contract",))
            added.append(builder.fadd(total, product, flags=("contract",)))
        builder.branch(head)
        starts, nexts = [arguments[0], *loaded], [fewer, *added]
        for node, first, later in zip([left, *sums], starts, nexts, strict=True):
            node.add_incoming(first, before)
            node.add_incoming(later, body)

        builder.position_at_end(after)
        least_in_all = in_all_lanes(arguments[9])
        for total, part in zip(sums, parts(outputs_at), strict=True):
            enough = builder.fcmp_ordered(">", total, least_in_all)
            builder.store(builder.select(enough, total, least_in_all), part, align=4)
        return context.get_dummy_value()

    return types.void(word, inputs, i, weights, w, starts, s, outputs, o, least), generate


_nonzero_word: Any = intrinsic(_nonzero_word_in_llvm)
_add_products: Any = intrinsic(_add_products_in_llvm)


@numba.njit(cache=True)
def run_layer(  # noqa: PLR0917 -- kernels take no keywords
    layer: SparseLayer,
    inputs: Activations,
    starts_JSL: F32,
    repeated: int,
    count: int,
    outputs: Activations,
    relu: bool,
    rounded: bool,
) -> None:
    """Write a layer's outputs for the first `count` rows of a chunk.

    The sums of row b start from row b // repeated of `starts_JSL`: the bias, or what another layer
    gives. With `rounded` the outputs are bf16 numbers, rounded to nearest.
    """
    num_out, num_in = layer.weights_JKLL.shape[:2]
    room_in, room_out = inputs.nonzero_KB.shape[1], outputs.nonzero_KB.shape[1]
    inputs_X = inputs.values_KBL.reshape(-1)
    weights_X = layer.weights_JKLL.reshape(-1)
    outputs_X = outputs.values_KBL.reshape(-1)
    bits_X = outputs_X.view(np.uint32)
    starts_X, num_starts = starts_JSL.reshape(-1), starts_JSL.shape[1]
    for j in range(num_out):
        for k in range(num_in):
            weights_at = (j * num_in + k) * BLOCK * BLOCK
            is_last = k == num_in - 1
            least = np.float32(0.0) if relu and is_last else np.float32(-np.inf)
            for b in range(count):
                at = (j * room_out + b) * BLOCK
                starts, start = outputs_X, at
                if k == 0:
                    starts, start = starts_X, (j * num_starts + b // repeated) * BLOCK
                _add_products(
                    inputs.nonzero_KB[k, b],
                    inputs_X,
                    (k * room_in + b) * BLOCK,
                    weights_X,
                    weights_at,
                    starts,
                    start,
                    outputs_X,
                    at,
                    least,
                )
                if is_last:
                    if rounded:
                        for x in range(at, at + BLOCK):
                            bits = bits_X[x] + np.uint32(0x7FFF) + ((bits_X[x] >> 16) & 1)
                            bits_X[x] = bits & np.uint32(0xFFFF0000)
                    outputs.nonzero_KB[j, b] = _nonzero_word(outputs_X, at)


@numba.njit(cache=True)
def spread_features(
    features_BE: U8, first: int, width: int, groups: int, inputs: Activations
) -> None:
    """Write `groups` runs of `width` features of each row, each as a row of a layer's inputs.

    The runs follow each other from feature `first` on, and so do a row's groups.
    """
    num_blocks, room = inputs.nonzero_KB.shape
    values_X = inputs.values_KBL.reshape(-1)
    for b in range(len(features_BE)):
        for group in range(groups):
            row = b * groups + group
            features_F = features_BE[b, first + group * width : first + (group + 1) * width]
            for k in range(num_blocks):
                values_L = inputs.values_KBL[k, row]
                part_L = features_F[k * BLOCK : (k + 1) * BLOCK]
                for place in range(len(part_L)):
                    values_L[place] = np.float32(part_L[place])
                inputs.nonzero_KB[k, row] = _nonzero_word(values_X, (k * room + row) * BLOCK)


@numba.njit(cache=True)
def mean_of_groups(inputs: Activations, groups: int, count: int, means: Activations) -> None:
    """Write `count` means, each of `groups` rows that follow each other, to the first blocks."""
    room = means.nonzero_KB.shape[1]
    values_X = means.values_KBL.reshape(-1)
    for k in range(len(inputs.nonzero_KB)):
        for b in range(count):
            mean_L = means.values_KBL[k, b]
            mean_L[:] = inputs.values_KBL[k, b * groups]
            for group in range(1, groups):
                values_L = inputs.values_KBL[k, b * groups + group]
                for place in range(BLOCK):
                    mean_L[place] += values_L[place]
            for place in range(BLOCK):
                mean_L[place] /= np.float32(groups)
            means.nonzero_KB[k, b] = _nonzero_word(values_X, (k * room + b) * BLOCK)


@numba.njit(cache=True)
def gather_outputs(outputs: Activations, out_BO: F32) -> None:
    """Write the values of the first rows, as many rows and columns as there are."""
    for b in range(len(out_BO)):
        for k in range(len(outputs.nonzero_KB)):
            out_L = out_BO[b, k * BLOCK : (k + 1) * BLOCK]
            for place in range(len(out_L)):
                out_L[place] = outputs.values_KBL[k, b, place]
