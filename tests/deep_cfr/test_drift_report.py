"""From metrics files to a verdict: synthetic runs, in which what is planted is known."""

import dataclasses
import json
import random
from pathlib import Path

import pytest

from coolrl_lost_cities.games.classic.deep_cfr.drift_report import (
    Drift,
    Verdict,
    contents,
    figure,
    judge_claims,
    judge_pairs,
    markdown,
)
from coolrl_lost_cities.games.classic.deep_cfr.equivalence import compare
from coolrl_lost_cities.games.classic.deep_cfr.evaluate import wilson_interval
from coolrl_lost_cities.games.classic.deep_cfr.fingerprint import Fingerprint
from coolrl_lost_cities.games.classic.deep_cfr.gelu_run import GeluRun
from coolrl_lost_cities.games.classic.deep_cfr.gradient_error import GradientError
from coolrl_lost_cities.games.classic.deep_cfr.trajectories import (
    TrajectoryError,
    WinRates,
    read_win_rates,
)

MARGIN, SPREADS, GAMES = 0.05, 3.0, 1000
BOTS = ("random", "safe_heuristic")
CURVE = {25: 0.5, 50: 0.6, 75: 0.65, 100: 0.7}
MACHINE = Fingerprint(
    measured="2026-01-31T10:00:00+00:00",
    cpu="a CPU",
    cores=2,
    gpu="",
    python="3.11.2",
    torch="2.13.0",
    threads=1,
    device="cpu",
    governor="",
    commit="",
    dirty=None,
    config="",
    load=0.0,
)
GOOD_GRADIENTS = GradientError({"advantage": 1e-7}, {"advantage": 1.2e-7}, 1)
GOOD_GELU = GeluRun(500, {"advantage": 1e-6}, {"advantage": 0.2}, {"advantage": 2e-6}, 1)


def result(rate: float, games: int = GAMES) -> dict[str, float]:
    low, high = wilson_interval(rate, games)
    return {"win_rate": rate, "interval_low": low, "interval_high": high}


def written(path: Path, rates: dict[str, dict[int, float]], games: int = GAMES) -> Path:
    """Write the metrics of a run with these win rates by bot and iteration."""
    path.parent.mkdir(parents=True)
    lines = []
    for iteration in range(1, 101):
        line: dict = {"iteration": iteration}
        if iteration in CURVE:
            bots = {bot: result(rates[bot][iteration], games) for bot in rates}
            line["evaluation"] = {"average": bots}
        lines.append(json.dumps(line) + "\n")
    path.write_text("".join(lines))
    return path


def pairs(
    folder: Path,
    number: int,
    *,
    noise: float,
    levels: float = 0.02,
    shift: float = 0.0,
    games: int = GAMES,
) -> list[tuple[Path, Path]]:
    """Write paired runs; `shift` is planted into win rates against safe_heuristic, compile on.

    Seeds differ by `levels`, evaluations by `noise`, as standard deviations.
    """
    generator = random.Random(1)
    found = []
    for index in range(number):
        level = generator.gauss(0, levels)
        sides = []
        for side in ("off", "on"):
            rates = {
                bot: {
                    iteration: min(1.0, max(0.0, rate + level + generator.gauss(0, noise)))
                    + (shift if (side, bot) == ("on", "safe_heuristic") else 0.0)
                    for iteration, rate in CURVE.items()
                }
                for bot in BOTS
            }
            path = folder / f"seed_{index}_{side}" / "metrics.jsonl"
            sides.append(written(path, rates, games))
        found.append((sides[0], sides[1]))
    return found


def judged(files: list[tuple[Path, Path]], games: int = GAMES) -> Drift:
    win_rates = read_win_rates(files)
    quantities = [quantity for rates in win_rates for quantity in rates.quantities()]
    comparisons = compare(quantities, MARGIN, SPREADS)
    verdict = judge_pairs(comparisons, margin=MARGIN, iterations=100, games=games)
    return Drift(
        verdict=verdict,
        gradients=GOOD_GRADIENTS,
        gelu=GOOD_GELU,
        win_rates=tuple(win_rates),
        comparisons=tuple(comparisons),
        looks=(len(files),),
        fingerprint=MACHINE,
        what="mlp 1024 x 6",
    )


