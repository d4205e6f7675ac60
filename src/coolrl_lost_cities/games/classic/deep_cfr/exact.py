# ruff: noqa: N815 -- fields are arrays, and array names end in their axes
"""Tiny games solved exactly: the known values that sampled algorithms are tested against.

Axes: N nodes of the game tree, S information sets, E features, A actions, B rows, C colors.

``build_tree`` lists every history of a game (chance included) once; everything else is a pass over
that list. A policy is one float64 row of probabilities per information set, ``policy_SA``. A table
learnt elsewhere, keyed by features, becomes one through ``tree.index_of``::

    tree = build_tree(TINY)
    policy_SA = policy_table(tree, policy)          # policy(player, features_BE, legal_BA)
    exploitability(tree, policy_SA)                 # points
    counterfactual_regrets(tree, policy_SA)         # points, float64 (S, A)
    exploitability(tree, cfr_plus(tree, 100)) / tree.value_range

Best responses and the guarantees of counterfactual regret minimisation need perfect recall: use
rules with ``remember_history``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from coolrl_lost_cities.games.classic import engine
from coolrl_lost_cities.games.classic.deep_cfr import encoding
from coolrl_lost_cities.games.classic.engine import (
    DECK_LEFT,
    DRAW_STEP,
    L_ACTIONS,
    L_CARD_KINDS,
    L_CARDS,
    L_DRAW,
    L_MAX_STEPS,
    O_DECK,
    OVER,
    PHASE,
    RUNNING,
    layout,
    legal_one,
    step_one,
    steps_one,
    value_one,
)
from coolrl_lost_cities.games.classic.rules import Rules

Policy = Callable[[int, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class GameTree:
    """Every history of a game, parents before children, with its information sets.

    ``parent_N`` (-1 at a deal), ``action_N`` (taken at the parent) and ``chance_N`` (probability
    of the deal or of the card drawn on the way in) describe the edge into a node; ``set_N`` is the
    mover's information set, -1 where the game is over; ``value_N`` is player 0's points less
    player 1's, 0 while it runs. Nodes ``level_L[d]`` to ``level_L[d + 1] - 1`` are at depth ``d``,
    and so are information sets between the entries of ``set_level_L``.
    """

    rules: Rules
    parent_N: np.ndarray
    action_N: np.ndarray
    chance_N: np.ndarray
    set_N: np.ndarray
    value_N: np.ndarray
    level_L: np.ndarray
    set_level_L: np.ndarray
    player_S: np.ndarray
    features_SE: np.ndarray
    legal_SA: np.ndarray
    value_range: float
    rows: dict[tuple[int, bytes], int]

    @property
    def num_sets(self) -> int:
        """Information sets of both players."""
        return len(self.player_S)

    def index_of(self, player: int, features_E: np.ndarray) -> int:
        """Return the information set that a player's features name.

        Raises KeyError for features that no history gives.
        """
        return self.rows[player, np.ascontiguousarray(features_E, np.uint8).tobytes()]


class _Edges(NamedTuple):
    """The part of a tree that kernels walk."""

    parent_N: np.ndarray
    action_N: np.ndarray
    chance_N: np.ndarray
    set_N: np.ndarray
    player_S: np.ndarray


class _Children(NamedTuple):
    """One level of nodes, M of them, with the edges into them."""

    states_MR: np.ndarray
    parent_M: np.ndarray
    action_M: np.ndarray
    chance_M: np.ndarray


@njit(cache=True)
def _count_children(lay: np.ndarray, states_BR: np.ndarray, out_B: np.ndarray) -> None:
    """Write how many nodes follow each game: a legal action each, a card each for the deck."""
    legal_A = np.empty(lay[L_ACTIONS], np.bool_)
    seen_K = np.empty(lay[L_CARD_KINDS], np.bool_)
    for b in range(len(states_BR)):
        state_R = states_BR[b]
        count = legal_one(lay, state_R, legal_A)
        if count > 0 and state_R[PHASE] == DRAW_STEP and not _draw_is_last(lay, state_R):
            seen_K[:] = False
            kinds = 0
            for i in range(lay[L_CARDS] - np.int64(state_R[DECK_LEFT]), lay[L_CARDS]):
                kind = state_R[lay[O_DECK] + i]
                if not seen_K[kind]:
                    seen_K[kind] = True
                    kinds += 1
            count += kinds - 1
        out_B[b] = count


@njit(cache=True)
def _draw_is_last(lay: np.ndarray, state_R: np.ndarray) -> bool:
    """Say whether drawing from the deck ends the game, so that the card no longer matters."""
    return state_R[DECK_LEFT] == 1 or steps_one(state_R) + 1 >= lay[L_MAX_STEPS]


@njit(cache=True)
def _expand(lay: np.ndarray, states_BR: np.ndarray, out: _Children) -> None:
    legal_A = np.empty(lay[L_ACTIONS], np.bool_)
    copies_K = np.empty(lay[L_CARD_KINDS], np.int64)
    at = 0
    for b in range(len(states_BR)):
        state_R = states_BR[b]
        legal_one(lay, state_R, legal_A)
        for action in range(lay[L_ACTIONS]):
            if not legal_A[action]:
                continue
            if action != lay[L_DRAW] or _draw_is_last(lay, state_R):
                out.states_MR[at] = state_R
                step_one(lay, out.states_MR[at], action)
                out.parent_M[at] = b
                out.action_M[at] = action
                out.chance_M[at] = 1.0
                at += 1
                continue
            left = np.int64(state_R[DECK_LEFT])
            top = lay[O_DECK] + lay[L_CARDS] - left
            copies_K[:] = 0
            for i in range(top, top + left):
                copies_K[state_R[i]] += 1
            for kind in range(lay[L_CARD_KINDS]):
                if copies_K[kind] == 0:
                    continue
                out.states_MR[at] = state_R
                i = top
                while state_R[i] != kind:
                    i += 1
                out.states_MR[at, i] = state_R[top]
                out.states_MR[at, top] = kind
                step_one(lay, out.states_MR[at], action)
                out.parent_M[at] = b
                out.action_M[at] = action
                out.chance_M[at] = copies_K[kind] / left
                at += 1


@njit(cache=True)
def _values(lay: np.ndarray, states_BR: np.ndarray, out_B: np.ndarray) -> None:
    for b in range(len(states_BR)):
        out_B[b] = value_one(lay, states_BR[b], 0) if states_BR[b, OVER] != RUNNING else 0


def _deals(rules: Rules) -> tuple[np.ndarray, np.ndarray]:
    """Return one deck for each pair of hands, and the probability of that pair."""
    weights: dict[tuple[int, ...], float] = {(): 1.0}
    full = engine.full_deck(rules).tolist()
    for _ in range(2 * rules.hand_size):
        longer: dict[tuple[int, ...], float] = {}
        for dealt, weight in weights.items():
            left = list(full)
            for kind in dealt:
                left.remove(kind)
            for kind in left:
                hands = (*dealt, kind)
                # Hands are sets: keep each hand sorted so that equal ones meet.
                cut = len(hands) if len(hands) <= rules.hand_size else rules.hand_size
                key = tuple(sorted(hands[:cut])) + tuple(sorted(hands[cut:]))
                longer[key] = longer.get(key, 0.0) + weight / len(left)
        weights = longer
    decks = []
    for dealt in weights:
        left = list(full)
        for kind in dealt:
            left.remove(kind)
        decks.append([*dealt, *left])
    return np.array(decks, np.uint8), np.array(list(weights.values()))


@lru_cache(maxsize=8)
def build_tree(rules: Rules, max_nodes: int = 20_000_000) -> GameTree:
    """List every history of a tiny game; seconds and some hundred megabytes for a million nodes.

    Raises ValueError for a game of more than ``max_nodes`` histories.
    """
    lay = layout(rules)
    decks_BN, chance_B = _deals(rules)
    states_BR = engine.new_games(rules, decks_BN)
    parents = [np.full(len(states_BR), -1, np.int64)]
    actions = [np.full(len(states_BR), -1, np.int32)]
    chances = [chance_B]
    values, sets, features, legals, movers = [], [], [], [], []
    level, set_level = [0], [0]
    while len(states_BR):
        first = level[-1]
        level.append(first + len(states_BR))
        value_B = np.empty(len(states_BR))
        _values(lay, states_BR, value_B)
        values.append(value_B)
        set_B, level_features, level_legal, level_movers = _information_sets(rules, states_BR)
        set_B[set_B >= 0] += set_level[-1]
        set_level.append(set_level[-1] + len(level_movers))
        sets.append(set_B)
        features.append(level_features)
        legals.append(level_legal)
        movers.append(level_movers)
        children_B = np.empty(len(states_BR), np.int64)
        _count_children(lay, states_BR, children_B)
        count = int(children_B.sum())
        if level[-1] + count > max_nodes:
            raise ValueError(
                f"the game has {level[-1] + count} histories in its first {len(level)} steps; "
                f"expected at most {max_nodes} in all, as rules like TINY have"
            )
        below = _Children(
            states_MR=np.empty((count, states_BR.shape[1]), np.uint8),
            parent_M=np.empty(count, np.int64),
            action_M=np.empty(count, np.int32),
            chance_M=np.empty(count),
        )
        _expand(lay, states_BR, below)
        if count:
            parents.append(below.parent_M + first)
            actions.append(below.action_M)
            chances.append(below.chance_M)
        states_BR = below.states_MR
    features_SE, player_S = np.concatenate(features), np.concatenate(movers)
    value_N = np.concatenate(values)
    return GameTree(
        rules=rules,
        parent_N=np.concatenate(parents),
        action_N=np.concatenate(actions),
        chance_N=np.concatenate(chances),
        set_N=np.concatenate(sets),
        value_N=value_N,
        level_L=np.array(level, np.int64),
        set_level_L=np.array(set_level, np.int64),
        player_S=player_S,
        features_SE=features_SE,
        legal_SA=np.concatenate(legals),
        value_range=float(value_N.max() - value_N.min()),
        rows={
            (int(player), row.tobytes()): i
            for i, (player, row) in enumerate(zip(player_S, features_SE, strict=True))
        },
    )


def _information_sets(
    rules: Rules, states_BR: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the set of each game of a level, and the sets' features, masks and players."""
    set_B = np.full(len(states_BR), -1, np.int64)
    size = encoding.encoding_size(rules)
    running = np.flatnonzero(~engine.is_over(states_BR))
    running_BR = states_BR[running]
    rows = np.empty((len(running), size), np.uint8)
    legal = np.empty((len(running), rules.num_actions), np.bool_)
    encoding.encode(rules, running_BR, rows)
    engine.legal_actions(rules, running_BR, legal)
    if not len(running):
        return set_B, rows, legal, np.empty(0, np.uint8)
    keys = np.concatenate([engine.players(running_BR)[:, None], rows], axis=1)
    packed = np.ascontiguousarray(keys).view([("", np.uint8)] * keys.shape[1])[:, 0]
    _, first, inverse = np.unique(
        packed.view(f"V{keys.shape[1]}"), return_index=True, return_inverse=True
    )
    set_B[running] = inverse.reshape(-1)
    return set_B, rows[first], legal[first], engine.players(running_BR)[first]


