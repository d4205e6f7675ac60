import numpy as np
import pytest
import torch

from coolrl_lost_cities.games.classic.deep_cfr.config import build_rules, load_config
from coolrl_lost_cities.games.classic.deep_cfr.encoding import (
    encoding_scale,
    encoding_size,
    kept_features,
    permute_colors,
)
from coolrl_lost_cities.games.classic.deep_cfr.networks import (
    ColorSharedNetwork,
    DeepCFRMLP,
    build_network,
    forward_rows,
    load_networks,
)

MLP = ["network.hidden_size=32", "network.num_layers=2"]
SHARED = [*MLP, "network.kind=color_shared"]
ATTENTION = [*SHARED, "network.color_attention_layers=2"]
EVERY = pytest.mark.parametrize(
    "overrides", [MLP, SHARED, ATTENTION], ids=["mlp", "shared", "attn"]
)


def some_features(rules, rows: int) -> np.ndarray:
    # Any bytes do: no property below depends on the states being reachable.
    return np.random.default_rng(0).integers(0, 9, (rows, encoding_size(rules)), np.uint8)


@EVERY
def test_one_value_an_action_from_integer_features(overrides):
    config = load_config(None, overrides)
    rules = build_rules(config.rules)
    network = build_network(config)
    features = torch.from_numpy(some_features(rules, 5))
    outputs_BA = network(features)
    assert outputs_BA.shape == (5, 106)
    assert outputs_BA.dtype == torch.float32
    assert torch.equal(network(features.float()), outputs_BA)


@pytest.mark.parametrize("kind", ["mlp", "color_shared"])
@pytest.mark.parametrize("group", ["unseen", "known", "piles", "summaries"])
def test_networks_do_not_see_the_features_they_go_without(kind: str, group: str) -> None:
    config = load_config(None, [*MLP, f"network.kind={kind}", f"encoding.without=[{group}]"])
    rules = build_rules(config.rules)
    hidden_E = ~kept_features(rules, [group])
    assert 0 < hidden_E.sum() < len(hidden_E) / 3
    features_BE = some_features(rules, 5)
    changed_BE = np.where(hidden_E, features_BE + 1, features_BE).astype(np.uint8)
    network = build_network(config)
    np.testing.assert_array_equal(
        forward_rows(network, features_BE), forward_rows(network, changed_BE)
    )
    seeing = build_network(load_config(None, [*MLP, f"network.kind={kind}"]))
    assert (forward_rows(seeing, features_BE) != forward_rows(seeing, changed_BE)).any()


def test_mlp_computes_what_it_says():
    generator = torch.Generator().manual_seed(3)
    scale_E = torch.tensor([1.0, 0.5, 0.25])
    network = DeepCFRMLP(3, 2, 4, 2, "relu", feature_scale_E=scale_E)
    network.reset_parameters(generator)
    weights = dict(network.named_parameters())
    hidden = torch.tensor([[1.0, 2.0, 4.0]]) * scale_E
    for layer in (0, 2):
        product = hidden @ weights[f"layers.{layer}.weight"].T + weights[f"layers.{layer}.bias"]
        hidden = product.clamp(min=0)
    expected = hidden @ weights["layers.4.weight"].T + weights["layers.4.bias"]
    features = torch.tensor([[1, 2, 4]], dtype=torch.uint8)
    torch.testing.assert_close(network(features), expected)
    assert set(weights) == {f"layers.{i}.{kind}" for i in (0, 2, 4) for kind in ("weight", "bias")}


def test_the_default_shape_is_512_by_3():
    network = build_network(load_config(None))
    assert isinstance(network, DeepCFRMLP)
    sizes = [tuple(p.shape) for name, p in network.named_parameters() if name.endswith("weight")]
    width = encoding_size(build_rules(load_config(None).rules))
    assert sizes == [(512, width), (512, 512), (512, 512), (106, 512)]


@EVERY
def test_the_scale_is_of_the_rules_and_not_saved(overrides):
    config = load_config(None, overrides)
    network = build_network(config)
    assert torch.equal(
        network.feature_scale, torch.from_numpy(encoding_scale(build_rules(config.rules)))
    )
    assert not any("scale" in key for key in network.state_dict())


