"""The page about the inbox, as a person uses it: what was handed over, and a conversation that is tried first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from cofio.core import Keeper
from cofio.judgement.model import LocalJudge
from cofio.models.auth import Grant
from cofio.ports import LLM
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.ui.conftest import PHONE, Visitor, at, hindrances, overflow, picture

PLACE = {"source": "claude-code/shop", "project": "/srv/shop"}
WEIRD = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} \u202eback'
CAUSE = "Found workaround for stale lock files by installing with --frozen-lockfile in CI"
TALK = f"""User: Hi! We switched from Prisma to Drizzle last week. Can you update the docs?
The staging API listens on port 9090 now. We deploy on Fridays, after lunch.
Assistant: Done. {CAUSE}."""
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
NOW = "2026-01-01T06:00:00Z"


class Inbox:
    """A service, with its keeper and its clock."""

    def __init__(self, keeper: Keeper, clock: FixedClock, url: str = "") -> None:
        self.keeper, self.clock, self.caller = keeper, clock, Caller(url) if url else None

    def hear(self, text: str, **about: Any) -> int:
        """The id of what was handed over, and learned from."""
        self.clock.advance(1_800)
        return self.keeper.capture(text, wait=True, **{"client": "claude-code", **PLACE, **about}).id

    def wait(self, text: str, seconds: float = 0.0, reason: str = "", **about: Any) -> int:
        """The id of what waits for that long."""
        self.clock.advance(1_800)
        heard = self.keeper.capture(text, **{"client": "codex", **PLACE, **about}).id
        self.keeper.services.access.store.inbox.postpone(
            heard, seconds or 3_600, reason or "The model did not answer in time."
        )
        return heard

    def park(self, text: str, reason: str = "The model gave nothing usable.", **about: Any) -> int:
        heard = self.wait(text, **about)
        self.keeper.services.access.store.inbox.park(heard, reason)
        return heard


Open = Callable[..., Inbox]


@pytest.fixture
def inbox(tmp_path: Path, afterwards: Callable[[Callable[[], None]], None], judge: LocalJudge) -> Iterator[Open]:
    """Makes a service that asks the judgement model; what is given is done to its keeper before."""
    stack = ExitStack()

    def make(before: Callable[[Inbox], Any] = lambda _: None, llm: LLM | None = None) -> Inbox:
        clock = FixedClock()
        store = SqliteStore(tmp_path / "cofio.db", clock)
        keeper = stack.enter_context(Keeper(store, HashEmbedder(), clock, llm=llm, judge=judge))
        before(Inbox(keeper, clock))
        return Inbox(keeper, clock, stack.enter_context(serving(keeper)))

    yield make
    afterwards(stack.close)


def open_page(visit: Visitor, here: Inbox, where: str = "", **how: Any) -> Page:
    """The page at the time that the captures are of."""
    assert here.caller
    return at(visit(here.caller, f"/ui/inbox{where}", **how), NOW)


def rows(page: Page) -> Locator:
    return page.locator("#captures .row")


def row(page: Page, says: str) -> Locator:
    return page.locator("#captures .row", has_text=says)


def opened(page: Page, says: str) -> Locator:
    row(page, says).locator(".head").click()
    detail = row(page, says).locator(".detail")
    expect(detail.locator("summary")).to_be_visible()
    return detail


def notice(page: Page) -> Locator:
    return page.locator(".notice")


def press(where: Page | Locator, name: str) -> None:
    where.get_by_role("button", name=name, exact=True).click()


def try_it(page: Page, text: str, **labels: str) -> Locator:
    """Paste it; what would become of it."""
    page.get_by_role("textbox", name="A conversation, or plain notes").fill(text)
    for label, value in {"Project": "/srv/shop", "Source": "claude-code/shop", **labels}.items():
        page.get_by_role("textbox", name=label, exact=True).fill(value)
    press(page, "See what would be learned")
    tried = page.locator(".tried")
    expect(tried.locator("h2").first).to_be_visible()
    return tried


def some_of_everything(here: Inbox) -> None:
    here.keeper.add("We deploy on Fridays, after lunch", **PLACE)
    here.keeper.add("We use Prisma as our ORM", **PLACE)
    here.keeper.add("The staging API listens on port 8080", **PLACE)
    here.hear("User: Thanks, that works!", session="s-80", turn="4")
    here.hear("User: We never deploy on a public holiday.\nAssistant: Noted, I will remember that.", session="s-80")
    here.hear("User: We switched from MySQL to PostgreSQL 16.\nAssistant: Understood.", user="ann")
    here.hear("User: We deploy on Fridays, after lunch")
    here.hear("Flag AAPL if volume exceeds 5M.", context="analysis", client="watcher")
    here.hear("User: What time is it in Berlin?", client="cursor")
    here.park("User: Remember the thing about the retry helper, you know which one.")
    here.wait("User: The cache in front of the catalogue lives in Redis.", 8 * 86_400)


# ── the list ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_inbox_says_where_captures_come_from(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox())
    expect(page.locator(".empty")).to_contain_text("No captures yet")
    page.locator(".empty").get_by_role("link", name="Try a conversation").click()
    expect(page.get_by_role("textbox", name="A conversation, or plain notes")).to_be_focused()


def test_every_capture_stands_with_its_state_why_from_whom_and_when(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(some_of_everything))
    expect(rows(page)).to_have_count(8)
    told = {
        "The cache in front": ["Pending", "tried once, next in 7 days", "did not answer in time", "codex"],
        "Remember the thing": ["Parked", "tried once", "gave nothing usable"],
        "What time is it": ["Rejected", "Nothing that will matter in a month", "cursor", "2 hours ago"],
        "Flag AAPL": ["Stored", "1 kept, 1 row of knowledge", "watcher"],
        "We deploy on Fridays": ["Merged", "Its facts were already known."],
        "We switched from MySQL": ["Stored", "1 kept", "claude-code · ann"],
        "Thanks, that works": ["Rejected", "Nothing that will matter in a month"],
    }
    for says, parts in told.items():
        for part in parts:
            expect(row(page, says).locator(".head")).to_contain_text(part)


def test_the_tabs_count_and_narrow_and_stand_in_the_address(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(some_of_everything))
    tabs = page.get_by_role("navigation", name="Captures").get_by_role("link")
    expect(tabs).to_have_text(["All8", "Pending1", "Parked1", "Rejected2", "Stored3", "Merged1"])
    page.get_by_role("link", name="Rejected 2").click()
    expect(rows(page)).to_have_count(2)
    assert page.url.endswith("#/rejected")
    page.reload()
    expect(rows(page)).to_have_count(2)
    expect(page.locator("#states [aria-current]")).to_have_text("Rejected2")
    page.go_back()
    expect(rows(page)).to_have_count(8)


def test_a_capture_opens_with_what_was_said_and_what_was_learned(inbox: Open, visit: Visitor) -> None:
    here = inbox(some_of_everything)
    page = open_page(visit, here)
    detail = opened(page, "We never deploy")
    expect(detail.locator("blockquote")).to_have_text(
        ["We never deploy on a public holiday.", "Noted, I will remember that."]
    )
    expect(detail.locator(".who-said")).to_have_text(["User", "Assistant"])
    expect(detail.locator(".outcome")).to_contain_text("Kept")
    link = detail.locator(".outcome a")
    number = re.search(r"\d+", link.inner_text())
    assert number
    expect(link).to_have_attribute("href", f"memories#/{number[0]}")
    detail.locator("summary").click()
    expect(detail.locator("dl")).to_contain_text("session s-80")
    assert page.url.endswith("#/2")
    page.reload()
    expect(row(page, "We never deploy").locator(".detail")).to_be_visible()
    opened(page, "Flag AAPL")
    expect(row(page, "We never deploy").locator(".detail")).to_be_hidden()
    expect(row(page, "Flag AAPL").locator(".outcome a").last).to_have_attribute(
        "href", "knowledge#/thresholds/aapl.volume.above"
    )


def test_what_was_learned_is_taken_back(inbox: Open, visit: Visitor) -> None:
    here = inbox(some_of_everything)
    page = open_page(visit, here, "#/3")
    before = here.keeper.count()
    detail = row(page, "We switched from MySQL").locator(".detail")
    detail.locator(".back").get_by_role("button", name="Undo").click()
    expect(detail.locator(".back .tag")).to_have_text("undone")
    expect(notice(page)).to_contain_text("Undone.")
    assert here.keeper.count() == before - 1


def test_a_parked_one_is_tried_again_and_the_page_hears_what_became_of_it(inbox: Open, visit: Visitor) -> None:
    here = inbox(lambda it: it.park("User: We switched from npm to pnpm."))
    page = open_page(visit, here, "#/1")
    detail = row(page, "We switched").locator(".detail")
    expect(detail).to_contain_text("Nothing yet: it waits for a retry.")
    press(detail, "Retry")
    expect(row(page, "We switched").locator(".chip.stored").first).to_be_visible()  # without a reload
    expect(row(page, "We switched").locator(".detail .outcome a")).to_be_visible()
    assert here.keeper.item(1).state == "stored"


def test_all_that_are_shown_are_tried_again(inbox: Open, visit: Visitor) -> None:
    here = inbox(lambda it: [it.park(f"User: We switched from tool {n} to tool {n}b.") for n in range(3)])
    page = open_page(visit, here, "#/parked")
    press(page, "Retry all 3 shown")
    expect(notice(page)).to_contain_text("3 captures are queued again")
    expect(page.locator(".empty")).to_contain_text("Nothing is parked.")


def test_the_list_goes_on_for_as_long_as_there_is_more(inbox: Open, visit: Visitor) -> None:
    here = inbox(lambda it: [it.hear(f"User: What is {number} times seven?") for number in range(120)])
    page = open_page(visit, here, "#/rejected")
    expect(rows(page)).to_have_count(50)
    press(page, "Show more")
    expect(rows(page)).to_have_count(100)
    expect(rows(page).nth(50).locator(".head")).to_be_focused()
    press(page, "Show more")
    expect(rows(page)).to_have_count(120)
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    page.goto(f"{page.url.split('#')[0]}#/3")
    expect(row(page, "What is 2 times seven").locator(".detail")).to_be_visible()


def test_one_that_is_further_down_is_shown_by_its_address(inbox: Open, visit: Visitor) -> None:
    here = inbox(lambda it: [it.hear(f"User: What is {number} times seven?") for number in range(60)])
    page = open_page(visit, here, "#/1")
    expect(rows(page)).to_have_count(51)
    expect(rows(page).first.locator(".detail blockquote")).to_have_text("What is 0 times seven?")
    visit.expected.add(404)
    page.goto(f"{page.url.split('#')[0]}#/999")
    expect(notice(page)).to_contain_text("999")
    expect(rows(page)).to_have_count(51)


def test_new_ones_appear_and_the_focus_and_the_open_one_stay(inbox: Open, visit: Visitor) -> None:
    here = inbox(some_of_everything)
    page = open_page(visit, here)
    detail = opened(page, "We switched from MySQL")
    detail.locator("summary").click()
    detail.locator("summary").focus()
    here.hear("User: We moved the changelog to the wiki.")
    expect(rows(page)).to_have_count(9)
    expect(detail.locator("summary")).to_be_focused()
    expect(detail.locator("dl")).to_be_visible()


def test_of_what_is_forgotten_nothing_is_quoted(inbox: Open, visit: Visitor) -> None:
    here = inbox(
        lambda it: (it.hear("User: We never deploy on a Friday."), it.keeper.services.captures.forget("2030-01-01"))
    )
    page = open_page(visit, here, "#/1")
    expect(rows(page).first).to_contain_text("Its text has been deleted by retention.")
    expect(rows(page).first.locator(".outcome a")).to_be_visible()


# ── trying one ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_shows_gate_facts_and_decisions_and_stores_nothing(inbox: Open, visit: Visitor) -> None:
    here = inbox(some_of_everything)
    before, captured = here.keeper.count(), here.keeper.inbox_status().captured
    page = open_page(visit, here, "#/try")
    tried = try_it(page, TALK)
    expect(tried.locator("h2").first).to_have_text("Would come to 1 kept, 2 changed, 1 known")
    judged = tried.locator(".sentence")
    expect(judged).to_have_count(7)
    expect(judged.nth(0)).to_contain_text("Passed over")
    expect(judged.nth(0)).to_contain_text("Nothing that will matter in a month")
    expect(judged.nth(1)).to_contain_text("Kept")
    expect(judged.nth(1)).to_contain_text("Worth keeping")
    cards = tried.locator(".card")
    port = cards.filter(has_text="staging API")
    expect(port.locator("del")).to_have_text("8080")
    expect(port.locator("ins")).to_have_text("9090 now")
    expect(port).to_contain_text("in the place of memory 3")
    expect(port.get_by_role("link")).to_have_attribute("href", "memories#/3")
    known = cards.filter(has_text="Is known already")
    expect(known).to_contain_text("memory 1 says: We deploy on Fridays, after lunch")
    expect(known.get_by_role("button")).to_have_count(0)
    assert (here.keeper.count(), here.keeper.inbox_status().captured) == (before, captured)


def test_all_of_it_is_learned_only_when_asked_for(inbox: Open, visit: Visitor) -> None:
    here = inbox(some_of_everything)
    page = open_page(visit, here, "#/try")
    tried = try_it(page, TALK)
    press(tried, "Learn all of it")
    expect(tried.locator(".learn")).to_contain_text("Learned: 1 kept, 2 changed, 1 known.")
    assert [memory.text for memory in here.keeper.list(project="/srv/shop").memories][:1] != []
    assert here.keeper.get(3).superseded_by is not None
    tried.get_by_role("link", name="See the capture").click()
    expect(page.locator("#captures .detail blockquote").first).to_contain_text("We switched from Prisma")
    item = here.keeper.items(limit=1)[0]
    assert item.exchange
    assert (item.exchange.project, item.exchange.source) == ("/srv/shop", "claude-code/shop")
    notice(page).get_by_role("button", name="Undo").click()
    expect(notice(page)).to_contain_text("Undone.")
    assert here.keeper.get(3).superseded_by is None


def test_one_fact_is_kept_and_taken_back(inbox: Open, visit: Visitor) -> None:
    here = inbox(some_of_everything)
    page = open_page(visit, here, "#/try")
    cards = try_it(page, TALK).locator(".card")
    port, cause = cards.filter(has_text="staging API"), cards.filter(has_text="workaround")
    press(port, "Keep this one")
    expect(port).to_contain_text("Kept · memory")
    expect(port.get_by_role("button", name="Undo")).to_be_focused()
    assert here.keeper.get(3).superseded_by is not None
    press(cause, "Keep this one")
    expect(cause).to_contain_text("Kept · memory")
    kept = here.keeper.list(limit=1).memories[0]
    assert (kept.text, kept.project, kept.kind) == (CAUSE, "/srv/shop", "decision")
    press(port, "Undo")
    expect(notice(page)).to_contain_text("Undone.")
    expect(port.get_by_role("button", name="Keep this one")).to_be_focused()
    assert here.keeper.get(3).superseded_by is None


def test_secrets_are_gone_before_anything_is_shown(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(), "#/try")
    expect(page.locator(".paste")).to_contain_text("Secrets are taken out before anything is read")
    tried = try_it(page, f"User: My token is {SECRET}. We never deploy on a Friday.")
    expect(tried).to_contain_text("[redacted")
    expect(tried).not_to_contain_text(SECRET[:12])


def test_plain_notes_and_reports_are_read_too(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(), "#/try")
    tried = try_it(page, "We never deploy on a Friday.")
    expect(tried.locator(".card")).to_contain_text("never deploy on a Friday")
    page.get_by_label("Handed over as").select_option("analysis")
    tried = try_it(page, "Flag AAPL if volume exceeds 5M.")
    expect(tried.locator(".outcome")).to_contain_text("AAPL/volume: above 5000000")
    expect(tried.locator(".outcome a")).to_have_attribute("href", "knowledge#/thresholds/aapl.volume.above")


def test_what_a_model_would_find_is_shown(inbox: Open, visit: Visitor) -> None:
    found = {"facts": [{"text": "The team wants British English in its commit messages", "kind": "preference"}]}
    decided = {"decisions": [{"fact": "f1", "action": "ADD", "memory": None, "text": None}]}
    llm = ScriptedLLM([json.dumps(found), json.dumps(decided)])
    page = open_page(visit, inbox(llm=llm), "#/try")
    expect(page.locator(".paste")).to_contain_text("put to script of scripted")
    tried = try_it(page, "User: The commits could be in British English.")
    expect(tried.locator(".sentence")).to_contain_text("In doubt")
    expect(tried.locator(".sentence")).to_contain_text("May be worth keeping")
    expect(tried.locator(".card")).to_contain_text("The team wants British English in its commit messages")


def test_an_empty_text_is_refused_and_another_text_is_looked_at_before_it_is_learned(
    inbox: Open, visit: Visitor
) -> None:
    here = inbox()
    page = open_page(visit, here, "#/try")
    press(page, "See what would be learned")
    expect(page.locator(".tried .trouble")).to_contain_text("“A conversation, or plain notes” is empty.")
    tried = try_it(page, "User: We never deploy on a Friday.")
    page.get_by_role("textbox", name="A conversation, or plain notes").press_sequentially("x")
    expect(tried.locator(".learn")).to_contain_text("The text has changed since.")
    expect(tried.get_by_role("button", name="Learn all of it")).to_have_count(0)
    assert here.keeper.inbox_status().captured == 0


# ── hostile texts ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_whatever_was_said_is_shown_as_it_is_and_does_nothing(inbox: Open, visit: Visitor) -> None:
    long = "word " * 2_000
    here = inbox(
        lambda it: (
            it.hear(
                f"User: We switched from {WEIRD} to Drizzle.\nAssistant: {WEIRD}", client=WEIRD[:60], session=WEIRD
            ),
            it.hear(f"User: {long}\nAssistant: {long}"),
            it.park(f"User: {WEIRD}", reason=WEIRD),
        )
    )
    page = open_page(visit, here)
    detail = opened(page, "We switched from")
    expect(detail.locator("blockquote").first).to_contain_text("<script>alert(2)</script>{{7*7}}")
    assert page.locator("#captures img, #captures script").count() == 0
    detail = opened(page, "word word")
    toggle = detail.locator(".folded button").first
    expect(toggle).to_have_text("Show all 9,999 characters")
    box = detail.locator("blockquote").first.bounding_box()
    assert box
    assert box["height"] < 300
    toggle.click()
    expect(toggle).to_have_text("Show less")
    assert overflow(page) == 0
    page.goto(f"{page.url.split('#')[0]}#/try")
    tried = try_it(page, f"User: We switched from {WEIRD} to Drizzle. {'x' * 10_000}")
    expect(tried.locator(".sentence").first).to_contain_text("<script>")
    assert page.locator("#trying img, #trying script").count() == 0
    assert overflow(page) == 0


# ── who may ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def open_with_key(visit: Visitor, here: Inbox, role: str, **about: str) -> Page:
    _, secret = here.keeper.create_key(Grant(name=role, role=role, **about))
    page = open_page(visit, here)
    page.get_by_label("API key").fill(secret)
    press(page, "Open")
    return page


def test_a_key_that_may_only_read_is_told_kindly(inbox: Open, visit: Visitor) -> None:
    here = inbox(some_of_everything)
    page = open_with_key(visit, here, "read", user="ada")
    expect(page.locator(".empty")).to_contain_text("The inbox is for keys that may write")
    expect(page.get_by_role("link", name="Try a conversation")).to_have_count(0)
    assert hindrances(page) == []


def test_a_key_that_may_write_sees_its_own_and_no_counts(inbox: Open, visit: Visitor) -> None:
    here = inbox(some_of_everything)
    page = open_with_key(visit, here, "write", user="ann")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("We switched from MySQL")
    expect(page.locator("#states .count")).to_have_count(0)
    opened(page, "We switched from MySQL")
    page.goto(f"{page.url.split('#')[0]}#/try")
    tried = try_it(page, "User: We never deploy on a Friday.")
    press(tried, "Learn all of it")
    expect(tried.locator(".learn")).to_contain_text("Learned: 1 kept.")


# ── for everybody ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_way_past_the_menu_leaves_one_where_one_is(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(some_of_everything), "#/rejected")
    expect(page.locator("#states [aria-current]")).to_contain_text("Rejected")
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    assert page.url.endswith("#/rejected")
    expect(page.locator("#states [aria-current]")).to_contain_text("Rejected")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anybody_out(inbox: Open, visit: Visitor, scheme: str) -> None:
    page = open_page(visit, inbox(some_of_everything), color_scheme=scheme)
    expect(rows(page)).to_have_count(8)
    assert hindrances(page) == []
    opened(page, "Flag AAPL").locator("summary").click()
    assert hindrances(page) == []
    picture(page, f"inbox{'-dark' if scheme == 'dark' else ''}")
    page.goto(f"{page.url.split('#')[0]}#/try")
    try_it(page, TALK)
    assert hindrances(page) == []
    picture(page, f"inbox-try{'-dark' if scheme == 'dark' else ''}")


def test_on_a_phone_nothing_is_cut_off(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(some_of_everything), viewport=PHONE)
    opened(page, "Flag AAPL")
    assert overflow(page) == 0
    picture(page, "inbox-phone")
    page.goto(f"{page.url.split('#')[0]}#/try")
    try_it(page, TALK)
    assert overflow(page) == 0
    picture(page, "inbox-try-phone")


def test_everything_is_reached_with_the_keyboard(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(some_of_everything))
    expect(rows(page)).to_have_count(8)
    page.get_by_role("link", name="Parked 1").focus()
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_role("link", name="Parked 1")).to_be_focused()
    for _ in range(4):  # past the other tabs
        page.keyboard.press("Tab")
    expect(rows(page).first.locator(".head")).to_be_focused()
    page.keyboard.press("Enter")
    expect(rows(page).first.locator(".detail")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Retry", exact=True)).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(rows(page).first.locator(".detail")).to_be_hidden()
    expect(rows(page).first.locator(".head")).to_be_focused()
