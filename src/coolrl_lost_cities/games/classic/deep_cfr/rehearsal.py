"""A whole run in small, for what it leaves behind: every kernel that the run uses, compiled."""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import torch

from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    build_rules,
    config_from_mapping,
    config_to_mapping,
)
from coolrl_lost_cities.games.classic.deep_cfr.encoding import encode_one, encoding_size
from coolrl_lost_cities.games.classic.deep_cfr.inference import pack_network
from coolrl_lost_cities.games.classic.deep_cfr.matches import play_all
from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples, mask_bytes
from coolrl_lost_cities.games.classic.deep_cfr.networks import build_network
from coolrl_lost_cities.games.classic.deep_cfr.processes import start_process
from coolrl_lost_cities.games.classic.deep_cfr.replay import build_memory
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer
from coolrl_lost_cities.games.classic.engine import layout, record_size

# Compiled code depends on types, never on sizes; so nothing here needs to be of any size.
_SMALL = (
    "run.device=cpu",
    "run.precision=fp32",
    "run.warm_start=null",
    "network.hidden_size=8",
    "network.num_layers=1",
    "network.color_attention_layers=0",
    "traversal.traversals_per_iteration=2",
    "traversal.lanes=1",
    "traversal.backend=local",
    "traversal.num_workers=0",
    "traversal.inference_backend=local",
    "value.hidden_size=8",
    "value.num_layers=1",
    "value.steps=1",
    "value.batch_size=16",
    "value.capacity=1000",
    "optimization.advantage_steps=1",
    "optimization.strategy_steps=1",
    "optimization.advantage_batch_size=16",
    "optimization.strategy_batch_size=16",
    "memory.advantage_capacity=1000",
    "memory.strategy_capacity=1000",
    "checkpoint.save_latest=false",
    "checkpoint.save_every=0",
    "evaluation.eval_every=0",
    "evaluation.games=2",
    "evaluation.policies=both",
    "compile.trainer.enabled=false",
    "compile.inference_server.enabled=false",
)


def rehearse(config: DeepCFRConfig) -> None:
    """Go through one iteration and its matches, in a folder that is gone after.

    With a second processor matches, and more, are rehearsed beside it in a process of their own:
    what is compiled is kept in files, and what one of the two has compiled the other one loads.
    """
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        here = f"run.out={json.dumps(str(Path(folder)))}"
        config = config_from_mapping(config_to_mapping(config), "rehearsal", [*_SMALL, here])
        beside = len(os.sched_getaffinity(0)) > 1
        process = start_process(_rehearse_rest, (config,), "rehearsal") if beside else None
        try:
            with DeepCFRTrainer(config) as trainer:
                trainer.run_iteration()
            if process is not None:
                process.join()
        finally:
            if process is not None:
                process.kill()
                process.join()
        # Whatever became of the process, and for what it was first to compile: loaded here.
        _play(config)


def _rehearse_rest(config: DeepCFRConfig) -> None:
    torch.set_num_threads(1)
    rules = build_rules(config.rules)
    # Of what both need this takes longest, and the traversals come to it last.
    state_R = np.zeros(record_size(rules), np.uint8)
    encode_one(layout(rules), state_R, 0, np.empty(encoding_size(rules), np.uint8))
    # What else is compiled here makes both halves about as long.
    memory = build_memory(rules, 1, np.random.default_rng(0))
    widths = (memory.shape.limits_E.size, mask_bytes(rules.num_actions), memory.shape.max_legal)
    features, legal, values = (np.zeros((1, width), np.uint8) for width in widths)
    memory.add(NodeSamples(features, legal, values.astype(np.float32), np.ones(1, np.float32)))
    _play(config)


def _play(config: DeepCFRConfig) -> None:
    answers = [pack_network(build_network(config)) for _ in range(2)]
    play_all(build_rules(config.rules), config.evaluation, 0, answers[0], answers[1:])
