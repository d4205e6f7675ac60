"""Benchmarks of what uses samples: the replay memory, optimiser steps and evaluation."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Spent, compared, in_turn, ratio, repeated
from benchmarks.products import fastest, layer_shapes, training_products
from benchmarks.workload import (
    Line,
    Sizes,
    a_spec,
    changed,
    shape_of,
    sized,
    some_networks,
    variants,
)
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, build_rules
from coolrl_lost_cities.games.classic.deep_cfr.evaluate import play_matches
from coolrl_lost_cities.games.classic.deep_cfr.memory import (
    NodeSamples,
    ReservoirMemory,
    empty_batch,
    sample_bytes,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import Network, forward_rows
from coolrl_lost_cities.games.classic.deep_cfr.policies import Policy, average_policy
from coolrl_lost_cities.games.classic.deep_cfr.replay import build_memory
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer
from coolrl_lost_cities.games.classic.deep_cfr.traversal import run_traversals

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


def replay_part(config: DeepCFRConfig, sizes: Sizes, rounds: int) -> Iterator[Line]:
    """Appending against copying the arrays, building batches against numpy's fancy indexing."""
    samples = _samples(config, sizes)
    arrays = [getattr(samples, field.name) for field in fields(samples)]
    growing, full = _memory(config, 2 * sizes.samples), _memory(config, sizes.samples)
    full.add(samples)
    copies = [np.empty_like(array) for array in arrays]
    generator = np.random.default_rng(3)
    batch = empty_batch(full.shape, sizes.batch_size)

    def append() -> None:
        growing.num_seen = 0
        growing.add(samples)

    def copy() -> None:
        for target, array in zip(copies, arrays, strict=True):
            np.copyto(target, array)

    def index() -> None:
        rows_B = generator.integers(0, sizes.samples, sizes.batch_size)
        for array in arrays:
            array[rows_B]

    def gather() -> None:
        full.sample(sizes.batch_size, generator, out=batch)

    works = {
        "append": append,
        "replace": partial(full.add, samples),
        "copy": copy,
        "gather": repeated(gather, sizes.gathers),
        "index": repeated(index, sizes.gathers),
    }
    found = in_turn(works, rounds)
    added = partial(
        compared,
        unit="samples",
        count=sizes.samples,
        against="copying the arrays of the samples",
        theirs=found["copy"],
        bytes_a_sample=sample_bytes(full.shape),
        their_bytes=sum(array.nbytes for array in arrays) // sizes.samples,
    )
    yield added("replay, append", ours=found["append"])
    yield added("replay, append to a full memory", ours=found["replace"])
    yield compared(
        f"replay, batches of {sizes.batch_size}, dense",
        unit="samples",
        count=sizes.gathers * sizes.batch_size,
        ours=found["gather"],
        against="fancy indexing of arrays of the samples, left as they are",
        theirs=found["index"],
    )


def _samples(config: DeepCFRConfig, sizes: Sizes) -> NodeSamples:
    """Return real samples, repeated until there are enough."""
    rules = build_rules(config.rules)
    spec = a_spec(sizes, max(1, sizes.samples // 500))
    samples = run_traversals(rules, spec, _uniform).advantage
    rows = np.resize(np.arange(len(samples)), sizes.samples)
    return NodeSamples(*(getattr(samples, field.name)[rows] for field in fields(samples)))


def step_part(config: DeepCFRConfig, sizes: Sizes, rounds: int) -> Iterator[Line]:
    """One optimiser step of the trainer against the matrix products of its layers alone.

    A step's time is the difference between two iterations that differ in their number of steps
    only, by the trainer's own `run_iteration`: batch, forward, loss, backward, clipping, AdamW.
    """
    for (hidden_size, num_layers), precision in variants(sizes):
        yield _step_line(sized(config, hidden_size, num_layers, precision), sizes, rounds)


def _step_line(config: DeepCFRConfig, sizes: Sizes, rounds: int) -> Line:
    rows, times = sizes.batch_size, sizes.training_steps
    shapes = layer_shapes(some_networks(config)[0])
    precision, device = config.run.precision, config.run.device
    multiplied, product = fastest(training_products, shapes, rows, precision, device)
    with tempfile.TemporaryDirectory() as folder:
        found = in_turn(
            {
                "few": partial(_iterate, config, 2, rows, folder),
                "many": partial(_iterate, config, 2 + times, rows, folder),
                "floor": repeated(product, times),
            },
            rounds,
        )
    few, many = found["few"], found["many"]
    return compared(
        f"step of {rows} rows, {shape_of(config)}, {precision}",
        unit="steps",
        count=3 * times,  # two advantage networks and the strategy network
        ours=Spent(many.wall_s - few.wall_s, many.cpu_s - few.cpu_s),
        against=f"matrix products in {multiplied}: forward, backward for weights and inputs",
        theirs=found["floor"],
        their_count=times,
    )


def evaluation_part(config: DeepCFRConfig, sizes: Sizes, rounds: int) -> Iterator[Line]:
    """Matches in lockstep against matches one game at a time, a plain forward for each move."""
    config = sized(config, *sizes.networks[-1], "fp32")
    rules, network = build_rules(config.rules), some_networks(config)[0]
    play = partial(play_matches, rules, opponent="safe_heuristic", seed=1)
    alone = sizes.matches_one_by_one
    works = {
        "lockstep": partial(play, policy=average_policy(network), num_games=sizes.matches),
        "alone": partial(play, policy=_plain_policy(network), num_games=alone, lanes=1),
    }
    found = in_turn(works, rounds)
    lockstep_s, alone_s = found["lockstep"].wall_s / sizes.matches, found["alone"].wall_s / alone
    yield compared(
        f"evaluation, {sizes.matches} games, {shape_of(config)}",
        unit="games",
        count=sizes.matches,
        ours=found["lockstep"],
        against="one game at a time, a plain forward of one row for each move",
        theirs=found["alone"],
        their_count=alone,
        speedup=ratio(alone_s, lockstep_s),
    )


def _plain_policy(network: Network) -> Policy:
    def policy(_player: int, features_BE: U8, legal_BA: Bool) -> F32:
        logits_BA = np.where(legal_BA, forward_rows(network, features_BE), -np.inf)
        weights_BA = np.exp(logits_BA - logits_BA.max(axis=1, keepdims=True))
        policy_BA: F32 = weights_BA / weights_BA.sum(axis=1, keepdims=True)
        return policy_BA

    return policy


def _uniform(_player: int, _features_BE: U8, legal_BA: Bool) -> F32:
    return legal_BA.astype(np.float32)


def _memory(config: DeepCFRConfig, capacity: int) -> ReservoirMemory:
    return build_memory(build_rules(config.rules), capacity, np.random.default_rng(2))


def _iterate(config: DeepCFRConfig, steps: int, rows: int, folder: str) -> None:
    """Run the first iteration of a small run, with so many steps for each network."""
    config = changed(
        config,
        f"run.out={json.dumps(folder)}",
        "traversal.traversals_per_iteration=16",
        "traversal.lanes=16",
        f"optimization.advantage_steps={steps}",
        f"optimization.strategy_steps={steps}",
        f"optimization.advantage_batch_size={rows}",
        f"optimization.strategy_batch_size={rows}",
        "memory.advantage_capacity=4096",
        "memory.strategy_capacity=4096",
        "checkpoint.save_latest=false",
        "evaluation.eval_every=0",
    )
    with DeepCFRTrainer(config) as trainer:
        trainer.run_iteration()
