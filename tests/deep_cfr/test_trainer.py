"""The trainer as a whole: what it repeats bit for bit, and what it keeps and refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import CheckpointError, load_checkpoint
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, load_config
from coolrl_lost_cities.games.classic.deep_cfr.fitting import cross_entropy, squared_error
from coolrl_lost_cities.games.classic.deep_cfr.metrics import read_metrics, without_times
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer

SMALL = [
    "rules.num_colors=3",
    "rules.num_ranks=4",
    "rules.num_wagers=1",
    "rules.hand_size=3",
    "rules.max_steps=40",
    "network.hidden_size=16",
    "network.num_layers=2",
    "traversal.traversals_per_iteration=40",
    "traversal.lanes=16",
    "traversal.exploration=0.5",
    "optimization.advantage_batch_size=64",
    "optimization.strategy_batch_size=64",
    "optimization.advantage_steps=6",
    "optimization.strategy_steps=6",
    "memory.advantage_capacity=600",
    "memory.strategy_capacity=600",
    "evaluation.eval_every=2",
    "evaluation.games=10",
    "evaluation.opponents=[random]",
]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)  # bits repeat on one thread only


def config_in(folder: Path, *overrides: str) -> DeepCFRConfig:
    folder.mkdir(exist_ok=True)
    return load_config(None, [*SMALL, f"run.out={folder}", *overrides])


def run(config: DeepCFRConfig, iterations: int, resume_from: Path | None = None) -> dict[str, Any]:
    """Train, and return the state at the end as a checkpoint has it, without where it lies."""
    with DeepCFRTrainer(config, resume_from=resume_from) as trainer:
        while trainer.iteration < iterations:
            trainer.run_iteration()
    state = load_checkpoint(Path(config.run.out) / "latest.pt")
    del state["config"]
    return state


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Return where two nested states differ in a bit."""
    if isinstance(one, torch.Tensor):
        return [] if one.dtype == other.dtype and torch.equal(one, other) else [path]
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return [f"{path}: {sorted(one.keys() ^ other.keys(), key=str)}"]
        return [d for key in one for d in differences(one[key], other[key], f"{path}.{key}")]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [path]
        pairs = enumerate(zip(one, other, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{path}[{i}]")]
    return [] if one == other else [path]


def lines(config: DeepCFRConfig) -> list[dict[str, Any]]:
    return [without_times(line) for line in read_metrics(Path(config.run.out) / "metrics.jsonl")]


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("traversal.opponent=frozen", "traversal.opponent_refresh_every=3"),
        ("optimization.reinitialize_advantage=false", "encoding.permute_colors=true"),
        ("network.kind=color_shared", "training_weighting.kind=uniform"),
    ],
    ids=["default", "frozen", "permuted", "color_shared"],
)
def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    unbroken = config_in(tmp_path / "unbroken", *overrides)
    whole = run(unbroken, 4)
    broken = config_in(tmp_path / "broken", *overrides)
    half = run(broken, 2)
    assert len(differences(half, whole)) > 10
    assert half["strategy_memories"][0]["num_seen"] > 600  # the reservoirs have begun to replace
    again = run(broken, 4, resume_from=tmp_path / "broken" / "latest.pt")
    assert differences(again, whole) == []
    assert lines(broken) == lines(unbroken)
    assert [line["iteration"] for line in lines(broken)] == [1, 2, 3, 4]


