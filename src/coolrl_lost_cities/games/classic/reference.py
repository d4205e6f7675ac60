"""Lost Cities again, in plain Python, as plainly as possible: what the kernels are compared with.

Nothing here is shared with ``engine`` but the names of the actions. A card is ``(color, slot)``.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from coolrl_lost_cities.games.classic.rules import (
    Rules,
    discard_action,
    draw_pile_action,
    play_action,
)


class Card(NamedTuple):
    """A card; slot 0 is a wager, slot ``r`` the ``r``-th number."""

    color: int
    slot: int


class Event(NamedTuple):
    """One step taken: by whom, which action, and the card if it came from the deck."""

    player: int
    action: int
    from_deck: Card | None


@dataclass
class ReferenceGame:
    """One round in progress, changed by ``take``."""

    rules: Rules
    deck: list[Card]
    hands: list[list[Card]]
    known: list[list[Card]]  # what a hand took from piles and still holds, as everybody knows
    expeditions: list[list[list[Card]]]
    piles: list[list[Card]]
    player: int = 0
    drawing: bool = False
    discarded_to: int | None = None
    events: list[Event] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether the round has ended or was cut."""
        return not self.deck or len(self.events) >= self.rules.max_steps

    @property
    def cut(self) -> bool:
        """Whether only the step limit ended the round."""
        return bool(self.deck) and len(self.events) >= self.rules.max_steps

    def legal_actions(self) -> list[int]:
        """Return the legal actions of the player to move, ascending."""
        if self.over:
            return []
        actions = set()
        if self.drawing:
            actions.add(self.rules.draw_deck)
            for color, pile in enumerate(self.piles):
                if pile and color != self.discarded_to:
                    actions.add(draw_pile_action(self.rules, color))
            return sorted(actions)
        for card in self.hands[self.player]:
            actions.add(discard_action(self.rules, *card))
            if may_follow(self.expeditions[self.player][card.color], card):
                actions.add(play_action(self.rules, *card))
        return sorted(actions)

    def take(self, action: int) -> None:
        """Take one action; raises ValueError if it is illegal."""
        if action not in self.legal_actions():
            raise ValueError(f"action {action} is illegal; expected one of {self.legal_actions()}")
        hand, from_deck = self.hands[self.player], None
        if not self.drawing:
            color, slot = divmod(action % self.rules.num_card_kinds, self.rules.num_kinds)
            card = Card(color, slot)
            hand.remove(card)
            if card in self.known[self.player]:
                self.known[self.player].remove(card)
            if action < self.rules.num_card_kinds:
                self.expeditions[self.player][color].append(card)
            else:
                self.piles[color].append(card)
                self.discarded_to = color
        elif action == self.rules.draw_deck:
            from_deck = self.deck.pop(0)
            hand.append(from_deck)
        else:
            card = self.piles[action - self.rules.draw_deck - 1].pop()
            hand.append(card)
            self.known[self.player].append(card)
        self.events.append(Event(self.player, action, from_deck))
        if self.drawing:
            self.player = 1 - self.player
            self.discarded_to = None
        self.drawing = not self.drawing

    def scores(self) -> list[int]:
        """Return both totals as they stand."""
        return [sum(score(self.rules, cards) for cards in mine) for mine in self.expeditions]


def may_follow(expedition: list[Card], card: Card) -> bool:
    """Say whether a card may be played on an expedition of its color."""
    numbers = [played.slot for played in expedition if played.slot > 0]
    if card.slot == 0:
        return not numbers
    return not numbers or card.slot > max(numbers)


def score(rules: Rules, expedition: list[Card]) -> int:
    """Return what one expedition scores."""
    if not expedition:
        return 0
    wagers = sum(card.slot == 0 for card in expedition)
    total = sum(rules.rank(card.slot) for card in expedition if card.slot > 0)
    bonus = rules.bonus if len(expedition) >= rules.bonus_cards else 0
    return (total - rules.expedition_cost) * (1 + wagers) + bonus


def deal(rules: Rules, deck: list[int]) -> ReferenceGame:
    """Deal a round from card kinds in dealing order: both hands, then the draws."""
    cards = [Card(*divmod(int(kind), rules.num_kinds)) for kind in deck]
    size = rules.hand_size
    return ReferenceGame(
        rules=rules,
        deck=cards[2 * size :],
        hands=[cards[:size], cards[size : 2 * size]],
        known=[[], []],
        expeditions=[[[] for _ in range(rules.num_colors)] for _ in range(2)],
        piles=[[] for _ in range(rules.num_colors)],
    )


def encode(game: ReferenceGame, viewer: int) -> list[int]:
    """Return a viewer's information state, in the order that ``deep_cfr.encoding`` lists."""
    features: list[int] = []
    for color in range(game.rules.num_colors):
        features += _color_block(game, viewer, color)
    other = 1 - viewer
    my_turn = game.player == viewer and not game.over
    features += [
        int(my_turn and not game.drawing),
        int(my_turn and game.drawing),
        len(game.deck),
        min(255, game.rules.max_steps - len(game.events)),
        len(game.hands[other]) - len(game.known[other]),
    ]
    if game.rules.remember_history:
        for event in game.events:
            features.append(event.action + 1)
            drawn = event.from_deck if event.player == viewer else None
            features.append(
                0 if drawn is None else drawn.color * game.rules.num_kinds + drawn.slot + 1
            )
        features += [0, 0] * (game.rules.max_steps - len(game.events))
    return features


def _color_block(game: ReferenceGame, viewer: int, color: int) -> list[int]:
    rules, other = game.rules, 1 - viewer
    hand, known = game.hands[viewer], game.known[other]
    mine, theirs = game.expeditions[viewer][color], game.expeditions[other][color]
    pile = game.piles[color]
    kinds = [Card(color, slot) for slot in range(rules.num_kinds)]
    seen = hand + known + mine + theirs + pile
    copies = [rules.num_wagers] + [1] * rules.num_ranks

    depths = [0] * rules.num_ranks
    wager_depths = []
    for depth, card in enumerate(reversed(pile)):
        if card.slot > 0:
            depths[card.slot - 1] = rules.cards_per_color - depth
        else:
            wager_depths.append(rules.cards_per_color - depth)
    wager_depths += [0] * (rules.num_wagers - len(wager_depths))

    block = [hand.count(kind) for kind in kinds]
    block += [mine.count(kind) for kind in kinds]
    block += [theirs.count(kind) for kind in kinds]
    block += [copy - seen.count(kind) for copy, kind in zip(copies, kinds, strict=True)]
    block += [known.count(kind) for kind in kinds]
    block += depths + wager_depths
    block += [int(pile[-1:] == [kind]) for kind in kinds]
    block += [len(pile), int(game.discarded_to == color)]

    unplayed = [card for card in kinds[1:] if card not in mine + theirs]
    open_to_me = [card for card in unplayed if may_follow(mine, card) and card not in known]
    open_to_them = [card for card in unplayed if may_follow(theirs, card) and card not in hand]
    in_hand = [card for card in open_to_me if card in hand]
    for expedition, still_open in ((mine, open_to_me), (theirs, open_to_them)):
        numbers = [card for card in expedition if card.slot > 0]
        offset = rules.expedition_cost * (1 + rules.num_wagers)
        block += [
            max((card.slot for card in numbers), default=0),
            len(numbers),
            sum(rules.rank(card.slot) for card in numbers),
            min(255, score(rules, expedition) + offset),
            max(0, rules.bonus_cards - len(expedition)),
            sum(rules.rank(card.slot) for card in still_open),
        ]
    return [*block, len(in_hand), sum(rules.rank(card.slot) for card in in_hand)]
