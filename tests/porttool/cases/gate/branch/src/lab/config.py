"""The configuration of a run, one class a section."""

from dataclasses import field
from typing import Literal

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


@dataclass(frozen=True, config=CLOSED)
class CompileTrainerConfig:
    """The section `compile.trainer`, off unless `enabled` is set."""

    enabled: bool = False
    mode: Literal["default", "reduce-overhead", "max-autotune"] = "default"
    fullgraph: bool = False  # safer to start False; may flip True after stabilization
    dynamic: bool = False  # trainer batches are fixed shape


@dataclass(frozen=True, config=CLOSED)
class CompileInferenceServerConfig:
    """The section `compile.inference_server`, off unless `enabled` is set."""

    enabled: bool = False
    mode: Literal["default", "reduce-overhead"] = "default"
    fullgraph: bool = False
    dynamic: bool = True  # batch dim varies up to max_batch


@dataclass(frozen=True, config=CLOSED)
class CompileConfig:
    """The section `compile`: `trainer`, `inference_server`."""

    trainer: CompileTrainerConfig = field(default_factory=CompileTrainerConfig)
    inference_server: CompileInferenceServerConfig = field(
        default_factory=CompileInferenceServerConfig
    )


# Sections in the order of the settings file.
@dataclass(frozen=True, config=CLOSED)
class LabConfig:
    """Everything a run depends on."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    optimization: OptimizationConfig = field(default_factory=OptimizationConfig)
    compile: CompileConfig = field(default_factory=CompileConfig)

    @property
    def is_small(self) -> bool:
        """Tell whether this is a toy."""
        return self.network.hidden_size < 64


def describe(config: LabConfig) -> str:
    """Return one line for the log."""
    return f"{config.network.hidden_size} x {config.network.num_layers}"