def uniform_policy(tree: GameTree) -> np.ndarray:
    """Return the policy that takes every legal action equally often."""
    return tree.legal_SA / tree.legal_SA.sum(axis=1, keepdims=True)


def policy_table(tree: GameTree, policy: Policy) -> np.ndarray:
    """Ask a policy once for every information set; its answer is made to sum to 1."""
    policy_SA = np.zeros(tree.legal_SA.shape)
    for player in range(2):
        mine = np.flatnonzero(tree.player_S == player)
        policy_SA[mine] = policy(player, tree.features_SE[mine], tree.legal_SA[mine])
    policy_SA = np.where(tree.legal_SA, policy_SA, 0.0)
    return policy_SA / policy_SA.sum(axis=1, keepdims=True)


@njit(cache=True)
def _reach(edges: _Edges, policy_SA: np.ndarray, player: int, out_N: np.ndarray) -> None:
    """Write the probability of each node from chance and everyone but ``player`` (2: everyone)."""
    for n in range(len(out_N)):
        up = edges.parent_N[n]
        if up < 0:
            out_N[n] = edges.chance_N[n]
            continue
        reach = out_N[up] * edges.chance_N[n]
        row = edges.set_N[up]
        if edges.player_S[row] != player:
            reach *= policy_SA[row, edges.action_N[n]]
        out_N[n] = reach


