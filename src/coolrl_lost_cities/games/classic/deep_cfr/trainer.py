"""Deep CFR (Brown et al. 2019) on sampled games, from the first weights to the last checkpoint.

Read `run_iteration`: everything else is what it calls, in the order in which it calls it.

Axes: B batch rows, A actions.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from coolrl_lost_cities.games.classic.deep_cfr.backends import TraversalBackend
from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import (
    CheckpointError,
    check_same,
    load_checkpoint,
    save_checkpoint,
)
from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    NetworkConfig,
    build_rules,
    config_to_mapping,
)
from coolrl_lost_cities.games.classic.deep_cfr.diagnostics import (
    explained_share,
    first_rows,
    sample_metrics,
    traversal_metrics,
)
from coolrl_lost_cities.games.classic.deep_cfr.fitting import (
    Fit,
    Fitter,
    cross_entropy,
    set_learning_rate,
    squared_error,
)
from coolrl_lost_cities.games.classic.deep_cfr.inference import (
    Rows,
    check_precision,
    training_dtype,
)
from coolrl_lost_cities.games.classic.deep_cfr.matches import play_all
from coolrl_lost_cities.games.classic.deep_cfr.metrics import (
    Metrics,
    PhaseTimes,
    append_metrics,
    truncate_metrics,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import (
    answer_zero,
    build_network,
    build_value_network,
    forward_rows,
)
from coolrl_lost_cities.games.classic.deep_cfr.optimizers import AdamW
from coolrl_lost_cities.games.classic.deep_cfr.recompiles import compile_metrics
from coolrl_lost_cities.games.classic.deep_cfr.replay import build_memory, build_value_memory
from coolrl_lost_cities.games.classic.deep_cfr.served_networks import counts_as_metrics
from coolrl_lost_cities.games.classic.deep_cfr.steps import TrainingSteps
from coolrl_lost_cities.games.classic.deep_cfr.traversal import (
    BOTH,
    TraversalSamples,
    TraversalSpec,
)

_MEASURED = 2048  # samples of an iteration that tell how well a network fits


class DeepCFRTrainer:
    """A run: advantage, value and strategy networks, their memories, and any processes.

    Use it in a `with` block or call `close`. Writes only below `run.out`, which must exist.
    """

    def __init__(self, config: DeepCFRConfig, *, resume_from: Path | None = None) -> None:
        self._config = config
        self._rules = build_rules(config.rules)
        self._device = torch.device(config.run.device)
        check_precision(config.run.precision, self._device)
        self._out = Path(config.run.out)
        self.iteration = 0
        self._latest_saved = 0
        dtype = training_dtype(config.run.precision, self._device)
        compiling = config.compile.trainer
        whole = compiling.options if compiling.compiles_steps else None
        self._steps = TrainingSteps(dtype, self._device, config.optimization.grad_clip, whole)
        self._fitter = Fitter(
            self._steps,
            self._device,
            permute_colors=config.encoding.permute_colors,
            side_by_side=config.optimization.concurrent,
        )

        rate, decay = config.optimization.learning_rate, config.optimization.weight_decay
        seats = 1 if config.network.shared_seats else 2
        self._advantage_networks = [build_network(config).to(self._device) for _ in range(seats)]
        for network in self._advantage_networks:
            answer_zero(network)  # the first policy is uniform, as in Brown et al. 2019
        self._strategy_network = build_network(config).to(self._device)
        self._advantage_optimizers = [
            AdamW(net.parameters(), lr=rate, weight_decay=decay) for net in self._advantage_networks
        ]
        self._strategy_optimizer = AdamW(
            self._strategy_network.parameters(), lr=rate, weight_decay=decay
        )
        asked = 1 if config.estimator.asks_values else 0
        self._value_networks = [build_value_network(config).to(self._device) for _ in range(asked)]
        self._value_optimizers = [
            AdamW(network.parameters(), lr=config.value.learning_rate)
            for network in self._value_networks
        ]
        if config.compile.trainer.enabled:
            _warn_below_threshold(config.network)
        if config.compile.trainer.enabled and not compiling.compiles_steps:
            compile_kwargs = compiling.options
            self._advantage_networks = [
                torch.compile(net, **compile_kwargs) for net in self._advantage_networks
            ]
            self._strategy_network = torch.compile(self._strategy_network, **compile_kwargs)
            self._value_networks = [
                torch.compile(net, **compile_kwargs) for net in self._value_networks
            ]

        seeds = np.random.SeedSequence(config.run.seed).spawn(7)
        self._traversal_seed, self._evaluation_seed, weights_seed = (_word(s) for s in seeds[:3])
        self._weights_generator = torch.Generator(self._device).manual_seed(weights_seed)
        names, spawned = ("advantage", "strategy", "value"), seeds[3].spawn(3)
        self._batch_generators = {
            name: np.random.default_rng(seed) for name, seed in zip(names, spawned, strict=True)
        }
        memory, rules = config.memory, self._rules
        self._advantage_memories = [
            build_memory(rules, memory.advantage_capacity, np.random.default_rng(seed), memory.keep)
            for seed in seeds[4].spawn(seats)
        ]
        self._strategy_memory = build_memory(
            rules, memory.strategy_capacity, np.random.default_rng(seeds[5])
        )
        self._value_memory = build_value_memory(
            rules, asked * config.value.capacity, np.random.default_rng(seeds[6])
        )

        self._opponent_snapshot: list[dict[str, Tensor]] = []
        if resume_from is not None:
            self.load(resume_from)
            truncate_metrics(self._out / "metrics.jsonl", self.iteration)
        elif config.run.warm_start is not None:
            self.warm_start(Path(config.run.warm_start))

        # Last, so that a checkpoint that is refused leaves no process behind.
        self._backend = TraversalBackend(config)

    def run_iteration(self) -> Metrics:
        """Sample, learn, evaluate and save once; return what goes into the metrics file."""
        self.iteration += 1
        times = PhaseTimes()
        metrics: Metrics = {"iteration": self.iteration, "seconds": times.seconds}
        metrics |= {"parts": times.parts, "learning_rate": self._set_learning_rates()}
        counters, said = [], []
        if (self.iteration - 1) % self._config.traversal.opponent_refresh_every == 0:
            self._freeze_opponent()
        for traverser in self._traversers():
            seat = min(traverser, len(self._advantage_networks) - 1)
            with times.measure("traversal"):
                samples = self._collect(traverser)
            times.add_part("forward", samples.counters.forward_s)
            with times.measure("memory"):
                self._remember(seat, samples)
            metrics |= self._fit(seat, times, everything=traverser == self._traversers()[-1])
            with times.measure("diagnostics"):
                said.append(sample_metrics(samples) | {"explained": self._explained(seat, samples)})
            counters.append(samples.counters)
        metrics |= traversal_metrics(counters, times.seconds["traversal"])
        metrics["advantage_samples"] = [len(memory) for memory in self._advantage_memories]
        metrics["strategy_samples"] = len(self._strategy_memory)
        metrics |= {name: sum(part[name] for part in said) / len(said) for name in said[0]}
        if self._is_due(self._config.evaluation.eval_every):
            with times.measure("evaluation"):
                metrics["evaluation"] = self._evaluate(self._evaluation_snapshot())
        if (counts := self._backend.take_counts()) is not None:
            metrics["inference_server"] = counts_as_metrics(counts)
        metrics |= compile_metrics(self._config.compile.trainer.enabled)
        self._record(metrics, times)
        return metrics

    def _traversers(self) -> tuple[int, ...]:
        """Return who explores: one player after the other, or both at once."""
        both = self._config.estimator.kind == "escher" and self._config.network.shared_seats
        return (BOTH,) if both else (0, 1)

    def _collect(self, traverser: int) -> TraversalSamples:
        """Traverse for one player, or both, with the networks as they are now."""
        settings, estimator = self._config.traversal, self._config.estimator
        spec = TraversalSpec(
            seed=self._traversal_seed,
            iteration=self.iteration,
            traverser=traverser,
            first_id=0,
            num_traversals=settings.traversals_per_iteration,
            lanes=settings.lanes,
            exploration=settings.exploration,
            estimator=estimator.kind,
            baseline=estimator.baseline,
            trace_decay=self._config.value.trace_decay,
            # Two networks answer for two players as soon as one of them is frozen.
            shared_seats=self._config.network.shared_seats and settings.opponent == "current",
        )
        return self._backend.collect(spec, self._worker_payload()["networks"])

    def _set_learning_rates(self) -> float:
        """Give every optimizer its rate for this iteration; return the advantage networks'."""
        settings, run = self._config.optimization, self._config.run
        linear = settings.schedule == "linear"
        share = 1 - (self.iteration - 1) / run.iterations if linear else 1.0
        policies = [*self._advantage_optimizers, self._strategy_optimizer]
        set_learning_rate(policies, settings.learning_rate * share)
        set_learning_rate(self._value_optimizers, self._config.value.learning_rate * share)
        return settings.learning_rate * share

    def _remember(self, seat: int, samples: TraversalSamples) -> None:
        advantage, strategy = self._config.training_weighting.exponents
        self._advantage_memories[seat].add(samples.advantage, float(self.iteration**advantage))
        self._strategy_memory.add(samples.strategy, float(self.iteration**strategy))
        if self._value_networks:
            self._value_memory.add(samples.values)

    def _fit(self, seat: int, times: PhaseTimes, *, everything: bool) -> Metrics:
        """Fit a seat's advantage network, and once an iteration all that is not a seat's own."""
        fits = {f"advantage_loss_{seat}": self._advantage_fit(seat)}
        if everything:
            if self._value_networks:
                fits["value_loss"] = self._value_fit()
            fits["strategy_loss"] = self._strategy_fit()
        return dict(zip(fits, self._fitter.run(list(fits.values()), times), strict=True))

    def _worker_payload(self) -> dict[str, Any]:
        """Return the weights that traversals are played with, copied."""
        networks, values = (
            [_on_cpu(_clean_state_dict(network.state_dict())) for network in some]
            for some in (self._advantage_networks, self._value_networks)
        )
        return {"networks": [*networks, *self._opponent_snapshot, *values]}

    def _freeze_opponent(self) -> None:
        """Keep the networks as they are now for the traverser's opponent, where that is wanted."""
        if self._config.traversal.opponent == "frozen":
            self._opponent_snapshot = [
                _on_cpu(_clean_state_dict(network.state_dict()))
                for network in self._advantage_networks
            ]

    def _advantage_fit(self, seat: int) -> Fit:
        """Return what fits an advantage network to its memory, from new weights if so wanted."""
        settings = self._config.optimization
        if settings.reinitialize_advantage:
            self._advantage_networks[seat].reset_parameters(self._weights_generator)
            self._advantage_optimizers[seat].state.clear()
        return Fit(
            "advantage_training",
            self._advantage_networks[seat],
            self._advantage_optimizers[seat],
            self._advantage_memories[seat],
            self._batch_generators["advantage"],
            squared_error,
            settings.advantage_steps,
            settings.advantage_batch_size,
            self._target_scale(seat),
        )

    def _value_fit(self) -> Fit:
        """Return what fits the value network further to the latest games."""
        settings = self._config.value
        return Fit(
            "value_training",
            self._value_networks[0],
            self._value_optimizers[0],
            self._value_memory,
            self._batch_generators["value"],
            squared_error,
            settings.steps,
            settings.batch_size,
            self._rules.value_unit,
        )

    def _strategy_fit(self) -> Fit:
        """Return what fits the strategy network further to all policies played so far."""
        settings = self._config.optimization
        return Fit(
            "strategy_training",
            self._strategy_network,
            self._strategy_optimizer,
            self._strategy_memory,
            self._batch_generators["strategy"],
            cross_entropy,
            settings.strategy_steps,
            settings.strategy_batch_size,
        )

    def _target_scale(self, seat: int) -> float:
        """Return the points that an output of 1 stands for.

        Regret matching does not see the scale of the advantages; the learning rate does. A network
        that goes on from its weights needs one that stays.
        """
        if self._config.optimization.reinitialize_advantage:
            return self._advantage_memories[seat].value_scale()
        return self._rules.value_unit / 3

    def _explained(self, seat: int, samples: TraversalSamples) -> float:
        """Return R2 of a seat's network on the first of an iteration's samples."""
        first = first_rows(samples.advantage, _MEASURED)
        network = self._advantage_networks[seat]
        outputs_SA = forward_rows(getattr(network, "_orig_mod", network), first.features_SE)
        return explained_share(first, outputs_SA, self._target_scale(seat))

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
        networks = [snapshot["average"], *snapshot["current"]]
        return self._backend.answered(networks, self._play_matches)

    def _play_matches(self, answers: Sequence[Rows]) -> Metrics:
        """Do that with the strategy network's answers, then the advantage networks'."""
        settings, seed = self._config.evaluation, self._evaluation_seed
        return play_all(self._rules, settings, seed, answers[0], answers[1:])

    def _record(self, metrics: Metrics, times: PhaseTimes) -> None:
        """Append the metrics, then save what is due.

        In this order a killed run has lines past its checkpoint, which resuming drops, and never a
        checkpoint without its line. The time to save is in the metrics returned, not in the file.
        """
        settings = self._config.checkpoint
        append_metrics(self._out / "metrics.jsonl", metrics)
        last = self.iteration == self._config.run.iterations
        with times.measure("checkpoint"):
            if self._is_due(settings.save_every):
                self.save(self._out / f"iteration_{self.iteration:06d}.pt")
            if settings.save_latest and (last or self._is_due(settings.latest_every)):
                self.save_latest()

    def save_latest(self) -> None:
        """Write `latest.pt` and `networks.pt`, unless this iteration's are there already."""
        if self._latest_saved != self.iteration:
            self.save(self._out / "latest.pt")
            save_checkpoint(self._out / "networks.pt", self._networks_contents())
            self._latest_saved = self.iteration

    def _networks_contents(self) -> dict[str, Any]:
        """Return what is needed to play by the networks, or to start another run from them."""
        return {
            "config": config_to_mapping(self._config),
            "iteration": self.iteration,
            "advantage_networks": [
                _clean_state_dict(network.state_dict()) for network in self._advantage_networks
            ],
            "strategy_network": _clean_state_dict(self._strategy_network.state_dict()),
            "value_networks": [
                _clean_state_dict(network.state_dict()) for network in self._value_networks
            ],
        }

    def _stored_parts(self) -> dict[str, list[Any]]:
        """Return what a run needs to go on, beside its networks and generators."""
        return {
            "advantage_optimizers": self._advantage_optimizers,
            "strategy_optimizers": [self._strategy_optimizer],
            "value_optimizers": self._value_optimizers,
            "advantage_memories": self._advantage_memories,
            "strategy_memories": [self._strategy_memory],
            "value_memories": [self._value_memory],
            "training_steps": [self._steps],
        }

    def save(self, path: Path) -> None:
        """Write everything that `load` needs to go on bit for bit. Raises CheckpointError."""
        save_checkpoint(
            path,
            self._networks_contents()
            | {
                name: [part.state_dict() for part in parts]
                for name, parts in self._stored_parts().items()
            }
            | {
                "opponent_snapshot": self._opponent_snapshot,
                "weights_generator": self._weights_generator.get_state(),
                "batch_generators": {
                    name: json.dumps(generator.bit_generator.state)
                    for name, generator in self._batch_generators.items()
                },
            },
        )

    def load(self, path: Path) -> None:
        """Continue from a checkpoint.

        Raises CheckpointError, with nothing changed, for one that cannot be read or that belongs
        to a run with other rules, networks or memory sizes.
        """
        contents = load_checkpoint(path)
        if "strategy_memories" not in contents:
            raise CheckpointError(
                path,
                "holds networks alone, from which a run cannot go on",
                "resume from latest.pt, or start afresh from these networks with run.warm_start",
            )
        sections = ("rules", "encoding", "network", "memory", "estimator", "value")
        check_same(path, contents["config"], config_to_mapping(self._config), sections)
        stored = contents["advantage_networks"]
        for network, state_dict in zip(self._advantage_networks, stored, strict=True):
            getattr(network, "_orig_mod", network).load_state_dict(state_dict)
        getattr(self._strategy_network, "_orig_mod", self._strategy_network).load_state_dict(
            contents["strategy_network"]
        )
        stored = contents["value_networks"]
        for network, state_dict in zip(self._value_networks, stored, strict=True):
            getattr(network, "_orig_mod", network).load_state_dict(state_dict)
        for name, parts in self._stored_parts().items():
            for part, state in zip(parts, contents[name], strict=True):
                part.load_state_dict(state)
        self._opponent_snapshot = contents["opponent_snapshot"]
        self._weights_generator.set_state(contents["weights_generator"])
        for name, state in contents["batch_generators"].items():
            self._batch_generators[name].bit_generator.state = json.loads(state)
        self.iteration = contents["iteration"]

    def warm_start(self, path: Path) -> None:
        """Take over the networks of another run's checkpoint, and nothing else of it.

        Raises CheckpointError for one that cannot be read or whose networks have another shape.
        """
        contents = load_checkpoint(path)
        sections = ("rules", "network", "value")
        check_same(path, contents["config"], config_to_mapping(self._config), sections)
        stored = contents["advantage_networks"]
        for network, state_dict in zip(self._advantage_networks, stored, strict=True):
            getattr(network, "_orig_mod", network).load_state_dict(state_dict)
        getattr(self._strategy_network, "_orig_mod", self._strategy_network).load_state_dict(
            contents["strategy_network"]
        )
        # Where only one of the runs has a value network, this one begins afresh.
        stored = contents["value_networks"]
        for network, state_dict in zip(self._value_networks, stored, strict=False):
            getattr(network, "_orig_mod", network).load_state_dict(state_dict)

    def close(self) -> None:
        """End the processes of the run, if it has any; a second call does nothing."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _on_cpu(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies on the CPU that training no longer touches."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in state_dict.items()}


def _clean_state_dict(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state_dict with the keys of the module that torch.compile wrapped."""
    return {name.removeprefix("_orig_mod."): tensor for name, tensor in state_dict.items()}


def _warn_below_threshold(network: NetworkConfig) -> None:
    """Log that torch.compile is expected to slow a network of this size down."""
    if network.worth_compiling:
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
