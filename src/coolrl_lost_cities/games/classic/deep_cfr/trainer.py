"""Deep CFR (Brown et al. 2019) by outcome sampling, from the first weights to the last checkpoint.

Read `run_iteration`: everything else is what it calls, in the order in which it calls it.

Axes: B batch rows, A actions.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import (
    CheckpointError,
    load_checkpoint,
    save_checkpoint,
)
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    NetworkConfig,
    build_rules,
    config_to_mapping,
)
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encoding_size, permute_colors
from coolrl_lost_cities.games.classic.deep_cfr.evaluate import play_matches
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import InferenceServer
from coolrl_lost_cities.games.classic.deep_cfr.memory import Batch, ReservoirMemory
from coolrl_lost_cities.games.classic.deep_cfr.metrics import (
    Metrics,
    PhaseTimes,
    append_metrics,
    truncate_metrics,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network, load_networks
from coolrl_lost_cities.games.classic.deep_cfr.policies import (
    Policy,
    average_policy,
    current_policy,
)
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    Counters,
    TraversalSamples,
    TraversalSpec,
    max_legal_actions,
    run_traversals,
)
from coolrl_lost_cities.games.classic.deep_cfr.workers import (
    Forward,
    TraversalPool,
    local_forward,
    traversal_advantages,
)

_TINY = 1e-30  # importance weights of long games may all vanish in float32
_NEVER = -1e9  # an infinite logit times a target of zero would be no number


class DeepCFRTrainer:
    """A run: two advantage networks, a strategy network, their memories, and any processes.

    Use it in a `with` block or call `close`. Writes only below `run.out`, which must exist.
    """

    def __init__(self, config: DeepCFRConfig, *, resume_from: Path | None = None) -> None:
        self._config = config
        self._rules = build_rules(config.rules)
        self._device = torch.device(config.run.device)
        self._out = Path(config.run.out)
        self.iteration = 0

        rate, decay = config.optimization.learning_rate, config.optimization.weight_decay
        self._advantage_networks = [build_network(config).to(self._device) for _ in range(2)]
        self._strategy_network = build_network(config).to(self._device)
        self._advantage_optimizers = [
            torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay, fused=True)
            for network in self._advantage_networks
        ]
        self._strategy_optimizer = torch.optim.AdamW(
            self._strategy_network.parameters(), lr=rate, weight_decay=decay, fused=True
        )
        if config.compile.trainer.enabled:
            _warn_below_threshold(config.network)
            compile_kwargs = dict(
                mode=config.compile.trainer.mode,
                fullgraph=config.compile.trainer.fullgraph,
                dynamic=config.compile.trainer.dynamic,
            )
            self._advantage_networks = [
                torch.compile(net, **compile_kwargs) for net in self._advantage_networks
            ]
            self._strategy_network = torch.compile(self._strategy_network, **compile_kwargs)

        seeds = np.random.SeedSequence(config.run.seed).spawn(6)
        self._traversal_seed, self._evaluation_seed, weights_seed = (_word(s) for s in seeds[:3])
        self._weights_generator = torch.Generator(self._device).manual_seed(weights_seed)
        self._batch_generator = np.random.default_rng(seeds[3])
        capacity = config.memory.advantage_capacity
        self._advantage_memories = [self._memory(capacity, s) for s in seeds[4].spawn(2)]
        self._strategy_memory = self._memory(config.memory.strategy_capacity, seeds[5])

        self._opponent_snapshot: list[dict[str, Tensor]] = []
        if resume_from is not None:
            self.load(resume_from)
            truncate_metrics(self._out / "metrics.jsonl", self.iteration)
        elif config.run.warm_start is not None:
            self.warm_start(Path(config.run.warm_start))

        # Last, so that a checkpoint that is refused leaves no process behind.
        self._server: InferenceServer | None = None
        self._pool: TraversalPool | None = None
        if config.traversal.inference_backend == "server":
            self._server = InferenceServer(config, max(1, config.traversal.num_workers))
        if config.traversal.num_workers > 0:
            self._pool = TraversalPool(config, self._server.clients if self._server else None)

    def run_iteration(self) -> Metrics:
        """Sample, learn, evaluate and save once; return what goes into the metrics file."""
        self.iteration += 1
        times = PhaseTimes()
        metrics: Metrics = {"iteration": self.iteration, "seconds": times.seconds}
        counters = []
        if (self.iteration - 1) % self._config.traversal.opponent_refresh_every == 0:
            self._freeze_opponent()
        for player in range(2):
            with times.measure("traversal"):
                samples = self._collect(player)
            with times.measure("memory"):
                weight = self._iteration_weight()
                self._advantage_memories[player].add(samples.advantage, weight)
                self._strategy_memory.add(samples.strategy, weight)
            with times.measure("advantage_training"):
                metrics[f"advantage_loss_{player}"] = self._train_advantage(player)
            counters.append(samples.counters)
        with times.measure("strategy_training"):
            metrics["strategy_loss"] = self._train_strategy()
        metrics |= self._traversal_metrics(counters, times.seconds["traversal"])
        if self._is_due(self._config.evaluation.eval_every):
            with times.measure("evaluation"):
                metrics["evaluation"] = self._evaluate(self._evaluation_snapshot())
        self._record(metrics, times)
        return metrics

    def _collect(self, player: int) -> TraversalSamples:
        """Traverse for one player with the networks as they are now."""
        settings = self._config.traversal
        spec = TraversalSpec(
            seed=self._traversal_seed,
            iteration=self.iteration,
            traverser=player,
            first_id=0,
            num_traversals=settings.traversals_per_iteration,
            lanes=settings.lanes,
            exploration=settings.exploration,
        )
        if self._server is not None:
            self._push_server_weights()
        if self._pool is not None:
            self._pool.push_weights(self._worker_payload())
            return self._pool.collect(spec)
        advantages = traversal_advantages(self._config, player, self._forward())
        return run_traversals(self._rules, spec, advantages)

    def _forward(self) -> Forward:
        """Return what answers for the networks when this process traverses by itself."""
        if self._server is not None:
            return self._server.clients[0].forward
        return local_forward(load_networks(self._config, self._worker_payload()["networks"]))

    def _worker_payload(self) -> dict[str, Any]:
        """Return what the workers need: no weights where a server answers for them."""
        if self._config.traversal.inference_backend == "server":
            networks: list[dict[str, Tensor]] = []
        else:
            networks = [
                _on_cpu(_clean_state_dict(network.state_dict()))
                for network in self._advantage_networks
            ]
            networks += self._opponent_snapshot
        return {"networks": networks}

    def _push_server_weights(self) -> None:
        """Have the server answer from the networks as they are now."""
        assert self._server is not None
        weights = [
            _on_cpu(_clean_state_dict(network.state_dict())) for network in self._advantage_networks
        ]
        self._server.push_weights([*weights, *self._opponent_snapshot])

    def _freeze_opponent(self) -> None:
        """Keep the networks as they are now for the traverser's opponent, where that is wanted."""
        if self._config.traversal.opponent == "frozen":
            self._opponent_snapshot = [
                _on_cpu(_clean_state_dict(network.state_dict()))
                for network in self._advantage_networks
            ]

    def _train_advantage(self, player: int) -> float:
        """Fit a player's advantage network to its memory; return the mean loss."""
        settings = self._config.optimization
        network = self._advantage_networks[player]
        optimizer = self._advantage_optimizers[player]
        memory = self._advantage_memories[player]
        if settings.reinitialize_advantage:
            network.reset_parameters(self._weights_generator)
            optimizer.state.clear()
        if len(memory) == 0:
            return 0.0
        # Regret matching does not see the scale of the advantages; the learning rate does.
        scale = memory.value_scale()
        total = torch.zeros((), device=self._device)
        for _ in range(settings.advantage_steps):
            batch = self._draw(memory, settings.advantage_batch_size)
            outputs_BA = network(self._tensor(batch.features_BE))
            loss = advantage_loss(
                outputs_BA,
                self._tensor(batch.targets_BA) / scale,
                self._tensor(batch.legal_BA),
                self._tensor(batch.weights_B),
            )
            total += self._step(network, optimizer, loss)
        return total.item() / settings.advantage_steps

    def _train_strategy(self) -> float:
        """Fit the strategy network further to all policies played so far; return the mean loss."""
        settings = self._config.optimization
        memory = self._strategy_memory
        if len(memory) == 0:
            return 0.0
        total = torch.zeros((), device=self._device)
        for _ in range(settings.strategy_steps):
            batch = self._draw(memory, settings.strategy_batch_size)
            outputs_BA = self._strategy_network(self._tensor(batch.features_BE))
            loss = strategy_loss(
                outputs_BA,
                self._tensor(batch.targets_BA),
                self._tensor(batch.legal_BA),
                self._tensor(batch.weights_B),
            )
            total += self._step(self._strategy_network, self._strategy_optimizer, loss)
        return total.item() / settings.strategy_steps

    def _step(self, network: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:
        """Take one clipped gradient step; return the loss, detached."""
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), self._config.optimization.grad_clip)
        optimizer.step()
        return loss.detach()

    def _draw(self, memory: ReservoirMemory, batch_size: int) -> Batch:
        """Sample a batch, its colors renamed at random where the configuration asks for that."""
        batch = memory.sample(batch_size, self._batch_generator)
        if not self._config.encoding.permute_colors:
            return batch
        order = self._batch_generator.permutation(self._rules.num_colors).tolist()
        rules, features_BE = self._rules, batch.features_BE
        permuted_BE, targets_BA = permute_colors(rules, features_BE, batch.targets_BA, order)
        _, legal_BA = permute_colors(rules, features_BE, batch.legal_BA, order)
        return Batch(permuted_BE, legal_BA, targets_BA, batch.weights_B)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _iteration_weight(self) -> float:
        """Return what samples of this iteration weigh: its number in Linear CFR."""
        linear = self._config.training_weighting.kind == "linear"
        return float(self.iteration) if linear else 1.0

    def _is_due(self, every: int) -> bool:
        return every > 0 and self.iteration % every == 0

    def _evaluation_snapshot(self) -> dict[str, Any]:
        """Return the weights that evaluation plays with, copied so that training may go on."""
        return {
            "average": _on_cpu(_clean_state_dict(self._strategy_network.state_dict())),
            "current": [
                _on_cpu(_clean_state_dict(network.state_dict()))
                for network in self._advantage_networks
            ],
        }

    def _evaluate(self, snapshot: Mapping[str, Any]) -> Metrics:
        """Play matches with the policies of a snapshot; return the results by policy and bot."""
        settings = self._config.evaluation
        policies: dict[str, Policy] = {}
        if settings.policies in ("average", "both"):
            network = load_networks(self._config, [snapshot["average"]])[0]
            policies["average"] = average_policy(network)
        if settings.policies in ("current", "both"):
            policies["current"] = current_policy(load_networks(self._config, snapshot["current"]))
        return {
            name: {
                bot: asdict(
                    play_matches(self._rules, policy, bot, settings.games, self._evaluation_seed)
                )
                for bot in settings.opponents
            }
            for name, policy in policies.items()
        }

    def _traversal_metrics(self, counters: Sequence[Counters], seconds: float) -> Metrics:
        """Add up what both players' traversals did."""
        sums = {
            name: sum(getattr(part, name) for part in counters)
            for name in ("traversals", "nodes", "infostates", "forced_moves", "cut_games")
        }
        return {
            **sums,
            "traversals_per_s": sums["traversals"] / seconds,
            "infostates_per_s": sums["infostates"] / seconds,
            "advantage_samples": [len(memory) for memory in self._advantage_memories],
            "strategy_samples": len(self._strategy_memory),
        }

    def _record(self, metrics: Metrics, times: PhaseTimes) -> None:
        """Append the metrics, then save what is due.

        In this order a killed run has lines past its checkpoint, which resuming drops, and never a
        checkpoint without its line. The time to save is in the metrics returned, not in the file.
        """
        settings = self._config.checkpoint
        append_metrics(self._out / "metrics.jsonl", metrics)
        with times.measure("checkpoint"):
            if self._is_due(settings.save_every):
                self.save(self._out / f"iteration_{self.iteration:06d}.pt")
            if settings.save_latest:
                self.save(self._out / "latest.pt")

    def save(self, path: Path) -> None:
        """Write everything that `load` needs to go on bit for bit. Raises CheckpointError."""
        save_checkpoint(
            path,
            {
                "config": config_to_mapping(self._config),
                "iteration": self.iteration,
                "advantage_networks": [
                    _clean_state_dict(network.state_dict()) for network in self._advantage_networks
                ],
                "strategy_network": _clean_state_dict(self._strategy_network.state_dict()),
                "advantage_optimizers": [
                    optimizer.state_dict() for optimizer in self._advantage_optimizers
                ],
                "strategy_optimizer": self._strategy_optimizer.state_dict(),
                "advantage_memories": [memory.state_dict() for memory in self._advantage_memories],
                "strategy_memory": self._strategy_memory.state_dict(),
                "opponent_snapshot": self._opponent_snapshot,
                "weights_generator": self._weights_generator.get_state(),
                "batch_generator": json.dumps(self._batch_generator.bit_generator.state),
            },
        )

    def load(self, path: Path) -> None:
        """Continue from a checkpoint.

        Raises CheckpointError, with nothing changed, for one that cannot be read or that belongs
        to a run with other rules, networks or memory sizes.
        """
        contents = load_checkpoint(path)
        self._check_same(path, contents["config"], ("rules", "network", "memory"))
        stored = contents["advantage_networks"]
        for network, state_dict in zip(self._advantage_networks, stored, strict=True):
            getattr(network, "_orig_mod", network).load_state_dict(state_dict)
        getattr(self._strategy_network, "_orig_mod", self._strategy_network).load_state_dict(
            contents["strategy_network"]
        )
        stored = contents["advantage_optimizers"]
        for optimizer, state_dict in zip(self._advantage_optimizers, stored, strict=True):
            optimizer.load_state_dict(state_dict)
        self._strategy_optimizer.load_state_dict(contents["strategy_optimizer"])
        stored = contents["advantage_memories"]
        for memory, state_dict in zip(self._advantage_memories, stored, strict=True):
            memory.load_state_dict(state_dict)
        self._strategy_memory.load_state_dict(contents["strategy_memory"])
        self._opponent_snapshot = contents["opponent_snapshot"]
        self._weights_generator.set_state(contents["weights_generator"])
        self._batch_generator.bit_generator.state = json.loads(contents["batch_generator"])
        self.iteration = contents["iteration"]

    def warm_start(self, path: Path) -> None:
        """Take over the networks of another run's checkpoint, and nothing else of it.

        Raises CheckpointError for one that cannot be read or whose networks have another shape.
        """
        contents = load_checkpoint(path)
        self._check_same(path, contents["config"], ("rules", "network"))
        for player, state_dict in enumerate(contents["advantage_networks"]):
            getattr(
                self._advantage_networks[player], "_orig_mod", self._advantage_networks[player]
            ).load_state_dict(state_dict)
        getattr(self._strategy_network, "_orig_mod", self._strategy_network).load_state_dict(
            contents["strategy_network"]
        )

    def close(self) -> None:
        """End the processes of the run, if it has any; a second call does nothing."""
        if self._pool is not None:
            self._pool.close()
        if self._server is not None:
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_same(self, path: Path, stored: Mapping[str, Any], sections: Sequence[str]) -> None:
        """Raise CheckpointError for the first key of these sections that the runs do not share."""
        own = config_to_mapping(self._config)
        for section in sections:
            for key, value in own[section].items():
                was = stored.get(section, {}).get(key)
                if was != value:
                    raise CheckpointError(
                        path,
                        f"was written with {section}.{key}: {was}, this run has {value}",
                        f"set {section}.{key} to the stored value, or start afresh",
                    )

    def _memory(self, capacity: int, seed: np.random.SeedSequence) -> ReservoirMemory:
        rules = self._rules
        return ReservoirMemory(
            capacity,
            encoding_size(rules),
            rules.num_actions,
            max_legal_actions(rules),
            np.random.default_rng(seed),
        )


