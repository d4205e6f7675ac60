"""Networks from information states to one number an action.

Axes: B batch, E encoding, A actions, C colours, F features of a colour, G common features,
H hidden units, K kinds of card in a colour (wager and ranks).
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coolrl_lost_cities.games.classic.deep_cfr.config import (
    DeepCFRConfig,
    NetworkConfig,
    build_rules,
)
from coolrl_lost_cities.games.classic.deep_cfr.encoding import (
    color_block_size,
    encoding_scale,
    kept_features,
    num_common_features,
)
from coolrl_lost_cities.games.classic.deep_cfr.histories import history_block_size, history_scale
from coolrl_lost_cities.games.classic.rules import Rules

# ReLU in place spares a step an array a layer, and its gradient wants the result alone.
_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": partial(nn.ReLU, inplace=True),
    "gelu": nn.GELU,
}


class DeepCFRMLP(nn.Module):
    """A plain multilayer perceptron: `num_layers` hidden layers, then one output an action."""

    feature_scale: Tensor  # E

    def __init__(
        self,
        input_size: int,
        num_actions: int,
        hidden_size: int = 512,
        num_layers: int = 3,
        activation: str = "relu",
        *,
        feature_scale_E: Tensor | None = None,
    ) -> None:
        super().__init__()
        scale_E = torch.ones(input_size) if feature_scale_E is None else feature_scale_E
        self.register_buffer("feature_scale", scale_E, persistent=False)
        layers: list[nn.Module] = []
        for size in [input_size] + [hidden_size] * (num_layers - 1):
            layers += [nn.Linear(size, hidden_size), _ACTIVATIONS[activation]()]
        self.layers = nn.Sequential(*layers, nn.Linear(hidden_size, num_actions))

    def forward(self, features_BE: Tensor) -> Tensor:
        """Return one float32 value an action (BA) for features in uint8 or float."""
        outputs_BA: Tensor = self.layers(features_BE.float() * self.feature_scale)
        return outputs_BA

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all weights anew, in place."""
        _reset_parameters(self, generator)


