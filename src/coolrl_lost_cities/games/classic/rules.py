"""The rules of a two-player Lost Cities round as one validated value.

A card *kind* is ``color * num_kinds + slot``: slot 0 is the wager, slot ``r`` the ``r``-th number.
Slot 0 exists even where the rules have no wagers, so that one formula names every card and action::

    play kind        kind
    discard kind     num_card_kinds + kind
    draw the deck    2 * num_card_kinds
    draw pile c      2 * num_card_kinds + 1 + c
"""

import hashlib
from dataclasses import asdict, dataclass

_BYTE = 255


@dataclass(frozen=True)
class Rules:
    """The rules of one round; the defaults are the published game.

    ``max_steps`` counts single steps (two to a turn); a game that reaches it is cut. With
    ``remember_history`` the information state also holds everything its viewer has observed, in
    order: perfect recall, for games small enough to be solved exactly.

    Raises ValueError, naming the field, for a value outside what the engine's records can hold.
    """

    num_colors: int = 5
    num_ranks: int = 9
    lowest_rank: int = 2
    num_wagers: int = 3
    hand_size: int = 8
    expedition_cost: int = 20
    bonus_cards: int = 8
    bonus: int = 20
    max_steps: int = 600
    remember_history: bool = False

    def __post_init__(self) -> None:
        ranges = {
            "num_colors": (1, 15),
            "num_ranks": (1, 20),
            "lowest_rank": (1, 100),
            "num_wagers": (0, 15),
            "hand_size": (1, 60),
            "expedition_cost": (0, 255),
            "bonus_cards": (1, 255),
            "bonus": (0, 255),
            "max_steps": (1, 65535),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise ValueError(
                    f"rules.{name} is {value!r}; expected a whole number from {low} to {high}"
                )
        if not isinstance(self.remember_history, bool):
            raise ValueError(
                f"rules.remember_history is {self.remember_history!r}; expected true or false"
            )
        if self.num_cards > _BYTE:
            raise ValueError(
                f"rules.num_colors, num_ranks and num_wagers make {self.num_cards} cards; "
                f"expected at most {_BYTE}"
            )
        if self.points_per_color > _BYTE:
            raise ValueError(
                f"rules.num_ranks and lowest_rank make {self.points_per_color} points a color; "
                f"expected at most {_BYTE}"
            )
        if 2 * self.hand_size >= self.num_cards:
            raise ValueError(
                f"rules.hand_size is {self.hand_size}, which leaves no deck of {self.num_cards} "
                f"cards; expected at most {(self.num_cards - 1) // 2}"
            )
        if self.remember_history and (
            self.max_steps > _BYTE or self.num_actions + self.num_card_kinds >= _BYTE
        ):
            raise ValueError(
                "rules.remember_history is true for a game too large to remember; expected "
                f"max_steps (now {self.max_steps}) of at most {_BYTE} and fewer than {_BYTE} "
                f"actions and kinds (now {self.num_actions + self.num_card_kinds})"
            )

    @property
    def num_kinds(self) -> int:
        """Kinds of card in one color, the wager's slot included."""
        return self.num_ranks + 1

    @property
    def num_card_kinds(self) -> int:
        """Kinds of card in all colors."""
        return self.num_colors * self.num_kinds

    @property
    def cards_per_color(self) -> int:
        """Cards of one color, which is also the most that its pile can hold."""
        return self.num_ranks + self.num_wagers

    @property
    def value_unit(self) -> float:
        """Points that make a value of about 1, which is what networks learn best."""
        return self.points_per_color / 2

    @property
    def points_per_color(self) -> int:
        """Sum of the numbers of one color."""
        return self.num_ranks * self.lowest_rank + self.num_ranks * (self.num_ranks - 1) // 2

    @property
    def num_cards(self) -> int:
        """Cards in the whole game."""
        return self.num_colors * self.cards_per_color

    @property
    def num_actions(self) -> int:
        """Actions that have a name, legal or not."""
        return 2 * self.num_card_kinds + 1 + self.num_colors

    @property
    def max_legal_actions(self) -> int:
        """Playing or discarding every card of a hand, or drawing from the deck and every pile."""
        return max(2 * self.hand_size, 1 + self.num_colors)

    @property
    def draw_deck(self) -> int:
        """The action that draws from the deck; the piles' actions follow it."""
        return 2 * self.num_card_kinds

    @property
    def score_range(self) -> int:
        """Largest less smallest difference of totals that any split of the cards allows.

        Takes no account of hands and time, which may keep a game from ever reaching the ends.
        """
        best = 0
        for mine_w in range(self.num_wagers + 1):
            for theirs_w in range(self.num_wagers + 1 - mine_w):
                for mine_n in range(self.num_ranks + 1):
                    for theirs_n in range(self.num_ranks + 1 - mine_n):
                        top = sum(self.rank(self.num_ranks - i) for i in range(mine_n))
                        low = sum(self.rank(1 + i) for i in range(theirs_n))
                        best = max(
                            best,
                            self.expedition_score(top, mine_n, mine_w)
                            - self.expedition_score(low, theirs_n, theirs_w),
                        )
        return 2 * self.num_colors * best

    def rank(self, slot: int) -> int:
        """Return the number printed on the card of a slot from 1."""
        return self.lowest_rank + slot - 1

    def expedition_score(self, points: int, numbers: int, wagers: int) -> int:
        """Score one expedition from the sum and count of its numbers and its wagers."""
        if numbers + wagers == 0:
            return 0
        score = (points - self.expedition_cost) * (1 + wagers)
        return score + (self.bonus if numbers + wagers >= self.bonus_cards else 0)

    def digest(self) -> str:
        """Return 16 hex digits that differ between different rules."""
        text = ",".join(f"{name}={value}" for name, value in sorted(asdict(self).items()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


# Games small enough for every history to be listed (see deep_cfr/exact.py).
TINY_ONE_COLOR = Rules(  # 64 information sets with a choice
    num_colors=1,
    num_ranks=4,
    lowest_rank=1,
    num_wagers=0,
    hand_size=1,
    expedition_cost=2,
    bonus_cards=2,
    bonus=1,
    max_steps=8,
    remember_history=True,
)
TINY = Rules(
    num_colors=2,
    num_ranks=3,
    lowest_rank=1,
    num_wagers=0,
    hand_size=2,
    expedition_cost=2,
    bonus_cards=2,
    bonus=1,
    max_steps=8,
    remember_history=True,
)
TINY_WAGER = Rules(
    num_colors=2,
    num_ranks=3,
    lowest_rank=1,
    num_wagers=1,
    hand_size=2,
    expedition_cost=2,
    bonus_cards=3,
    bonus=1,
    max_steps=6,
    remember_history=True,
)


def play_action(rules: Rules, color: int, slot: int) -> int:
    """Return the action that plays a card on its own expedition."""
    return color * rules.num_kinds + slot


def discard_action(rules: Rules, color: int, slot: int) -> int:
    """Return the action that lays a card on its color's pile."""
    return rules.num_card_kinds + color * rules.num_kinds + slot


def draw_pile_action(rules: Rules, color: int) -> int:
    """Return the action that takes the top card of a pile."""
    return rules.draw_deck + 1 + color


def action_name(rules: Rules, action: int) -> str:
    """Return an action as a person would say it, such as ``play 2:w`` or ``discard 0:7``.

    Raises ValueError for a number that names no action.
    """
    if not 0 <= action < rules.num_actions:
        raise ValueError(f"action is {action}; expected 0 to {rules.num_actions - 1}")
    if action == rules.draw_deck:
        return "draw deck"
    if action > rules.draw_deck:
        return f"draw pile {action - rules.draw_deck - 1}"
    verb = "play" if action < rules.num_card_kinds else "discard"
    color, slot = divmod(action % rules.num_card_kinds, rules.num_kinds)
    return f"{verb} {color}:{rules.rank(slot) if slot else 'w'}"
