"""The map page, in a real browser with the real service and the real layout."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from examples import story
from playwright.sync_api import FloatRect, Locator, Page, expect

from cofio.core import Keeper
from cofio.models.memory import Add, Fact
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller
from tests.http_api.conftest import UnavailableEmbedder, serving
from tests.ui.conftest import PHONE, Visitor, accessibility_violations, overflow, screenshot

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} "quoted" & \'so\' \u202eback'
SMALL_COUNT = 240
LARGE_COUNT = 10_000
REDUCED_MOTION: dict[str, Any] = {"reduced_motion": "reduce"}  # zooms are instantaneous
Position = tuple[float, float]


class Chart:
    """The map on a page, next to the response of GET /map."""

    def __init__(self, page: Page, service: Caller, **filters: Any) -> None:
        self.page = page
        self.response = service.get("/map", **filters).json
        points = self.response["points"]
        columns = (points[name] for name in ("id", "x", "y", "text", "created_at", "cluster"))
        self.points: dict[int, tuple[Any, ...]] = {point[0]: point for point in zip(*columns, strict=True)}
        expect(self.canvas).to_have_attribute("data-points", str(len(self.points)))
        expect(self.canvas).to_have_attribute("data-view", re.compile("."))

    @property
    def canvas(self) -> Locator:
        return self.page.locator("#dots")

    @property
    def view(self) -> list[float]:
        """Return the center, pixels per unit, and the aspect ratio."""
        return [float(number) for number in str(self.canvas.get_attribute("data-view")).split(",")]

    def wait_until(self, condition: str, value: float | str = 0) -> None:
        """Wait for a condition on x, y and scale, and the given value."""
        now = "const [x, y, scale] = document.getElementById('dots').dataset.view.split(',').map(Number);"
        self.page.wait_for_function(f"(value) => {{ {now} return {condition}; }}", arg=value)

    def canvas_positions(self) -> dict[int, Position]:
        """Return the positions of the memories in pixels of the canvas."""
        x, y, scale, wide = self.view
        box = self.box
        return {
            number: ((at_x - x) * scale * wide + box["width"] / 2, (at_y - y) * scale + box["height"] / 2)
            for number, at_x, at_y, *_ in self.points.values()
        }

    def positions(self) -> dict[int, Position]:
        """Return the positions of the memories in pixels of the window."""
        box = self.box
        return {
            number: (box["x"] + across, box["y"] + down) for number, (across, down) in self.canvas_positions().items()
        }

    def position(self, number: int) -> Position:
        return self.positions()[number]

    @property
    def box(self) -> FloatRect:
        box = self.canvas.bounding_box()
        assert box
        return box

    def isolated(self, excluded: Collection[int] = ()) -> int:
        """Return the most isolated memory that is not covered by a label."""
        xy = np.array(list(self.canvas_positions().values()))
        distances = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1))
        np.fill_diagonal(distances, np.inf)
        by_distance = [list(self.points)[index] for index in np.argsort(-distances.min(axis=1), kind="stable")]
        colours = dict(zip(by_distance, map(tuple, self.colours(by_distance)), strict=True))
        colour_counts = Counter(colours.values())
        return next(number for number in by_distance if colour_counts[colours[number]] > 1 and number not in excluded)

    def within(self, left: float, top: float, right: float, bottom: float) -> set[int]:
        """Return the memories in a part of the window."""
        return {number for number, (x, y) in self.positions().items() if left < x < right and top < y < bottom}

    def are_visible(self, numbers: Iterable[int]) -> bool:
        """Return whether these memories are visible."""
        positions, box = self.canvas_positions(), self.box
        return all(
            0 < positions[number][0] < box["width"] and 0 < positions[number][1] < box["height"] for number in numbers
        )

    def colour(self, number: int) -> list[int]:
        """Return the pixel at the center of a memory."""
        return self.colours([number])[0]

    def colours(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return the pixels at the centers of memories."""
        look = """(places) => {
            const canvas = document.getElementById("dots");
            const sharp = canvas.width / canvas.clientWidth;
            const copy = new OffscreenCanvas(canvas.width, canvas.height)
                .getContext("2d", { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            return places.map(([across, down]) =>
                [...copy.getImageData(Math.round(across * sharp), Math.round(down * sharp), 1, 1).data]);
        }"""
        positions = self.canvas_positions()
        pixels: list[list[int]] = self.page.evaluate(look, [list(positions[number]) for number in numbers])
        return pixels

    def drag(self, *path: Position, keys: tuple[str, ...] = ()) -> None:
        mouse, keyboard = self.page.mouse, self.page.keyboard
        for key in keys:
            keyboard.down(key)
        mouse.move(*path[0])
        mouse.down()
        for position in path[1:]:
            mouse.move(*position, steps=4)
        mouse.up()
        for key in keys:
            keyboard.up(key)


