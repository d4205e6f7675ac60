import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
from ruamel.yaml import YAML

from coolrl_lost_cities.games.classic.deep_cfr.config import (
    ConfigError,
    DeepCFRConfig,
    EncodingConfig,
    RulesConfig,
    build_rules,
    config_from_mapping,
    config_to_mapping,
    config_to_yaml,
    load_config,
)
from coolrl_lost_cities.games.classic.rules import Rules

CONFIGS = Path(__file__).parents[2] / "configs" / "deep_cfr"
SECTIONS = {
    name: hint
    for name, hint in get_type_hints(DeepCFRConfig).items()
    if dataclasses.is_dataclass(hint)
}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    return path


def all_paths(values: dict, prefix: str = "") -> set[str]:
    paths = set()
    for key, value in values.items():
        paths |= all_paths(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key}
    return paths


def test_default_yaml_names_every_key_with_its_default():
    raw = YAML(typ="safe").load(CONFIGS / "default.yaml")
    assert all_paths(raw) == all_paths(config_to_mapping(DeepCFRConfig()))
    assert load_config(CONFIGS / "default.yaml") == DeepCFRConfig()
    assert (raw["network"]["hidden_size"], raw["network"]["num_layers"]) == (512, 3)


def test_smoke_yaml_is_one_small_iteration_of_the_whole_loop():
    smoke = load_config(CONFIGS / "smoke.yaml")
    assert smoke.run.iterations == 1
    assert smoke.evaluation.eval_every == 1
    assert smoke.rules == DeepCFRConfig().rules


def test_sections_have_the_names_that_experiments_are_ported_by():
    assert set(SECTIONS) >= {
        "run",
        "rules",
        "encoding",
        "network",
        "traversal",
        "training_weighting",
        "optimization",
        "memory",
        "checkpoint",
        "evaluation",
        "inference_server",
    }


def test_rules_section_mirrors_the_rules():
    assert build_rules(RulesConfig()) == Rules()
    assert [f.name for f in dataclasses.fields(RulesConfig)] == [
        f.name for f in dataclasses.fields(Rules)
    ]


def test_missing_keys_and_empty_sections_keep_defaults(tmp_path):
    path = written(tmp_path, "run:\n  # seed: 3\nnetwork:\n  num_layers: 7\n")
    config = load_config(path)
    assert config.run == DeepCFRConfig().run
    assert (config.network.num_layers, config.network.hidden_size) == (7, 512)
    assert load_config(written(tmp_path, "# nothing\n")) == DeepCFRConfig()


def test_resolved_config_reads_back_unchanged(tmp_path):
    config = load_config(
        CONFIGS / "smoke.yaml", ["optimization.learning_rate=1e-5", "run.name='1e-3'"]
    )
    assert config.run.name == "1e-3"
    assert load_config(written(tmp_path, config_to_yaml(config))) == config
    assert config_from_mapping(config_to_mapping(config), "a checkpoint") == config


@pytest.mark.parametrize("section", SECTIONS)
def test_an_unknown_key_fails_in_every_section_with_the_nearest_one(tmp_path, section):
    known = [f.name for f in dataclasses.fields(SECTIONS[section])]
    misspelt = known[0] + "x"
    path = written(tmp_path, f"{section}:\n  {misspelt}: 1\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.path == f"{section}.{misspelt}"
    assert str(caught.value) == (
        f"{path}: {section}.{misspelt}: unknown key; did you mean {known[0]}? "
        f"(known: {', '.join(known)})"
    )
    with pytest.raises(ValueError, match=misspelt):
        SECTIONS[section](**{misspelt: 1})


def test_an_unknown_section_fails_with_the_nearest_one(tmp_path):
    path = written(tmp_path, "netwrk: {}\n")
    with pytest.raises(ConfigError, match="netwrk: unknown key; did you mean network") as caught:
        load_config(path)
    assert caught.value.source == str(path)


def test_a_key_like_no_other_gets_no_false_hint(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, "encoding: {zzz: 1}\n"))
    assert caught.value.problem == "unknown key (known: permute_colors, without)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run.seed=7", ("run", "seed", 7)),
        ("run.name=a=b", ("run", "name", "a=b")),
        ("optimization.learning_rate=3e-4", ("optimization", "learning_rate", 3e-4)),
        ("optimization.learning_rate=1", ("optimization", "learning_rate", 1.0)),
        ("run.warm_start=null", ("run", "warm_start", None)),
        ("checkpoint.save_latest=false", ("checkpoint", "save_latest", False)),
        ("evaluation.opponents=[random]", ("evaluation", "opponents", ["random"])),
        ("network={num_layers: 2}", ("network", "num_layers", 2)),
    ],
)
def test_overrides_are_yaml_values(text, expected):
    section, key, value = expected
    assert getattr(getattr(load_config(None, [text]), section), key) == value