def test_win_rates_are_those_of_the_files(tmp_path: Path) -> None:
    files = pairs(tmp_path, 3, noise=0.01, shift=-0.1)
    random_, heuristic = read_win_rates(files)
    assert (random_.name, heuristic.name) == (
        "average against random",
        "average against safe_heuristic",
    )
    assert random_.iterations == (25, 50, 75, 100)
    stored = [json.loads(line) for line in files[2][1].read_text().splitlines()]
    expected = [
        line["evaluation"]["average"]["safe_heuristic"]["win_rate"]
        for line in stored
        if "evaluation" in line
    ]
    assert heuristic.on[2] == tuple(expected)
    # Of a thousand games: p (1 - p) / 1000.
    assert 0.9 * 0.21e-3 < random_.game_variance < 1.1 * 0.25e-3
    means, last = heuristic.quantities()
    assert means.on[2] == pytest.approx(sum(expected) / 4)
    assert last.on[2] == expected[-1]
    assert means.game_variance == last.game_variance / 4


def test_runs_that_were_evaluated_otherwise_are_named(tmp_path: Path) -> None:
    files = pairs(tmp_path, 2, noise=0.01)
    lines = files[1][0].read_text().splitlines(keepends=True)
    files[1][0].write_text("".join(lines[:-1]))
    with pytest.raises(TrajectoryError, match=r"seed_1_off/metrics.jsonl: was not evaluated when"):
        read_win_rates(files)
    for path in (path for pair in files for path in pair):
        path.write_text('{"iteration": 1}\n')
    with pytest.raises(TrajectoryError, match="holds no evaluation"):
        read_win_rates(files)


def test_equal_runs_pass(tmp_path: Path) -> None:
    files = [(off, off) for off, _ in pairs(tmp_path, 6, noise=0.01)]
    found = judged(files)
    assert found.verdict == Verdict(
        "no drift",
        "6 pairs; all 4 differences lie within their bounds, the widest +0.00 to +0.00 "
        "(average against random, all evaluations)",
    )


def test_runs_that_differ_by_noise_alone_pass(tmp_path: Path) -> None:
    assert judged(pairs(tmp_path, 6, noise=0.012)).verdict.judgement == "no drift"


@pytest.mark.parametrize("shift", [-0.15, 0.15])
def test_planted_drift_is_found_and_named(tmp_path: Path, shift: float) -> None:
    verdict = judged(pairs(tmp_path, 6, noise=0.012, shift=shift)).verdict
    assert verdict.judgement == "drift"
    assert verdict.detail.startswith("average against safe_heuristic, ")
    assert f": {'-+'[shift > 0]}1" in verdict.detail
    assert verdict.detail.endswith(" with 6 pairs")


def test_a_difference_inside_of_the_margin_that_is_no_noise_is_drift(tmp_path: Path) -> None:
    million = 1_000_000
    plain = pairs(tmp_path / "plain", 6, noise=0.0, levels=0.001, games=million)
    assert judged(plain).verdict.judgement == "no drift"
    shifted = pairs(tmp_path / "on", 6, noise=0.0, levels=0.001, shift=0.04, games=million)
    assert judged(shifted).verdict.judgement == "drift"


def test_noisy_few_games_are_not_enough_and_the_number_given_suffices(tmp_path: Path) -> None:
    first = judged(pairs(tmp_path / "few", 4, noise=0.09, games=30), 30)
    assert first.verdict.judgement == "not enough games"
    said = first.verdict.detail
    assert said.startswith("4 pairs leave ")
    number = int(said.partition("drift.seeds=")[2].partition(")")[0])
    assert f"; {number - 4} more would do (drift.seeds={number})" in said
    more = judged(pairs(tmp_path / "more", number, noise=0.09, games=30), 30)
    assert more.verdict.judgement == "no drift", (number, more.verdict.detail)
    games = int(said.partition("drift.games=")[2])
    assert games % 100 == 0
    finer = 0.09 * (30 / games) ** 0.5
    afresh = judged(pairs(tmp_path / "afresh", 4, noise=finer, games=games), games)
    assert afresh.verdict.judgement == "no drift", (games, afresh.verdict.detail)


def test_short_runs_are_never_without_drift(tmp_path: Path) -> None:
    comparisons = judged([(off, off) for off, _ in pairs(tmp_path, 6, noise=0.01)]).comparisons
    verdict = judge_pairs(comparisons, margin=MARGIN, iterations=99, games=GAMES)
    assert verdict == Verdict(
        "not enough games",
        "99 iterations a run, at least 100 are asked for (drift.iterations)",
    )


def rates_of(value: float) -> WinRates:
    rows = ((value, value),) * 3
    return WinRates("average", "safe_heuristic", (50, 100), rows, rows, 0.0001)