@njit(cache=True)
def _back_up(
    edges: _Edges, policy_SA: np.ndarray, value_N: np.ndarray, first: int, last: int
) -> None:
    """Add to parents what their children from ``first`` to ``last - 1`` are worth to player 0."""
    for n in range(last - 1, first - 1, -1):
        up = edges.parent_N[n]
        weight = edges.chance_N[n] * policy_SA[edges.set_N[up], edges.action_N[n]]
        value_N[up] += weight * value_N[n]


@njit(cache=True)
def _add_action_values(
    edges: _Edges,
    weight_N: np.ndarray,
    value_N: np.ndarray,
    span: tuple[int, int],
    out_SA: np.ndarray,
) -> None:
    """Add what nodes ``span[0]`` to ``span[1] - 1`` are worth to the action before them."""
    for n in range(span[0], span[1]):
        row = edges.set_N[edges.parent_N[n]]
        out_SA[row, edges.action_N[n]] += weight_N[n] * value_N[n]


def _edges(tree: GameTree) -> _Edges:
    return _Edges(tree.parent_N, tree.action_N, tree.chance_N, tree.set_N, tree.player_S)


def _counterfactual_weights(tree: GameTree, policy_SA: np.ndarray, player: int) -> np.ndarray:
    """Return what player 0's points at a node weigh in the value, to ``player``, of the action
    before it: the reach of chance and the opponent, signed; 0 where another player acted."""
    reach_N = reach_probabilities(tree, policy_SA, without=player)
    acted_N = tree.player_S[tree.set_N[tree.parent_N]] == player
    sign = 1.0 if player == 0 else -1.0
    return np.where(acted_N, sign * reach_N, 0.0)


