"""The inbox page: captures, and the preview of what would be learned from a conversation."""

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
from cofio.judgement.onnx_classifier import LocalJudge
from cofio.models.auth import Grant
from cofio.ports import LLM
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.ui.conftest import PHONE, Visitor, accessibility_violations, overflow, screenshot, set_clock

ORIGIN = {"source": "claude-code/shop", "project": "/srv/shop"}
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} \u202eback'
CAUSE = "Found workaround for stale lock files by installing with --frozen-lockfile in CI"
CONVERSATION = f"""User: Hi! We switched from Prisma to Drizzle last week. Can you update the docs?
The staging API listens on port 9090 now. We deploy on Fridays, after lunch.
Assistant: Done. {CAUSE}."""
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
NOW = "2026-01-01T06:00:00Z"


class Inbox:
    """A service with its keeper and its clock."""

    def __init__(self, keeper: Keeper, clock: FixedClock, url: str = "") -> None:
        self.keeper, self.clock, self.caller = keeper, clock, Caller(url) if url else None

    def learn(self, text: str, **fields: Any) -> int:
        """Capture and learn a text; return the id."""
        self.clock.advance(1_800)
        return self.keeper.capture(text, wait=True, **{"client": "claude-code", **ORIGIN, **fields}).id

    def wait(self, text: str, seconds: float = 0.0, reason: str = "", **fields: Any) -> int:
        """Capture a text that is pending for this long; return the id."""
        self.clock.advance(1_800)
        capture_id = self.keeper.capture(text, **{"client": "codex", **ORIGIN, **fields}).id
        self.keeper.services.access.store.inbox.postpone(
            capture_id, seconds or 3_600, reason or "The model did not answer in time."
        )
        return capture_id

    def park(self, text: str, reason: str = "The model gave nothing usable.", **fields: Any) -> int:
        capture_id = self.wait(text, **fields)
        self.keeper.services.access.store.inbox.park(capture_id, reason)
        return capture_id


Open = Callable[..., Inbox]


@pytest.fixture
def inbox(tmp_path: Path, run_in_background: Callable[[Callable[[], None]], None], judge: LocalJudge) -> Iterator[Open]:
    """Start a service with the judgement model, after preparing its keeper."""
    stack = ExitStack()

    def make(prepare: Callable[[Inbox], Any] = lambda _: None, llm: LLM | None = None) -> Inbox:
        clock = FixedClock()
        store = SqliteStore(tmp_path / "cofio.db", clock)
        keeper = stack.enter_context(Keeper(store, HashEmbedder(), clock, llm=llm, judge=judge))
        prepare(Inbox(keeper, clock))
        return Inbox(keeper, clock, stack.enter_context(serving(keeper)))

    yield make
    run_in_background(stack.close)


def open_page(visit: Visitor, inbox_service: Inbox, fragment: str = "", **options: Any) -> Page:
    """Open the page at the time of the captures."""
    assert inbox_service.caller
    return set_clock(visit(inbox_service.caller, f"/ui/inbox{fragment}", **options), NOW)


def rows(page: Page) -> Locator:
    return page.locator("#captures .row")


def row(page: Page, text: str) -> Locator:
    return page.locator("#captures .row", has_text=text)


def open_capture(page: Page, text: str) -> Locator:
    row(page, text).locator(".head").click()
    detail = row(page, text).locator(".detail")
    expect(detail.locator("summary")).to_be_visible()
    return detail


def notice(page: Page) -> Locator:
    return page.locator(".notice")


def press(scope: Page | Locator, name: str) -> None:
    scope.get_by_role("button", name=name, exact=True).click()


def preview(page: Page, text: str, **labels: str) -> Locator:
    """Paste a text and return the preview."""
    page.get_by_role("textbox", name="A conversation, or plain notes").fill(text)
    for label, value in {"Project": "/srv/shop", "Source": "claude-code/shop", **labels}.items():
        page.get_by_role("textbox", name=label, exact=True).fill(value)
    press(page, "See what would be learned")
    result = page.locator(".tried")
    expect(result.locator("h2").first).to_be_visible()
    return result


