"""Plots are SVG that says what it shows, with every point where it belongs."""

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


def drawn(plot: str) -> ElementTree.Element:
    return ElementTree.fromstring(plot)


def dots(plot: str, colour: str) -> list[tuple[float, float]]:
    every = drawn(plot).iter(f"{SVG}circle")
    return [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in every if each.attrib["fill"] == colour]


def texts(plot: str) -> list[str]:
    return [each.text or "" for each in drawn(plot).iter(f"{SVG}text")]


@pytest.mark.parametrize("kind", [plots.log_log, plots.linear, plots.log_linear])
def test_a_plot_is_svg_that_names_its_axes_and_lines(kind: type) -> None:
    plot = kind("Found", "tokens", "per cent", LINES)
    assert {"Found", "tokens", "per cent", "ours & <theirs>", "plain", "one"} <= set(texts(plot))
    assert drawn(plot).find(f"{SVG}title") is not None
    assert len(list(drawn(plot).iter(f"{SVG}circle"))) == 7
    assert plot.count("stroke-dasharray") == 2  # the line and its place in the legend


@pytest.mark.parametrize("kind", [plots.log_log, plots.linear, plots.log_linear])
def test_more_is_further_right_and_further_up_and_within_the_picture(kind: type) -> None:
    plot = kind("Found", "tokens", "per cent", LINES)
    places = dots(plot, COLOURS[0])
    assert places == sorted(places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    width, height = map(float, re.findall(r'viewBox="0 0 (\d+) (\d+)"', plot)[0])
    for line in LINES:
        assert all(0 < x < width and 0 < y < height for x, y in dots(plot, line.colour))


def test_on_a_linear_axis_equal_steps_are_equally_far() -> None:
    plot = plots.linear("A", "x", "y", [Curve("a", "#000", [(0, 0), (1, 10), (2, 20)])], within=(0, 2, 0, 20))
    (x0, y0), (x1, y1), (x2, y2) = dots(plot, "#000")
    assert (x1 - x0, y0 - y1) == pytest.approx((x2 - x1, y1 - y2), abs=0.11)


def test_on_a_logarithmic_axis_equal_factors_are_equally_far() -> None:
    plot = plots.log_log("A", "x", "y", [Curve("a", "#000", [(1, 1), (10, 10), (100, 100)])])
    (x0, y0), (x1, y1), (x2, y2) = dots(plot, "#000")
    assert (x1 - x0, y0 - y1) == pytest.approx((x2 - x1, y1 - y2), abs=0.11)


def test_the_last_values_stand_beside_their_lines_and_not_over_each_other() -> None:
    plot = plots.linear("Found", "tokens", "per cent", LINES)
    at = {
        each.text: float(each.attrib["y"])
        for each in drawn(plot).iter(f"{SVG}text")
        if each.attrib["fill"] in {line.colour for line in LINES} and each.text
    }
    assert {"90", "89", "50"} == set(at)
    assert at["89"] - at["90"] >= 12


def test_a_flat_line_and_a_single_point_can_be_drawn() -> None:
    for points in ([(1.0, 5.0), (2.0, 5.0)], [(3.0, 0.7)]):
        assert len(dots(plots.linear("A", "x", "y", [Curve("a", "#000", points)]), "#000")) == len(points)
        assert len(dots(plots.log_linear("A", "x", "y", [Curve("a", "#000", points)]), "#000")) == len(points)
