"""The matrix products of a network's layers and nothing else: what no implementation can avoid.

Axes: B rows, I inputs of a layer, O outputs of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from benchmarks.measuring import spent

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
Shapes = Sequence[tuple[int, int]]  # (outputs, inputs) of each layer, the first layer first
# (shapes, rows, precision, device) -> what multiplies once
Products = Callable[[Shapes, int, str, str], Callable[[], object]]


def forward_products(
    shapes: Shapes, rows: int, precision: str, device: str
) -> Callable[[], object]:
    """Return what multiplies `rows` rows through layers of these shapes, outputs reused."""
    dtype, where = DTYPES[precision], torch.device(device)
    layers = [torch.randn(shape, dtype=dtype, device=where) for shape in shapes]
    inputs = [torch.randn(rows, layer.shape[1], dtype=dtype, device=where) for layer in layers]
    outputs = [torch.empty(rows, layer.shape[0], dtype=dtype, device=where) for layer in layers]

    def multiply() -> None:
        for layer_OI, input_BI, output_BO in zip(layers, inputs, outputs, strict=True):
            torch.mm(input_BI, layer_OI.T, out=output_BO)
        wait_for(where)

    return multiply


def training_products(
    shapes: Shapes, rows: int, precision: str, device: str
) -> Callable[[], object]:
    """Return the products of a training step: forward, then backward for weights and inputs.

    The first layer's inputs want no gradient.
    """
    dtype, where = DTYPES[precision], torch.device(device)
    forward = forward_products(shapes, rows, precision, device)
    layers = [torch.randn(shape, dtype=dtype, device=where) for shape in shapes]
    inputs = [torch.randn(rows, layer.shape[1], dtype=dtype, device=where) for layer in layers]
    slopes = [torch.randn(rows, layer.shape[0], dtype=dtype, device=where) for layer in layers]
    to_weights = [torch.empty_like(layer) for layer in layers]
    to_inputs = [torch.empty_like(rows_BI) for rows_BI in inputs]

    def multiply() -> None:
        forward()
        for number in reversed(range(len(layers))):
            torch.mm(slopes[number].T, inputs[number], out=to_weights[number])
            if number:
                torch.mm(slopes[number], layers[number], out=to_inputs[number])
        wait_for(where)

    return multiply


def fastest(
    products: Products, shapes: Shapes, rows: int, precision: str, device: str
) -> tuple[str, Callable[[], object]]:
    """Return the products in a precision, or in fp32 where those are faster, and which they are.

    A CPU without arithmetic of the precision multiplies in it many times slower than in fp32.
    """
    choices = {name: products(shapes, rows, name, device) for name in {precision, "fp32"}}
    for multiply in choices.values():
        multiply()
    # On the clock: what a GPU does takes no processor time.
    found = {name: spent(multiply).wall_s for name, multiply in choices.items()}
    name = min(found, key=found.__getitem__)
    return name, choices[name]


def layer_shapes(network: torch.nn.Module) -> list[tuple[int, int]]:
    """Return the shapes of a network's linear layers, in the order in which they were built."""
    return [
        (module.out_features, module.in_features)
        for module in network.modules()
        if isinstance(module, torch.nn.Linear)
    ]


def wait_for(device: torch.device) -> None:
    """Wait until an accelerator has done what it was given; a CPU always has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