def add_captures(inbox_service: Inbox) -> None:
    inbox_service.keeper.add("We deploy on Fridays, after lunch", **ORIGIN)
    inbox_service.keeper.add("We use Prisma as our ORM", **ORIGIN)
    inbox_service.keeper.add("The staging API listens on port 8080", **ORIGIN)
    inbox_service.learn("User: Thanks, that works!", session="s-80", turn="4")
    inbox_service.learn(
        "User: We never deploy on a public holiday.\nAssistant: Noted, I will remember that.", session="s-80"
    )
    inbox_service.learn("User: We switched from MySQL to PostgreSQL 16.\nAssistant: Understood.", user="ann")
    inbox_service.learn("User: We deploy on Fridays, after lunch")
    inbox_service.learn("Flag AAPL if volume exceeds 5M.", context="analysis", client="watcher")
    inbox_service.learn("User: What time is it in Berlin?", client="cursor")
    inbox_service.park("User: Remember the thing about the retry helper, you know which one.")
    inbox_service.wait("User: The cache in front of the catalogue lives in Redis.", 20 * 3_600)


# ── List ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_empty_inbox_explains_captures(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox())
    expect(page.locator(".empty")).to_contain_text("No captures yet")
    page.locator(".empty").get_by_role("link", name="Try a conversation").click()
    expect(page.get_by_role("textbox", name="A conversation, or plain notes")).to_be_focused()


def test_captures_are_listed_with_state_reason_client_and_time(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(add_captures))
    expect(rows(page)).to_have_count(8)
    expected = {
        "The cache in front": ["Pending", "tried once, next in ", "did not answer in time", "codex"],
        "Remember the thing": ["Parked", "tried once", "gave nothing usable"],
        "What time is it": ["Rejected", "Nothing that will matter in a month", "cursor", "2 hours ago"],
        "Flag AAPL": ["Stored", "1 kept, 1 row of knowledge", "watcher"],
        "We deploy on Fridays": ["Merged", "Its facts were already known."],
        "We switched from MySQL": ["Stored", "1 kept", "claude-code · ann"],
        "Thanks, that works": ["Rejected", "Nothing that will matter in a month"],
    }
    for text, parts in expected.items():
        for part in parts:
            expect(row(page, text).locator(".head")).to_contain_text(part)


def test_tabs_count_and_filter_and_are_in_the_url(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(add_captures))
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


