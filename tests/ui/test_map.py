"""The map of memories, as a person uses it: a real browser, the real service, the real layout."""

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
from tests.http_api.conftest import serving
from tests.ui.conftest import PHONE, Visitor, hindrances, overflow, picture

WEIRD = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} "quoted" & \'so\' \u202eback'
SOME = 240
MANY = 10_000
CALM: dict[str, Any] = {"reduced_motion": "reduce"}  # zooms are done at once
Spot = tuple[float, float]


class Chart:
    """The map on a page, beside what GET /map says of it."""

    def __init__(self, page: Page, service: Caller, **within: Any) -> None:
        self.page = page
        self.told = service.get("/map", **within).json
        points = self.told["points"]
        columns = (points[name] for name in ("id", "x", "y", "text", "created_at", "cluster"))
        self.points: dict[int, tuple[Any, ...]] = {point[0]: point for point in zip(*columns, strict=True)}
        expect(self.canvas).to_have_attribute("data-points", str(len(self.points)))
        expect(self.canvas).to_have_attribute("data-view", re.compile("."))

    @property
    def canvas(self) -> Locator:
        return self.page.locator("#dots")

    @property
    def view(self) -> list[float]:
        """The centre, the pixels to a unit, and by how much it is wider than high."""
        return [float(each) for each in str(self.canvas.get_attribute("data-view")).split(",")]

    def until(self, holds: str, value: float | str = 0) -> None:
        """Wait for what is seen to be so: `holds` may speak of x, y and scale, and of the value."""
        now = "const [x, y, scale] = document.getElementById('dots').dataset.view.split(',').map(Number);"
        self.page.wait_for_function(f"(value) => {{ {now} return {holds}; }}", arg=value)

    def insides(self) -> dict[int, Spot]:
        """Where the memories are drawn, in pixels of the canvas."""
        x, y, scale, wide = self.view
        box = self.box
        return {
            number: ((at_x - x) * scale * wide + box["width"] / 2, (at_y - y) * scale + box["height"] / 2)
            for number, at_x, at_y, *_ in self.points.values()
        }

    def spots(self) -> dict[int, Spot]:
        """Where they are drawn, in pixels of the window."""
        box = self.box
        return {number: (box["x"] + across, box["y"] + down) for number, (across, down) in self.insides().items()}

    def spot(self, number: int) -> Spot:
        return self.spots()[number]

    @property
    def box(self) -> FloatRect:
        found = self.canvas.bounding_box()
        assert found
        return found

    def lonely(self, but: Collection[int] = ()) -> int:
        """The memory that is farthest from any other, of those that are drawn in full: a label may cover a point."""
        xy = np.array(list(self.insides().values()))
        apart = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1))
        np.fill_diagonal(apart, np.inf)
        farthest = [list(self.points)[place] for place in np.argsort(-apart.min(axis=1), kind="stable")]
        colours = dict(zip(farthest, map(tuple, self.colours(farthest)), strict=True))
        often = Counter(colours.values())
        return next(each for each in farthest if often[colours[each]] > 1 and each not in but)

    def within(self, left: float, top: float, right: float, bottom: float) -> set[int]:
        """The memories that are drawn in a part of the window."""
        return {each for each, (x, y) in self.spots().items() if left < x < right and top < y < bottom}

    def all_seen(self, numbers: Iterable[int]) -> bool:
        """Whether these are drawn where they can be seen."""
        spots, box = self.insides(), self.box
        return all(0 < spots[number][0] < box["width"] and 0 < spots[number][1] < box["height"] for number in numbers)

    def colour(self, number: int) -> list[int]:
        """The pixel in the middle of a memory."""
        return self.colours([number])[0]

    def colours(self, numbers: Sequence[int]) -> list[list[int]]:
        """The pixels in the middle of memories."""
        look = """(places) => {
            const canvas = document.getElementById("dots");
            const sharp = canvas.width / canvas.clientWidth;
            const copy = new OffscreenCanvas(canvas.width, canvas.height)
                .getContext("2d", { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            return places.map(([across, down]) =>
                [...copy.getImageData(Math.round(across * sharp), Math.round(down * sharp), 1, 1).data]);
        }"""
        places = self.insides()
        found: list[list[int]] = self.page.evaluate(look, [list(places[number]) for number in numbers])
        return found

    def drag(self, *way: Spot, keys: tuple[str, ...] = ()) -> None:
        mouse, keyboard = self.page.mouse, self.page.keyboard
        for key in keys:
            keyboard.down(key)
        mouse.move(*way[0])
        mouse.down()
        for each in way[1:]:
            mouse.move(*each, steps=4)
        mouse.up()
        for key in keys:
            keyboard.up(key)


