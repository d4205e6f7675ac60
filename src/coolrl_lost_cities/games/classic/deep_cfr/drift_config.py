"""The section `drift`: how many paired runs, and how far apart they may end.

Fixed before the first run. A margin that is chosen when the curves are there proves nothing.
"""

from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from coolrl_lost_cities.games.classic.deep_cfr.closed import CLOSED


@dataclass(frozen=True, config=CLOSED)
class DriftConfig:
    """Runs of the seeds `run.seed` and up, each with compile off and on; `drift.py` judges them."""

    seeds: Annotated[int, Field(ge=2)] = 6
    iterations: PositiveInt = 100
    eval_every: PositiveInt = 25
    games: Annotated[int, Field(ge=2, multiple_of=2)] = 1000
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.05
    spreads: PositiveFloat = 3.0

    def __post_init__(self) -> None:
        """Check that a run's last iteration is evaluated."""
        if self.iterations % self.eval_every:
            raise ValueError(
                f"iterations is {self.iterations}, expected a multiple of eval_every "
                f"{self.eval_every}, so that the last one is evaluated"
            )