def test_capture_shows_its_messages_and_what_was_learned(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(add_captures)
    page = open_page(visit, inbox_service)
    detail = open_capture(page, "We never deploy")
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
    open_capture(page, "Flag AAPL")
    expect(row(page, "We never deploy").locator(".detail")).to_be_hidden()
    expect(row(page, "Flag AAPL").locator(".outcome a").last).to_have_attribute(
        "href", "knowledge#/thresholds/aapl.volume.above"
    )


def test_learned_change_is_undone(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(add_captures)
    page = open_page(visit, inbox_service, "#/3")
    count_before = inbox_service.keeper.count()
    detail = row(page, "We switched from MySQL").locator(".detail")
    detail.locator(".back").get_by_role("button", name="Undo").click()
    expect(detail.locator(".back .tag")).to_have_text("undone")
    expect(notice(page)).to_contain_text("Undone.")
    assert inbox_service.keeper.count() == count_before - 1


def test_parked_capture_is_retried_and_the_page_updates(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(lambda service: service.park("User: We switched from npm to pnpm."))
    page = open_page(visit, inbox_service, "#/1")
    detail = row(page, "We switched").locator(".detail")
    expect(detail).to_contain_text("Nothing yet: it waits for a retry.")
    press(detail, "Retry")
    expect(row(page, "We switched").locator(".chip.stored").first).to_be_visible()  # without a reload
    expect(row(page, "We switched").locator(".detail .outcome a")).to_be_visible()
    assert inbox_service.keeper.item(1).state == "stored"


def test_all_shown_captures_are_retried(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(
        lambda service: [service.park(f"User: We switched from tool {n} to tool {n}b.") for n in range(3)]
    )
    page = open_page(visit, inbox_service, "#/parked")
    press(page, "Retry all 3 shown")
    expect(notice(page)).to_contain_text("3 captures are queued again")
    expect(page.locator(".empty")).to_contain_text("Nothing is parked.")


def test_list_is_paged(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(
        lambda service: [service.learn(f"User: What is {number} times seven?") for number in range(120)]
    )
    page = open_page(visit, inbox_service, "#/rejected")
    expect(rows(page)).to_have_count(50)
    press(page, "Show more")
    expect(rows(page)).to_have_count(100)
    expect(rows(page).nth(50).locator(".head")).to_be_focused()
    press(page, "Show more")
    expect(rows(page)).to_have_count(120)
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    page.goto(f"{page.url.split('#')[0]}#/3")
    expect(row(page, "What is 2 times seven").locator(".detail")).to_be_visible()


def test_url_opens_a_capture_on_a_later_page(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(
        lambda service: [service.learn(f"User: What is {number} times seven?") for number in range(60)]
    )
    page = open_page(visit, inbox_service, "#/1")
    expect(rows(page)).to_have_count(51)
    expect(rows(page).first.locator(".detail blockquote")).to_have_text("What is 0 times seven?")
    visit.expected.add(404)
    page.goto(f"{page.url.split('#')[0]}#/999")
    expect(notice(page)).to_contain_text("999")
    expect(rows(page)).to_have_count(51)


def test_new_captures_appear_without_losing_focus(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(add_captures)
    page = open_page(visit, inbox_service)
    detail = open_capture(page, "We switched from MySQL")
    detail.locator("summary").click()
    detail.locator("summary").focus()
    inbox_service.learn("User: We moved the changelog to the wiki.")
    expect(rows(page)).to_have_count(9)
    expect(detail.locator("summary")).to_be_focused()
    expect(detail.locator("dl")).to_be_visible()


def test_deleted_text_is_not_quoted(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(
        lambda service: (
            service.learn("User: We never deploy on a Friday."),
            service.keeper.services.captures.forget("2030-01-01"),
        )
    )
    page = open_page(visit, inbox_service, "#/1")
    expect(rows(page).first).to_contain_text("Its text has been deleted by retention.")
    expect(rows(page).first.locator(".outcome a")).to_be_visible()


# ── Preview ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_preview_shows_sentences_facts_and_decisions_without_storing(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(add_captures)
    count_before, captured = inbox_service.keeper.count(), inbox_service.keeper.inbox_status().captured
    page = open_page(visit, inbox_service, "#/try")
    result = preview(page, CONVERSATION)
    expect(result.locator("h2").first).to_have_text("Would come to 1 kept, 2 changed, 1 known")
    sentences = result.locator(".sentence")
    expect(sentences).to_have_count(7)
    expect(sentences.nth(0)).to_contain_text("Passed over")
    expect(sentences.nth(0)).to_contain_text("Nothing that will matter in a month")
    expect(sentences.nth(1)).to_contain_text("Kept")
    expect(sentences.nth(1)).to_contain_text("Worth keeping")
    cards = result.locator(".card")
    port = cards.filter(has_text="staging API")
    expect(port.locator("del")).to_have_text("8080")
    expect(port.locator("ins")).to_have_text("9090 now")
    expect(port).to_contain_text("in the place of memory 3")
    expect(port.get_by_role("link")).to_have_attribute("href", "memories#/3")
    known_fact = cards.filter(has_text="Is known already")
    expect(known_fact).to_contain_text("memory 1 says: We deploy on Fridays, after lunch")
    expect(known_fact.get_by_role("button")).to_have_count(0)
    assert (inbox_service.keeper.count(), inbox_service.keeper.inbox_status().captured) == (count_before, captured)


def test_conversation_is_learned_on_request(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(add_captures)
    page = open_page(visit, inbox_service, "#/try")
    result = preview(page, CONVERSATION)
    press(result, "Learn all of it")
    expect(result.locator(".learn")).to_contain_text("Learned: 1 kept, 2 changed, 1 known.")
    assert [memory.text for memory in inbox_service.keeper.list(project="/srv/shop").memories][:1] != []
    assert inbox_service.keeper.get(3).superseded_by is not None
    result.get_by_role("link", name="See the capture").click()
    expect(page.locator("#captures .detail blockquote").first).to_contain_text("We switched from Prisma")
    item = inbox_service.keeper.items(limit=1)[0]
    assert item.exchange
    assert (item.exchange.project, item.exchange.source) == ("/srv/shop", "claude-code/shop")
    notice(page).get_by_role("button", name="Undo").click()
    expect(notice(page)).to_contain_text("Undone.")
    assert inbox_service.keeper.get(3).superseded_by is None


def test_single_fact_is_stored_and_undone(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(add_captures)
    page = open_page(visit, inbox_service, "#/try")
    cards = preview(page, CONVERSATION).locator(".card")
    port, cause = cards.filter(has_text="staging API"), cards.filter(has_text="workaround")
    press(port, "Keep this one")
    expect(port).to_contain_text("Kept · memory")
    expect(port.get_by_role("button", name="Undo")).to_be_focused()
    assert inbox_service.keeper.get(3).superseded_by is not None
    press(cause, "Keep this one")
    expect(cause).to_contain_text("Kept · memory")
    stored = inbox_service.keeper.list(limit=1).memories[0]
    assert (stored.text, stored.project, stored.kind) == (CAUSE, "/srv/shop", "decision")
    press(port, "Undo")
    expect(notice(page)).to_contain_text("Undone.")
    expect(port.get_by_role("button", name="Keep this one")).to_be_focused()
    assert inbox_service.keeper.get(3).superseded_by is None


def test_secrets_are_redacted_before_display(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(), "#/try")
    expect(page.locator(".paste")).to_contain_text("Secrets are taken out before anything is read")
    result = preview(page, f"User: My token is {SECRET}. We never deploy on a Friday.")
    expect(result).to_contain_text("[redacted")
    expect(result).not_to_contain_text(SECRET[:12])


def test_plain_notes_and_reports_are_previewed(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(), "#/try")
    result = preview(page, "We never deploy on a Friday.")
    expect(result.locator(".card")).to_contain_text("never deploy on a Friday")
    page.get_by_label("Handed over as").select_option("analysis")
    result = preview(page, "Flag AAPL if volume exceeds 5M.")
    expect(result.locator(".outcome")).to_contain_text("AAPL/volume: above 5000000")
    expect(result.locator(".outcome a")).to_have_attribute("href", "knowledge#/thresholds/aapl.volume.above")


def test_preview_includes_the_llm(inbox: Open, visit: Visitor) -> None:
    facts = {"facts": [{"text": "The team wants British English in its commit messages", "kind": "preference"}]}
    decisions = {"decisions": [{"fact": "f1", "action": "ADD", "memory": None, "text": None}]}
    llm = ScriptedLLM([json.dumps(facts), json.dumps(decisions)])
    page = open_page(visit, inbox(llm=llm), "#/try")
    expect(page.locator(".paste")).to_contain_text("put to script of scripted")
    result = preview(page, "User: The commits could be in British English.")
    expect(result.locator(".sentence")).to_contain_text("In doubt")
    expect(result.locator(".sentence")).to_contain_text("May be worth keeping")
    expect(result.locator(".card")).to_contain_text("The team wants British English in its commit messages")


def test_empty_text_is_rejected_and_changed_text_must_be_previewed_again(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox()
    page = open_page(visit, inbox_service, "#/try")
    press(page, "See what would be learned")
    expect(page.locator(".tried .trouble")).to_contain_text("“A conversation, or plain notes” is empty.")
    result = preview(page, "User: We never deploy on a Friday.")
    page.get_by_role("textbox", name="A conversation, or plain notes").press_sequentially("x")
    expect(result.locator(".learn")).to_contain_text("The text has changed since.")
    expect(result.get_by_role("button", name="Learn all of it")).to_have_count(0)
    assert inbox_service.keeper.inbox_status().captured == 0


# ── Hostile text ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hostile_text_is_shown_as_text(inbox: Open, visit: Visitor) -> None:
    long_text = "word " * 2_000
    inbox_service = inbox(
        lambda service: (
            service.learn(
                f"User: We switched from {HOSTILE} to Drizzle.\nAssistant: {HOSTILE}",
                client=HOSTILE[:60],
                session=HOSTILE,
            ),
            service.learn(f"User: {long_text}\nAssistant: {long_text}"),
            service.park(f"User: {HOSTILE}", reason=HOSTILE),
        )
    )
    page = open_page(visit, inbox_service)
    detail = open_capture(page, "We switched from")
    expect(detail.locator("blockquote").first).to_contain_text("<script>alert(2)</script>{{7*7}}")
    assert page.locator("#captures img, #captures script").count() == 0
    detail = open_capture(page, "word word")
    toggle = detail.locator(".folded button").first
    expect(toggle).to_have_text("Show all 9,999 characters")
    box = detail.locator("blockquote").first.bounding_box()
    assert box
    assert box["height"] < 300
    toggle.click()
    expect(toggle).to_have_text("Show less")
    assert overflow(page) == 0
    page.goto(f"{page.url.split('#')[0]}#/try")
    result = preview(page, f"User: We switched from {HOSTILE} to Drizzle. {'x' * 10_000}")
    expect(result.locator(".sentence").first).to_contain_text("<img src=x")  # the element is not the user's words
    assert page.locator("#trying img, #trying script").count() == 0
    assert overflow(page) == 0


# ── Permissions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def open_with_key(visit: Visitor, inbox_service: Inbox, role: str, **fields: str) -> Page:
    _, secret = inbox_service.keeper.create_key(Grant(name=role, role=role, **fields))
    page = open_page(visit, inbox_service)
    page.get_by_label("API key").fill(secret)
    press(page, "Open")
    return page


def test_read_key_gets_an_explanation(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(add_captures)
    page = open_with_key(visit, inbox_service, "read", user="ada")
    expect(page.locator(".empty")).to_contain_text("The inbox is for keys that may write")
    expect(page.get_by_role("link", name="Try a conversation")).to_have_count(0)
    assert accessibility_violations(page) == []


def test_write_key_sees_own_captures_without_counts(inbox: Open, visit: Visitor) -> None:
    inbox_service = inbox(add_captures)
    page = open_with_key(visit, inbox_service, "write", user="ann")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("We switched from MySQL")
    expect(page.locator("#states .count")).to_have_count(0)
    open_capture(page, "We switched from MySQL")
    page.goto(f"{page.url.split('#')[0]}#/try")
    result = preview(page, "User: We never deploy on a Friday.")
    press(result, "Learn all of it")
    expect(result.locator(".learn")).to_contain_text("Learned: 1 kept.")


# ── Accessibility ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_skip_link_keeps_the_current_tab(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(add_captures), "#/rejected")
    expect(page.locator("#states [aria-current]")).to_contain_text("Rejected")
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    assert page.url.endswith("#/rejected")
    expect(page.locator("#states [aria-current]")).to_contain_text("Rejected")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(inbox: Open, visit: Visitor, scheme: str) -> None:
    page = open_page(visit, inbox(add_captures), color_scheme=scheme)
    expect(rows(page)).to_have_count(8)
    assert accessibility_violations(page) == []
    open_capture(page, "Flag AAPL").locator("summary").click()
    assert accessibility_violations(page) == []
    screenshot(page, f"inbox{'-dark' if scheme == 'dark' else ''}")
    page.goto(f"{page.url.split('#')[0]}#/try")
    preview(page, CONVERSATION)
    assert accessibility_violations(page) == []
    screenshot(page, f"inbox-try{'-dark' if scheme == 'dark' else ''}")


def test_page_fits_a_phone(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(add_captures), viewport=PHONE)
    open_capture(page, "Flag AAPL")
    assert overflow(page) == 0
    screenshot(page, "inbox-phone")
    page.goto(f"{page.url.split('#')[0]}#/try")
    preview(page, CONVERSATION)
    assert overflow(page) == 0
    screenshot(page, "inbox-try-phone")


def test_page_works_by_keyboard(inbox: Open, visit: Visitor) -> None:
    page = open_page(visit, inbox(add_captures))
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
