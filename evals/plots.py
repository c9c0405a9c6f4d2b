"""Small SVG plots: lines over linear or logarithmic axes, in colours that are legible on white and on black."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Protocol
from xml.sax.saxutils import escape

COLOURS = ("#2f81f7", "#d9822b", "#3fa45b", "#b65fcf", "#d1495b", "#5f9ea0", "#8c8c2e", "#7d8590")

_WIDTH, _HEIGHT = 780, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 260, 46, 56  # margins: labels on the left, the legend on the right
_INK, _GRID = "#7d8590", "#8b949e"


@dataclass(frozen=True, slots=True)
class Curve:
    """Curve with its name in the legend, its colour and its points; a single point is a larger dot."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def log_log(title: str, x_label: str, y_label: str, lines: Sequence[Curve]) -> str:
    """Return the plot over two logarithmic axes as an SVG document. All coordinates must be above 0."""
    points = [point for line in lines for point in line.points]
    x = _LogTicks.from_values([point[0] for point in points], _LEFT, _WIDTH - _RIGHT)
    y = _LogTicks.from_values([point[1] for point in points], _HEIGHT - _BOTTOM, _TOP)
    return _plot(title, x_label, y_label, lines, x, y)


def linear(title: str, x_label: str, y_label: str, lines: Sequence[Curve], *, within: Sequence[float] = ()) -> str:
    """Return the plot over two linear axes as an SVG document. `within` is the left, right, bottom and top limit."""
    points = [point for line in lines for point in line.points]
    left, right, bottom, top = within or (*_bounds([x for x, _ in points]), *_bounds([y for _, y in points]))
    x = _LinearTicks(left, right, _LEFT, _WIDTH - _RIGHT)
    y = _LinearTicks(bottom, top, _HEIGHT - _BOTTOM, _TOP)
    return _plot(title, x_label, y_label, lines, x, y)


def log_linear(title: str, x_label: str, y_label: str, lines: Sequence[Curve]) -> str:
    """Return the plot over a logarithmic x axis and a linear y axis from 0 as an SVG document."""
    points = [point for line in lines for point in line.points]
    x = _LogTicks.from_values([point[0] for point in points], _LEFT, _WIDTH - _RIGHT)
    y = _LinearTicks(0.0, _bounds([y for _, y in points])[1], _HEIGHT - _BOTTOM, _TOP)
    return _plot(title, x_label, y_label, lines, x, y)


def _plot(title: str, x_label: str, y_label: str, lines: Sequence[Curve], x: _Axis, y: _Axis) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-size="12"'
        f' font-family="system-ui, sans-serif" fill="{_INK}">',
        f"<title>{escape(title)}</title>",
        _text(_LEFT, 24, title, size=15, weight=600),
        *_grid(x, y),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, x_label, anchor="middle"),
        f'<g transform="rotate(-90 18 {_HEIGHT / 2})">{_text(18, _HEIGHT / 2, y_label, anchor="middle")}</g>',
    ]
    for place, line in enumerate(lines):
        parts += _curve(line, x, y)
        parts += _legend(line, _TOP + 14 + 24 * place)
    return "\n".join([*parts, *_values(lines, x, y), "</svg>"]) + "\n"


class _Axis(Protocol):
    """Axis that maps values to positions."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    def place(self, value: float) -> float: ...
    def ticks(self) -> list[float]: ...


@dataclass(frozen=True, slots=True)
class _LogTicks:
    """Logarithmic axis with whole powers of ten."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def from_values(cls, values: Sequence[float], start: float, end: float) -> _LogTicks:
        low, high = floor(log10(min(values))), ceil(log10(max(values)))
        return cls(low, max(high, low + 1), start, end)

    def place(self, value: float) -> float:
        fraction = (log10(value) - self.low) / (self.high - self.low)
        return round(self.start + fraction * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


@dataclass(frozen=True, slots=True)
class _LinearTicks:
    """Linear axis with round steps."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        fraction = (value - self.low) / (self.high - self.low)
        return round(self.start + fraction * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        step = _step(self.high - self.low)
        return [place * step for place in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)]


def _step(span: float) -> float:
    """Return a round step of which four to nine make the span."""
    power: float = 10.0 ** floor(log10(span / 4))
    return max((power * factor for factor in (1, 2, 5) if span / (power * factor) >= 4), default=power)


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    step = _step((high - low) or abs(high) or 1.0)
    return floor(low / step) * step, ceil(high / step + 1e-9) * step


def _grid(x: _Axis, y: _Axis) -> list[str]:
    parts = []
    for value in x.ticks():
        position = x.place(value)
        parts.append(_stroke(f"M{position} {y.start}V{y.end}", _GRID, 'stroke-opacity=".35"'))
        parts.append(_text(position, y.start + 18, f"{value:,.10g}", anchor="middle"))
    for value in y.ticks():
        position = y.place(value)
        parts.append(_stroke(f"M{x.start} {position}H{x.end}", _GRID, 'stroke-opacity=".35"'))
        parts.append(_text(x.start - 8, position + 4, f"{value:,.10g}", anchor="end"))
    return parts


def _curve(line: Curve, x: _Axis, y: _Axis) -> list[str]:
    places = [(x.place(x_position), y.place(y_position)) for x_position, y_position in line.points]
    path = "M" + "L".join(f"{x_position} {y_position}" for x_position, y_position in places)
    size = 3.5 if len(places) > 1 else 6
    dots = [
        f'<circle cx="{x_position}" cy="{y_position}" r="{size}" fill="{line.colour}"/>'
        for x_position, y_position in places
    ]
    return [_stroke(path, line.colour, _dashes(line)), *dots]


def _values(lines: Sequence[Curve], x: _Axis, y: _Axis) -> list[str]:
    """Return the labels with each line's last value at its end; overlapping ones are moved down."""
    parts, next_free = [], 0.0
    for line in sorted(lines, key=lambda line: -line.points[-1][1]):
        x_value, y_value = line.points[-1]
        y_position = max(y.place(y_value) + 4, next_free)
        parts.append(_text(x.place(x_value) + 8, y_position, f"{y_value:,.3g}", colour=line.colour, size=11))
        next_free = y_position + 12
    return parts


def _legend(line: Curve, y: float) -> list[str]:
    left = _WIDTH - _RIGHT + 48
    return [
        _stroke(f"M{left} {y}H{left + 28}", line.colour, _dashes(line)),
        _text(left + 36, y + 4, line.name),
    ]


def _dashes(line: Curve) -> str:
    return 'stroke-width="2.5"' + (' stroke-dasharray="6 4"' if line.dashed else "")


def _stroke(path: str, colour: str, attributes: str) -> str:
    return f'<path d="{path}" fill="none" stroke="{colour}" {attributes}/>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: int = 400, colour: str = _INK
) -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="{colour}"'
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {style}>{escape(text)}</text>'
