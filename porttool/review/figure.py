"""What a bench measured as a drawing: the effect, its interval, and what was asked for."""

from __future__ import annotations

from porttool.evidence import Bench, shown_interval
from porttool.review.markup import Html, tag, text

_WIDTH, _HEIGHT, _MARGIN = 640, 92, 40
_LINE = 44


def interval(bench: Bench) -> Html:
    """Draw the share of the time that the switch saves, on a scale that has 0 and the threshold."""
    values = (bench.low, bench.high, bench.at_least, 0.0)
    low, high = min(values), max(values)
    room = max(high - low, 0.01) * 0.15
    low, high = low - room, high + room

    def x(value: float) -> str:
        return f"{_MARGIN + (value - low) / (high - low) * (_WIDTH - 2 * _MARGIN):.1f}"

    said = (
        f"The switch saves {bench.effect:+.1%} of the time, interval {shown_interval(bench)}; "
        f"{bench.at_least:.0%} were asked for."
    )
    return tag(
        "svg",
        tag("title", text(said)),
        _line(x(low), x(high), "axis"),
        _tick(x(0.0), "0%", "zero"),
        _tick(x(bench.at_least), f"asked for: {bench.at_least:.0%}", "asked", above=True),
        _line(x(bench.low), x(bench.high), "interval"),
        tag("circle", cx=x(bench.effect), cy=_LINE, r=5, class_="effect"),
        tag(
            "text",
            text(f"{bench.effect:+.1%}"),
            x=x(bench.effect),
            y=_LINE + 40,
            class_="effect",
            text_anchor="middle",
        ),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        class_="interval",
    )


def _line(start: str, end: str, kind: str) -> Html:
    return tag("line", x1=start, x2=end, y1=_LINE, y2=_LINE, class_=kind)


def _tick(at: str, said: str, kind: str, *, above: bool = False) -> Html:
    label = tag(
        "text",
        text(said),
        x=at,
        y=_LINE - 20 if above else _LINE + 24,
        class_=kind,
        text_anchor="middle",
    )
    return Html(tag("line", x1=at, x2=at, y1=_LINE - 14, y2=_LINE + 14, class_=kind) + label)