def test_later_overrides_win_and_others_stay(tmp_path):
    path = written(tmp_path, "network:\n  num_layers: 7\n  hidden_size: 64\n")
    config = load_config(path, ["network.num_layers=8", "network.num_layers=9"])
    assert (config.network.num_layers, config.network.hidden_size) == (9, 64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run.seed", "--set run.seed: expected section.key=value"),
        ("=3", "--set =3: expected section.key=value"),
        ("run.=3", "--set run.=3: expected section.key=value"),
        ("run.sede=3", "--set run.sede=3: run.sede: unknown key; did you mean seed?"),
        ("run=3", "--set run=3: run: got 3, expected a section of keys"),
        ("run.seed.x=3", "--set run.seed.x=3: run.seed: got {'x': 3}, expected a valid integer"),
        ("run.seed=-1", "run.seed: got -1, expected greater than or equal to 0"),
        ("run.seed=true", "run.seed: got True, expected a valid integer"),
        ("run.seed='3'", "run.seed: got '3', expected a valid integer"),
        ("run.seed=[", "--set run.seed=[: not YAML"),
        ("traversal.exploration=0", "traversal.exploration: got 0, expected greater than 0"),
        ("optimization.grad_clip=.nan", "optimization.grad_clip: got nan, expected a finite"),
        ("network.kind=cnn", "network.kind: got 'cnn', expected 'mlp' or 'color_shared'"),
        ("evaluation.games=3", "evaluation.games: got 3, expected a multiple of 2"),
        ("evaluation.opponents=[me]", "evaluation.opponents.0: got 'me', expected 'random'"),
        ("rules.hand_size=30", "rules.hand_size is 30, which leaves no deck"),
        (
            "network={color_attention_layers: 1, hidden_size: 6}",
            "network: color_attention_heads is 4, expected a divisor of hidden_size 6",
        ),
    ],
)
def test_bad_overrides_say_what_where_and_what_was_expected(text, message):
    with pytest.raises(ConfigError) as caught:
        load_config(None, [text])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_value_names_the_file_unless_an_override_set_it(tmp_path):
    path = written(tmp_path, "run:\n  seed: -1\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, ["run.name=x"])
    assert caught.value.source == str(path)
    with pytest.raises(ConfigError) as caught:
        load_config(path, ["run.seed=-2"])
    assert caught.value.source == "--set run.seed=-2"


def test_sections_that_do_not_go_together_are_refused():
    wide = ["traversal.lanes=5000", "inference_server.max_batch=4096"]
    assert load_config(None, wide).traversal.lanes == 5000
    with pytest.raises(ConfigError, match=r"max_batch is 4096, expected at least .*lanes, 5000"):
        load_config(None, [*wide, "traversal.inference_backend=server"])
    with pytest.raises(ConfigError, match="permute_colors is true, expected false"):
        load_config(
            None,
            ["encoding.permute_colors=true", "rules.remember_history=true", "rules.max_steps=9"],
        )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["run.precision=fp16"], "concurrent is true, expected false with run.precision fp16"),
        (["compile.trainer.mode=reduce-overhead"], "expected false with compile.trainer.mode"),
        (
            ["estimator.kind=escher", "network.shared_seats=true", "traversal.opponent=frozen"],
            "opponent is frozen, expected current with estimator.kind escher",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(overrides, message):
    alone = ["optimization.concurrent=true"]
    assert load_config(None, alone).optimization.concurrent
    with pytest.raises(ConfigError, match=message):
        load_config(None, [*alone, *overrides])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read (No such file or directory)"),
        ("- 1\n- 2\n", "holds [1, 2], expected sections such as `run:`"),
        ("run: {seed: 1\n", "not YAML: while parsing"),
        ("run: {seed: 1, seed: 2}\n", 'found duplicate key "seed"'),
        ("run: 3\n", "run: got 3, expected a section of keys"),
    ],
)
def test_unreadable_files_are_one_line(tmp_path, text, message):
    path = tmp_path / "a.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_configs_are_values():
    assert DeepCFRConfig() == DeepCFRConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        EncodingConfig().permute_colors = True  # type: ignore[misc]


def test_reading_a_config_does_not_import_torch():
    program = (
        "import sys; from coolrl_lost_cities.games.classic.deep_cfr.config import load_config; "
        "load_config(None); print('torch' in sys.modules, 'numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False\n"


def test_a_long_path_stays_on_one_line():
    out = "runs/" + "very long name " * 20 + "end"
    text = config_to_yaml(load_config(None, [f"run.out={out}"]))
    assert f"\n  out: {out}\n" in text