def advantage_loss(
    outputs_BA: Tensor, targets_BA: Tensor, legal_BA: Tensor, weights_B: Tensor
) -> Tensor:
    """Return the weighted mean over rows of the squared error summed over legal actions.

    Weights count relative to each other: their scale, which grows with the iterations, does not.
    """
    errors_B = ((outputs_BA - targets_BA) * legal_BA).square().sum(dim=1)
    return (weights_B * errors_B).sum() / weights_B.sum().clamp_min(_TINY)


def strategy_loss(
    outputs_BA: Tensor, targets_BA: Tensor, legal_BA: Tensor, weights_B: Tensor
) -> Tensor:
    """Return the weighted mean over rows of the cross-entropy to the played policies, in nats.

    Like the squared error of Brown et al. 2019 (sec. 5) it is smallest at the weighted average.
    """
    log_BA = functional.log_softmax(outputs_BA.masked_fill(~legal_BA, _NEVER), dim=1)
    entropy_B = -(targets_BA * log_BA).sum(dim=1)
    return (weights_B * entropy_B).sum() / weights_B.sum().clamp_min(_TINY)


def _on_cpu(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies on the CPU that training no longer touches."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in state_dict.items()}


def _clean_state_dict(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state_dict with the keys of the module that torch.compile wrapped."""
    return {name.removeprefix("_orig_mod."): tensor for name, tensor in state_dict.items()}


def _warn_below_threshold(network: NetworkConfig) -> None:
    """Log that torch.compile is expected to slow a network of this size down."""
    attentive = network.kind == "color_shared" and network.color_attention_layers >= 2
    if network.hidden_size >= 1024 or network.num_layers >= 6 or attentive:
        return
    logging.getLogger(__name__).warning(
        "compile.trainer.enabled is true for a network of %d x %d: torch.compile has been measured "
        "to slow networks down below hidden_size 1024, num_layers 6 or 2 attention layers",
        network.hidden_size,
        network.num_layers,
    )


def _word(seed: np.random.SeedSequence) -> int:
    """Return 63 bits of a seed sequence, for generators that start from one number."""
    return int(seed.generate_state(1, np.uint64)[0] >> np.uint64(1))
