"""The configuration of a run: YAML in, closed and validated dataclasses out.

One class a section, the root last. Every class is strict (no `"512"` for 512), frozen and closed;
`load_config` names the dotted path of whatever it refuses and the nearest key that exists.
"""

import dataclasses
import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic import ValidationError as PydanticValidationError
from pydantic.dataclasses import dataclass
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from coolrl_lost_cities.games.classic.deep_cfr.closed import CLOSED
from coolrl_lost_cities.games.classic.deep_cfr.drift_config import DriftConfig
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError
from coolrl_lost_cities.games.classic.rules import Rules

_Section = TypeVar("_Section")

Precision = Literal["fp32", "bf16", "fp16"]


class ConfigError(DeepCFRError):
    """A configuration that cannot be used: where it stands, what is wrong, what would be right."""

    def __init__(self, source: str, path: str, problem: str) -> None:
        self.source = source
        self.path = path
        self.problem = problem
        super().__init__(": ".join(part for part in (source, path, problem) if part))


@dataclass(frozen=True, config=CLOSED)
class RunConfig:
    """The run as a whole; `out` is the folder that receives everything the run writes."""

    name: str = "default"
    seed: NonNegativeInt = 0
    iterations: PositiveInt = 200
    minutes: PositiveFloat | None = None
    out: str = "runs/default"
    overwrite: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    num_threads: PositiveInt = 1
    precision: Precision = "fp32"
    warm_start: str | None = None


@dataclass(frozen=True, config=CLOSED)
class RulesConfig:
    """The fields of `rules.Rules`, which checks how they go together."""

    num_colors: PositiveInt = 5
    num_ranks: PositiveInt = 9
    lowest_rank: PositiveInt = 2
    num_wagers: NonNegativeInt = 3
    hand_size: PositiveInt = 8
    expedition_cost: NonNegativeInt = 20
    bonus_cards: PositiveInt = 8
    bonus: NonNegativeInt = 20
    max_steps: PositiveInt = 600
    remember_history: bool = False


@dataclass(frozen=True, config=CLOSED)
class EncodingConfig:
    """How information states reach the networks."""

    permute_colors: bool = False
    without: list[Literal["unseen", "known", "piles", "summaries"]] = field(default_factory=list)


@dataclass(frozen=True, config=CLOSED)
class NetworkConfig:
    """The shape shared by the advantage networks and the strategy network."""

    kind: Literal["mlp", "color_shared"] = "mlp"
    hidden_size: PositiveInt = 512
    num_layers: PositiveInt = 3
    activation: Literal["relu", "gelu"] = "relu"
    color_attention_layers: NonNegativeInt = 0
    color_attention_heads: PositiveInt = 4
    shared_seats: bool = False

    def __post_init__(self) -> None:
        """Check that the attention heads share the hidden units evenly."""
        if self.color_attention_layers and self.hidden_size % self.color_attention_heads:
            raise ValueError(
                f"color_attention_heads is {self.color_attention_heads}, "
                f"expected a divisor of hidden_size {self.hidden_size}"
            )

    @property
    def worth_compiling(self) -> bool:
        """Whether torch.compile may gain: below this it has been measured to slow down."""
        attentive = self.kind == "color_shared" and self.color_attention_layers >= 2
        return self.hidden_size >= 1024 or self.num_layers >= 6 or attentive


@dataclass(frozen=True, config=CLOSED)
class TraversalConfig:
    """How the game is sampled, and by which processes."""

    traversals_per_iteration: PositiveInt = 2000
    lanes: PositiveInt = 1024
    exploration: Annotated[float, Field(gt=0, le=1)] = 0.2
    num_workers: NonNegativeInt = 0
    backend: Literal["local", "ray"] = "local"
    ray_address: str = "auto"
    inference_backend: Literal["local", "server"] = "local"
    opponent: Literal["current", "frozen"] = "current"
    opponent_refresh_every: PositiveInt = 10

    def __post_init__(self) -> None:
        """Check that a cluster is told how many pieces to make, and reaches its networks."""
        if self.backend == "ray" and (self.num_workers == 0 or self.inference_backend == "server"):
            raise ValueError(
                f"backend is ray with num_workers {self.num_workers} and inference_backend "
                f"{self.inference_backend}; expected at least 1 and local"
            )