def add_facts(service: Caller, facts: list[dict[str, Any]]) -> list[int]:
    response = service.post("/memory/add-batch", {"memories": facts, "deduplicate": False})
    assert response.status == 200, response.json
    return [result["id"] for result in response.json["results"]]


def ids_listed(page: Page) -> list[int]:
    ids: list[int] = page.locator("#panel .member").evaluate_all("(all) => all.map((it) => Number(it.dataset.id))")
    return ids


def all_listed(page: Page) -> set[int]:
    """Return all memories listed in the panel."""
    show_more = page.locator("#panel .further")
    while show_more.is_visible():
        show_more.click()
    return set(ids_listed(page))


def title(page: Page) -> Locator:
    return page.locator("#panel-title")


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def notice(page: Page) -> Locator:
    return page.locator(".notice")


def left_half(chart: Chart) -> tuple[float, float, float, float]:
    """Return the left half of the canvas, in pixels of the window."""
    box = chart.box
    return box["x"] + 4, box["y"] + 4, box["x"] + box["width"] / 2, box["y"] + box["height"] - 4


@pytest.fixture(scope="module")
def team_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Return a service with a team's memories, for tests that do not change them."""
    clock = FixedClock(story.NOW.strftime("%Y-%m-%dT%H:%M:%SZ"))
    store = SqliteStore(tmp_path_factory.mktemp("told") / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock) as keeper, serving(keeper) as url:
        caller = Caller(url)
        add_facts(caller, story.facts(SMALL_COUNT))
        yield caller


# ── Viewing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_map_shows_all_memories_and_their_number(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    groups = len(chart.response["clusters"])
    expect(page.locator("#what")).to_have_text(f"{SMALL_COUNT} memories, {groups} groups")
    expect(chart.canvas).to_have_attribute("aria-label", f"Map of memories: {SMALL_COUNT} memories, {groups} groups")
    counts = Counter(chart.response["points"]["category"])
    for index, category in enumerate(chart.response["categories"]):
        expect(page.locator(".class", has_text=category.title())).to_contain_text(str(counts[index]))
    assert chart.are_visible(chart.points)
    screenshot(page, "map")