class ColorSharedNetwork(nn.Module):
    """One set of weights for all colours: permuting the colours permutes the outputs alike.

    The layers are those of Deep Sets (Zaheer et al. 2017, eq. 4): each colour sees itself and the
    mean over the colours. Attention over the colours has no positional encoding, which would tell
    the colours apart. The encoding holds C blocks of F features, then G common ones.
    """

    feature_scale: Tensor  # E

    def __init__(
        self,
        *,
        num_colors: int,
        num_kinds: int,
        color_features: int,
        common_features: int,
        hidden_size: int = 512,
        num_layers: int = 3,
        activation: str = "relu",
        attention_layers: int = 0,
        attention_heads: int = 4,
        feature_scale_E: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.num_colors = num_colors
        self.num_kinds = num_kinds
        self.color_features = color_features
        input_size = num_colors * color_features + common_features
        scale_E = torch.ones(input_size) if feature_scale_E is None else feature_scale_E
        self.register_buffer("feature_scale", scale_E, persistent=False)
        sizes = [color_features + common_features] + [hidden_size] * (num_layers - 1)
        self.own_layers = nn.ModuleList([nn.Linear(size, hidden_size) for size in sizes])
        self.mean_layers = nn.ModuleList(
            [nn.Linear(size, hidden_size, bias=False) for size in sizes]
        )
        self.activation = _ACTIVATIONS[activation]()
        self.attention: nn.TransformerEncoder | None = None
        if attention_layers:
            layer = nn.TransformerEncoderLayer(
                hidden_size,
                attention_heads,
                dim_feedforward=2 * hidden_size,
                dropout=0.0,
                activation=activation,
                batch_first=True,
                norm_first=True,
            )
            self.attention = nn.TransformerEncoder(
                layer, attention_layers, enable_nested_tensor=False
            )
        self.color_head = nn.Linear(hidden_size, 2 * num_kinds + 1)  # play, discard, draw its pile
        self.deck_head = nn.Linear(hidden_size, 1)

    def forward(self, features_BE: Tensor) -> Tensor:
        """Return one float32 value an action (BA) for features in uint8 or float."""
        scaled_BE = features_BE.float() * self.feature_scale
        blocks = self.num_colors * self.color_features
        colors_BCF = scaled_BE[:, :blocks].unflatten(1, (self.num_colors, self.color_features))
        common_BCG = scaled_BE[:, None, blocks:].expand(-1, self.num_colors, -1)
        hidden_BCH = torch.cat([colors_BCF, common_BCG], dim=2)
        for own, mean in zip(self.own_layers, self.mean_layers, strict=True):
            context_B1H = mean(hidden_BCH.mean(dim=1, keepdim=True))
            hidden_BCH = self.activation(own(hidden_BCH) + context_B1H)
        if self.attention is not None:
            hidden_BCH = self.attention(hidden_BCH)
        play_BCK, discard_BCK, pile_BC1 = self.color_head(hidden_BCH).split(
            [self.num_kinds, self.num_kinds, 1], dim=2
        )
        deck_B1 = self.deck_head(hidden_BCH.mean(dim=1))
        return torch.cat(
            [play_BCK.flatten(1), discard_BCK.flatten(1), deck_B1, pile_BC1.flatten(1)], dim=1
        )

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all weights anew, in place."""
        _reset_parameters(self, generator)


Network = DeepCFRMLP | ColorSharedNetwork


def build_network(config: DeepCFRConfig, generator: torch.Generator | None = None) -> Network:
    """Return an advantage or strategy network of the configured kind, on the CPU.

    The weights come from the generator, or from `run.seed` without one; torch's global generator
    is left as it was.
    """
    rules = build_rules(config.rules)
    scale_E = torch.as_tensor(encoding_scale(rules) * _kept(config)).float()
    return _build(config, config.network, color_block_size(rules), scale_E, generator)


def build_value_network(config: DeepCFRConfig, generator: torch.Generator | None = None) -> Network:
    """Return a network from histories to the value of each action, in the configured kind.

    Its sizes come from the section `value`, all else as in `build_network`.
    """
    rules = build_rules(config.rules)
    settings = dataclasses.replace(
        config.network,
        hidden_size=config.value.hidden_size,
        num_layers=config.value.num_layers,
        color_attention_layers=0,
    )
    scale_V = torch.as_tensor(history_scale(rules, _kept(config))).float()
    return _build(config, settings, history_block_size(rules), scale_V, generator)


def _kept(config: DeepCFRConfig) -> NDArray[np.bool_]:
    return kept_features(build_rules(config.rules), config.encoding.without)


def _build(
    config: DeepCFRConfig,
    settings: NetworkConfig,
    color_features: int,
    feature_scale_E: Tensor,
    generator: torch.Generator | None,
) -> Network:
    if generator is None:
        generator = torch.Generator().manual_seed(config.run.seed)
    rules = build_rules(config.rules)
    with torch.random.fork_rng(devices=[]):  # torch.nn constructors draw from the global generator
        network = _construct(settings, rules, color_features, feature_scale_E)
    network.reset_parameters(generator)
    return network


def _construct(
    settings: NetworkConfig, rules: Rules, color_features: int, feature_scale_E: Tensor
) -> Network:
    if settings.kind == "mlp":
        return DeepCFRMLP(
            len(feature_scale_E),
            rules.num_actions,
            settings.hidden_size,
            settings.num_layers,
            settings.activation,
            feature_scale_E=feature_scale_E,
        )
    return ColorSharedNetwork(
        num_colors=rules.num_colors,
        num_kinds=rules.num_kinds,
        color_features=color_features,
        common_features=num_common_features(rules),
        hidden_size=settings.hidden_size,
        num_layers=settings.num_layers,
        activation=settings.activation,
        attention_layers=settings.color_attention_layers,
        attention_heads=settings.color_attention_heads,
        feature_scale_E=feature_scale_E,
    )


def answer_zero(network: Network) -> None:
    """Make a network return 0 for every input, in place, until it is trained."""
    heads: list[nn.Module] = (
        [network.color_head, network.deck_head]
        if isinstance(network, ColorSharedNetwork)
        else [network.layers[-1]]
    )
    for head in heads:
        for parameter in head.parameters():
            nn.init.zeros_(parameter)


class NetworkNumbers(NamedTuple):
    """Which networks answer in a traversal: `frozen` is -1 where nobody plays by old weights,
    `value` where the estimator asks no value network.
    """

    players: tuple[int, int]
    frozen: tuple[int, int]
    value: int


def network_numbers(config: DeepCFRConfig) -> NetworkNumbers:
    """Return the places of a run's networks in the lists that go to whoever traverses."""
    seats = 1 if config.network.shared_seats else 2
    players = (0, seats - 1)
    frozen = (-1, -1)
    count = seats
    if config.traversal.opponent == "frozen":
        frozen = (seats, 2 * seats - 1)
        count += seats
    return NetworkNumbers(players, frozen, count if config.estimator.asks_values else -1)


def load_networks(
    config: DeepCFRConfig,
    state_dicts: Sequence[Mapping[str, Tensor]],
    *,
    policies_only: bool = False,
) -> list[Network]:
    """Build one network for each state_dict and load it; raises RuntimeError for other keys.

    They are numbered as `NetworkNumbers` says: the value network, where there is one, is last.
    With `policies_only` there is none, however many there are.
    """
    value = -1 if policies_only else network_numbers(config).value
    networks = [
        build_value_network(config) if number == value else build_network(config)
        for number in range(len(state_dicts))
    ]
    for network, state_dict in zip(networks, state_dicts, strict=True):
        network.load_state_dict(state_dict)
    return networks


def forward_rows(network: nn.Module, features_BE: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Run one forward in evaluation mode, without gradients; returns float32 BA on the CPU."""
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    with torch.inference_mode():
        outputs_BA: NDArray[np.float32] = (
            network(torch.as_tensor(features_BE, device=device)).cpu().numpy()
        )
    network.train(was_training)
    return outputs_BA


def _reset_parameters(network: nn.Module, generator: torch.Generator) -> None:
    """Draw every weight as torch.nn does by default, but from the given generator."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            bound = 1 / math.sqrt(module.in_features)
            nn.init.uniform_(module.weight, -bound, bound, generator=generator)
            if module.bias is not None:
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        elif isinstance(module, nn.LayerNorm):
            module.reset_parameters()
        elif isinstance(module, nn.MultiheadAttention):
            nn.init.xavier_uniform_(module.in_proj_weight, generator=generator)
            nn.init.zeros_(module.in_proj_bias)