def test_resuming_an_older_checkpoint_drops_the_lines_after_it(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run", "checkpoint.save_every=1")
    whole = run(config, 3)
    wanted = lines(config)
    again = run(config, 3, resume_from=tmp_path / "run" / "iteration_000001.pt")
    assert differences(again, whole) == []
    assert lines(config) == wanted


def test_a_run_killed_after_its_last_checkpoint_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    unbroken = config_in(tmp_path / "unbroken")
    whole = run(unbroken, 4)
    broken = config_in(tmp_path / "broken", "checkpoint.latest_every=2")
    half = run(broken, 3)  # whatever ends it here, this is what it leaves
    assert half["iteration"] == 2
    assert load_checkpoint(tmp_path / "broken" / "networks.pt")["iteration"] == 2
    assert [line["iteration"] for line in lines(broken)] == [1, 2, 3]
    again = run(broken, 4, resume_from=tmp_path / "broken" / "latest.pt")
    assert differences(again, whole) == []
    assert lines(broken) == lines(unbroken)


def test_the_last_iteration_is_kept_and_so_is_one_that_is_asked_for(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run", "checkpoint.latest_every=5", "run.iterations=3")
    latest = tmp_path / "run" / "latest.pt"
    with DeepCFRTrainer(config) as trainer:
        for _ in range(2):
            trainer.run_iteration()
        assert not latest.exists()
        trainer.save_latest()
        assert load_checkpoint(latest)["iteration"] == 2
        trainer.run_iteration()
        assert load_checkpoint(latest)["iteration"] == 3
        written = latest.stat().st_ino
        trainer.save_latest()
        assert latest.stat().st_ino == written  # it is there already


def test_networks_alone_are_kept_beside_the_latest_checkpoint(tmp_path: Path) -> None:
    whole = run(config_in(tmp_path / "run"), 2)
    path = tmp_path / "run" / "networks.pt"
    networks = load_checkpoint(path)
    assert networks.pop("config")["network"]["hidden_size"] == 16
    expected = ["advantage_networks", "iteration", "strategy_network", "value_networks"]
    assert sorted(networks) == expected
    assert differences(networks, {name: whole[name] for name in networks}) == []
    with pytest.raises(CheckpointError, match=r"networks\.pt: holds networks alone, .* latest\.pt"):
        DeepCFRTrainer(config_in(tmp_path / "other"), resume_from=path)
    start = config_in(tmp_path / "start", f"run.warm_start={path}")
    with DeepCFRTrainer(start) as trainer:
        stored = trainer._strategy_network.state_dict()
    assert differences(stored, whole["strategy_network"]) == []


def test_the_networks_of_the_default_run_are_a_file_of_less_than_ten_megabytes() -> None:
    parameters = build_network(load_config(None)).parameters()
    assert 3 * 4 * sum(parameter.numel() for parameter in parameters) < 9.9e6


ESCHER = (
    "estimator.kind=escher",
    "network.shared_seats=true",
    "network.kind=color_shared",
    "value.hidden_size=16",
    "value.num_layers=2",
    "value.steps=6",
    "value.batch_size=64",
    "value.capacity=500",
    "memory.keep=latest",
    "optimization.reinitialize_advantage=false",
)


@pytest.mark.parametrize(
    "overrides",
    [
        ("estimator.baseline=learned", *ESCHER[2:7]),
        ("estimator.kind=escher", *ESCHER[2:7]),
        ("network.shared_seats=true",),
        (
            "traversal.opponent=frozen",
            "traversal.opponent_refresh_every=2",
            "estimator.kind=escher",
            *ESCHER[2:7],
        ),
        (*ESCHER, "training_weighting.kind=discounted", "encoding.permute_colors=true"),
    ],
    ids=["learned", "escher", "shared", "frozen", "all"],
)
def test_every_estimator_resumes_as_if_it_had_not_stopped(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    unbroken = run(config_in(tmp_path / "whole", *overrides), 4)
    halves = config_in(tmp_path / "halves", *overrides)
    run(halves, 2)
    resumed = run(halves, 4, resume_from=tmp_path / "halves" / "latest.pt")
    assert differences(unbroken, resumed) == []


def test_a_linear_schedule_ends_at_nothing_and_survives_a_resume(tmp_path: Path) -> None:
    linear = (
        "optimization.schedule=linear",
        "run.iterations=4",
        "optimization.learning_rate=0.004",
    )
    unbroken = run(config_in(tmp_path / "whole", *ESCHER, *linear), 4)
    halves = config_in(tmp_path / "halves", *ESCHER, *linear)
    run(halves, 2)
    assert differences(unbroken, run(halves, 4, tmp_path / "halves" / "latest.pt")) == []
    rates = [line["learning_rate"] for line in lines(halves)]
    assert rates == pytest.approx([0.004, 0.003, 0.002, 0.001])
    for name, rate in (("value", 2.5e-4), ("advantage", 0.001)):
        (optimizer,) = unbroken[f"{name}_optimizers"]
        assert optimizer["param_groups"][0]["lr"] == pytest.approx(rate)


def test_training_side_by_side_changes_nothing(tmp_path: Path) -> None:
    one_by_one = run(config_in(tmp_path / "one", *ESCHER), 3)
    concurrent = config_in(tmp_path / "together", *ESCHER, "optimization.concurrent=true")
    assert differences(one_by_one, run(concurrent, 3)) == []


def test_values_are_learned_and_both_players_of_every_game_teach(tmp_path: Path) -> None:
    capacities = ("value", "memory.advantage", "memory.strategy")
    roomy = [f"{name}{'_' if '.' in name else '.'}capacity=4000" for name in capacities]
    config = config_in(tmp_path / "run", *ESCHER, *roomy, "value.steps=100")
    state = run(config, 6)
    assert len(state["advantage_networks"]) == len(state["value_networks"]) == 1
    first, *_, last = lines(config)
    assert first["advantage_samples"] == [first["infostates"]]
    assert first["strategy_samples"] == first["infostates"]
    assert last["value_loss"] < first["value_loss"] / 2
    assert "advantage_loss_1" not in first


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    one = run(config_in(tmp_path / "one"), 1)
    other = run(config_in(tmp_path / "other", "run.seed=1"), 1)
    differing = differences(one, other)
    for part in ("strategy_network", "advantage_networks[0]", "strategy_memories[0].records"):
        assert any(part in path for path in differing)


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ("traversal.num_workers=2", "traversal.opponent=frozen"),
        ("traversal.num_workers=2", "traversal.inference_backend=server"),
        ("traversal.inference_backend=server", "traversal.opponent=frozen"),
    ],
    ids=["workers", "workers_and_server", "server"],
)
def test_workers_and_servers_change_nothing(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    refresh = "traversal.opponent_refresh_every=2"
    alone = [text for text in overrides if "opponent" in text]
    wanted_config = config_in(tmp_path / "alone", refresh, *alone)
    wanted = run(wanted_config, 3)
    config = config_in(tmp_path / "run", refresh, *overrides)
    assert differences(run(config, 3), wanted) == []
    assert lines(config) == lines(wanted_config)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["local", "server"])
def test_workers_and_servers_answer_for_value_networks_too(tmp_path: Path, backend: str) -> None:
    alone = run(config_in(tmp_path / "alone", *ESCHER), 2)
    processes = ("traversal.num_workers=2", f"traversal.inference_backend={backend}")
    together = run(config_in(tmp_path / "together", *ESCHER, *processes), 2)
    assert differences(alone, together) == []


@pytest.mark.parametrize("opponent", ["current", "frozen"])
def test_a_worker_payload_is_plain_copies_on_the_cpu(tmp_path: Path, opponent: str) -> None:
    config = config_in(tmp_path / "run", f"traversal.opponent={opponent}")
    with DeepCFRTrainer(config) as trainer:
        trainer.run_iteration()
        networks = trainer._worker_payload()["networks"]
        live = [*trainer._advantage_networks[0].parameters()]
    assert len(networks) == (4 if opponent == "frozen" else 2)
    live_storage = {parameter.data_ptr() for parameter in live}
    for state_dict in networks:
        assert list(state_dict) == list(trainer._strategy_network.state_dict())
        for tensor in state_dict.values():
            assert type(tensor) is torch.Tensor
            assert tensor.device.type == "cpu"
            assert tensor.data_ptr() not in live_storage


def test_a_frozen_opponent_is_refreshed_when_due_and_not_before(tmp_path: Path) -> None:
    overrides = ("traversal.opponent=frozen", "traversal.opponent_refresh_every=2")
    seen = []
    with DeepCFRTrainer(config_in(tmp_path / "run", *overrides)) as trainer:
        for _ in range(5):
            before = [
                {name: tensor.clone() for name, tensor in network.state_dict().items()}
                for network in trainer._advantage_networks
            ]
            trainer.run_iteration()
            seen.append(differences(trainer._opponent_snapshot, before) == [])
    assert seen == [True, False, True, False, True]


def test_a_network_starts_anew_in_place(tmp_path: Path) -> None:
    """Networks, parameters and optimizers stay the same objects; weights and moments do not."""
    config = config_in(tmp_path / "run", "optimization.advantage_steps=1")
    with DeepCFRTrainer(config) as trainer:
        network, optimizer = trainer._advantage_networks[0], trainer._advantage_optimizers[0]
        parameters = list(network.parameters())
        for _ in range(2):
            trainer.run_iteration()
        assert trainer._advantage_networks[0] is network
        assert all(a is b for a, b in zip(network.parameters(), parameters, strict=True))
        grouped = optimizer.param_groups[0]["params"]
        assert all(a is b for a, b in zip(grouped, parameters, strict=True))
        assert {float(state["step"]) for state in optimizer.state.values()} == {1.0}
    kept = config_in(
        tmp_path / "kept",
        "optimization.advantage_steps=1",
        "optimization.reinitialize_advantage=false",
    )
    with DeepCFRTrainer(kept) as trainer:
        for _ in range(2):
            trainer.run_iteration()
        optimizer = trainer._advantage_optimizers[0]
        assert {float(state["step"]) for state in optimizer.state.values()} == {2.0}


def test_warm_start_takes_over_networks_alone(tmp_path: Path) -> None:
    stored = run(config_in(tmp_path / "first"), 2)
    source = tmp_path / "first" / "latest.pt"
    config = config_in(tmp_path / "second", f"run.warm_start={source}", "run.seed=7")
    with DeepCFRTrainer(config) as trainer:
        assert trainer.iteration == 0
        assert len(trainer._strategy_memory) == 0
        assert not trainer._strategy_optimizer.state
        networks = [network.state_dict() for network in trainer._advantage_networks]
        assert differences(networks, stored["advantage_networks"]) == []
        strategy = trainer._strategy_network.state_dict()
        assert differences(strategy, stored["strategy_network"]) == []


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("network.hidden_size=8", r"with network.hidden_size: 16, this run has 8"),
        ("rules.max_steps=30", r"with rules.max_steps: 40, this run has 30"),
        ("memory.strategy_capacity=500", r"with memory.strategy_capacity: 600, this run has 500"),
    ],
)
def test_another_runs_checkpoint_is_refused(tmp_path: Path, override: str, message: str) -> None:
    run(config_in(tmp_path / "first"), 1)
    with pytest.raises(CheckpointError, match=message):
        DeepCFRTrainer(
            config_in(tmp_path / "second", override), resume_from=tmp_path / "first" / "latest.pt"
        )


