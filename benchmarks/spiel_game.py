"""Tiny Lost Cities as a game of OpenSpiel, on the compiled engine and the encoding of the trainer.

Chance deals the whole deck face down, card by card, before the first move. Which card comes up when
somebody draws is settled by then and unknown to everybody, so the game is the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyspiel

from coolrl_lost_cities.games.classic import engine, reference
from coolrl_lost_cities.games.classic.deep_cfr import encoding
from coolrl_lost_cities.games.classic.rules import TINY, action_name

NAME = "python_tiny_lost_cities"
RULES = TINY

_TYPE = pyspiel.GameType(
    short_name=NAME,
    long_name="Lost Cities on tiny rules",
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
    information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.ZERO_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=2,
    min_num_players=2,
    provides_information_state_string=True,
    provides_information_state_tensor=True,
    provides_observation_string=False,
    provides_observation_tensor=False,
)
_INFO = pyspiel.GameInfo(
    num_distinct_actions=RULES.num_actions,
    max_chance_outcomes=RULES.num_card_kinds,
    num_players=2,
    min_utility=-RULES.score_range / 2,
    max_utility=RULES.score_range / 2,
    utility_sum=0.0,
    max_game_length=RULES.max_steps,
)
_DECK = engine.full_deck(RULES).tolist()


class TinyLostCities(pyspiel.Game):
    def __init__(self, params: dict[str, Any] | None = None) -> None:
        super().__init__(_TYPE, _INFO, params or {})

    def new_initial_state(self) -> TinyState:
        return TinyState(self)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> TinyObserver:
        return TinyObserver()


class TinyState(pyspiel.State):
    """A round; OpenSpiel copies one by copying its attributes deeply, so they are few and flat."""

    def __init__(self, game: TinyLostCities) -> None:
        super().__init__(game)
        self.dealt: tuple[int, ...] = ()
        self.record_1R: np.ndarray | None = None

    def current_player(self) -> int:
        if self.record_1R is None:
            return int(pyspiel.PlayerId.CHANCE)
        if self.is_terminal():
            return int(pyspiel.PlayerId.TERMINAL)
        return int(engine.players(self.record_1R)[0])

    def _legal_actions(self, player: int) -> list[int]:
        legal_1A = np.empty((1, RULES.num_actions), np.bool_)
        engine.legal_actions(RULES, self.record_1R, legal_1A)
        actions: list[int] = np.flatnonzero(legal_1A[0]).tolist()
        return actions

    def chance_outcomes(self) -> list[tuple[int, float]]:
        left = list(_DECK)
        for kind in self.dealt:
            left.remove(kind)
        return [(kind, left.count(kind) / len(left)) for kind in sorted(set(left))]

    def _apply_action(self, action: int) -> None:
        if self.record_1R is None:
            self.dealt = (*self.dealt, action)
            if len(self.dealt) == len(_DECK):
                self.record_1R = engine.new_games(RULES, np.array([self.dealt], np.uint8))
        else:
            engine.step(RULES, self.record_1R, np.array([action], np.int32))

    def _action_to_string(self, player: int, action: int) -> str:
        if player == pyspiel.PlayerId.CHANCE:
            return f"deal {action}"
        return action_name(RULES, action)

    def is_terminal(self) -> bool:
        return self.record_1R is not None and bool(engine.is_over(self.record_1R)[0])

    def returns(self) -> list[float]:
        if not self.is_terminal():
            return [0.0, 0.0]
        mine, theirs = engine.scores(RULES, self.record_1R)[0].tolist()
        return [float(mine - theirs), float(theirs - mine)]

    def __str__(self) -> str:
        return " ".join(map(str, self.history()))


class TinyObserver:
    """What the trainer's networks see of a state: the encoding, scaled; zeros while cards fall."""

    def __init__(self) -> None:
        self.tensor = np.zeros(encoding.encoding_size(RULES), np.float32)
        self.dict = {"observation": self.tensor}

    def set_from(self, state: TinyState, player: int) -> None:
        self.tensor[:] = self._features(state, player) * encoding.encoding_scale(RULES)

    def string_from(self, state: TinyState, player: int) -> str:
        return f"{player} {self._features(state, player).tobytes().hex()}"

    def _features(self, state: TinyState, player: int) -> np.ndarray:
        features_1E = np.zeros((1, len(self.tensor)), np.uint8)
        if state.record_1R is not None:
            viewers_1 = np.array([player], np.uint8)
            encoding.encode(RULES, state.record_1R, features_1E, viewers_1)
        features_E: np.ndarray = features_1E[0]
        return features_E


pyspiel.register_game(_TYPE, TinyLostCities)


def check_against_reference(games: int, seed: int) -> None:
    """Play random games here and on the plain engine; raise AssertionError where they differ."""
    generator = np.random.default_rng(seed)
    for _ in range(games):
        state = pyspiel.load_game(NAME).new_initial_state()
        while state.is_chance_node():
            kinds, shares = zip(*state.chance_outcomes(), strict=True)
            state = state.child(int(generator.choice(kinds, p=shares)))
        game = reference.deal(RULES, state.history())
        while not state.is_terminal():
            assert state.current_player() == game.player
            assert state.legal_actions() == game.legal_actions()
            for player in range(2):
                seen = np.array(reference.encode(game, player)) * encoding.encoding_scale(RULES)
                np.testing.assert_allclose(state.information_state_tensor(player), seen, rtol=1e-6)
            action = int(generator.choice(game.legal_actions()))
            state = state.child(action)
            game.take(action)
        assert game.over
        mine, theirs = game.scores()
        assert state.returns() == [mine - theirs, theirs - mine]
