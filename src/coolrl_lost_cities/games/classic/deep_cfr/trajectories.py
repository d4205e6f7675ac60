"""Win rates of paired runs over the iterations, and the numbers of them that are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from coolrl_lost_cities.games.classic.deep_cfr.equivalence import Quantity
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.deep_cfr.metrics import Metrics, read_metrics

_Z95 = 1.959963984540054


class TrajectoryError(DeepCFRError):
    """Metrics that hold no win rates to compare."""


@dataclass(frozen=True)
class WinRates:
    """One policy's win rates against one bot at each evaluation, one row a seed.

    `game_variance` is the variance of a single win rate that its games account for.
    """

    policy: str
    opponent: str
    iterations: tuple[int, ...]
    off: tuple[tuple[float, ...], ...]
    on: tuple[tuple[float, ...], ...]
    game_variance: float

    @property
    def name(self) -> str:
        """What tables and plots call it."""
        return f"{self.policy} against {self.opponent}"

    def quantities(self) -> list[Quantity]:
        """Return the mean over the evaluations, which sees slower learning, and the last one."""
        number = len(self.iterations)
        means = Quantity(
            f"{self.name}, all evaluations",
            tuple(map(fmean, self.off)),
            tuple(map(fmean, self.on)),
            self.game_variance / number,
        )
        last = Quantity(
            f"{self.name}, last evaluation",
            tuple(row[-1] for row in self.off),
            tuple(row[-1] for row in self.on),
            self.game_variance,
        )
        return [last] if number == 1 else [means, last]


def read_win_rates(pairs: Sequence[tuple[Path, Path]]) -> list[WinRates]:
    """Return what the metrics files of pairs, off then on, say of every policy and bot.

    Raises TrajectoryError where a file was evaluated at other iterations or against other bots
    than the first.
    """
    found = [tuple(_evaluations(path) for path in pair) for pair in pairs]
    first = found[0][0]
    for pair, records in zip(pairs, found, strict=True):
        for path, record in zip(pair, records, strict=True):
            if _plan(record) != _plan(first):
                raise TrajectoryError(
                    f"{path}: was not evaluated when and against whom {pairs[0][0]} was; remove "
                    "its folder, so that it is run again"
                )
    iterations, names = _plan(first)
    if not names:
        raise TrajectoryError(f"{pairs[0][0]}: holds no evaluation; set drift.eval_every")
    return [_win_rates(found, iterations, policy, opponent) for policy, opponent in names]


def _win_rates(
    pairs: Sequence[Sequence[Mapping[int, Metrics]]],
    iterations: tuple[int, ...],
    policy: str,
    opponent: str,
) -> WinRates:
    off, on = (
        tuple(
            tuple(pair[side][iteration][policy][opponent]["win_rate"] for iteration in iterations)
            for pair in pairs
        )
        for side in (0, 1)
    )
    variances = [
        _variance(record[iteration][policy][opponent])
        for pair in pairs
        for record in pair
        for iteration in iterations
    ]
    return WinRates(policy, opponent, iterations, off, on, fmean(variances))


def _evaluations(path: Path) -> dict[int, Metrics]:
    """Return by iteration the results by policy and bot."""
    lines = read_metrics(path)
    return {line["iteration"]: line["evaluation"] for line in lines if "evaluation" in line}


def _plan(record: Mapping[int, Metrics]) -> tuple[tuple[int, ...], tuple[tuple[str, str], ...]]:
    """Return at which iterations which policies met whom."""
    matches = {
        (policy, bot)
        for results in record.values()
        for policy, bots in results.items()
        for bot in bots
    }
    return tuple(record), tuple(sorted(matches))


def _variance(result: Metrics) -> float:
    """Return the variance of a win rate, from an interval that knows of mirrored deals."""
    return float(((result["interval_high"] - result["interval_low"]) / (2 * _Z95)) ** 2)
