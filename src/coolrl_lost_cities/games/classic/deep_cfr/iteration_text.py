"""What a person wants to read of an iteration while a run goes on."""

from collections.abc import Mapping
from typing import Any


def iteration_lines(metrics: Mapping[str, Any], last: int) -> list[str]:
    """Return what a person wants to read of one iteration."""
    lines = [
        f"iteration {metrics['iteration']}/{last}  "
        f"advantage loss {' '.join(f'{loss:.4g}' for loss in _advantage_losses(metrics))}  "
        f"strategy loss {metrics['strategy_loss']:.4g}  "
        f"{metrics['traversals_per_s']:.0f} traversals/s"
    ]
    for policy, results in metrics.get("evaluation", {}).items():
        for opponent, result in results.items():
            lines.append(
                f"  {policy} against {opponent}: {result['win_rate']:.1%} "
                f"[{result['interval_low']:.1%}, {result['interval_high']:.1%}]  "
                f"mean score {result['mean_score']:+.1f}  {result['cut_games']} games cut"
            )
    return lines


def _advantage_losses(metrics: Mapping[str, Any]) -> list[float]:
    """Return one loss a network: seats may share theirs."""
    names = ("advantage_loss_0", "advantage_loss_1")
    return [metrics[name] for name in names if name in metrics]
