"""The results of matches as a table for a terminal: a row for each policy and opponent."""

from collections.abc import Mapping

from rich.table import Table

from coolrl_lost_cities.games.classic.deep_cfr.evaluate import MatchResult


def match_table(title: str, results: Mapping[tuple[str, str], MatchResult]) -> Table:
    """Return the table; numbers are means over the games, keys name policy and opponent."""
    table = Table(title=title, title_justify="left")
    names = ("policy", "opponent")
    numbers = ("win rate", "95% interval", "points ahead", "colors opened", "points each")
    for heading in (*names, *numbers, "steps", "games cut"):
        table.add_column(heading, justify="left" if heading in names else "right")
    for (policy, opponent), result in results.items():
        table.add_row(
            policy,
            opponent,
            f"{result.win_rate:.1%}",
            f"{result.interval_low:.1%} to {result.interval_high:.1%}",
            f"{result.mean_score:+.1f} ± {result.score_se:.1f}",
            f"{result.opened_colors:.2f}",
            f"{result.expedition_score:+.1f}",
            f"{result.mean_steps:.0f}",
            str(result.cut_games),
        )
    return table
