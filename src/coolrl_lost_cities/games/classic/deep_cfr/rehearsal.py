"""A whole run in small, for what it leaves behind: every kernel that the run uses, compiled."""

import json
import tempfile
from pathlib import Path

from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    config_from_mapping,
    config_to_mapping,
)
from coolrl_lost_cities.games.classic.deep_cfr.trainer import DeepCFRTrainer

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
    "evaluation.eval_every=1",
    "evaluation.games=2",
    "evaluation.policies=both",
    "compile.trainer.enabled=false",
    "compile.inference_server.enabled=false",
)


def rehearse(config: DeepCFRConfig) -> None:
    """Go through one iteration of such a run, in this process, in a folder that is gone after."""
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        here = f"run.out={json.dumps(str(Path(folder)))}"
        values = config_to_mapping(config)
        with DeepCFRTrainer(config_from_mapping(values, "rehearsal", [*_SMALL, here])) as trainer:
            trainer.run_iteration()
