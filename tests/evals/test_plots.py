"""Plots are valid SVG with labels, and points are placed in proportion."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from evals.plots import COLOURS, Curve

from evals import plots

SVG = "{http://www.w3.org/2000/svg}"
LINES = [
    Curve("ours & <theirs>", COLOURS[0], [(256.0, 40.0), (512.0, 60.0), (2048.0, 90.0)]),
    Curve("plain", COLOURS[1], [(256.0, 20.0), (512.0, 30.0), (2048.0, 89.0)], dashed=True),
    Curve("one", COLOURS[2], [(512.0, 50.0)]),
]


def parse(plot: str) -> ElementTree.Element:
    return ElementTree.fromstring(plot)


def points_of(plot: str, colour: str) -> list[tuple[float, float]]:
    circles = parse(plot).iter(f"{SVG}circle")
    return [
        (float(circle.attrib["cx"]), float(circle.attrib["cy"]))
        for circle in circles
        if circle.attrib["fill"] == colour
    ]


def text_labels(plot: str) -> list[str]:
    return [element.text or "" for element in parse(plot).iter(f"{SVG}text")]


@pytest.mark.parametrize("kind", [plots.log_log, plots.linear, plots.log_linear])
def test_plot_names_its_axes_and_lines(kind: type) -> None:
    plot = kind("Found", "tokens", "per cent", LINES)
    assert {"Found", "tokens", "per cent", "ours & <theirs>", "plain", "one"} <= set(text_labels(plot))
    assert parse(plot).find(f"{SVG}title") is not None
    assert len(list(parse(plot).iter(f"{SVG}circle"))) == 7
    assert plot.count("stroke-dasharray") == 2  # the line and its legend entry


@pytest.mark.parametrize("kind", [plots.log_log, plots.linear, plots.log_linear])
def test_larger_values_are_further_right_and_up_within_the_picture(kind: type) -> None:
    plot = kind("Found", "tokens", "per cent", LINES)
    points = points_of(plot, COLOURS[0])
    assert points == sorted(points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)
    width, height = map(float, re.findall(r'viewBox="0 0 (\d+) (\d+)"', plot)[0])
    for line in LINES:
        assert all(0 < x < width and 0 < y < height for x, y in points_of(plot, line.colour))


def test_linear_axis_has_equal_steps() -> None:
    plot = plots.linear("A", "x", "y", [Curve("a", "#000", [(0, 0), (1, 10), (2, 20)])], within=(0, 2, 0, 20))
    (x0, y0), (x1, y1), (x2, y2) = points_of(plot, "#000")
    assert (x1 - x0, y0 - y1) == pytest.approx((x2 - x1, y1 - y2), abs=0.11)


def test_logarithmic_axis_has_equal_factors() -> None:
    plot = plots.log_log("A", "x", "y", [Curve("a", "#000", [(1, 1), (10, 10), (100, 100)])])
    (x0, y0), (x1, y1), (x2, y2) = points_of(plot, "#000")
    assert (x1 - x0, y0 - y1) == pytest.approx((x2 - x1, y1 - y2), abs=0.11)


def test_last_values_are_labelled_without_overlap() -> None:
    plot = plots.linear("Found", "tokens", "per cent", LINES)
    positions = {
        element.text: float(element.attrib["y"])
        for element in parse(plot).iter(f"{SVG}text")
        if element.attrib["fill"] in {line.colour for line in LINES} and element.text
    }
    assert {"90", "89", "50"} == set(positions)
    assert positions["89"] - positions["90"] >= 12


def test_constant_line_and_single_point_can_be_drawn() -> None:
    for points in ([(1.0, 5.0), (2.0, 5.0)], [(3.0, 0.7)]):
        assert len(points_of(plots.linear("A", "x", "y", [Curve("a", "#000", points)]), "#000")) == len(points)
        assert len(points_of(plots.log_linear("A", "x", "y", [Curve("a", "#000", points)]), "#000")) == len(points)