def seed(service: Caller, facts: list[dict[str, Any]]) -> list[int]:
    answer = service.post("/memory/add-batch", {"memories": facts, "deduplicate": False})
    assert answer.status == 200, answer.json
    return [each["id"] for each in answer.json["results"]]


def ids_listed(page: Page) -> list[int]:
    found: list[int] = page.locator("#panel .member").evaluate_all("(all) => all.map((it) => Number(it.dataset.id))")
    return found


def listed(page: Page) -> set[int]:
    """The memories that the panel lists, all of them."""
    more = page.locator("#panel .further")
    while more.is_visible():
        more.click()
    return set(ids_listed(page))


def title(page: Page) -> Locator:
    return page.locator("#panel-title")


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def notice(page: Page) -> Locator:
    return page.locator(".notice")


def wide(chart: Chart) -> tuple[float, float, float, float]:
    """The left half of the canvas, in pixels of the window; clear of its edges."""
    box = chart.box
    return box["x"] + 4, box["y"] + 4, box["x"] + box["width"] / 2, box["y"] + box["height"] - 4


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """A service with what a team knows, for tests that change none of it."""
    clock = FixedClock(story.NOW.strftime("%Y-%m-%dT%H:%M:%SZ"))
    store = SqliteStore(tmp_path_factory.mktemp("told") / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock) as keeper, serving(keeper) as url:
        caller = Caller(url)
        seed(caller, story.facts(SOME))
        yield caller


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_opens_on_all_memories_and_says_how_many_there_are(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    groups = len(chart.told["clusters"])
    expect(page.locator("#what")).to_have_text(f"{SOME} memories, {groups} groups")
    expect(chart.canvas).to_have_attribute("aria-label", f"Map of memories: {SOME} memories, {groups} groups")
    counts = Counter(chart.told["points"]["category"])
    for place, category in enumerate(chart.told["categories"]):
        expect(page.locator(".class", has_text=category.title())).to_contain_text(str(counts[place]))
    assert chart.all_seen(chart.points)
    picture(page, "map")


def test_a_point_has_the_colour_of_its_class_by_category_project_and_age(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    number = chart.lonely()
    place = list(chart.points).index(number)
    points = chart.told["points"]
    project = chart.told["projects"][points["project"][place]]
    category = chart.told["categories"][points["category"][place]]
    names = {"Category": category.title(), "Project": project or "No project", "Age": None}
    for way, name in names.items():
        page.get_by_role("radio", name=way).check()
        expect(page).to_have_url(re.compile(rf"#/{way.lower()}"))
        entries = page.locator(".class")
        assert 2 <= entries.count() <= 8
        entry = entries.filter(has_text=name) if name and entries.filter(has_text=name).count() else entries.last
        if way == "Age":
            continue
        drawn = entry.locator(".dot").evaluate("(it) => getComputedStyle(it).backgroundColor")
        assert chart.colour(number)[:3] == [int(match) for match in re.findall(r"\d+", drawn)]
    ages = page.locator(".class bdi").all_inner_texts()
    counts = page.locator(".class .count").all_inner_texts()
    assert ages[-1] == "Jun 2026"  # of the month that the last was said in
    assert sum(map(int, counts)) == SOME
    assert len(set(page.locator(".class .dot").evaluate_all("(all) => all.map((it) => it.style.background)"))) == len(
        ages
    )


def test_one_goes_nearer_by_key_by_wheel_and_by_button_and_the_address_remembers(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    whole = chart.view
    chart.canvas.focus()
    page.keyboard.press("+")
    chart.until("scale > value", whole[2])  # it is drawn in the next frame
    assert math.isclose(chart.view[2], whole[2] * 1.5, rel_tol=1e-6)
    page.keyboard.press("-")
    page.keyboard.press("ArrowRight")
    chart.until("x > value", whole[0])
    page.keyboard.press("0")
    chart.until("x === value", whole[0])
    number = chart.lonely()
    page.mouse.move(*chart.spot(number))
    before = chart.spot(number)
    page.mouse.wheel(0, -300)
    chart.until("scale > value", whole[2])
    assert math.dist(before, chart.spot(number)) < 2  # what one points at stays there
    near = chart.view[2]
    press(page, "Zoom in")
    chart.until("scale > value", near * 1.59)
    kept = chart.view
    expect(page).to_have_url(re.compile(rf"#/category\?at=\d+,\d+,{kept[2] / whole[2]:.4g}$"))
    page.reload()
    again = Chart(page, told)
    assert np.allclose(again.view, kept, rtol=0.01)
    press(page, "Show the whole map")
    expect(page).to_have_url(re.compile(r"#/category$"))


def test_a_drag_moves_the_map_and_a_zoom_flies_unless_motion_is_not_wanted(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map")
    chart = Chart(page, told)
    number = chart.lonely()
    before = chart.spot(number)
    left, _top, _right, bottom = wide(chart)
    x = chart.view[0]
    chart.drag((left + 50, bottom - 10), (left + 90, bottom - 30))
    chart.until("x !== value", x)
    assert math.dist(chart.spot(number), (before[0] + 40, before[1] - 20)) < 2
    scale = chart.view[2]
    seen = page.evaluate("""async () => {
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
    assert seen > 3
    chart.until("scale > value", scale * 1.599)


def test_what_one_points_at_is_told_with_its_date(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    number = chart.lonely()
    tip = page.locator("#tip")
    expect(tip).to_be_hidden()
    page.mouse.move(*chart.spot(number))
    expect(tip).to_contain_text(chart.points[number][3][:100])
    expect(tip.locator("time")).to_have_attribute("datetime", chart.points[number][4])
    expect(tip).to_contain_text("2026" if "2026" in chart.points[number][4] else "2025")
    across, down = chart.spot(number)
    page.mouse.move(across, down + 250)
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_a_click_opens_the_memory_beside_the_map_and_back_shuts_it(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    number = chart.lonely()
    page.mouse.click(*chart.spot(number))
    expect(title(page)).to_have_text(f"Memory {number}")
    memory = told.get(f"/memory/{number}").json
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
    assert told.get(f"/memory/{number}").json["retrieval_count"] == memory["retrieval_count"]  # looking is no recall


def test_what_was_about_to_be_written_down_is_not_written_over_where_one_went_back_to(
    told: Caller, visit: Visitor
) -> None:
    """The place is noted when the view has come to rest: here at the very moment in which somebody goes back."""
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    number = chart.lonely()
    page.evaluate(
        """() => {
          const wait = window.setTimeout;
          const held = [];
          window.setTimeout = (then, after, ...rest) => (after === 250 ? held.push(then) : wait(then, after, ...rest));
          addEventListener("popstate", () => { window.noted = held.splice(0).map((then) => then()).length; });
        }"""
    )
    page.mouse.click(*chart.spot(number))
    expect(title(page)).to_have_text(f"Memory {number}")
    page.mouse.wheel(0, -300)  # the view moves, and is to be noted
    page.wait_for_timeout(100)
    page.go_back()
    expect(title(page)).to_have_text("Groups")
    assert page.evaluate("noted") > 0


# ── choosing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_box_chooses_what_lies_in_it_and_control_adds_to_that(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    left, top, right, bottom = wide(chart)
    expected = chart.within(left, top, right, bottom)
    assert 5 < len(expected) < SOME
    chart.drag((left, top), (right, bottom), keys=("Shift",))
    expect(title(page)).to_have_text(f"{len(expected)} memories chosen")
    expect(page.locator("#told")).to_have_text(f"{len(expected)} memories chosen")
    assert listed(page) == expected
    points = chart.told["points"]
    of = dict(zip(points["id"], points["category"], strict=True))
    categories = Counter(chart.told["categories"][of[each]] for each in expected)
    text = page.locator("#panel > p").first.inner_text()
    assert {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", text)} == categories
    across, down = max(chart.spots().values())  # the one that is farthest to the right
    around = chart.within(across - 8, down - 8, across + 8, down + 8)
    chart.drag((across - 8, down - 8), (across + 8, down + 8), keys=("Shift", "Control"))
    expect(title(page)).to_have_text(f"{len(expected | around)} memories chosen")
    assert listed(page) == expected | around
    chart.canvas.focus()
    page.keyboard.press("Escape")
    expect(title(page)).to_have_text("Groups")


def test_a_line_drawn_by_hand_chooses_what_it_encloses(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    left, top, right, bottom = wide(chart)
    press(page, "Select")
    expect(page.get_by_role("button", name="Select")).to_have_attribute("aria-pressed", "true")
    half = {each: chart.spots()[each] for each in chart.within(left, top, right, bottom)}
    shares = {each: (x - left) / (right - left) + (y - top) / (bottom - top) for each, (x, y) in half.items()}
    corner = {each for each, share in shares.items() if share < 1}
    chart.drag((left, top), (right, top), (left, bottom))  # a triangle
    expect(title(page)).to_have_text(f"{len(corner)} memories chosen")
    assert listed(page) == corner


def test_every_group_is_in_a_list_that_goes_to_it(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    groups = page.locator("#panel .group")
    expect(groups).to_have_count(len(chart.told["clusters"]))
    counts = [int(text) for text in groups.locator(".count").all_inner_texts()]
    assert counts == sorted((each["count"] for each in chart.told["clusters"]), reverse=True)
    before = chart.view
    number = int(groups.nth(1).get_attribute("data-group") or 0)
    name = " · ".join(chart.told["clusters"][number]["words"])
    expect(groups.nth(1)).to_contain_text(name)
    groups.nth(1).focus()
    page.keyboard.press("Enter")
    expect(title(page)).to_have_text(name)
    expect(title(page)).to_be_focused()
    members = {each for each, point in chart.points.items() if point[5] == number}
    assert listed(page) == members
    chart.until("scale > value", before[2])
    assert chart.all_seen(members)


def test_it_is_walked_from_memory_to_memory_with_the_keys(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    chart.canvas.focus()
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#tip")).to_be_visible()
    first = page.locator("#tip .says").inner_text()
    expect(page.locator("#told")).to_contain_text(first)
    page.keyboard.press("Space")
    expect(title(page)).to_have_text("1 memory chosen")
    [one] = listed(page)
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#tip .says")).not_to_have_text(first)
    page.keyboard.press("Space")
    expect(title(page)).to_have_text("2 memories chosen")
    [other] = listed(page) - {one}
    assert chart.points[other][1] > chart.points[one][1]  # further to the right
    page.keyboard.press("Enter")
    expect(title(page)).to_be_focused()
    expect(title(page)).to_have_text(f"Memory {other}")
    press(page, "‹ Chosen")
    expect(page.locator(f"[data-id='{other}']")).to_be_focused()
    page.go_back()
    expect(title(page)).to_have_text(f"Memory {other}")
    page.go_back()
    expect(title(page)).to_have_text("2 memories chosen")
    expect(title(page)).to_be_focused()
    page.keyboard.press("Escape")
    expect(title(page)).to_have_text("Groups")
    expect(title(page)).to_be_focused()


def test_what_answers_a_search_lights_up(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    best = told.post("/search", {"query": "Stripe invoice refund", "k": 50, "noted": False}).json["results"]
    number = chart.lonely(but={each["id"] for each in best})
    plain = chart.colour(number)
    before = told.get("/stats").json["retrievals"]
    page.get_by_role("searchbox", name="Find").fill("Stripe invoice refund")
    expect(title(page)).to_have_text("50 answers")
    assert ids_listed(page) == [each["id"] for each in best]
    assert chart.colour(number) != plain  # it recedes
    assert told.get("/stats").json["retrievals"] == before
    expect(page).to_have_url(re.compile("find=Stripe"))
    press(page, "Select them")
    expect(title(page)).to_have_text("50 memories chosen")
    chart.canvas.focus()
    page.keyboard.press("Escape")
    expect(title(page)).to_have_text("Groups")
    expect(page.get_by_role("searchbox", name="Find")).to_have_value("")


# ── narrowing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_legend_hides_a_class_or_shows_it_alone(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    chart = Chart(page, told)
    entry = page.locator(".class", has_text="Decision")
    counts = dict(
        zip(["decision", "detail", "learning"], map(int, page.locator(".class .count").all_inner_texts()), strict=True)
    )
    number = next(each for place, each in enumerate(chart.points)
                  if chart.told["categories"][chart.told["points"]["category"][place]] == "decision")  # fmt: skip
    entry.click()
    expect(entry).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#told")).to_have_text(f"{SOME - counts['decision']} memories shown")
    expect(page).to_have_url(re.compile("hide=decision"))
    left, top, right, bottom = wide(chart)
    chart.drag((left, top), (right + 2_000, bottom), keys=("Shift",))
    assert number not in listed(page)
    page.reload()
    expect(page.locator(".class", has_text="Decision")).to_have_attribute("aria-pressed", "false")
    page.locator(".entry", has_text="Learning").hover()
    page.get_by_role("button", name="Only Learning").click()
    expect(page.locator("#told")).to_have_text(f"{counts['learning']} memories shown")
    expect(page.get_by_role("button", name="Only Learning")).to_be_focused()
    press(page, "Show all")
    expect(page.locator(".class[aria-pressed=true]")).to_have_count(3)


def test_a_project_or_a_category_has_a_map_of_its_own(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    Chart(page, told)
    page.get_by_label("Project", exact=True).and_(page.locator("select")).select_option("mobile")
    chart = Chart(page, told, project="mobile")
    assert 0 < len(chart.points) < SOME
    expect(page.locator("#what")).to_contain_text(f"{len(chart.points)} memories")
    page.locator("select[name=category]").select_option("learning")
    Chart(page, told, project="mobile", category="learning")
    page.go_back()
    Chart(page, told, project="mobile")
    page.locator("select[name=project]").select_option("No project")
    assert len(Chart(page, told, project="").points) > 0
    expect(page.locator("select[name=project] option")).to_have_count(len(told.get("/projects").json["projects"]) + 2)


def test_nothing_fits_and_the_way_back(service: Caller, visit: Visitor) -> None:
    seed(service, story.facts(12))
    page = visit(service, "/ui/map#/category?project=nowhere", **CALM)
    expect(page.locator(".empty")).to_contain_text("No memory on the map matches the filters.")
    press(page, "Show all")
    Chart(page, service)


# ── doing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_chosen_are_archived_at_once_and_undone_at_once(service: Caller, visit: Visitor) -> None:
    seed(service, story.facts(60))
    page = visit(service, "/ui/map", **CALM)
    chart = Chart(page, service)
    left, top, right, bottom = wide(chart)
    expected = chart.within(left, top, right, bottom)
    stays = (chart.points.keys() - expected).pop()
    place = chart.spot(stays)
    chart.drag((left, top), (right, bottom), keys=("Shift",))
    expect(title(page)).to_have_text(f"{len(expected)} memories chosen")
    press(page, "Archive")
    expect(notice(page)).to_contain_text(f"Archived: {len(expected)} memories.")
    assert all(service.get(f"/memory/{each}").json["archived_at"] for each in expected)
    expect(page.locator("#what")).to_contain_text(f"{60 - len(expected)} memories")
    assert chart.spot(stays) == place  # nothing else moves
    chart.drag((left, top), (right, bottom), keys=("Shift",))
    expect(page.locator("#told")).to_have_text("0 memories chosen")
    notice(page).get_by_role("button", name="Undo").click()
    expect(title(page)).to_have_text(f"{len(expected)} memories chosen")
    assert not any(service.get(f"/memory/{each}").json["archived_at"] for each in expected)
    press(page, "Pin")
    expect(notice(page)).to_contain_text(f"Pinned: {len(expected)} memories.")
    assert all(service.get(f"/memory/{each}").json["pinned"] for each in expected)
    notice(page).get_by_role("button", name="Undo").click()
    expect(notice(page)).to_contain_text("Undone.")
    assert not any(service.get(f"/memory/{each}").json["pinned"] for each in expected)


def test_one_memory_is_pinned_and_archived_from_its_summary(service: Caller, visit: Visitor) -> None:
    seed(service, story.facts(30))
    page = visit(service, "/ui/map", **CALM)
    chart = Chart(page, service)
    number = chart.lonely()
    page.mouse.click(*chart.spot(number))
    press(page, "Pin")
    expect(page.locator(".marks")).to_contain_text("pinned")
    press(page, "Archive")
    expect(notice(page)).to_contain_text("Archived: 1 memory.")
    expect(page.locator("#what")).to_contain_text("29 memories")
    assert service.get(f"/memory/{number}").json["archived_at"]


def test_what_is_new_is_told_and_drawn_when_it_is_asked_for(service: Caller, visit: Visitor) -> None:
    seed(service, story.facts(40))
    page = visit(service, "/ui/map", **CALM)
    chart = Chart(page, service)
    before = chart.view
    service.post("/memory/add", {"text": "The canary has a canary of its own."})
    expect(page.locator("#news")).to_contain_text("1 new")
    assert chart.view == before
    expect(page.locator("#what")).to_contain_text("40 memories")
    press(page, "Redraw")
    expect(page.locator("#what")).to_contain_text("41 memories")
    expect(page.locator("#news")).to_be_empty()
    expect(chart.canvas).to_be_focused()


# ── for whom ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("role", "deeds"), [("read", 0), ("write", 2)])
def test_a_key_is_offered_what_it_may_do(serve: Callable[..., Caller], visit: Visitor, role: str, deeds: int) -> None:
    service = serve(api_key="owner")
    owner = service.with_key("owner")
    seed(owner, [{**fact, "visibility": "global"} for fact in story.facts(30)])
    key = owner.post("/keys", {"name": "ann", "user": "ann", "role": role}).json["secret"]
    page = visit(service, "/ui/map", **CALM)
    page.get_by_label("API key").fill(key)
    press(page, "Open")
    chart = Chart(page, owner)
    page.mouse.click(*chart.spot(chart.lonely()))
    expect(page.get_by_role("link", name="Open in Memories")).to_be_visible()
    expect(page.locator("#panel .actions button")).to_have_count(deeds)
    left, top, right, bottom = wide(chart)
    chart.drag((left, top), (right + 2_000, bottom), keys=("Shift",))
    expect(title(page)).to_have_text("30 memories chosen")
    expect(page.locator("#panel .actions button")).to_have_count(deeds)
    press(page, "Forget key")
    expect(page.locator("#page")).to_be_hidden()
    assert page.locator("#panel").inner_text() == ""  # and nothing stays behind
    assert chart.canvas.evaluate("(it) => it.width") == 0
    expect(chart.canvas).to_have_attribute("aria-label", "Map of memories")


def test_hostile_texts_are_only_texts(service: Caller, visit: Visitor) -> None:
    facts = story.facts(30)
    long = f"{WEIRD} {'a very long memory ' * 520}"[:9_990]
    facts += [{"text": f"{WEIRD} number {each}", "project": WEIRD} for each in range(8)] + [
        {"text": long, "project": "p" * 200}
    ]
    ids = seed(service, facts)
    page = visit(service, "/ui/map#/project", **CALM)
    chart = Chart(page, service)
    for number in ids[-9:]:
        page.mouse.move(*chart.spots()[number])
        expect(page.locator("#tip")).to_contain_text("<img src=x")
    expect(page.locator(".class", has_text="script>")).to_have_count(1)
    page.mouse.click(*chart.spot(ids[-1]))
    chart.canvas.focus()
    page.goto(f"{service.url}/ui/map#/project?open={ids[-1]}")
    expect(page.locator(".memory .text")).to_have_text(long.strip())
    press(page, "‹ Groups")
    left, top, right, bottom = wide(chart)
    chart.drag((left, top), (right + 2_000, bottom), keys=("Shift",))
    expect(page.locator("#panel .member", has_text="<script>alert(2)</script>")).to_have_count(9)
    assert page.locator("main img, main script").count() == 0
    assert overflow(page) == 0
    assert hindrances(page) == []


@pytest.mark.parametrize(
    "where", ["#/nope?at=x,y&open=-3", "#main", "#/age?at=1e9,-1e9,1e9", "#/category?open=999999", "#/%"]
)
def test_an_address_of_nothing_does_no_harm(told: Caller, visit: Visitor, where: str) -> None:
    visit.expected.add(404)
    visit.expected.add(400)
    page = visit(told, f"/ui/map{where}", **CALM)
    Chart(page, told)
    expect(title(page)).to_be_visible()


def test_an_empty_store_says_what_to_do(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/map", **CALM)
    expect(page.locator(".empty")).to_contain_text("No memories yet")
    expect(page.locator(".empty code")).to_contain_text("cofio add")
    assert hindrances(page) == []
    service.post("/memory/add", {"text": "The first of them."})
    press(page, "Redraw")
    Chart(page, service)
    expect(page.locator("#what")).to_have_text("1 memory, 0 groups")


def test_memories_without_vectors_say_what_to_do(tmp_path: Any, visit: Visitor) -> None:
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    store.apply([Add(Fact(text="Imported, and not embedded."))], {}, by="test", why="import")
    with Keeper(store, HashEmbedder(), clock) as keeper, serving(keeper) as url:
        page = visit(Caller(url), "/ui/map", **CALM)
        expect(page.locator(".empty")).to_contain_text("no vectors yet")
        expect(page.locator(".empty code")).to_have_text("cofio reembed --missing")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_legible_to_all(told: Caller, visit: Visitor, scheme: str) -> None:
    page = visit(told, "/ui/map#/project", color_scheme=scheme, **CALM)
    chart = Chart(page, told)
    assert hindrances(page) == []
    number = chart.lonely()
    page.mouse.move(*chart.spot(number))
    expect(page.locator("#tip")).to_be_visible()
    page.locator("#panel .group").first.click()
    expect(page.locator("#panel .member").first).to_be_visible()
    assert hindrances(page) == []
    page.locator("#panel .member").first.click()
    expect(page.locator(".near .member").first).to_be_visible()
    assert hindrances(page) == []
    picture(page, f"map-opened-{scheme}")
    page.get_by_role("searchbox", name="Find").fill("flaky tests")
    expect(title(page)).to_contain_text("answers")
    assert hindrances(page) == []
    picture(page, f"map-found-{scheme}")
    if scheme == "dark":
        page.goto(f"{told.url}/ui/map#/age")
        page.reload()
        Chart(page, told)
        picture(page, "map-dark")


def test_the_keyboard_reaches_everything(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", **CALM)
    Chart(page, told)
    page.locator(".skip").focus()
    wanted = ["[name=find]", "[name=way]", "[name=project]", "[name=category]", ".class", ".only", "#dots",
              "#controls button", "#panel .group"]  # fmt: skip
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached += [each for each in wanted if page.evaluate("(it) => document.activeElement.matches(it)", each)]
    assert list(dict.fromkeys(reached)) == wanted


# ── a phone ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_phone_moves_it_with_one_finger_and_zooms_with_two(told: Caller, visit: Visitor) -> None:
    page = visit(told, "/ui/map", viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2, **CALM)
    chart = Chart(page, told)
    assert overflow(page) == 0
    assert hindrances(page) == []
    picture(page, "map-phone")
    chart.canvas.scroll_into_view_if_needed()
    touch = page.context.new_cdp_session(page)

    def fingers(kind: str, *spots: Spot) -> None:
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in spots]})

    box = chart.box
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    number = chart.lonely()
    before, x = chart.spot(number), chart.view[0]
    fingers("touchStart", middle)
    fingers("touchMove", (middle[0] + 10, middle[1] + 5))
    fingers("touchMove", (middle[0] + 30, middle[1] + 15))
    fingers("touchEnd")
    chart.until("x !== value", x)
    assert math.dist(chart.spot(number), (before[0] + 30, before[1] + 15)) < 2
    scale = chart.view[2]
    fingers("touchStart", (middle[0] - 40, middle[1]), (middle[0] + 40, middle[1]))
    for step in (50, 60, 70, 80):
        fingers("touchMove", (middle[0] - step, middle[1]), (middle[0] + step, middle[1]))
    fingers("touchEnd")
    chart.until("scale > value", scale * 1.9)
    assert math.isclose(chart.view[2], scale * 2, rel_tol=0.05)
    press(page, "Show the whole map")
    chart.until("scale < value", scale * 1.1)
    page.touchscreen.tap(*chart.spot(number))
    expect(title(page)).to_have_text(f"Memory {number}")
    assert overflow(page) == 0
    assert hindrances(page) == []


# ── ten thousand ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Ten thousand memories, with vectors that lie in heaps."""
    clock = FixedClock()
    store = SqliteStore(tmp_path_factory.mktemp("crowd") / "cofio.db", clock)
    embedder = HashEmbedder(64)
    rng = np.random.default_rng(5)
    heaps = rng.standard_normal((30, 64))
    vectors = heaps[rng.integers(30, size=MANY)] + 0.7 * rng.standard_normal((MANY, 64))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    with Keeper(store, embedder, clock) as keeper, serving(keeper) as url:
        keeper.add("The first, by which the store knows its embedder.")
        facts = [Add(Fact(**fact)) for fact in story.facts(MANY - 1)]
        store.apply(facts, dict(enumerate(vectors[: MANY - 1])), by="test", why="many")
        yield Caller(url)


def test_ten_thousand_are_drawn_soon_and_move_smoothly(
    crowd: Caller, visit: Visitor, record_property: Callable[[str, object], None]
) -> None:
    crowd.get("/map")  # as whoever looked before has it
    page = visit(crowd, "/ui/map", **CALM)
    canvas = page.locator("#dots")
    expect(canvas).to_have_attribute("data-view", re.compile("."))
    first = page.evaluate("performance.now()")
    expect(page.locator("#what")).to_contain_text("10,000 memories")
    picture(page, "map-many")
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
    usual = statistics.median(frames)
    print(
        f"\n10,000 memories: the map after {first:.0f} ms; a frame of a pan takes {usual:.1f} ms, {len(frames)} of them"
    )
    record_property("first_map_ms", first)
    record_property("pan_frame_ms", usual)
    assert first < 20_000
    assert usual < 170
