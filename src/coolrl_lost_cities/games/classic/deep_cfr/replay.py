"""What the replay memories of one game look like."""

import dataclasses
from typing import Literal

import numpy as np

from coolrl_lost_cities.games.classic.deep_cfr.encoding import (
    color_actions,
    color_block_size,
    feature_limits,
)
from coolrl_lost_cities.games.classic.deep_cfr.histories import (
    history_block_size,
    history_limits,
)
from coolrl_lost_cities.games.classic.deep_cfr.memory import ReservoirMemory, SampleShape
from coolrl_lost_cities.games.classic.rules import Rules


def sample_shape(rules: Rules) -> SampleShape:
    """Return the shape of what traversals of a game find.

    Colors cannot be renamed where the rules remember history, whose features name actions.
    """
    named = not rules.remember_history
    return SampleShape(
        limits_E=feature_limits(rules),
        num_actions=rules.num_actions,
        max_legal=rules.max_legal_actions,
        color_size=color_block_size(rules) if named else 0,
        actions_CX=color_actions(rules) if named else None,
    )


def value_sample_shape(rules: Rules) -> SampleShape:
    """Return the shape of what a value network learns from: one action of each history."""
    shape = sample_shape(rules)
    return dataclasses.replace(
        shape,
        limits_E=history_limits(rules),
        max_legal=1,
        color_size=history_block_size(rules) if shape.color_size else 0,
    )


def build_memory(
    rules: Rules,
    capacity: int,
    generator: np.random.Generator,
    keep: Literal["uniform", "latest"] = "uniform",
) -> ReservoirMemory:
    """Return an empty memory for the samples of a game."""
    return ReservoirMemory(capacity, sample_shape(rules), generator, keep)


def build_value_memory(
    rules: Rules, capacity: int, generator: np.random.Generator
) -> ReservoirMemory:
    """Return an empty memory for the latest samples of a game's action values."""
    return ReservoirMemory(capacity, value_sample_shape(rules), generator, "latest")
