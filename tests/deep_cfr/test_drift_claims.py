"""Compiled gradients and parameters against eager ones, for real, and with planted faults."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig
from coolrl_lost_cities.games.classic.deep_cfr.fixed_batches import (
    Arm,
    compiled_arm,
    eager_arm,
    fixed_decisions,
)
from coolrl_lost_cities.games.classic.deep_cfr.gelu_run import LIMIT, STEPS, gelu_run
from coolrl_lost_cities.games.classic.deep_cfr.gradient_error import MOST_TIMES, gradient_error


@pytest.fixture(autouse=True)
def _one_thread_and_nothing_compiled() -> None:
    torch.set_num_threads(1)  # bits repeat on one thread only
    torch._dynamo.reset()


@pytest.fixture
def config(tiny_config: Callable[..., DeepCFRConfig]) -> DeepCFRConfig:
    return tiny_config()


class Faulty(nn.Module):
    """A network whose outputs go through a fault."""

    def __init__(self, network: nn.Module, fault: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.network = network
        self.fault = fault

    def forward(self, features_BE: Tensor) -> Tensor:
        return self.fault(self.network(features_BE))


def compiled_with(fault: Callable[[Tensor], Tensor]) -> Arm:
    return Arm(lambda network: torch.compile(Faulty(network, fault)))


def right_value_wrong_gradient(outputs_BA: Tensor) -> Tensor:
    return outputs_BA + 1e-4 * (outputs_BA - outputs_BA.detach())


def slightly_larger(outputs_BA: Tensor) -> Tensor:
    return outputs_BA * 1.0001


def test_batches_are_the_same_every_time_and_real_decisions(config: DeepCFRConfig) -> None:
    one, other = fixed_decisions(config), fixed_decisions(config)
    assert [decisions.name for decisions in one] == ["advantage", "strategy"]
    for mine, yours in zip(one, other, strict=True):
        first = list(mine.batches(3))
        for again in (mine.batches(3), yours.batches(3)):
            for batch, same in zip(first, again, strict=True):
                assert all(map(torch.equal, batch, same))
        assert not torch.equal(first[0][0], first[1][0])
        for features_BE, targets_BA, legal_BA, weights_B in first:
            assert features_BE.dtype == torch.uint8
            assert legal_BA.sum(dim=1).min() >= 2
            assert torch.equal(weights_B, torch.ones(32))
            assert targets_BA[~legal_BA].abs().max() == 0
            assert targets_BA.abs().sum(dim=1).max() > 0
    for _, policies_BA, _, _ in one[1].batches(3):
        torch.testing.assert_close(policies_BA.sum(dim=1), torch.ones(32))


def test_compiled_gradients_are_as_near_to_exact_ones_as_eager_ones(config: DeepCFRConfig) -> None:
    found = gradient_error(config, compiled_arm(config))
    assert found.eager.keys() == found.compiled.keys() == {"advantage", "strategy"}
    assert all(1e-9 < error < 1e-5 for error in found.eager.values())
    assert found.graphs > 0
    assert found.times <= MOST_TIMES
    assert found.holds
    assert found.compiled != found.eager  # it is something else that was measured


def test_a_wrong_gradient_is_found(config: DeepCFRConfig) -> None:
    found = gradient_error(config, compiled_with(right_value_wrong_gradient))
    assert found.graphs > 0
    assert found.times > 100
    assert not found.holds
    for error in found.compiled.values():
        assert error == pytest.approx(1e-4, rel=0.01)


def test_what_compiles_nothing_proves_nothing(config: DeepCFRConfig) -> None:
    found = gradient_error(config, eager_arm())
    assert (found.graphs, found.times, found.holds) == (0, 1.0, False)
    run = gelu_run(config, eager_arm(), 3, lambda _: None)
    assert (run.graphs, set(run.apart.values()), run.holds) == (0, {0.0}, False)


def test_a_smooth_network_ends_up_the_same(config: DeepCFRConfig) -> None:
    said: list[str] = []
    found = gelu_run(config, compiled_arm(config), STEPS, said.append)
    assert found.graphs > 0
    assert 0 < found.apart[found.worst] <= LIMIT
    assert found.holds
    # Rounding in float32 is seen, and is no reason for a wider limit on a network as small as this.
    assert all(
        rounding > 0 and found.limit(name) == LIMIT for name, rounding in found.rounding.items()
    )
    assert all(moved > 0.05 for moved in found.moved.values())  # they had every chance to part
    assert said[1] == "500 steps with GELU, advantage, compile on"


def test_changed_parameters_are_found(config: DeepCFRConfig) -> None:
    found = gelu_run(config, compiled_with(slightly_larger), 50, lambda _: None)
    assert found.graphs > 0
    assert found.apart[found.worst] > LIMIT
    assert not found.holds
