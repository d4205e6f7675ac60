"""Compiled optimizer steps: what torch's own steps give, one graph each, state in its place."""

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from coolrl_lost_cities.games.classic.deep_cfr.fitting import cross_entropy, squared_error
from coolrl_lost_cities.games.classic.deep_cfr.steps import TrainingSteps
from coolrl_lost_cities.games.classic.deep_cfr.whole_step import BatchTensors, Loss

CPU = torch.device("cpu")
OPTIONS = {"mode": "default", "fullgraph": False, "dynamic": False}


@pytest.fixture(autouse=True)
def _one_thread_and_nothing_compiled() -> None:
    torch.set_num_threads(1)
    torch._dynamo.reset()
    counters.clear()


def network_and_optimizer(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 5))
    rate = 0.01
    return network, torch.optim.AdamW(network.parameters(), rate, weight_decay=0.1, fused=True)


def batches(loss: Loss, count: int) -> list[BatchTensors]:
    generator = torch.Generator().manual_seed(3)
    found = []
    for _ in range(count):
        features_BE = torch.rand(16, 6, generator=generator)
        targets_BA = torch.rand(16, 5, generator=generator)
        legal_BA = torch.rand(16, 5, generator=generator) > 0.3
        legal_BA[:, 0] = True
        if loss is cross_entropy:
            targets_BA = targets_BA * legal_BA
            targets_BA = targets_BA / targets_BA.sum(dim=1, keepdim=True)
        found.append((features_BE, targets_BA, legal_BA, torch.rand(16, generator=generator)))
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("loss", [squared_error, cross_entropy])
@pytest.mark.parametrize("grad_clip", [0.05, 100.0], ids=["clipped", "free"])
def test_steps_are_those_of_torch(loss: Loss, dtype: torch.dtype, grad_clip: float) -> None:
    plain, compiled = network_and_optimizer(0), network_and_optimizer(0)
    eager = TrainingSteps(dtype, CPU, grad_clip)
    whole = TrainingSteps(dtype, CPU, grad_clip, OPTIONS)
    close = {"rtol": 1e-4, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 0.05, "atol": 2e-3}
    for number, batch in enumerate(batches(loss, 6)):
        for _, optimizer in (plain, compiled):
            optimizer.param_groups[0]["lr"] = 0.01 / (1 + number)
            if number == 3:
                optimizer.state.clear()
        torch.testing.assert_close(
            whole.fit(*compiled, loss, batch), eager.fit(*plain, loss, batch), **close
        )
    for one, other in zip(compiled[0].parameters(), plain[0].parameters(), strict=True):
        torch.testing.assert_close(one, other, **close)


def test_the_state_is_where_torch_keeps_it_and_goes_both_ways() -> None:
    plain, compiled = network_and_optimizer(0), network_and_optimizer(0)
    eager = TrainingSteps(torch.float32, CPU, 1.0)
    whole = TrainingSteps(torch.float32, CPU, 1.0, OPTIONS)
    first, second, third = batches(squared_error, 3)
    eager.fit(*plain, squared_error, first)
    whole.fit(*compiled, squared_error, first)
    torch.testing.assert_close(compiled[1].state_dict(), plain[1].state_dict())
    # Each goes on from what the other has stored.
    stored = compiled[1].state_dict(), plain[1].state_dict()
    plain[1].load_state_dict(stored[0])
    compiled[1].load_state_dict(stored[1])
    for batch in (second, third):
        eager.fit(*plain, squared_error, batch)
        whole.fit(*compiled, squared_error, batch)
    for one, other in zip(compiled[0].parameters(), plain[0].parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert float(compiled[1].state_dict()["state"][0]["step"]) == 3.0


def test_a_step_is_one_graph_and_is_compiled_once() -> None:
    network, optimizer = network_and_optimizer(0)
    whole = TrainingSteps(torch.float32, CPU, 1.0, OPTIONS)
    for number, batch in enumerate(batches(squared_error, 5)):
        optimizer.param_groups[0]["lr"] = 0.01 / (1 + number)
        if number == 2:
            network.load_state_dict(network.state_dict())
            optimizer.load_state_dict(optimizer.state_dict())
        whole.fit(network, optimizer, squared_error, batch)
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]
    assert not counters["recompiles"]


def test_networks_of_one_shape_do_not_meet_the_recompile_limit() -> None:
    whole = TrainingSteps(torch.float32, CPU, 1.0, OPTIONS)
    for seed in range(4):
        network, optimizer = network_and_optimizer(seed)
        for batch in batches(squared_error, 2):
            whole.fit(network, optimizer, squared_error, batch)
        assert float(optimizer.state_dict()["state"][0]["step"]) == 2.0
    assert counters["stats"]["unique_graphs"] <= 4
