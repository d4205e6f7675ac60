"""Sweeps of benches: which points there are, which are skipped and why, and when a step is done."""

import pytest

from coolrl_lost_cities.games.classic.deep_cfr.config import load_config
from coolrl_lost_cities.games.classic.deep_cfr.sequencing import (
    COMPILED,
    DENSE,
    LARGER,
    SMALL,
    Measured,
    sequence,
    sequence_table,
)
from coolrl_lost_cities.games.classic.deep_cfr.sweep import skip_reason
from coolrl_lost_cities.games.classic.deep_cfr.sweep_axes import WrongAxis, parse_axes, points


def test_all_combinations_are_gone_through_and_modes_begin_with_the_default() -> None:
    found = points(parse_axes(["mode=max-autotune network.num_layers=3,6"]))
    assert [point.name for point in found] == [
        "num_layers=3_mode=default",
        "num_layers=3_mode=max-autotune",
        "num_layers=6_mode=default",
        "num_layers=6_mode=max-autotune",
    ]
    assert found[3].base == found[2]
    assert found[2].base == found[2]
    config = load_config(None, found[3].overrides)
    assert (config.network.num_layers, config.compile.trainer.mode) == (6, "max-autotune")


def test_short_names_stand_for_keys() -> None:
    (dtype,) = parse_axes(["dtype=fp32,bf16"])
    assert (dtype.key, dtype.values) == ("run.precision", ("fp32", "bf16"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mode", "a key or a value is missing"),
        ("mode=", "a key or a value is missing"),
        ("mode=default,default", "twice"),
        ("dtype=fp32 run.precision=bf16", "has its values already"),
        (" ", "nothing to go through"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(text: str, why: str) -> None:
    with pytest.raises(WrongAxis, match=why):
        parse_axes([text])


def test_a_mode_waits_for_the_default_one_and_has_to_fit_the_device() -> None:
    default, cudagraphs, tuned = points(parse_axes(["mode=reduce-overhead,max-autotune"]))
    assert skip_reason(default, load_config(None, default.overrides), None) == ""
    said = skip_reason(cudagraphs, load_config(None, cudagraphs.overrides), None)
    assert said == "mode reduce-overhead records CUDA graphs, and run.device is cpu"
    said = skip_reason(tuned, load_config(None, tuned.overrides), None)
    assert said == "mode default was not measured"


def test_no_step_is_done_before_the_one_before_it_was_measured() -> None:
    small, larger, dense = Measured(1.0, "a"), Measured(2.0, "b"), Measured(3.0, "b")
    found = sequence({SMALL: small, LARGER: larger, DENSE: dense})
    assert [step.done for step in found] == [True, True, True, False]
    found = sequence({LARGER: larger, DENSE: dense, COMPILED: Measured(2.5, "b")})
    assert not any(step.done for step in found)
    assert "| + larger model, no compile | 2 s (b) | not done: `small` was not measured |" in (
        sequence_table(found).splitlines()
    )