def test_warm_start_may_have_other_memories_but_not_other_networks(tmp_path: Path) -> None:
    run(config_in(tmp_path / "first"), 1)
    start = f"run.warm_start={tmp_path / 'first' / 'latest.pt'}"
    DeepCFRTrainer(config_in(tmp_path / "memory", start, "memory.strategy_capacity=5")).close()
    with pytest.raises(CheckpointError, match=r"network\.num_layers: 2, this run has 3"):
        DeepCFRTrainer(config_in(tmp_path / "network", start, "network.num_layers=3"))


def test_metrics_tell_what_happened(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    state = run(config, 2)
    first, second = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert first["traversals"] == 80
    assert first["nodes"] == first["infostates"] + first["forced_moves"]
    assert first["infostates"] > 500
    assert sum(first["advantage_samples"]) + first["strategy_samples"] <= first["infostates"]
    assert second["advantage_samples"] == [600, 600] == [state["iteration"] * 300] * 2
    assert set(first["seconds"]) == {
        "traversal", "memory", "advantage_training", "diagnostics", "strategy_training",
    }  # fmt: skip
    # Predicting zero costs 1 in these units, a uniform policy the log of the number of actions.
    assert 0.3 < first["advantage_loss_0"] < 3.0
    assert 0.0 < first["strategy_loss"] < np.log(6.0) + 0.5
    assert "evaluation" not in first
    assert set(second["evaluation"]) == {"average", "current"}
    result = second["evaluation"]["average"]["random"]
    assert result["wins"] + result["draws"] + result["losses"] == 10


def test_checkpoints_are_those_that_are_asked_for(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run", "checkpoint.save_latest=false", "checkpoint.save_every=2")
    with DeepCFRTrainer(config) as trainer:
        for _ in range(4):
            trainer.run_iteration()
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == ["iteration_000002.pt", "iteration_000004.pt", "metrics.jsonl"]
    assert json.loads(load_checkpoint(tmp_path / "run" / files[0])["batch_generators"]["strategy"])


def test_advantage_loss_counts_legal_actions_by_weight() -> None:
    outputs_BA = torch.tensor([[1.0, 2.0, 50.0], [0.0, 1.0, 3.0]])
    targets_BA = torch.tensor([[0.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    legal_BA = torch.tensor([[True, True, False], [True, True, True]])
    loss = squared_error(outputs_BA, targets_BA, legal_BA, torch.tensor([3.0, 1.0]))
    assert loss.item() == pytest.approx((3 * (1 + 4) + 1 * (0 + 1 + 4)) / 4)
    scaled = squared_error(outputs_BA, targets_BA, legal_BA, torch.tensor([3e4, 1e4]))
    assert scaled.item() == pytest.approx(loss.item())
    vanished = squared_error(outputs_BA, targets_BA, legal_BA, torch.zeros(2))
    assert vanished.item() == 0.0


def test_strategy_loss_is_smallest_at_the_weighted_average() -> None:
    """Two samples of one state, weights 3 and 1: the average policy is (0.75, 0.25, 0)."""
    targets_BA = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    legal_BA = torch.tensor([[True, True, False]] * 2)
    weights_B = torch.tensor([3.0, 1.0])
    logits = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=1.0)
    for _ in range(300):
        optimizer.zero_grad()
        loss = cross_entropy(logits.expand(2, 3), targets_BA, legal_BA, weights_B)
        loss.backward()
        optimizer.step()
    policy = torch.softmax(logits[:2], dim=0)
    assert policy.tolist() == pytest.approx([0.75, 0.25], abs=1e-4)
    assert loss.item() == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)), abs=1e-4)
    assert logits[2].item() == 0.0  # nothing pulls at an illegal action
