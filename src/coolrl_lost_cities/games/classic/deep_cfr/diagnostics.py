"""What the samples of an iteration say about whether there is anything to learn, and it is learnt.

Axes: S samples, A actions, M bytes of a packed legal mask, L most legal actions of a state, X one
entry for each legal action of each sample.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from coolrl_lost_cities.games.classic.deep_cfr.memory import NodeSamples
from coolrl_lost_cities.games.classic.deep_cfr.traversal import Counters, TraversalSamples

F32 = NDArray[np.float32]
Bool = NDArray[np.bool_]

# Times depend on the machine; the rest adds up over traversals.
_COUNTED = [field for field in dataclasses.fields(Counters) if field.compare]


def sample_metrics(samples: TraversalSamples) -> dict[str, float]:
    """Return the numbers of one set of traversals that go into the metrics file.

    `zero_targets` is the share of the traverser's decisions whose targets are all zero, which teach
    nothing; `target_variance` the variance of a target about the mean over all, in squared points;
    `policy_entropy` the mean entropy in nats of the policies that were played, forced moves left
    out. Every number is 0 where there were no decisions.
    """
    return {**_target_metrics(samples.advantage), "policy_entropy": _entropy(samples.strategy)}


def traversal_metrics(counters: Sequence[Counters], seconds: float) -> dict[str, float]:
    """Add up what the traversals of an iteration did, in that many seconds."""
    sums = {field.name: sum(getattr(part, field.name) for part in counters) for field in _COUNTED}
    return {
        **sums,
        **game_metrics(sums),
        "traversals_per_s": sums["traversals"] / seconds,
        "infostates_per_s": sums["infostates"] / seconds,
    }


def game_metrics(counted: Mapping[str, int]) -> dict[str, float]:
    """Return how games of self-play went, from the fields of `Counters` added up.

    `colors_a_game` are the expeditions that a player starts in a game, `expedition_score` the
    points of a started one, `game_steps` the single steps of both players, `cut_share` the share of
    games that the step limit ended.
    """
    games = counted["traversals"]
    return {
        "colors_a_game": counted["opened_colors"] / (2 * games),
        "expedition_score": counted["expedition_points"] / max(1, counted["opened_colors"]),
        "game_steps": counted["nodes"] / games,
        "cut_share": counted["cut_games"] / games,
    }


def first_rows(samples: NodeSamples, count: int) -> NodeSamples:
    """Return the first samples, at most `count`, without copying them."""
    return NodeSamples(
        features_SE=samples.features_SE[:count],
        legal_SM=samples.legal_SM[:count],
        values_SL=samples.values_SL[:count],
        weights_S=samples.weights_S[:count],
    )


def explained_share(samples: NodeSamples, outputs_SA: F32, scale: float) -> float:
    """Return R2: the share of the targets' weighted variance that a network's outputs explain.

    `outputs_SA` times `scale` are in points. 1 is a perfect fit, 0 no better than the mean of all
    targets, less than 0 worse. 0 where the targets do not vary.
    """
    legal_SA = _legal(samples, outputs_SA.shape[1])
    targets_X = _listed(samples.values_SL, legal_SA)
    weights_X = np.repeat(samples.weights_S.astype(np.float64), legal_SA.sum(axis=1))
    errors_X = targets_X - outputs_SA[legal_SA] * scale
    total = weights_X.sum()
    if total <= 0.0:
        return 0.0
    deviations_X = targets_X - weights_X @ targets_X / total
    spread = float(weights_X @ np.square(deviations_X))
    return 1.0 - float(weights_X @ np.square(errors_X)) / spread if spread > 0.0 else 0.0


def _target_metrics(samples: NodeSamples) -> dict[str, float]:
    if len(samples) == 0:
        return {"zero_targets": 0.0, "target_variance": 0.0}
    targets_X = _listed(samples.values_SL, _legal(samples, 8 * samples.legal_SM.shape[1]))
    return {
        "zero_targets": float((~samples.values_SL.any(axis=1)).mean()),
        "target_variance": float(targets_X.var()),
    }


def _entropy(samples: NodeSamples) -> float:
    if len(samples) == 0:
        return 0.0
    played_X = samples.values_SL[samples.values_SL > 0.0].astype(np.float64)
    return float(-(played_X * np.log(played_X)).sum()) / len(samples)


def _legal(samples: NodeSamples, num_actions: int) -> Bool:
    return np.unpackbits(samples.legal_SM, axis=1, count=num_actions, bitorder="little").view(
        np.bool_
    )


def _listed(values_SL: F32, legal_SA: Bool) -> NDArray[np.float64]:
    """Return the values of all legal actions, sample by sample, in the order of the actions."""
    num_legal_S = legal_SA.sum(axis=1)
    return values_SL[np.arange(values_SL.shape[1]) < num_legal_S[:, None]].astype(np.float64)
