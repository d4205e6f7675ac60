"""Optimizer steps: plain ones in float32, and what changes with the precision."""

import pytest
import torch
from torch import Tensor, nn

from coolrl_lost_cities.games.classic.deep_cfr.inference import training_dtype
from coolrl_lost_cities.games.classic.deep_cfr.networks import DeepCFRMLP
from coolrl_lost_cities.games.classic.deep_cfr.steps import TrainingSteps

CPU = torch.device("cpu")
B, E, A = 32, 12, 5


def rows() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    features_BE = torch.randint(0, 4, (B, E), dtype=torch.uint8, generator=generator)
    return features_BE, torch.randn(B, A, generator=generator)


def network_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
    network = DeepCFRMLP(E, A, hidden_size=16, num_layers=2)
    network.reset_parameters(torch.Generator().manual_seed(2))
    return network, torch.optim.AdamW(network.parameters(), lr=1e-2, fused=True)


def losses(dtype: torch.dtype, count: int) -> tuple[list[float], nn.Module]:
    steps = TrainingSteps(dtype, CPU, grad_clip=0.5)
    network, optimizer = network_and_optimizer()
    features_BE, targets_BA = rows()
    found = []
    for _ in range(count):
        outputs_BA = steps.outputs(network, features_BE)
        assert outputs_BA.dtype == torch.float32
        loss = (outputs_BA - targets_BA).square().mean()
        found.append(steps.take(network, optimizer, loss).item())
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    return found, network


def test_float32_steps_are_torchs_own_bit_for_bit() -> None:
    torch.set_num_threads(1)
    found, network = losses(torch.float32, 20)
    plain, optimizer = network_and_optimizer()
    features_BE, targets_BA = rows()
    for number in range(20):
        optimizer.zero_grad()
        loss = (plain(features_BE) - targets_BA).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        optimizer.step()
        assert loss.item() == found[number]
    for ours, theirs in zip(network.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_learn_nearly_the_same(dtype: torch.dtype) -> None:
    full, _ = losses(torch.float32, 40)
    half, _ = losses(dtype, 40)
    assert full[-1] < 0.7 * full[0]
    assert half[:10] == pytest.approx(full[:10], rel=0.03)
    assert half[-1] == pytest.approx(full[-1], rel=0.3)  # small differences grow
    assert half != full


def test_a_float16_step_that_overflows_is_left_out_and_the_scale_falls() -> None:
    steps = TrainingSteps(torch.float16, CPU, grad_clip=0.5)
    network, optimizer = network_and_optimizer()
    features_BE, targets_BA = rows()

    def scale() -> float:
        return float(steps.state_dict()["scale"])

    before = [parameter.detach().clone() for parameter in network.parameters()]
    first = scale()
    loss = (steps.outputs(network, features_BE) * 1e4 - targets_BA).square().sum()
    steps.take(network, optimizer, loss)
    assert scale() == first / 2
    assert all(map(torch.equal, network.parameters(), before))
    loss = (steps.outputs(network, features_BE) - targets_BA).square().mean() / scale()
    steps.take(network, optimizer, loss)
    assert not any(map(torch.equal, network.parameters(), before))
    other = TrainingSteps(torch.float16, CPU, grad_clip=0.5)
    other.load_state_dict(steps.state_dict())
    assert other.state_dict() == steps.state_dict()
    plain = TrainingSteps(torch.float32, CPU, grad_clip=0.5)
    assert plain.state_dict() == {}
    plain.load_state_dict(steps.state_dict())
    assert plain.state_dict() == {}


def test_training_never_emulates_a_precision() -> None:
    native = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    assert training_dtype("bf16", CPU) == (torch.bfloat16 if native else torch.float32)
    assert training_dtype("bf16", torch.device("cuda")) == torch.bfloat16
    assert training_dtype("fp32", torch.device("cuda")) == torch.float32
