"""AdamW as torch's own, without what torch imports for code that is compiled around it."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from coolrl_lost_cities.games.classic.deep_cfr.optimizers import AdamW

STEP = """
import sys
import torch
from coolrl_lost_cities.games.classic.deep_cfr.steps import TrainingSteps
from coolrl_lost_cities.games.classic.deep_cfr.fitting import squared_error
from coolrl_lost_cities.games.classic.deep_cfr.optimizers import AdamW

network = torch.nn.Linear(3, 2)
optimizer = AdamW(network.parameters(), lr=0.1)
steps = TrainingSteps(torch.float32, torch.device("cpu"), 1.0)
batch = torch.ones(4, 3), torch.ones(4, 2), torch.ones(4, 2, dtype=torch.bool), torch.ones(4)
before = network.weight.detach().clone()
steps.fit(network, optimizer, squared_error, batch)
optimizer.load_state_dict(optimizer.state_dict())
print(not torch.equal(before, network.weight), "torch._dynamo" in sys.modules)
"""


def network_of(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3))


def take_steps(network: nn.Module, optimizer: torch.optim.Optimizer, first: int) -> None:
    for seed in range(first, first + 5):
        rows = torch.randn(8, 5, generator=torch.Generator().manual_seed(seed))
        optimizer.zero_grad()
        network(rows).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_it_takes_the_steps_of_torchs_own_to_the_bit_also_from_a_stored_state(decay):
    plain, ours = network_of(1), network_of(1)
    theirs = torch.optim.AdamW(plain.parameters(), lr=0.01, weight_decay=decay, fused=True)
    optimizer = AdamW(ours.parameters(), lr=0.01, weight_decay=decay)
    take_steps(plain, theirs, 0)
    take_steps(ours, optimizer, 0)
    restored = AdamW(ours.parameters(), lr=0.5)
    restored.load_state_dict(copy.deepcopy(theirs.state_dict()))  # it would share the tensors
    take_steps(plain, theirs, 5)
    take_steps(ours, restored, 5)
    start = network_of(1).state_dict()
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, ours.state_dict()[name])
        assert not torch.equal(tensor, start[name])
    assert theirs.state_dict()["param_groups"] == restored.state_dict()["param_groups"]


def test_a_step_that_is_not_compiled_imports_no_compiler():
    done = subprocess.run([sys.executable, "-c", STEP], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