def test_a_policy_that_never_wins_shows_no_loss() -> None:
    never = compare(rates_of(0.0).quantities(), MARGIN, SPREADS)
    verdict = judge_pairs(never, margin=MARGIN, iterations=100, games=GAMES)
    assert verdict.judgement == "not enough games"
    assert "no loss could show" in verdict.detail
    both = compare([*rates_of(0.0).quantities(), *rates_of(0.9).quantities()], MARGIN, SPREADS)
    verdict = judge_pairs(both, margin=MARGIN, iterations=100, games=GAMES)
    assert verdict.judgement == "no drift"
    assert verdict.detail.count("safe_heuristic, last evaluation") == 1
    assert "too seldom won for a loss to show: average against safe_heuristic" in verdict.detail


def test_a_failed_claim_is_drift_without_any_run() -> None:
    assert judge_claims(GOOD_GRADIENTS, GOOD_GELU) is None
    gradients = dataclasses.replace(GOOD_GRADIENTS, compiled={"advantage": 4e-7})
    gelu = dataclasses.replace(GOOD_GELU, apart={"advantage": 2e-5})
    assert judge_claims(gradients, gelu) == Verdict(
        "drift",
        "compiled gradients are 4 times as far from float64 as eager ones, at most 3 expected; "
        "after 500 steps with GELU parameters are 2e-05 apart, at most 1e-05 expected",
    )


def test_parameters_may_part_as_far_as_rounding_explains() -> None:
    """Where rounding alone takes eager steps 1e-5 from float64, three times that is allowed."""
    deep = dataclasses.replace(GOOD_GELU, rounding={"advantage": 1e-5})
    assert dataclasses.replace(deep, apart={"advantage": 2.9e-5}).holds
    assert not dataclasses.replace(deep, apart={"advantage": 3.1e-5}).holds


def test_the_page_and_the_file_say_the_same(tmp_path: Path) -> None:
    drift = dataclasses.replace(judged(pairs(tmp_path, 4, noise=0.09, games=30), 30), looks=(2, 4))
    page, values = markdown(drift), contents(drift)
    assert json.loads(json.dumps(values, allow_nan=False)) == json.loads(json.dumps(values))
    # What docs/guides/evidence.md asks of a drift check's file.
    assert {key: values[key] for key in ("measured", "machine", "what", "verdict", "detail")} == {
        "measured": "2026-01-31T10:00:00+00:00",
        "machine": "a CPU, 2 cores, torch 2.13.0, 1 threads, load 0.0 before",
        "what": "mlp 1024 x 6",
        "verdict": "not enough",
        "detail": drift.verdict.detail,
    }
    assert page.startswith("# Drift check: not enough games\n")
    assert values["table"] in page
    rows = [line for line in page.splitlines() if line.startswith("| average against")]
    assert len(rows) == len(values["comparisons"]) == 4
    assert "| open |" in page
    assert "Judged before with 2 pairs;" in page
    endless = dataclasses.replace(drift.comparisons[0], pairs_needed=float("inf"))
    stored = contents(dataclasses.replace(drift, comparisons=(endless,)))
    assert stored["comparisons"][0]["pairs_needed"] is None
    without = dataclasses.replace(drift, win_rates=(), comparisons=(), looks=())
    assert "| win rates of paired runs | not run |" in markdown(without)


def test_the_plot_shows_the_runs_and_their_differences(tmp_path: Path) -> None:
    drift = judged(pairs(tmp_path, 6, noise=0.012, shift=-0.15))
    drawn = figure(drift, MARGIN)
    above, below = drawn.axes[2:]
    assert above.get_title() == "average against safe_heuristic"
    rates = drift.win_rates[1]
    means = {line.get_label(): list(line.get_ydata()) for line in above.lines}
    for label, rows in (("compile off", rates.off), ("compile on", rates.on)):
        expected = [sum(column) / 6 for column in zip(*rows, strict=True)]
        assert means[label] == pytest.approx(expected)
    assert len(above.lines) == 2 * (6 + 1)
    difference = list(below.lines[0].get_ydata())
    gaps = [on - off for on, off in zip(means["compile on"], means["compile off"], strict=True)]
    assert difference == pytest.approx(gaps)
    band = below.collections[0].get_datalim(below.transData)
    last = drift.comparisons[-1]
    assert band.y0 <= last.low < last.high <= band.y1
    edges = [next(iter(line.get_ydata())) for line in below.lines[2:]]
    assert edges == [-MARGIN, MARGIN]
