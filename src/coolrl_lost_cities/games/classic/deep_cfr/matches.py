"""The matches of an evaluation: each policy of a run against each bot."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from coolrl_lost_cities.games.classic.deep_cfr.config import EvaluationConfig
from coolrl_lost_cities.games.classic.deep_cfr.evaluate import play_matches
from coolrl_lost_cities.games.classic.deep_cfr.inference import Rows
from coolrl_lost_cities.games.classic.deep_cfr.policies import (
    Policy,
    matching_policy,
    softmax_policy,
)
from coolrl_lost_cities.games.classic.rules import Rules


def play_all(
    rules: Rules, settings: EvaluationConfig, seed: int, average: Rows, current: Sequence[Rows]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the results by policy and bot, each the fields of a `MatchResult`.

    `average` answers for the strategy network, `current` for the advantage networks.
    """
    policies: dict[str, Policy] = {}
    if settings.policies in ("average", "both"):
        policies["average"] = softmax_policy(average)
    if settings.policies in ("current", "both"):
        policies["current"] = matching_policy(current)
    return {
        name: {
            bot: asdict(play_matches(rules, policy, bot, settings.games, seed))
            for bot in settings.opponents
        }
        for name, policy in policies.items()
    }
