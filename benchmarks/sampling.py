"""Benchmarks of what makes samples: the engine, traversals, workers and the inference server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import compared, in_turn, microseconds, ratio, repeated, running
from benchmarks.products import fastest, forward_products, layer_shapes
from benchmarks.stages import Stages, split
from benchmarks.unrelated import Unrelated
from benchmarks.workload import (
    Line,
    Sizes,
    a_spec,
    changed,
    shape_of,
    sized,
    some_networks,
    state_on_cpu,
    variants,
)
from coolrl_lost_cities.games.classic import bots, engine
from coolrl_lost_cities.games.classic.counter_rng import streams
from coolrl_lost_cities.games.classic.deep_cfr import encoding
from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, build_rules
from coolrl_lost_cities.games.classic.deep_cfr.inference_server import InferenceServer
from coolrl_lost_cities.games.classic.deep_cfr.lockstep import TraversalBuffers
from coolrl_lost_cities.games.classic.deep_cfr.traversal import run_traversals
from coolrl_lost_cities.games.classic.deep_cfr.workers import (
    TraversalPool,
    local_forward,
    split_spec,
    traversal_advantages,
)
from coolrl_lost_cities.games.classic.rules import Rules

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


def engine_part(config: DeepCFRConfig, sizes: Sizes, rounds: int) -> Iterator[Line]:
    """Moves of random games, each encoded, against copying the bytes that a move has to touch."""
    rules = build_rules(config.rules)
    count = sizes.games * sizes.steps
    words_B = streams(1, 0, sizes.games)
    decks_BN = engine.shuffle_decks(rules, streams(2, 0, sizes.games))
    features_BE = np.empty((sizes.games, encoding.encoding_size(rules)), np.uint8)
    legal_BA = np.empty((sizes.games, rules.num_actions), np.bool_)
    count_B = np.empty(sizes.games, np.int32)

    # The same games every time, so that stepping alone can replay their moves.
    actions_TB = np.empty((sizes.steps, sizes.games), np.int32)
    states_BR = engine.new_games(rules, decks_BN)
    for t in range(sizes.steps):
        encoding.observe(rules, states_BR, features_BE, legal_BA, count_B)
        actions_TB[t] = bots.bot_actions("random", rules, states_BR, legal_BA, words_B)
        engine.step(rules, states_BR, actions_TB[t])

    def play(observed: bool) -> None:
        states_BR = engine.new_games(rules, decks_BN)
        for t in range(sizes.steps):
            if observed:
                encoding.observe(rules, states_BR, features_BE, legal_BA, count_B)
            engine.step(rules, states_BR, actions_TB[t])

    sources = [array.copy() for array in (states_BR, features_BE, legal_BA)]

    def copy() -> None:
        for _ in range(sizes.steps):
            for target, source in zip((states_BR, features_BE, legal_BA), sources, strict=True):
                np.copyto(target, source)

    works = {
        "observed": partial(play, True),
        "stepped": partial(play, False),
        "copied": copy,
        "dealt": partial(_deal, rules, words_B),
    }
    found = in_turn(works, rounds)
    line = partial(
        compared,
        against="memcpy of a game's record, its features and its legal mask",
        theirs=found["copied"],
        their_count=count,
        bytes=sum(array.nbytes for array in sources) // sizes.games,
    )
    yield line("engine, step and encode", unit="moves", count=count, ours=found["observed"])
    yield line("engine, step alone", unit="moves", count=count, ours=found["stepped"])
    yield line("engine, shuffle and deal", unit="games", count=sizes.games, ours=found["dealt"])


def _deal(rules: Rules, words_B: NDArray[np.uint64]) -> None:
    engine.new_games(rules, engine.shuffle_decks(rules, words_B))


def traversal_part(config: DeepCFRConfig, sizes: Sizes, rounds: int) -> Iterator[Line]:
    """Whole traversals against the matrix products alone that their rows take in the forwards.

    Where their processor time goes is in microseconds a state, by the stages of `stages.py`.
    """
    for (hidden_size, num_layers), precision in variants(sizes):
        variant = sized(config, hidden_size, num_layers, precision)
        yield _traversal_line(variant, sizes, rounds)


def _traversal_line(config: DeepCFRConfig, sizes: Sizes, rounds: int) -> Line:
    rules, spec = build_rules(config.rules), a_spec(sizes, sizes.traversals)
    networks, precision = some_networks(config), config.run.precision
    forward = traversal_advantages(config, spec.traverser, local_forward(networks, precision))
    buffers, timed, again, infostates = TraversalBuffers(), [], [], []

    def traverse() -> None:
        stages = Stages()
        timed.append(stages)
        with stages.timed():
            found = stages.wrapped("total", run_traversals)(
                rules, spec, stages.wrapped("forward", forward), None, buffers
            )
        infostates.append(found.counters.infostates)

    shapes = layer_shapes(networks[0])
    multiplied, product = fastest(
        forward_products, shapes, sizes.lanes, precision, config.run.device
    )
    floor = repeated(product, sizes.batches)
    found = in_turn({"ours": traverse, "floor": floor}, rounds)
    for _ in range(rounds):
        again.append(Stages())
        with again[-1].repeated():
            run_traversals(rules, spec, forward, None, buffers)
    count, seconds = infostates[-1], split(timed[1:], again)
    total_s = seconds.pop("total")
    return compared(
        f"traversal, {shape_of(config)}, {precision}",
        unit="infostates",
        count=count,
        ours=found["ours"],
        against=f"matrix products of {sizes.lanes} rows in {multiplied}",
        theirs=found["floor"],
        their_count=sizes.batches * sizes.lanes,
        forward_share=round(seconds["forward"] / total_s, 3),
        other_cpu_us=microseconds((total_s - seconds["forward"]) / count),
        **{f"{stage}_us": microseconds(spent_s / count) for stage, spent_s in seconds.items()},
    )


def workers_part(config: DeepCFRConfig, sizes: Sizes, rounds: int) -> Iterator[Line]:
    """Traversals of two worker processes against those of one; wall time is what matters here.

    `unrelated_speedup` is what two processes that share nothing gain over one of them on the same
    halves, `of_unrelated` the share of that which the workers reach.
    """
    config = sized(config, *sizes.networks[-1], "fp32")
    spec = a_spec(sizes, sizes.traversals)
    payload = {"networks": [state_on_cpu(network) for network in some_networks(config)]}
    infostates = []
    with (
        TraversalPool(changed(config, "traversal.num_workers=1")) as one,
        TraversalPool(changed(config, "traversal.num_workers=2")) as two,
        Unrelated(config, 2) as unrelated,
    ):

        def collect(pool: TraversalPool) -> None:
            pool.push_weights(payload)
            infostates.append(pool.collect(spec).counters.infostates)

        found = in_turn(
            {
                "one": partial(collect, one),
                "two": partial(collect, two),
                "one alone": partial(unrelated.traverse, [spec]),
                "two alone": partial(unrelated.traverse, split_spec(spec, 2)),
            },
            rounds,
            {
                "one": running(*one.pids),
                "two": running(*two.pids),
                "one alone": running(unrelated.pids[0]),
                "two alone": running(*unrelated.pids),
            },
        )
    speedup = found["one"].wall_s / found["two"].wall_s
    unrelated_speedup = found["one alone"].wall_s / found["two alone"].wall_s
    yield compared(
        f"workers, 2, {shape_of(config)}",
        unit="infostates",
        count=infostates[-1],
        ours=found["two"],
        against="1 worker, weights pushed to it as well",
        theirs=found["one"],
        speedup=ratio(speedup, 1.0),
        unrelated_speedup=ratio(unrelated_speedup, 1.0),
        of_unrelated=ratio(speedup, unrelated_speedup),
        unrelated_ratio_cpu=ratio(found["two alone"].cpu_s, found["one alone"].cpu_s),
    )


def server_part(config: DeepCFRConfig, sizes: Sizes, rounds: int) -> Iterator[Line]:
    """Forwards asked from the inference server against forwards in this process."""
    for network in sizes.networks:
        yield _server_line(sized(config, *network, "fp32"), sizes, rounds)


def _server_line(config: DeepCFRConfig, sizes: Sizes, rounds: int) -> Line:
    networks = some_networks(config)
    width = encoding.encoding_size(build_rules(config.rules))
    generator = np.random.default_rng(5)
    features_BE = generator.integers(0, 3, (sizes.request_rows, width), np.uint8)
    with closing(InferenceServer(config, 1)) as server:
        server.push_weights([state_on_cpu(network) for network in networks])
        works = {
            "server": partial(server.clients[0].forward, 0, features_BE),
            "local": partial(local_forward(networks, config.run.precision), 0, features_BE),
        }
        found = in_turn(
            {name: repeated(work, sizes.requests) for name, work in works.items()},
            rounds,
            {"server": running(server.pid)},
        )
    return compared(
        f"server, {sizes.request_rows} rows a request, {shape_of(config)}",
        unit="rows",
        count=sizes.requests * sizes.request_rows,
        ours=found["server"],
        against="the same forwards in this process",
        theirs=found["local"],
        throughput=ratio(found["local"].wall_s, found["server"].wall_s),
    )