def test_points_are_coloured_by_category_project_and_age(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    number = chart.isolated()
    index = list(chart.points).index(number)
    points = chart.response["points"]
    project = chart.response["projects"][points["project"][index]]
    category = chart.response["categories"][points["category"][index]]
    names = {"Category": category.title(), "Project": project or "No project", "Age": None}
    for scheme, name in names.items():
        page.get_by_role("radio", name=scheme).check()
        expect(page).to_have_url(re.compile(rf"#/{scheme.lower()}"))
        entries = page.locator(".class")
        assert 2 <= entries.count() <= 8
        entry = entries.filter(has_text=name) if name and entries.filter(has_text=name).count() else entries.last
        if scheme == "Age":
            continue
        colour = entry.locator(".dot").evaluate("(it) => getComputedStyle(it).backgroundColor")
        assert chart.colour(number)[:3] == [int(match) for match in re.findall(r"\d+", colour)]
    ages = page.locator(".class bdi").all_inner_texts()
    counts = page.locator(".class .count").all_inner_texts()
    assert ages[-1] == "Jun 2026"  # the month of the newest memory
    assert sum(map(int, counts)) == SMALL_COUNT
    assert len(set(page.locator(".class .dot").evaluate_all("(all) => all.map((it) => it.style.background)"))) == len(
        ages
    )


def test_zoom_by_key_wheel_and_button_is_kept_in_the_url(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    initial = chart.view
    chart.canvas.focus()
    page.keyboard.press("+")
    chart.wait_until("scale > value", initial[2])  # drawn in the next frame
    assert math.isclose(chart.view[2], initial[2] * 1.5, rel_tol=1e-6)
    page.keyboard.press("-")
    page.keyboard.press("ArrowRight")
    chart.wait_until("x > value", initial[0])
    page.keyboard.press("0")
    chart.wait_until("x === value", initial[0])
    number = chart.isolated()
    page.mouse.move(*chart.position(number))
    position_before = chart.position(number)
    page.mouse.wheel(0, -300)
    chart.wait_until("scale > value", initial[2])
    assert math.dist(position_before, chart.position(number)) < 2  # the position under the pointer stays fixed
    near_scale = chart.view[2]
    press(page, "Zoom in")
    chart.wait_until("scale > value", near_scale * 1.59)
    final = chart.view
    expect(page).to_have_url(re.compile(rf"#/category\?at=\d+,\d+,{final[2] / initial[2]:.4g}$"))
    page.reload()
    reloaded = Chart(page, team_service)
    assert np.allclose(reloaded.view, final, rtol=0.01)
    press(page, "Show the whole map")
    expect(page).to_have_url(re.compile(r"#/category$"))


def test_drag_moves_the_map_and_zoom_is_animated(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map")
    chart = Chart(page, team_service)
    number = chart.isolated()
    position_before = chart.position(number)
    left, _top, _right, bottom = left_half(chart)
    x = chart.view[0]
    chart.drag((left + 50, bottom - 10), (left + 90, bottom - 30))
    chart.wait_until("x !== value", x)
    assert math.dist(chart.position(number), (position_before[0] + 40, position_before[1] - 20)) < 2
    scale = chart.view[2]
    frame_count = page.evaluate("""async () => {
        const dots = document.getElementById("dots");
        const seen = new Set();
        document.querySelector('[aria-label="Zoom in"]').click();
        for (let frame = 0; frame < 300 && !seen.has("there"); frame++) {
            await new Promise(requestAnimationFrame);
            seen.add(dots.dataset.view);
            if (seen.size > 3) seen.add("there");
        }
        return seen.size;
    }""")
    assert frame_count > 3
    chart.wait_until("scale > value", scale * 1.599)


def test_hovered_memory_is_shown_with_its_date(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    number = chart.isolated()
    tip = page.locator("#tip")
    expect(tip).to_be_hidden()
    page.mouse.move(*chart.position(number))
    expect(tip).to_contain_text(chart.points[number][3][:100])
    expect(tip.locator("time")).to_have_attribute("datetime", chart.points[number][4])
    expect(tip).to_contain_text("2026" if "2026" in chart.points[number][4] else "2025")
    across, down = chart.position(number)
    page.mouse.move(across, down + 250)
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_click_opens_the_memory_and_back_closes_it(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    number = chart.isolated()
    page.mouse.click(*chart.position(number))
    expect(title(page)).to_have_text(f"Memory {number}")
    memory = team_service.get(f"/memory/{number}").json
    expect(page.locator(".memory .text")).to_have_text(memory["text"])
    expect(page.get_by_role("link", name="Open in Memories")).to_have_attribute("href", f"memories#/{number}")
    expect(page.locator(".near .member")).to_have_count(5)
    expect(page).to_have_url(re.compile(rf"open={number}$"))
    page.go_back()
    expect(title(page)).to_have_text("Groups")
    page.go_forward()
    expect(title(page)).to_have_text(f"Memory {number}")
    page.reload()
    expect(page.locator(".memory .text")).to_have_text(memory["text"])
    press(page, "‹ Groups")
    expect(title(page)).to_have_text("Groups")
    assert team_service.get(f"/memory/{number}").json["retrieval_count"] == memory["retrieval_count"]  # not a retrieval


def test_delayed_url_update_does_not_overwrite_the_history(team_service: Caller, visit: Visitor) -> None:
    """The URL is updated after the view has settled, here at the moment of going back."""
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    number = chart.isolated()
    page.evaluate(
        """() => {
          const wait = window.setTimeout;
          const held = [];
          window.setTimeout = (then, after, ...rest) => (after === 250 ? held.push(then) : wait(then, after, ...rest));
          addEventListener("popstate", () => { window.noted = held.splice(0).map((then) => then()).length; });
        }"""
    )
    page.mouse.click(*chart.position(number))
    expect(title(page)).to_have_text(f"Memory {number}")
    page.mouse.wheel(0, -300)  # schedules a URL update
    page.wait_for_timeout(100)
    page.go_back()
    expect(title(page)).to_have_text("Groups")
    assert page.evaluate("noted") > 0


# ── Selection ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_box_selects_memories_and_control_extends_the_selection(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    left, top, right, bottom = left_half(chart)
    expected = chart.within(left, top, right, bottom)
    assert 5 < len(expected) < SMALL_COUNT
    chart.drag((left, top), (right, bottom), keys=("Shift",))
    expect(title(page)).to_have_text(f"{len(expected)} memories chosen")
    expect(page.locator("#status")).to_have_text(f"{len(expected)} memories chosen")
    assert all_listed(page) == expected
    points = chart.response["points"]
    category_of = dict(zip(points["id"], points["category"], strict=True))
    categories = Counter(chart.response["categories"][category_of[number]] for number in expected)
    text = page.locator("#panel > p").first.inner_text()
    assert {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", text)} == categories
    across, down = max(chart.positions().values())  # the one that is farthest to the right
    around = chart.within(across - 8, down - 8, across + 8, down + 8)
    chart.drag((across - 8, down - 8), (across + 8, down + 8), keys=("Shift", "Control"))
    expect(title(page)).to_have_text(f"{len(expected | around)} memories chosen")
    assert all_listed(page) == expected | around
    chart.canvas.focus()
    page.keyboard.press("Escape")
    expect(title(page)).to_have_text("Groups")


def test_lasso_selects_enclosed_memories(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    left, top, right, bottom = left_half(chart)
    press(page, "Select")
    expect(page.get_by_role("button", name="Select")).to_have_attribute("aria-pressed", "true")
    in_left_half = {number: chart.positions()[number] for number in chart.within(left, top, right, bottom)}
    shares = {
        number: (x - left) / (right - left) + (y - top) / (bottom - top) for number, (x, y) in in_left_half.items()
    }
    corner = {number for number, share in shares.items() if share < 1}
    chart.drag((left, top), (right, top), (left, bottom))  # a triangle
    expect(title(page)).to_have_text(f"{len(corner)} memories chosen")
    assert all_listed(page) == corner


def test_group_list_navigates_to_the_group(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    groups = page.locator("#panel .group")
    expect(groups).to_have_count(len(chart.response["clusters"]))
    counts = [int(text) for text in groups.locator(".count").all_inner_texts()]
    assert counts == sorted((cluster["count"] for cluster in chart.response["clusters"]), reverse=True)
    view_before = chart.view
    number = int(groups.nth(1).get_attribute("data-group") or 0)
    name = " · ".join(chart.response["clusters"][number]["words"])
    expect(groups.nth(1)).to_contain_text(name)
    groups.nth(1).focus()
    page.keyboard.press("Enter")
    expect(title(page)).to_have_text(name)
    expect(title(page)).to_be_focused()
    members = {memory_id for memory_id, point in chart.points.items() if point[5] == number}
    assert all_listed(page) == members
    chart.wait_until("scale > value", view_before[2])
    assert chart.are_visible(members)


def test_keyboard_moves_between_memories(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    chart.canvas.focus()
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#tip")).to_be_visible()
    first = page.locator("#tip .says").inner_text()
    expect(page.locator("#status")).to_contain_text(first)
    page.keyboard.press("Space")
    expect(title(page)).to_have_text("1 memory chosen")
    [first_id] = all_listed(page)
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#tip .says")).not_to_have_text(first)
    page.keyboard.press("Space")
    expect(title(page)).to_have_text("2 memories chosen")
    [second_id] = all_listed(page) - {first_id}
    assert chart.points[second_id][1] > chart.points[first_id][1]  # further to the right
    page.keyboard.press("Enter")
    expect(title(page)).to_be_focused()
    expect(title(page)).to_have_text(f"Memory {second_id}")
    press(page, "‹ Chosen")
    expect(page.locator(f"[data-id='{second_id}']")).to_be_focused()
    page.go_back()
    expect(title(page)).to_have_text(f"Memory {second_id}")
    page.go_back()
    expect(title(page)).to_have_text("2 memories chosen")
    expect(title(page)).to_be_focused()
    page.keyboard.press("Escape")
    expect(title(page)).to_have_text("Groups")
    expect(title(page)).to_be_focused()


def test_search_highlights_matches(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    results = team_service.post("/search", {"query": "Stripe invoice refund", "k": 50, "log": False}).json["results"]
    number = chart.isolated(excluded={hit["id"] for hit in results})
    normal_colour = chart.colour(number)
    retrievals = team_service.get("/stats").json["retrievals"]
    page.get_by_role("searchbox", name="Find").fill("Stripe invoice refund")
    expect(title(page)).to_have_text("50 answers")
    assert ids_listed(page) == [hit["id"] for hit in results]
    assert chart.colour(number) != normal_colour  # it is dimmed
    assert team_service.get("/stats").json["retrievals"] == retrievals
    expect(page).to_have_url(re.compile("find=Stripe"))
    press(page, "Select them")
    expect(title(page)).to_have_text("50 memories chosen")
    chart.canvas.focus()
    page.keyboard.press("Escape")
    expect(title(page)).to_have_text("Groups")
    expect(page.get_by_role("searchbox", name="Find")).to_have_value("")


# ── Filters ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_legend_hides_or_isolates_a_class(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, team_service)
    entry = page.locator(".class", has_text="Decision")
    counts = dict(
        zip(["decision", "detail", "learning"], map(int, page.locator(".class .count").all_inner_texts()), strict=True)
    )
    decision = chart.response["categories"].index("decision")
    number = next(
        memory_id
        for index, memory_id in enumerate(chart.points)
        if chart.response["points"]["category"][index] == decision
    )
    entry.click()
    expect(entry).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#status")).to_have_text(f"{SMALL_COUNT - counts['decision']} memories shown")
    expect(page).to_have_url(re.compile("hide=decision"))
    left, top, right, bottom = left_half(chart)
    chart.drag((left, top), (right + 2_000, bottom), keys=("Shift",))
    assert number not in all_listed(page)
    page.reload()
    expect(page.locator(".class", has_text="Decision")).to_have_attribute("aria-pressed", "false")
    page.locator(".entry", has_text="Learning").hover()
    page.get_by_role("button", name="Only Learning").click()
    expect(page.locator("#status")).to_have_text(f"{counts['learning']} memories shown")
    expect(page.get_by_role("button", name="Only Learning")).to_be_focused()
    press(page, "Show all")
    expect(page.locator(".class[aria-pressed=true]")).to_have_count(3)


def test_project_and_category_filter_the_map(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    Chart(page, team_service)
    page.get_by_label("Project", exact=True).and_(page.locator("select")).select_option("mobile")
    chart = Chart(page, team_service, project="mobile")
    assert 0 < len(chart.points) < SMALL_COUNT
    expect(page.locator("#what")).to_contain_text(f"{len(chart.points)} memories")
    page.locator("select[name=category]").select_option("learning")
    Chart(page, team_service, project="mobile", category="learning")
    page.go_back()
    Chart(page, team_service, project="mobile")
    page.locator("select[name=project]").select_option("No project")
    assert len(Chart(page, team_service, project="").points) > 0
    expect(page.locator("select[name=project] option")).to_have_count(
        len(team_service.get("/projects").json["projects"]) + 2
    )


def test_no_match_offers_to_clear_the_filters(service: Caller, visit: Visitor) -> None:
    add_facts(service, story.facts(12))
    page = visit(service, "/ui/map#/category?project=nowhere", **REDUCED_MOTION)
    expect(page.locator(".empty")).to_contain_text("No memory on the map matches the filters.")
    press(page, "Show all")
    Chart(page, service)


# ── Actions ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_selection_is_archived_and_undone(service: Caller, visit: Visitor) -> None:
    add_facts(service, story.facts(60))
    page = visit(service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, service)
    left, top, right, bottom = left_half(chart)
    expected = chart.within(left, top, right, bottom)
    remaining = (chart.points.keys() - expected).pop()
    position = chart.position(remaining)
    chart.drag((left, top), (right, bottom), keys=("Shift",))
    expect(title(page)).to_have_text(f"{len(expected)} memories chosen")
    press(page, "Archive")
    expect(notice(page)).to_contain_text(f"Archived: {len(expected)} memories.")
    assert all(service.get(f"/memory/{number}").json["archived_at"] for number in expected)
    expect(page.locator("#what")).to_contain_text(f"{60 - len(expected)} memories")
    assert chart.position(remaining) == position  # other points do not move
    chart.drag((left, top), (right, bottom), keys=("Shift",))
    expect(page.locator("#status")).to_have_text("0 memories chosen")
    notice(page).get_by_role("button", name="Undo").click()
    expect(title(page)).to_have_text(f"{len(expected)} memories chosen")
    assert not any(service.get(f"/memory/{number}").json["archived_at"] for number in expected)
    press(page, "Pin")
    expect(notice(page)).to_contain_text(f"Pinned: {len(expected)} memories.")
    assert all(service.get(f"/memory/{number}").json["pinned"] for number in expected)
    notice(page).get_by_role("button", name="Undo").click()
    expect(notice(page)).to_contain_text("Undone.")
    assert not any(service.get(f"/memory/{number}").json["pinned"] for number in expected)


def test_single_memory_is_pinned_and_archived(service: Caller, visit: Visitor) -> None:
    add_facts(service, story.facts(30))
    page = visit(service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, service)
    number = chart.isolated()
    page.mouse.click(*chart.position(number))
    press(page, "Pin")
    expect(page.locator(".marks")).to_contain_text("pinned")
    press(page, "Archive")
    expect(notice(page)).to_contain_text("Archived: 1 memory.")
    expect(page.locator("#what")).to_contain_text("29 memories")
    assert service.get(f"/memory/{number}").json["archived_at"]


def test_new_memories_are_announced_and_drawn_on_request(service: Caller, visit: Visitor) -> None:
    add_facts(service, story.facts(40))
    page = visit(service, "/ui/map", **REDUCED_MOTION)
    chart = Chart(page, service)
    view_before = chart.view
    service.post("/memory/add", {"text": "The canary has a canary of its own."})
    expect(page.locator("#news")).to_contain_text("1 new")
    assert chart.view == view_before
    expect(page.locator("#what")).to_contain_text("40 memories")
    press(page, "Redraw")
    expect(page.locator("#what")).to_contain_text("41 memories")
    expect(page.locator("#news")).to_be_empty()
    expect(chart.canvas).to_be_focused()


# ── Permissions ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("role", "action_count"), [("read", 0), ("write", 2)])
def test_actions_follow_the_role_of_the_key(
    serve: Callable[..., Caller], visit: Visitor, role: str, action_count: int
) -> None:
    service = serve(api_key="owner")
    owner = service.with_key("owner")
    add_facts(owner, [{**fact, "visibility": "global"} for fact in story.facts(30)])
    key = owner.post("/keys", {"name": "ann", "user": "ann", "role": role}).json["secret"]
    page = visit(service, "/ui/map", **REDUCED_MOTION)
    page.get_by_label("API key").fill(key)
    press(page, "Open")
    chart = Chart(page, owner)
    page.mouse.click(*chart.position(chart.isolated()))
    expect(page.get_by_role("link", name="Open in Memories")).to_be_visible()
    expect(page.locator("#panel .actions button")).to_have_count(action_count)
    left, top, right, bottom = left_half(chart)
    chart.drag((left, top), (right + 2_000, bottom), keys=("Shift",))
    expect(title(page)).to_have_text("30 memories chosen")
    expect(page.locator("#panel .actions button")).to_have_count(action_count)
    press(page, "Forget key")
    expect(page.locator("#page")).to_be_hidden()
    assert page.locator("#panel").inner_text() == ""  # no data remains
    assert chart.canvas.evaluate("(it) => it.width") == 0
    expect(chart.canvas).to_have_attribute("aria-label", "Map of memories")


def test_hostile_texts_are_shown_as_text(service: Caller, visit: Visitor) -> None:
    facts = story.facts(30)
    long_text = f"{HOSTILE} {'a very long memory ' * 520}"[:9_990]
    facts += [{"text": f"{HOSTILE} number {index}", "project": HOSTILE} for index in range(8)] + [
        {"text": long_text, "project": "p" * 200}
    ]
    ids = add_facts(service, facts)
    page = visit(service, "/ui/map#/project", **REDUCED_MOTION)
    chart = Chart(page, service)
    for number in ids[-9:]:
        page.mouse.move(*chart.positions()[number])
        expect(page.locator("#tip")).to_contain_text("<img src=x")
    expect(page.locator(".class", has_text="script>")).to_have_count(1)
    page.mouse.click(*chart.position(ids[-1]))
    chart.canvas.focus()
    page.goto(f"{service.url}/ui/map#/project?open={ids[-1]}")
    expect(page.locator(".memory .text")).to_have_text(long_text.strip())
    press(page, "‹ Groups")
    left, top, right, bottom = left_half(chart)
    chart.drag((left, top), (right + 2_000, bottom), keys=("Shift",))
    expect(page.locator("#panel .member", has_text="<script>alert(2)</script>")).to_have_count(9)
    assert page.locator("main img, main script").count() == 0
    assert overflow(page) == 0
    assert accessibility_violations(page) == []


@pytest.mark.parametrize(
    "fragment", ["#/nope?at=x,y&open=-3", "#main", "#/age?at=1e9,-1e9,1e9", "#/category?open=999999", "#/%"]
)
def test_invalid_url_is_ignored(team_service: Caller, visit: Visitor, fragment: str) -> None:
    visit.expected.add(404)
    visit.expected.add(400)
    page = visit(team_service, f"/ui/map{fragment}", **REDUCED_MOTION)
    Chart(page, team_service)
    expect(title(page)).to_be_visible()


def test_empty_store_explains_what_to_do(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/map", **REDUCED_MOTION)
    expect(page.locator(".empty")).to_contain_text("No memories yet")
    expect(page.locator(".empty code")).to_contain_text("cofio add")
    assert accessibility_violations(page) == []
    service.post("/memory/add", {"text": "The first of them."})
    press(page, "Redraw")
    Chart(page, service)
    expect(page.locator("#what")).to_have_text("1 memory, 0 groups")


def test_memories_without_vectors_explain_what_to_do(tmp_path: Any, visit: Visitor) -> None:
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    store.apply([Add(Fact(text="Imported, and not embedded."))], {}, by="test", why="import")
    # With a working embedder the service would compute the vector before the page asks.
    with Keeper(store, UnavailableEmbedder(), clock) as keeper, serving(keeper) as url:
        page = visit(Caller(url), "/ui/map", **REDUCED_MOTION)
        expect(page.locator(".empty")).to_contain_text("no vectors yet")
        expect(page.locator(".empty code")).to_have_text("cofio doctor")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(team_service: Caller, visit: Visitor, scheme: str) -> None:
    page = visit(team_service, "/ui/map#/project", color_scheme=scheme, **REDUCED_MOTION)
    chart = Chart(page, team_service)
    assert accessibility_violations(page) == []
    number = chart.isolated()
    page.mouse.move(*chart.position(number))
    expect(page.locator("#tip")).to_be_visible()
    page.locator("#panel .group").first.click()
    expect(page.locator("#panel .member").first).to_be_visible()
    assert accessibility_violations(page) == []
    page.locator("#panel .member").first.click()
    expect(page.locator(".near .member").first).to_be_visible()
    assert accessibility_violations(page) == []
    screenshot(page, f"map-opened-{scheme}")
    page.get_by_role("searchbox", name="Find").fill("flaky tests")
    expect(title(page)).to_contain_text("answers")
    assert accessibility_violations(page) == []
    screenshot(page, f"map-found-{scheme}")
    if scheme == "dark":
        page.goto(f"{team_service.url}/ui/map#/age")
        page.reload()
        Chart(page, team_service)
        screenshot(page, "map-dark")


def test_page_works_by_keyboard(team_service: Caller, visit: Visitor) -> None:
    page = visit(team_service, "/ui/map", **REDUCED_MOTION)
    Chart(page, team_service)
    page.locator(".skip").focus()
    selectors = ["[name=find]", "[name=way]", "[name=project]", "[name=category]", ".class", ".only", "#dots",
              "#controls button", "#panel .group"]  # fmt: skip
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached += [
            selector for selector in selectors if page.evaluate("(it) => document.activeElement.matches(it)", selector)
        ]
    assert list(dict.fromkeys(reached)) == selectors


# ── Phone ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_touch_gestures_pan_and_zoom(team_service: Caller, visit: Visitor) -> None:
    page = visit(
        team_service, "/ui/map", viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2, **REDUCED_MOTION
    )
    chart = Chart(page, team_service)
    assert overflow(page) == 0
    assert accessibility_violations(page) == []
    screenshot(page, "map-phone")
    chart.canvas.scroll_into_view_if_needed()
    touch = page.context.new_cdp_session(page)

    def touch_event(kind: str, *touches: Position) -> None:
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in touches]})

    box = chart.box
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    number = chart.isolated()
    position_before, x = chart.position(number), chart.view[0]
    touch_event("touchStart", middle)
    touch_event("touchMove", (middle[0] + 10, middle[1] + 5))
    touch_event("touchMove", (middle[0] + 30, middle[1] + 15))
    touch_event("touchEnd")
    chart.wait_until("x !== value", x)
    assert math.dist(chart.position(number), (position_before[0] + 30, position_before[1] + 15)) < 2
    scale = chart.view[2]
    touch_event("touchStart", (middle[0] - 40, middle[1]), (middle[0] + 40, middle[1]))
    for step in (50, 60, 70, 80):
        touch_event("touchMove", (middle[0] - step, middle[1]), (middle[0] + step, middle[1]))
    touch_event("touchEnd")
    chart.wait_until("scale > value", scale * 1.9)
    assert math.isclose(chart.view[2], scale * 2, rel_tol=0.05)
    press(page, "Show the whole map")
    chart.wait_until("scale < value", scale * 1.1)
    page.touchscreen.tap(*chart.position(number))
    expect(title(page)).to_have_text(f"Memory {number}")
    assert overflow(page) == 0
    assert accessibility_violations(page) == []


# ── Ten thousand memories ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def large_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Return a service with ten thousand clustered memories."""
    clock = FixedClock()
    store = SqliteStore(tmp_path_factory.mktemp("crowd") / "cofio.db", clock)
    embedder = HashEmbedder(64)
    rng = np.random.default_rng(5)
    centers = rng.standard_normal((30, 64))
    vectors = centers[rng.integers(30, size=LARGE_COUNT)] + 0.7 * rng.standard_normal((LARGE_COUNT, 64))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    with Keeper(store, embedder, clock) as keeper, serving(keeper) as url:
        keeper.add("The first, by which the store knows its embedder.")
        facts = [Add(Fact(**fact)) for fact in story.facts(LARGE_COUNT - 1)]
        store.apply(facts, dict(enumerate(vectors[: LARGE_COUNT - 1])), by="test", why="many")
        yield Caller(url)


def test_ten_thousand_memories_are_drawn_quickly_and_pan_smoothly(
    large_service: Caller, visit: Visitor, record_property: Callable[[str, object], None]
) -> None:
    large_service.get("/map")  # computed before, as after any earlier visit
    page = visit(large_service, "/ui/map", **REDUCED_MOTION)
    canvas = page.locator("#dots")
    expect(canvas).to_have_attribute("data-view", re.compile("."))
    load_time = page.evaluate("performance.now()")
    expect(page.locator("#what")).to_contain_text("10,000 memories")
    screenshot(page, "map-many")
    box = canvas.bounding_box()
    assert box
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.down()
    page.evaluate("""() => {
        globalThis.frames = [];
        let last = performance.now();
        const step = () => {
            const now = performance.now();
            frames.push(now - last);
            last = now;
            if (frames.length < 1_000) requestAnimationFrame(step);
        };
        requestAnimationFrame(step);
    }""")
    for step in range(80):
        page.mouse.move(middle[0] + 2 * step, middle[1] + step / 2)
    frames: list[float] = page.evaluate("frames")
    page.mouse.up()
    median_frame = statistics.median(frames)
    frame_figures = f"{median_frame:.1f} ms, {len(frames)} of them"
    print(f"\n10,000 memories: the map after {load_time:.0f} ms; a frame of a pan takes {frame_figures}")
    record_property("first_map_ms", load_time)
    record_property("pan_frame_ms", median_frame)
    assert load_time < 20_000
    assert median_frame < 170
