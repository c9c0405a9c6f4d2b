"""The overview page: figures, charts and health, with live updates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from cofio.core import Keeper
from cofio.models.dashboard import Injection
from cofio.models.memory import Add, Fact, to_utc_iso
from cofio.ports import Health
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.ui.conftest import PHONE, Visitor, accessibility_violations, overflow, screenshot

TODAY = "2026-01-01"  # the initial date of the test clock
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} "quoted" & \'so\' \u202eback'
LONG_LENGTH = 10_000
RECONNECT_TIMEOUT = 30_000  # milliseconds, for a service that has to restart
FACTS = [
    ("policy", "We deploy to Fly.io from main, never on a Friday after lunch"),
    ("preference", "Ada prefers tabs, and functions under thirty lines"),
    ("technology", "Sign-in goes through Clerk now; the JWT middleware is gone"),
    ("decision", "The billing service moved to port 7070, behind the gateway"),
    ("learning", "test_refund_rounding fails when it runs after test_currency"),
    ("pattern", "The search index lags behind writes by up to 40 seconds under load"),
    ("correlation", "Checkout latency rises an hour after the nightly import"),
    ("observation", "Postgres 16 in production, 15 in CI until the image is rebuilt"),
    ("temporal", "Staging is reset from the production snapshot every Monday at six"),
    ("other", "The rate limiter counts per key, not per address"),
]


def add(caller: Caller, text: str, **fields: Any) -> int:
    """Add a memory and return its id."""
    response = caller.post("/memory/add", {"text": text, **fields})
    assert response.status in (200, 201), response.json
    number: int = response.json["id"]
    return number


def tile(page: Page, title: str) -> Locator:
    return page.locator(".tile", has=page.get_by_text(title, exact=True))


def value(page: Page, title: str) -> Locator:
    return tile(page, title).locator(".value")


def box(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def slider(page: Page, title: str) -> Locator:
    return box(page, title).get_by_role("slider")


def chart_table(chart: Locator) -> list[list[str]]:
    """Return the table of a chart, row by row."""
    rows: list[list[str]] = chart.locator("tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return rows


def enter_key(page: Page, secret: str) -> None:
    page.get_by_label("API key").fill(secret)
    page.get_by_role("button", name="Open", exact=True).click()


def create_key(owner: Caller, name: str, **fields: Any) -> str:
    secret: str = owner.post("/keys", {"name": name, **fields}).json["secret"]
    return secret


# ── Figures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_empty_store_explains_the_first_steps(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/overview")
    expect(page.locator(".empty")).to_contain_text("Nothing is remembered yet")
    expect(page.locator(".empty code")).to_have_text(
        ["cofio install", 'cofio add "We deploy on Fridays, after lunch"'],
    )
    expect(box(page, "Health")).to_contain_text("None is set: the judgement model in the package reads what is said.")
    expect(box(page, "Memories over time")).to_be_hidden()
    expect(page.locator(".tile:visible")).to_have_count(0)
    assert accessibility_violations(page) == []
    screenshot(page, "overview-empty")
    expect(page.locator("#live")).to_contain_text("Live")
    add(service, "We deploy on Fridays, after lunch.", kind="policy")
    expect(value(page, "Memories")).to_have_text("1")
    expect(page.locator(".empty")).to_have_count(0)
    expect(box(page, "Memories over time")).to_be_visible()


def test_figures_match_the_store(service: Caller, visit: Visitor) -> None:
    ids = [add(service, text, kind=kind) for kind, text in FACTS]
    service.delete(f"/memory/{ids[-1]}")
    service.post("/memory/supersede", {"old_id": ids[3], "new_text": "The billing service moved to port 8080."})
    for prompt in ("may I deploy on friday?", "which port has the billing service?", "zzz qqq"):
        assert service.post("/recall", {"prompt": prompt}).status == 200
    overview = service.get("/overview").json
    [injected] = overview["injected"]
    page = visit(service, "/ui/overview")
    expect(value(page, "Memories")).to_have_text(str(overview["live"]))
    expect(tile(page, "Memories")).to_contain_text(f"{overview['archived']} archived")
    expect(value(page, "Learned today")).to_have_text("11")
    assert overview["done_today"] == {"add": 10, "delete": 2, "update": 1}  # replaced memories are archived too
    expect(tile(page, "Learned today")).to_contain_text("10 added · 1 updated · 2 archived")
    assert injected["prompts"] == 3
    assert injected["memories"] > 0
    expect(value(page, "Recalled today")).to_have_text(str(injected["memories"]))
    expect(tile(page, "Recalled today")).to_contain_text(f"for {injected['answered']} of 3 prompts")
    average = round(injected["tokens"] / 3)
    expect(value(page, "Tokens per prompt")).to_have_text(str(average))
    expect(box(page, "Tokens per prompt")).to_contain_text(f"{average} on average today")
    last = chart_table(box(page, "Tokens per prompt"))[-1]
    assert last == ["Thursday, 1 January 2026", str(average)]


def test_memories_over_time_follow_the_span_in_the_url(service: Caller, visit: Visitor) -> None:
    add(service, "An old decision.", kind="decision", created_at="2024-06-01")
    add(service, "A learning of last autumn.", kind="learning", created_at="2025-10-20")
    add(service, "A detail of last week.", created_at="2025-12-26")
    add(service, "A decision of today.", kind="decision")
    page = visit(service, "/ui/overview")
    chart = box(page, "Memories over time")
    expect(chart.locator(".name text")).to_have_text(["2 decisions", "1 learning", "1 detail"])
    rows = chart_table(chart)
    assert (len(rows), rows[0], rows[-1]) == (
        30, ["Wednesday, 3 December 2025", "1", "1", "0"], ["Thursday, 1 January 2026", "2", "1", "1"],
    )  # fmt: skip
    page.get_by_role("link", name="90 days").click()
    expect(page.get_by_role("link", name="90 days")).to_have_attribute("aria-current", "true")
    expect(chart.locator("tbody tr")).to_have_count(90)
    assert chart_table(chart)[0] == ["Saturday, 4 October 2025", "1", "0", "0"]
    chart.get_by_role("link", name="New each day").click()
    expect(chart.locator(".column")).to_have_count(3)
    assert [row for row in chart_table(chart) if row[1:] != ["0", "0", "0"]] == [
        ["Monday, 20 October 2025", "0", "1", "0"],
        ["Friday, 26 December 2025", "0", "0", "1"],
        ["Thursday, 1 January 2026", "1", "0", "0"],
    ]
    expect(chart.locator(".legend li")).to_have_text(["Decisions", "Learnings", "Details"])
    assert page.url.endswith("#/90/new")
    page.get_by_role("link", name="365 days").click()
    expect(chart.locator("tbody tr")).to_have_count(53)  # weeks
    expect(chart.get_by_role("link", name="New each week")).to_have_attribute("aria-current", "true")
    assert chart_table(chart)[-1] == ["Week to Thursday, 1 January 2026", "1", "0", "1"]
    page.go_back()
    expect(chart.locator("tbody tr")).to_have_count(90)
    page.reload()
    expect(chart.locator(".column")).to_have_count(3)
    expect(page.get_by_role("link", name="90 days")).to_have_attribute("aria-current", "true")


def test_chart_is_explored_by_mouse_and_keyboard(service: Caller, visit: Visitor) -> None:
    add(service, "A decision of yesterday.", kind="decision", created_at="2025-12-31")
    add(service, "A decision of today.", kind="decision")
    page = visit(service, "/ui/overview")
    plot = slider(page, "Memories over time")
    tip = plot.locator(".tip")
    expect(plot).to_have_attribute("aria-valuetext", "Thursday, 1 January 2026: decisions 2, learnings 0, details 0")
    expect(tip).to_be_hidden()
    page.get_by_role("link", name="New each day").focus()
    page.keyboard.press("Tab")
    expect(plot).to_be_focused()
    expect(tip).to_contain_text("Thursday, 1 January 2026")
    page.keyboard.press("ArrowLeft")
    expect(plot).to_have_attribute("aria-valuetext", "Wednesday, 31 December 2025: decisions 1, learnings 0, details 0")
    expect(tip).to_contain_text("In all1")
    for key, day in (("Home", "Wednesday, 3 December 2025"), ("ArrowLeft", "Wednesday, 3 December 2025"),
                     ("PageUp", "Wednesday, 10 December 2025"), ("End", "Thursday, 1 January 2026")):  # fmt: skip
        page.keyboard.press(key)
        expect(tip).to_contain_text(day)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.keyboard.press("Tab")
    expect(plot).not_to_be_focused()
    plot.hover(position={"x": 300, "y": 60})
    expect(tip).to_contain_text("December 2025")
    inside = "(it) => { const [a, b] = [it, it.parentElement].map((each) => each.getBoundingClientRect()); "
    assert tip.evaluate(inside + "return a.left >= b.left && a.right <= b.right + 1; }")
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()


def test_chart_functions(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/overview")

    def evaluate(script: str) -> Any:
        return page.evaluate(f"async () => {{ const it = await import('/ui/charts.js'); return {script}; }}")

    assert evaluate("[0, 1, 3, 4, 7, 95, 1234, 99999].map((most) => it.ticks(most))") == [
        [0, 1], [0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 2, 4, 6, 8], [0, 20, 40, 60, 80, 100],
        [0, 500, 1000, 1500], [0, 20000, 40000, 60000, 80000, 100000],
    ]  # fmt: skip
    assert evaluate("it.piled([[1, 2], [3, 0], [0, 5]])") == [[[0, 1], [0, 2]], [[1, 4], [2, 2]], [[4, 4], [2, 7]]]
    assert evaluate("it.ribbon([0, 10], [[0, 1], [1, 4]], (y) => 10 - y)") == "M0.0 9.0L10.0 6.0L10.0 9.0L0.0 10.0Z"
    assert evaluate("it.spreadApart([50, 52, 10], 18, 60)") == [42, 60, 10]
    assert evaluate("[0, 98765, 123456, 7654321].map(it.compact)") == ["0", "98,765", "123.5K", "7.654M"]
    assert evaluate("[it.compactCount(1, 'prompt'), it.compactCount(1200, 'prompt')]") == ["1 prompt", "1,200 prompts"]
    number = "const made = it.number(123456); return [made.title, made.textContent]"
    number_texts = page.evaluate(f"async () => {{ const it = await import('/ui/charts.js'); {number}; }}")
    assert number_texts == ["123,456", "123.5K123,456"]  # visible text, and text for screen readers


# ── Inbox status and health ───────────────────────────────────────────────────────────────────────────────────────────


def capture(service: Caller, turn: int, text: str) -> None:
    request = {"messages": [{"role": "user", "content": text}], "client": "codex", "session": "s", "turn": str(turn)}
    assert service.post("/capture", {**request, "wait": True}).status == 200


def test_inbox_status_adds_up_or_reports_a_difference(service: Caller, visit: Visitor) -> None:
    for turn, text in enumerate(("We switched from Prisma to Drizzle.", "ok", "thanks", "We decided to use Vitest.")):
        capture(service, turn, text)
    inbox_status = service.get("/inbox/status").json
    assert inbox_status["captured"] == 4
    page = visit(service, "/ui/overview")
    status_box = box(page, "Where captures are")
    expect(status_box.locator(".total")).to_have_text("4 captured")
    parts = [f"{sign}{inbox_status[name]} {name}"
             for sign, name in (("=", "stored"), ("+", "merged"), ("+", "rejected"), ("+", "pending"))]  # fmt: skip
    expect(status_box.locator(".parts li")).to_have_text(parts)
    expect(status_box).to_contain_text("Consistent: every capture is accounted for.")
    expect(status_box.locator("[data-part=missing]")).to_have_count(0)
    ends = "(bars) => bars.map((bar) => Math.round(bar.lastElementChild.getBoundingClientRect().right))"
    [total_end, parts_end] = status_box.locator(".pieces").evaluate_all(ends)
    assert abs(total_end - parts_end) <= 1

    def miscount(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        body["inbox"]["captured"] += 3
        route.fulfill(response=response, body=json.dumps(body))

    page.route("**/overview?*", miscount)
    page.reload()
    expect(status_box.locator(".state.bad")).to_contain_text("3 captures cannot be accounted for.")
    expect(status_box.locator("[data-part=missing]")).to_have_count(1)


def test_health_is_shown_in_words_and_marks(serve: Callable[..., Caller], visit: Visitor) -> None:
    failing_llm = ScriptedLLM([], provider_name="ollama", model="qwen3", health=Health(False, "connection refused"))
    service = serve(llm=failing_llm)
    add(service, "We deploy on Fridays.")
    page = visit(service, "/ui/overview")
    health = box(page, "Health")
    model = health.locator("dl > div", has_text="Model")
    expect(model).to_contain_text("trouble: ollama · qwen3 does not answer: connection refused.")
    expect(model.locator(".mark")).to_have_text("!")
    expect(health.locator("dl > div", has_text="Store")).to_contain_text(re.compile(r"well: SQLite, [\d.]+ KB"))
    expect(health.locator("dl > div", has_text="Search")).to_contain_text("well: By meaning and by words, with hash")
    expect(health.locator("dl > div", has_text="Service")).to_contain_text(
        re.compile(r"cofio \d+\.\d+.*up since a moment")
    )
    assert accessibility_violations(page) == []


# ── Live updates ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_changes_of_other_clients_appear_without_reload(service: Caller, visit: Visitor) -> None:
    first = add(service, "We deploy on Fridays, after lunch.", kind="policy")
    page = visit(service, "/ui/overview")
    expect(page.locator("#live")).to_contain_text("Live")
    changes = box(page, "Newest changes").get_by_role("listitem")
    expect(changes).to_have_count(1)
    link = changes.first.get_by_role("link")
    expect(link).to_have_attribute("href", f"memories#/{first}")
    page.evaluate("window.isTheSame = true")
    link.focus()
    second = add(service, "Ann reviews every migration.", kind="policy")
    expect(changes.first).to_contain_text("Learned Ann reviews every migration.")
    expect(changes.first.get_by_role("link")).to_have_attribute("href", f"memories#/{second}")
    expect(value(page, "Memories")).to_have_text("2")
    expect(value(page, "Learned today")).to_have_text("2")
    expect(box(page, "Memories over time").locator(".name text").first).to_have_text("2 decisions")
    expect(link.nth(0)).not_to_be_focused()
    expect(changes.nth(1).get_by_role("link")).to_be_focused()  # its new position
    service.post("/recall", {"prompt": "who reviews migrations?"})
    expect(tile(page, "Recalled today")).to_contain_text("of 1 prompt")
    service.delete(f"/memory/{second}")
    expect(changes.first).to_contain_text("Archived Ann reviews every migration.")
    expect(value(page, "Memories")).to_have_text("1")
    assert page.evaluate("window.isTheSame")


def test_many_changes_cause_few_requests(service: Caller, visit: Visitor) -> None:
    add(service, "We deploy on Fridays.")
    page = visit(service, "/ui/overview")
    expect(page.locator("#live")).to_contain_text("Live")
    request_times: list[float] = []
    page.on("request", lambda request: request_times.extend([perf_counter()] if "/overview?" in request.url else []))
    started = perf_counter()
    for number in range(40):
        add(service, f"Service number {number} listens on port {7000 + number}.")
    expect(value(page, "Memories")).to_have_text("41")
    assert len(request_times) <= perf_counter() - started + 2


def test_large_changeset_is_summarized(service: Caller, visit: Visitor) -> None:
    batch = [{"text": f"Service number {number} listens on port {7000 + number}."} for number in range(60)]
    service.post("/memory/add-batch", {"memories": batch})
    service.post("/knowledge/thresholds", {"source": "AAPL", "metric": "volume", "value": 5e6, "direction": "above"})
    page = visit(service, "/ui/overview")
    changes = box(page, "Newest changes").get_by_role("listitem")
    expect(changes).to_have_count(3)
    expect(changes.first.get_by_role("link")).to_have_attribute("href", "knowledge#/thresholds/aapl.volume.above")
    expect(changes.first).to_contain_text("AAPL volume above 5,000,000")
    expect(changes.nth(1)).to_contain_text("Service number 59")
    expect(changes.last).to_contain_text("and 58 more")


def test_lost_connection_is_reported_and_restored(tmp_path: Path, visit: Visitor) -> None:
    clock = FixedClock()
    with Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        keeper.add("We deploy on Fridays.")
        with serving(keeper) as url:
            service = Caller(url)
            page = visit(service, "/ui/overview")
            expect(page.locator("#live")).to_contain_text("Live")
            expect(value(page, "Memories")).to_have_text("1")
        expect(page.locator("#live")).to_contain_text("Not live")
        expect(page.locator("#live")).to_contain_text("The service does not answer. Retrying.")
        expect(page.locator(".dot")).to_have_class("dot off")
        expect(value(page, "Memories")).to_have_text("1")  # the last values remain
        assert accessibility_violations(page) == []
        keeper.add("Ann reviews every migration.")
        with serving(keeper, port=service.port):
            expect(page.locator("#live")).not_to_contain_text("Not live", timeout=RECONNECT_TIMEOUT)
            expect(value(page, "Memories")).to_have_text("2")  # includes missed changes
            page.context.close()
    visit.errors[:] = [
        error for error in visit.errors if "ERR_CONNECTION" not in error and "ERR_INCOMPLETE" not in error
    ]


def test_hidden_tab_closes_its_connection_and_catches_up(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/overview")
    event_requests: list[Any] = []
    set_hidden = """(isHidden) => {
        Object.defineProperty(document, "hidden", { get: () => isHidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    expect(page.locator("#live")).to_contain_text("Live")
    page.on("request", lambda request: event_requests.append(request) if request.url.endswith("/events") else None)
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
        page.evaluate(set_hidden, True)
    assert event_requests == []
    add(service, "We deploy on Fridays.")
    with page.expect_request(lambda request: request.url.endswith("/events")):
        page.evaluate(set_hidden, False)
    expect(value(page, "Memories")).to_have_text("1")
    expect(page.locator("#live")).to_have_text(re.compile("^Live"))


# ── Permissions and accessibility ─────────────────────────────────────────────────────────────────────────────────────


def test_key_sees_its_own_figures_without_empty_boxes(serve: Callable[..., Caller], visit: Visitor) -> None:
    service = serve(api_key="owner")
    owner = service.with_key("owner")
    add(owner, "Bob has a secret plan.", user="bob")
    add(owner, "Ann prefers tabs.", user="ann", kind="preference")
    add(owner, "Everybody deploys on Fridays.", visibility="global", kind="policy")
    for role in ("read", "write"):
        page = visit(service, "/ui/overview")
        enter_key(page, create_key(owner, f"ann's {role}", user="ann", role=role))
        expect(value(page, "Memories")).to_have_text("2")
        expect(page.locator("#live")).to_contain_text("Live")
        expect(value(page, "New today")).to_have_text("2")
        expect(tile(page, "New today")).to_contain_text("2 decisions")
        expect(page.locator(".tile:visible")).to_have_count(3)
        expect(page.locator(".box:visible h2")).to_have_text(["Memories over time", "Newest changes", "Health"])
        expect(box(page, "Newest changes").get_by_role("listitem")).to_have_count(2)
        expect(box(page, "Health")).not_to_contain_text("Store")
        expect(page.locator(".trouble")).to_have_count(0)
        expect(page.locator("body")).not_to_contain_text("secret plan")
        page.get_by_role("link", name="90 days").click()
        expect(value(page, "New in 90 days")).to_have_text("2")
        expect(page.locator(".tile:visible")).to_have_count(3)
        assert accessibility_violations(page) == []
        page.get_by_role("button", name="Forget key").click()
        expect(page.locator("#gate")).to_be_visible()
        expect(page.locator("body")).not_to_contain_text("Everybody deploys")  # no data remains
    page = visit(service, "/ui/overview")
    enter_key(page, create_key(owner, "eve", user="eve", role="read", prefixes=["ci/web"]))
    expect(page.locator(".empty")).to_contain_text("No memories for this key yet")
    expect(page.locator(".empty code")).to_have_count(0)


def test_hostile_texts_are_shown_as_text(service: Caller, visit: Visitor) -> None:
    headers = {"X-Cofio-Client": "<b>bold</b>"}
    for text in (HOSTILE, "W" * LONG_LENGTH, "<b>" * 3_333, "\u202eright to left \u2066 isolate"):
        assert service.post("/memory/add", {"text": text}, headers).status == 201
    page = visit(service, "/ui/overview", viewport=PHONE)
    changes = box(page, "Newest changes").get_by_role("listitem")
    expect(changes).to_have_count(4)
    expect(changes.nth(3)).to_contain_text(HOSTILE[:60])
    expect(changes.nth(3)).to_contain_text("<b>bold</b>")
    assert page.locator("main img, main script, main b, main svg script").count() == 0
    assert overflow(page) == 0
    height = changes.nth(2).evaluate("(it) => it.getBoundingClientRect().height")
    assert height < 120  # ten thousand letters are a line or two
    assert accessibility_violations(page) == []


def test_page_works_by_keyboard(service: Caller, visit: Visitor) -> None:
    number = add(service, "We deploy on Fridays.")
    page = visit(service, "/ui/overview")
    expect(box(page, "Newest changes").get_by_role("link")).to_be_visible()
    expect(box(page, "Where captures are")).to_be_visible()
    focused = []
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        focused.append(page.evaluate("document.activeElement.getAttribute('href') ?? document.activeElement.ariaLabel"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page_items = focused[focused.index("../docs") + 1 :]
    assert page_items == ["#/30", "#/90", "#/365", "#/30", "#/30/new", "Memories over time, by category",
                    f"memories#/{number}", "Tokens per prompt, by day"]  # fmt: skip
    page.locator("#span a[href='#/90']").focus()
    page.keyboard.press("Enter")
    expect(box(page, "Memories over time").locator("tbody tr")).to_have_count(90)
    expect(page.locator("#span a[aria-current]")).to_be_focused()


def test_reduced_motion_disables_animation(service: Caller, visit: Visitor) -> None:
    add(service, "We deploy on Fridays.")
    page = visit(service, "/ui/overview", reduced_motion="reduce")
    expect(page.locator("#live")).to_contain_text("Live")
    assert page.locator(".dot").evaluate("(it) => getComputedStyle(it).animationName") == "none"


class ShiftedClock:
    """Return the time a number of days ago."""

    def __init__(self) -> None:
        self.days_ago = 0

    def __call__(self) -> str:
        return to_utc_iso(datetime.now(UTC) - timedelta(days=self.days_ago))


@pytest.fixture(scope="module")
def busy_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Return a service used by agents for months until now. Tests only view it."""
    clock = ShiftedClock()
    store = SqliteStore(tmp_path_factory.mktemp("work") / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock) as keeper:
        for clock.days_ago in range(120, 0, -1):
            keeper.add_all(
                _facts_of_day(clock.days_ago, datetime.fromisoformat(clock()).weekday()), dedup=False, by="codex"
            )
        clock.days_ago = 0
        store.dashboard.inject([*_injections(datetime.now(UTC))])
        with serving(keeper) as url:
            caller = Caller(url, {"X-Cofio-Client": "claude-code"})
            _add_todays_activity(caller)
            yield caller


def _add_todays_activity(caller: Caller) -> None:
    for turn, message in enumerate(("We switched from Prisma to Drizzle.", "ok", "thanks", "sounds good, go on",
                                 "We decided to use Vitest.", "I prefer small pull requests.", "hm")):  # fmt: skip
        capture(caller, turn, message)
    for kind, text in FACTS[-4:]:
        add(caller, text, kind=kind)
    caller.patch("/memory/1", {"pinned": True})


def _facts_of_day(days_ago: int, weekday: int) -> list[Fact]:
    """Return the facts of a day: more on working days, and more recently."""
    fact_count = (150 - days_ago) * (1 if weekday > 4 else 4) // 100 + days_ago * 7 % 3
    selected = [FACTS[(days_ago * 3 + number * 7) % len(FACTS)] for number in range(fact_count)]
    return [Fact(text=f"{text} (sprint {days_ago}.{index})", kind=kind) for index, (kind, text) in enumerate(selected)]


def _injections(today: datetime) -> Iterator[Injection]:
    """Return the injections of the last 30 days."""
    for days_ago in range(30):
        timestamp = (today - timedelta(days=days_ago)).isoformat(timespec="microseconds")
        for number in range(4 + days_ago * 5 % 9):
            tokens = 60 + (days_ago * 37 + number * 53) % 140
            yield Injection(
                timestamp, "claude-code", "prompt", 0 if number % 4 == 3 else 2, 0 if number % 4 == 3 else tokens
            )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(busy_service: Caller, visit: Visitor, scheme: Any) -> None:
    page = visit(busy_service, "/ui/overview", color_scheme=scheme)
    expect(box(page, "Newest changes").get_by_role("listitem").first).to_be_visible()
    expect(box(page, "Health")).to_be_visible()
    expect(page.locator("#live")).to_contain_text("Live")
    assert overflow(page) == 0
    screenshot(page, "overview" if scheme == "light" else "overview-dark")
    slider(page, "Memories over time").hover(position={"x": 420, "y": 200})
    expect(slider(page, "Memories over time").locator(".tip")).to_be_visible()
    assert accessibility_violations(page) == []
    page.get_by_role("link", name="New each day").click()
    expect(box(page, "Memories over time").locator(".column").first).to_be_visible()
    screenshot(page, "overview-new" if scheme == "light" else "overview-new-dark")
    for part in ("decision", "learning", "detail", "stored", "merged", "rejected", "pending", "tokens"):
        assert contrast(page, part) >= 3, part


def contrast(page: Page, part: str) -> float:
    """Return the contrast ratio between the colour of a part and its background."""
    script = """(part) => {
        const box = document.querySelector(".board .box");
        const probe = box.appendChild(document.createElement("span"));
        probe.className = "swatch";
        probe.dataset.part = part;
        const light = (colour) => {
            const [red, green, blue] = colour.match(/[\\d.]+/g).map((each) => each / 255)
                .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        };
        const [one, other] = [probe, box].map((each) => light(getComputedStyle(each).backgroundColor));
        probe.remove();
        return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    }"""
    ratio: float = page.evaluate(script, part)
    return ratio


@pytest.mark.parametrize("width", [360, 768, 1920, 2560])
def test_page_fits_every_screen(busy_service: Caller, visit: Visitor, width: int) -> None:
    page = visit(busy_service, "/ui/overview", viewport={"width": width, "height": 740}, has_touch=width < 800)
    expect(box(page, "Newest changes").get_by_role("listitem").first).to_be_visible()
    expect(box(page, "Memories over time").locator(".area").first).to_be_visible()
    assert overflow(page) == 0
    if width == PHONE["width"]:
        expect(box(page, "Memories over time").locator(".legend")).to_be_visible()  # no room next to the chart
        screenshot(page, "overview-phone")
        slider(page, "Memories over time").tap()
        expect(slider(page, "Memories over time").locator(".tip")).to_be_visible()
        assert overflow(page) == 0
        assert accessibility_violations(page) == []


# ── Ten thousand memories ─────────────────────────────────────────────────────────────────────────────────────────────

LARGE_COUNT = 10_000


@pytest.fixture(scope="module")
def large_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Return a service with ten thousand memories of three years, added in batches of one thousand."""
    clock = FixedClock()
    store = SqliteStore(tmp_path_factory.mktemp("full") / "cofio.db", clock)
    with Keeper(store, HashEmbedder(64), clock) as keeper:
        vectors = np.random.default_rng(7).normal(size=(1_000, 64)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        for first in range(0, LARGE_COUNT, 1_000):
            facts = [Add(_make_fact(number)) for number in range(first, first + 1_000)]
            store.apply(facts, dict(enumerate(vectors)), by="import", why="")
        with serving(keeper) as url:
            yield Caller(url)


def _make_fact(number: int) -> Fact:
    kind, text = FACTS[number % len(FACTS)]
    created = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(days=number * 7919 % 1_000)
    return Fact(text=f"{text}, as of sprint {number}", kind=kind, created_at=created.isoformat())


def test_ten_thousand_memories_are_shown_quickly(
    large_service: Caller, visit: Visitor, capsys: pytest.CaptureFixture[str]
) -> None:
    page = visit(large_service, "/ui/overview")
    is_drawn = """() => document.querySelector(".growth .ridge") && document.querySelector(".tile .value")
        && performance.now()"""
    times = []
    for _ in range(3):
        page.goto("about:blank")
        page.goto(f"{large_service.url}/ui/overview", wait_until="commit")
        times.append(page.wait_for_function(is_drawn, polling="raf").json_value())
    requested_urls = page.evaluate("performance.getEntriesByType('resource').map((it) => it.name)")
    expect(value(page, "Memories")).to_have_text("10,000")
    expect(box(page, "Newest changes").get_by_role("listitem").first).to_be_visible()
    with capsys.disabled():
        print(f"\nfirst view with {LARGE_COUNT:,} memories: {min(times):.0f} ms (of {[round(time) for time in times]})")
    assert len([url for url in requested_urls if "/overview?" in url]) == 1
    assert min(times) < 10_000  # the target is one second