def reach_probabilities(tree: GameTree, policy_SA: np.ndarray, without: int = 2) -> np.ndarray:
    """Return the float64 probability of each node, leaving one player's choices out (2: none's)."""
    reach_N = np.empty(len(tree.parent_N))
    _reach(_edges(tree), policy_SA, without, reach_N)
    return reach_N


def own_reach(tree: GameTree, policy_SA: np.ndarray, player: int) -> np.ndarray:
    """Return, for each of a player's information sets, the product of that player's choices.

    Needs perfect recall, under which all histories of a set agree; 0 for the opponent's sets.
    """
    own_N = np.empty(len(tree.parent_N))
    certain = _edges(tree)._replace(chance_N=np.ones_like(tree.chance_N))
    _reach(certain, policy_SA, 1 - player, own_N)
    own_S = np.zeros(tree.num_sets)
    running = tree.set_N >= 0
    own_S[tree.set_N[running]] = own_N[running]
    own_S[tree.player_S != player] = 0.0
    return own_S


def node_values(tree: GameTree, policy_SA: np.ndarray) -> np.ndarray:
    """Return what each history is worth to player 0 under a policy, float64 points."""
    value_N = tree.value_N.copy()
    _back_up(_edges(tree), policy_SA, value_N, tree.level_L[1], len(value_N))
    return value_N


def expected_value(tree: GameTree, policy_SA: np.ndarray) -> float:
    """Return player 0's expected points less player 1's."""
    deals = tree.level_L[1]
    return float(tree.chance_N[:deals] @ node_values(tree, policy_SA)[:deals])


