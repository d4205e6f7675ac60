"""What a sweep of benches goes through: keys and their values, and every combination of them."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError

MODE = "compile.trainer.mode"
SHORT = {"mode": MODE, "scope": "compile.trainer.scope", "dtype": "run.precision"}


class WrongAxis(DeepCFRError):
    """A sweep was asked for that has no keys, no values, or one of them twice."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(
            f"--sweep {text}: {why}, expected KEY=VALUE,VALUE with a key of the configuration or "
            f"one of {', '.join(SHORT)}"
        )


@dataclass(frozen=True)
class Axis:
    """A key of the configuration and the values that it takes in turn, as YAML."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """One combination: the overrides that make it, and a name that may be a folder's."""

    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        """The overrides in few letters."""
        parts = (text.rpartition(".")[2] for text in self.overrides)
        return "_".join(parts).replace("/", "-")

    @property
    def base(self) -> "Point":
        """The point that differs in its mode of compiling only, which is the default there."""
        return Point(tuple(_with_default_mode(text) for text in self.overrides))


def parse_axes(texts: Sequence[str]) -> tuple[Axis, ...]:
    """Return what texts such as `dtype=fp32,bf16` say; one may hold several, between spaces.

    Raises WrongAxis.
    """
    axes: dict[str, Axis] = {}
    for text in itertools.chain.from_iterable(text.split() for text in texts):
        key, equals, rest = text.partition("=")
        values = tuple(rest.split(","))
        if not equals or not key or not all(values):
            raise WrongAxis(text, "a key or a value is missing")
        if len(set(values)) < len(values):
            raise WrongAxis(text, "a value is there twice")
        key = SHORT.get(key, key)
        if key in axes:
            raise WrongAxis(text, f"{key} has its values already")
        axes[key] = Axis(key, values)
    if not axes:
        raise WrongAxis(" ".join(texts), "nothing to go through")
    return tuple(axes.values())


def points(axes: Sequence[Axis]) -> tuple[Point, ...]:
    """Return every combination, the first axis changing slowest.

    Modes of compiling change fastest and begin with the default one, which the others wait for.
    """
    ordered = [axis for axis in axes if axis.key != MODE]
    for axis in axes:
        if axis.key == MODE:
            others = tuple(value for value in axis.values if value != "default")
            ordered.append(Axis(MODE, ("default", *others)))
    choices = [[f"{axis.key}={value}" for value in axis.values] for axis in ordered]
    return tuple(Point(chosen) for chosen in itertools.product(*choices))


def _with_default_mode(text: str) -> str:
    return f"{MODE}=default" if text.startswith(f"{MODE}=") else text