@dataclass(frozen=True, config=CLOSED)
class EstimatorConfig:
    """How regrets are estimated from sampled games; `traversal.py` says what each is."""

    kind: Literal["outcome", "escher"] = "outcome"
    baseline: Literal["none", "score", "learned"] = "score"

    @property
    def asks_values(self) -> bool:
        """Whether a value network takes part."""
        return self.kind == "escher" or self.baseline == "learned"


@dataclass(frozen=True, config=CLOSED)
class ValueConfig:
    """The history-value network, where the estimator has one, and its training."""

    hidden_size: PositiveInt = 512
    num_layers: PositiveInt = 3
    steps: PositiveInt = 200
    batch_size: PositiveInt = 1024
    learning_rate: PositiveFloat = 1e-3
    trace_decay: Annotated[float, Field(ge=0, le=1)] = 0.9
    capacity: PositiveInt = 200_000


@dataclass(frozen=True, config=CLOSED)
class TrainingWeightingConfig:
    """How much an iteration counts in the losses; `linear` is Linear CFR."""

    kind: Literal["linear", "discounted", "uniform"] = "linear"

    @property
    def exponents(self) -> tuple[float, float]:
        """The powers of the iteration that its regrets and its policies weigh.

        `discounted` weighs regrets as Discounted CFR weighs positive ones (Brown and Sandholm
        2019, alpha 1.5 and gamma 2).
        """
        return {"linear": (1.0, 1.0), "discounted": (1.5, 2.0), "uniform": (0.0, 0.0)}[self.kind]


@dataclass(frozen=True, config=CLOSED)
class OptimizationConfig:
    """The training steps of one iteration."""

    advantage_batch_size: PositiveInt = 1024
    strategy_batch_size: PositiveInt = 1024
    advantage_steps: PositiveInt = 200
    strategy_steps: PositiveInt = 200
    learning_rate: PositiveFloat = 1e-3
    schedule: Literal["constant", "linear"] = "constant"
    weight_decay: NonNegativeFloat = 0.0
    grad_clip: PositiveFloat = 1.0
    reinitialize_advantage: bool = True
    concurrent: bool = False


@dataclass(frozen=True, config=CLOSED)
class MemoryConfig:
    """Samples kept by each player's advantage memory and by the strategy memory."""

    advantage_capacity: PositiveInt = 500_000
    strategy_capacity: PositiveInt = 500_000
    keep: Literal["uniform", "latest"] = "uniform"


@dataclass(frozen=True, config=CLOSED)
class CheckpointConfig:
    """What is kept: `latest.pt` every `latest_every`, a numbered copy every `save_every`."""

    save_latest: bool = True
    latest_every: PositiveInt = 1
    save_every: NonNegativeInt = 0


@dataclass(frozen=True, config=CLOSED)
class EvaluationConfig:
    """Matches against the bots; `eval_every: 0` plays none."""

    eval_every: NonNegativeInt = 10
    games: Annotated[int, Field(ge=2, multiple_of=2)] = 1000
    opponents: list[Literal["random", "discard_only", "safe_heuristic"]] = field(
        default_factory=lambda: ["random", "discard_only", "safe_heuristic"]
    )
    policies: Literal["average", "current", "both"] = "both"


@dataclass(frozen=True, config=CLOSED)
class InferenceServerConfig:
    """The process that answers forwards when `traversal.inference_backend` is `server`."""

    max_batch: PositiveInt = 4096
    timeout_s: PositiveFloat = 60.0
    on_failure: Literal["stop", "local"] = "stop"


@dataclass(frozen=True, config=CLOSED)
class CompileTrainerConfig:
    """The section `compile.trainer`, off unless `enabled` is set."""

    enabled: bool = False
    mode: Literal["default", "reduce-overhead", "max-autotune"] = "default"
    fullgraph: bool = False  # safer to start False; may flip True after stabilization
    dynamic: bool = False  # trainer batches are fixed shape
    scope: Literal["networks", "step"] = "networks"

    @property
    def options(self) -> dict[str, object]:
        """Return what torch.compile is given."""
        return {"mode": self.mode, "fullgraph": self.fullgraph, "dynamic": self.dynamic}

    @property
    def compiles_steps(self) -> bool:
        """Whether whole optimizer steps are compiled, and the networks not by themselves."""
        return self.enabled and self.scope == "step"