def counterfactual_values(tree: GameTree, policy_SA: np.ndarray) -> np.ndarray:
    """Return each information set's counterfactual action values to its player, (S, A) points.

    The sum over the set's histories of the reach of chance and the opponent times the value of
    taking the action there (Zinkevich et al. 2007, eq. 5 with the action fixed); 0 where illegal.
    """
    value_N = node_values(tree, policy_SA)
    out_SA = np.zeros(tree.legal_SA.shape)
    for player in range(2):
        weight_N = _counterfactual_weights(tree, policy_SA, player)
        span = int(tree.level_L[1]), len(value_N)
        _add_action_values(_edges(tree), weight_N, value_N, span, out_SA)
    return out_SA


def counterfactual_regrets(tree: GameTree, policy_SA: np.ndarray) -> np.ndarray:
    """Return each information set's immediate counterfactual regrets, float64 (S, A) points.

    Counterfactual action values less their mean under the policy (Zinkevich et al. 2007, eq. 7 for
    one iteration); 0 where illegal.
    """
    values_SA = counterfactual_values(tree, policy_SA)
    mean_S = (policy_SA * values_SA).sum(axis=1, keepdims=True)
    return np.where(tree.legal_SA, values_SA - mean_S, 0.0)


def best_response(tree: GameTree, policy_SA: np.ndarray, player: int) -> tuple[float, np.ndarray]:
    """Return what a player's best answer to a policy earns, and the policy with that answer in it.

    Needs perfect recall. Where an information set is never reached the first legal action stands.
    """
    answer_SA = policy_SA.copy()
    value_N = tree.value_N.copy()
    weight_N = _counterfactual_weights(tree, policy_SA, player)
    edges = _edges(tree)
    worth_SA = np.zeros(policy_SA.shape)
    for depth in range(len(tree.level_L) - 3, -1, -1):
        children = int(tree.level_L[depth + 1]), int(tree.level_L[depth + 2])
        _add_action_values(edges, weight_N, value_N, children, worth_SA)
        sets = np.arange(tree.set_level_L[depth], tree.set_level_L[depth + 1])
        sets = sets[tree.player_S[sets] == player]
        best = np.where(tree.legal_SA[sets], worth_SA[sets], -np.inf).argmax(axis=1)
        answer_SA[sets] = 0.0
        answer_SA[sets, best] = 1.0
        _back_up(edges, answer_SA, value_N, *children)
    deals = tree.level_L[1]
    value = float(tree.chance_N[:deals] @ value_N[:deals])
    return (value if player == 0 else -value), answer_SA


def exploitability(tree: GameTree, policy_SA: np.ndarray) -> float:
    """Return the mean over both seats of what a best response gains, in points."""
    # The players' own values cancel, as the game is zero-sum.
    return 0.5 * sum(best_response(tree, policy_SA, player)[0] for player in range(2))


def cfr_plus(tree: GameTree, iterations: int) -> np.ndarray:
    """Return the average policy of CFR+ with alternating updates (Tammelin 2014).

    Full width and exact: the reference equilibrium. Iteration t's policy has weight t.
    """
    regret_SA = np.zeros(tree.legal_SA.shape)
    average_SA = np.zeros(tree.legal_SA.shape)
    policy_SA = uniform_policy(tree)
    for iteration in range(1, iterations + 1):
        for player in range(2):
            mine = tree.player_S == player
            regrets_SA = counterfactual_regrets(tree, policy_SA)
            regret_SA[mine] = np.maximum(regret_SA[mine] + regrets_SA[mine], 0.0)
            policy_SA[mine] = _match(regret_SA[mine], tree.legal_SA[mine])
            own_S = own_reach(tree, policy_SA, player)
            average_SA[mine] += iteration * own_S[mine, None] * policy_SA[mine]
    total_S = average_SA.sum(axis=1, keepdims=True)
    reached = total_S[:, 0] > 0
    result_SA = uniform_policy(tree)
    result_SA[reached] = average_SA[reached] / total_S[reached]
    return result_SA


def _match(regret_SA: np.ndarray, legal_SA: np.ndarray) -> np.ndarray:
    total_S = regret_SA.sum(axis=1, keepdims=True)
    uniform_SA = legal_SA / legal_SA.sum(axis=1, keepdims=True)
    return np.where(total_S > 0, regret_SA / np.where(total_S > 0, total_S, 1.0), uniform_SA)