@pytest.mark.parametrize("overrides", [SHARED, ATTENTION], ids=["shared", "attn"])
def test_permuted_colors_permute_the_outputs(overrides):
    config = load_config(None, overrides)
    rules = build_rules(config.rules)
    network = build_network(config)
    features_SE = some_features(rules, 20)
    outputs_SA = forward_rows(network, features_SE)
    permuted_SE, expected_SA = permute_colors(rules, features_SE, outputs_SA, [3, 0, 4, 1, 2])
    np.testing.assert_allclose(forward_rows(network, permuted_SE), expected_SA, atol=2e-6)
    assert np.abs(outputs_SA - expected_SA).max() > 0.01  # not because all colors look alike


def test_a_plain_mlp_is_not_equivariant():
    config = load_config(None, MLP)
    rules = build_rules(config.rules)
    network = build_network(config)
    features_SE = some_features(rules, 20)
    outputs_SA = forward_rows(network, features_SE)
    permuted_SE, expected_SA = permute_colors(rules, features_SE, outputs_SA, [3, 0, 4, 1, 2])
    assert np.abs(forward_rows(network, permuted_SE) - expected_SA).max() > 0.01


@pytest.mark.parametrize("overrides", [SHARED, ATTENTION], ids=["shared", "attn"])
def test_colors_see_each_other(overrides):
    config = load_config(None, overrides)
    rules = build_rules(config.rules)
    network = build_network(config)
    features_BE = some_features(rules, 1)
    other_BE = features_BE.copy()
    other_BE[0, 0] += 5  # a feature of color 0
    moved_A = np.abs(forward_rows(network, features_BE) - forward_rows(network, other_BE))[0]
    last_color = slice(4 * rules.num_kinds, 5 * rules.num_kinds)
    assert moved_A[last_color].max() > 1e-4


def test_color_shared_weights_do_not_grow_with_the_colors():
    def count(colors: int) -> int:
        network = build_network(load_config(None, [*ATTENTION, f"rules.num_colors={colors}"]))
        assert isinstance(network, ColorSharedNetwork)
        return sum(parameter.numel() for parameter in network.parameters())

    assert count(3) == count(5)


def test_color_shared_takes_rules_that_remember_history():
    tiny = ["rules.num_colors=2", "rules.num_ranks=3", "rules.hand_size=2", "rules.max_steps=8"]
    config = load_config(None, [*ATTENTION, *tiny, "rules.remember_history=true"])
    rules = build_rules(config.rules)
    outputs_BA = forward_rows(build_network(config), some_features(rules, 3))
    assert outputs_BA.shape == (3, rules.num_actions)


@EVERY
def test_weights_come_from_the_generator_alone(overrides):
    config = load_config(None, overrides)
    before = torch.random.get_rng_state()
    first = build_network(config, torch.Generator().manual_seed(1))
    torch.manual_seed(99)
    state = torch.random.get_rng_state()
    again = build_network(config, torch.Generator().manual_seed(1))
    other = build_network(config, torch.Generator().manual_seed(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.random.set_rng_state(before)
    for name, value in first.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
        if value.dim() == 2:
            assert not torch.equal(other.state_dict()[name], value), name


@EVERY
def test_reset_parameters_works_in_place(overrides):
    config = load_config(None, overrides)
    network = build_network(config, torch.Generator().manual_seed(1))
    fresh = {name: value.clone() for name, value in network.state_dict().items()}
    parameters = list(network.parameters())
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(1.0)
    network.reset_parameters(torch.Generator().manual_seed(1))
    assert [id(p) for p in network.parameters()] == [id(p) for p in parameters]
    for name, value in network.state_dict().items():
        assert torch.equal(value, fresh[name]), name


@EVERY
def test_forward_rows_leaves_the_mode_and_makes_no_graph(overrides):
    config = load_config(None, overrides)
    network = build_network(config)
    features_BE = some_features(build_rules(config.rules), 4)
    network.train()
    outputs_BA = forward_rows(network, features_BE)
    assert network.training
    assert outputs_BA.dtype == np.float32
    network.eval()
    np.testing.assert_array_equal(forward_rows(network, features_BE), outputs_BA)
    assert not network.training


def test_keys_that_do_not_fit_are_refused():
    config = load_config(None, MLP)
    weights = build_network(config).state_dict()
    prefixed = {f"_orig_mod.{key}": value for key, value in weights.items()}
    with pytest.raises(RuntimeError, match=r"_orig_mod\.layers"):
        load_networks(config, [weights, prefixed])
    loaded = load_networks(config, [weights])
    assert torch.equal(loaded[0].state_dict()["layers.0.weight"], weights["layers.0.weight"])