@dataclass(frozen=True, config=CLOSED)
class CompileInferenceServerConfig:
    """The section `compile.inference_server`, off unless `enabled` is set."""

    enabled: bool = False
    mode: Literal["default", "reduce-overhead"] = "default"
    fullgraph: bool = False
    dynamic: bool = True  # batch dim varies up to max_batch
    buckets: Literal["none", "powers_of_two"] = "none"

    def __post_init__(self) -> None:
        """Check that what records fixed shapes is given fixed shapes."""
        if self.mode == "reduce-overhead" and self.buckets == "none":
            raise ValueError(
                "mode is reduce-overhead, which wants batches of few sizes; "
                "expected buckets: powers_of_two with it"
            )


@dataclass(frozen=True, config=CLOSED)
class CompileConfig:
    """The section `compile`: `trainer`, `inference_server`."""

    trainer: CompileTrainerConfig = field(default_factory=CompileTrainerConfig)
    inference_server: CompileInferenceServerConfig = field(
        default_factory=CompileInferenceServerConfig
    )


@dataclass(frozen=True, config=CLOSED)
class DeepCFRConfig:
    """Everything a run depends on."""

    run: RunConfig = field(default_factory=RunConfig)
    rules: RulesConfig = field(default_factory=RulesConfig)
    encoding: EncodingConfig = field(default_factory=EncodingConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    traversal: TraversalConfig = field(default_factory=TraversalConfig)
    estimator: EstimatorConfig = field(default_factory=EstimatorConfig)
    value: ValueConfig = field(default_factory=ValueConfig)
    training_weighting: TrainingWeightingConfig = field(default_factory=TrainingWeightingConfig)
    optimization: OptimizationConfig = field(default_factory=OptimizationConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    inference_server: InferenceServerConfig = field(default_factory=InferenceServerConfig)
    compile: CompileConfig = field(default_factory=CompileConfig)
    drift: DriftConfig = field(default_factory=DriftConfig)

    def __post_init__(self) -> None:
        """Check what two sections must agree on: one request to the server holds all lanes."""
        if self.encoding.permute_colors and self.rules.remember_history:
            raise ValueError(
                "encoding.permute_colors is true, expected false with rules.remember_history, "
                "whose features name colors"
            )
        if self.optimization.concurrent and self.run.precision == "fp16":
            raise ValueError(
                "optimization.concurrent is true, expected false with run.precision fp16: all "
                "networks share the scale of the loss"
            )
        if self.optimization.concurrent and self.compile.trainer.mode == "reduce-overhead":
            raise ValueError(
                "optimization.concurrent is true, expected false with compile.trainer.mode "
                "reduce-overhead, whose graphs belong to one thread"
            )
        if self.compile.trainer.compiles_steps and self.run.precision == "fp16":
            raise ValueError(
                "compile.trainer.scope is step, expected networks with run.precision fp16, whose "
                "scale of the loss is set from outside of a step"
            )
        both = self.estimator.kind == "escher" and self.network.shared_seats
        if both and self.traversal.opponent == "frozen":
            raise ValueError(
                "traversal.opponent is frozen, expected current with estimator.kind escher and "
                "network.shared_seats, where both players of a game learn"
            )
        needed, most = self.traversal.lanes, self.inference_server.max_batch
        if self.traversal.inference_backend == "server" and needed > most:
            raise ValueError(
                f"inference_server.max_batch is {most}, expected at least traversal.lanes, {needed}"
            )


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> DeepCFRConfig:
    """Read a YAML file, apply overrides of the form `section.key=VALUE`, validate.

    VALUE is YAML. Keys that are left out keep their defaults, and so does everything when there is
    no path. Raises ConfigError.
    """
    if path is None:
        return config_from_mapping({}, "defaults", overrides)
    return config_from_mapping(_read_mapping(path), str(path), overrides)


def config_from_mapping(
    values: Mapping[str, Any], source: str, overrides: Sequence[str] = ()
) -> DeepCFRConfig:
    """Do what `load_config` does, from nested dictionaries such as a checkpoint stores."""
    _reject_unknown(DeepCFRConfig, values, source)
    origins: dict[str, str] = {}  # dotted path to the override that set it
    for text in overrides:
        dotted, nested = _parse_override(text)
        _reject_unknown(DeepCFRConfig, nested, f"--set {text}")
        values = _merged(values, nested)
        origins.pop(dotted, None)  # the last one counts, in place as well
        origins[dotted] = f"--set {text}"
    config = _build(DeepCFRConfig, values, source, origins)
    try:
        build_rules(config.rules)
    except ValueError as error:
        raise ConfigError(source, "", str(error)) from error
    return config


def config_to_mapping(config: DeepCFRConfig) -> dict[str, Any]:
    """Return nested dictionaries of plain values, every key present."""
    return dataclasses.asdict(config)


def config_to_yaml(config: DeepCFRConfig) -> str:
    """Return the resolved configuration as YAML that `load_config` reads back unchanged."""
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 10_000  # a long path stays on its line
    yaml.dump(config_to_mapping(config), text)
    return text.getvalue()


def build_rules(config: RulesConfig) -> Rules:
    """Return the rules of the game. Raises ValueError naming the field that does not fit."""
    return Rules(**dataclasses.asdict(config))


def _read_yaml(text: str, source: str) -> Any:
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        problem = " ".join(str(error).split())
        raise ConfigError(source, "", f"not YAML: {problem}") from error


def _read_mapping(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(str(path), "", f"cannot be read ({reason})") from error
    values = _read_yaml(text, str(path))
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(str(path), "", f"holds {values!r}, expected sections such as `run:`")
    return values


def _parse_override(text: str) -> tuple[str, dict[str, Any]]:
    """Return the dotted path and the nested mapping that `a.b=VALUE` stands for."""
    dotted, equals, value = text.partition("=")
    keys = dotted.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(f"--set {text}", "", "expected section.key=value")
    nested: Any = _read_yaml(value, f"--set {text}")
    for key in reversed(keys):
        nested = {key: nested}
    return ".".join(keys), nested


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return base with over laid on it; mappings are merged, anything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = _merged(below or {}, value) if both else value
    return result


def _sections(cls: type) -> Iterator[tuple[str, type]]:
    """Yield the fields of a config class that are config classes themselves."""
    for name, hint in get_type_hints(cls).items():
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield name, hint


def _reject_unknown(cls: type, values: Any, source: str, path: str = "") -> None:
    """Raise ConfigError at the first key of the mapping that the class does not have."""
    if values is None and path:
        return
    if not isinstance(values, Mapping):
        raise ConfigError(source, path.rstrip("."), f"got {values!r}, expected a section of keys")
    known = [config_field.name for config_field in dataclasses.fields(cls)]
    for key in values:
        if key not in known:
            raise ConfigError(source, f"{path}{key}", _unknown_key(str(key), known))
    for name, section in _sections(cls):
        if name in values:
            _reject_unknown(section, values[name], source, f"{path}{name}.")


def _unknown_key(key: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"unknown key{hint} (known: {', '.join(known)})"


def _build(
    cls: type[_Section],
    values: Mapping[str, Any] | None,
    source: str,
    origins: Mapping[str, str],
    path: str = "",
) -> _Section:
    """Construct a config class from a mapping without unknown keys, sections first.

    Strict pydantic classes take instances, not mappings, so nesting is done here.
    """
    arguments = dict(values or {})  # a section whose keys are all commented out reads as None
    for name, section in _sections(cls):
        if name in arguments:
            arguments[name] = _build(section, arguments[name], source, origins, f"{path}{name}.")
    try:
        return cls(**arguments)
    except PydanticValidationError as error:
        first, *others = error.errors()
        dotted = path + ".".join(str(part) for part in first["loc"])
        more = f" (and {len(others)} more)" if others else ""
        if not first["loc"]:  # raised by __post_init__, which names the keys itself
            section_path = path.rstrip(".")
            origin = _origin(section_path, source, origins)
            raise ConfigError(origin, section_path, f"{first['ctx']['error']}{more}") from error
        problem = f"got {first['input']!r}, {_expectation(first['msg'])}{more}"
        raise ConfigError(_origin(dotted, source, origins), dotted, problem) from error


def _origin(dotted: str, source: str, origins: Mapping[str, str]) -> str:
    """Return the last override at, above or below a path, else the file."""
    keys = dotted.split(".")
    for overridden, origin in reversed(list(origins.items())):
        shorter = list(zip(keys, overridden.split("."), strict=False))
        if all(key == other for key, other in shorter):
            return origin
    return source


def _expectation(message: str) -> str:
    """Turn pydantic's sentence into ours: `Input should be ...` becomes `expected ...`."""
    return re.sub(r"^Input should be ", "expected ", message)
