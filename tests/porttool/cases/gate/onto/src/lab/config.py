"""The configuration of a run, one class a section."""

from dataclasses import field

from pydantic import ConfigDict, PositiveInt
from pydantic.dataclasses import dataclass

CLOSED = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, config=CLOSED)
class NetworkConfig:
    """The shape of every network."""

    hidden_size: PositiveInt = 512
    num_layers: PositiveInt = 3


@dataclass(frozen=True, config=CLOSED)
class OptimizationConfig:
    """The training steps of one iteration."""

    learning_rate: float = 1e-3
    steps: PositiveInt = 100


# Sections in the order of the settings file.
@dataclass(frozen=True, config=CLOSED)
class LabConfig:
    """Everything a run depends on."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    optimization: OptimizationConfig = field(default_factory=OptimizationConfig)

    @property
    def is_small(self) -> bool:
        """Tell whether this is a toy."""
        return self.network.hidden_size < 64


def describe(config: LabConfig) -> str:
    """Return one line for the log."""
    return f"{config.network.hidden_size} x {config.network.num_layers}"
