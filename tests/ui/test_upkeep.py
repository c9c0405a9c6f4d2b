"""The maintenance page: dry runs shown as differences, individual approval, and contradictions."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from cofio.core import Keeper
from cofio.judgement.onnx_classifier import LocalJudge
from cofio.maintenance.service import MaintenanceOptions
from cofio.models.auth import Grant
from cofio.models.llm_calls import CallOrigin, Limits
from cofio.ports import LLM, Completion
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.ui.conftest import PHONE, Visitor, accessibility_violations, overflow, screenshot, set_clock

DAY = 86_400.0
ORIGIN = {"source": "claude-code/shop", "project": "/srv/shop"}
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} \u202eback'
BACKUP = "The nightly backup of the billing database"
CLUSTER = (f"{BACKUP} runs at 02:00", f"{BACKUP} is kept for 30 days", f"{BACKUP} never includes the audit table")
MERGED = f"{BACKUP} runs at 02:00, is kept for 30 days and never includes the audit table."
IMPORT = "The hourly import of the partner catalogue"
IMPORT_CLUSTER = (f"{IMPORT} takes 20 minutes", f"{IMPORT} covers 12 suppliers", f"{IMPORT} reads from an S3 bucket")
OLD, NEW = "The staging API listens on port 8080", "The staging API listens on port 9090"
NOW = "2026-01-18T12:00:00Z"


class MergingLLM(ScriptedLLM):
    """An LLM that merges the backups correctly and the imports incorrectly."""

    def __init__(self) -> None:
        super().__init__([])

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        text = MERGED if BACKUP in user else f"{IMPORT} takes 45 minutes and covers 12 suppliers."
        return Completion(json.dumps({"facts": [{"text": text, "category": "detail", "memories": ["m1", "m2", "m3"]}]}))


class MaintenanceService:
    """A service with its keeper and its clock."""

    def __init__(self, keeper: Keeper, clock: FixedClock, url: str = "") -> None:
        self.keeper, self.clock, self.caller = keeper, clock, Caller(url) if url else None

    def add(self, *texts: str, **fields: Any) -> list[int]:
        """Add memories one day apart and return their ids."""
        ids = []
        for text in texts:
            self.clock.advance(DAY)
            ids.append(self.keeper.add(text, dedup=False, **{**ORIGIN, **fields}).memory_id)
        return ids

    def live_ids(self) -> set[int]:
        return {memory.id for memory in self.keeper.list(limit=1_000).memories}


Open = Callable[..., MaintenanceService]


@pytest.fixture
def start_service(
    tmp_path: Path, run_in_background: Callable[[Callable[[], None]], None], judge: LocalJudge
) -> Iterator[Open]:
    """Start a service with the judgement model, after preparing its keeper."""
    stack = ExitStack()

    def make(
        prepare: Callable[[MaintenanceService], Any] = lambda _: None, llm: LLM | None = None, **settings: Any
    ) -> MaintenanceService:
        clock = FixedClock()
        store = SqliteStore(tmp_path / "cofio.db", clock)
        keeper = Keeper(
            store, HashEmbedder(), clock, llm=llm, maintenance=MaintenanceOptions(similarity=0.5), judge=judge
        )
        stack.enter_context(keeper)
        prepare(MaintenanceService(keeper, clock))
        return MaintenanceService(keeper, clock, stack.enter_context(serving(keeper, **settings)))

    yield make
    run_in_background(stack.close)


def open_page(visit: Visitor, service: MaintenanceService, fragment: str = "", **options: Any) -> Page:
    """Open the page at about the time of the memories."""
    assert service.caller
    return set_clock(visit(service.caller, f"/ui/upkeep{fragment}", **options), NOW)


def press(scope: Page | Locator, name: str) -> None:
    scope.get_by_role("button", name=name, exact=True).click()


def run_check(page: Page, subject: str) -> Locator:
    """Run a check and return the cards."""
    press(page, f"Look for {subject}")
    expect(page.locator(".plan [role=status]")).to_be_visible()
    return page.locator(".plan .card")


def undo(scope: Locator) -> None:
    scope.get_by_role("button", name="Undo").click()


def status(page: Page) -> Locator:
    return page.locator(".plan [role=status]")


def add_duplicates(service: MaintenanceService) -> None:
    service.add("We deploy with Fly.io", "We deploy with Fly.io.", "we deploy with Fly.io")
    service.add(*CLUSTER, *IMPORT_CLUSTER, "Ann reviews whatever touches billing")


def add_unused(service: MaintenanceService) -> None:
    service.add("The printer is on floor two", "The kettle in the kitchen is new", "The old wiki is read-only")
    service.add("asked for every day")
    for _ in range(70):
        service.keeper.search("asked for every day", k=1)
        service.clock.advance(DAY)
    for number in range(16):  # a fifth of a few memories is none
        service.add(f"Ticket {number} is about the {('red', 'green', 'blue')[number % 3]} button")


def add_contradictions(service: MaintenanceService) -> None:
    service.add(OLD, NEW, "Sessions expire after 30 minutes of inactivity", "Ann reviews whatever touches billing")
    service.add("Sessions expire after 60 minutes of inactivity")


# ── Duplicates ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_duplicates_are_shown_as_removed_and_kept_without_changes(start_service: Open, visit: Visitor) -> None:
    service = start_service(add_duplicates)
    live_before = service.live_ids()
    page = open_page(visit, service)
    cards = run_check(page, "duplicates")
    expect(status(page)).to_have_text("10 memories were looked at. One merge is proposed.")
    expect(cards).to_have_count(1)  # overlapping groups are one card
    expect(cards.locator(".side.gone")).to_have_count(2)
    expect(cards.locator(".side.come")).to_contain_text("We deploy with Fly.io.")
    expect(cards.locator(".side.gone del")).to_have_text("we")
    expect(cards.get_by_role("link").first).to_have_attribute("href", "memories#/1")
    expect(cards).to_contain_text("it is said in the same words")
    assert service.live_ids() == live_before


def test_merge_by_the_llm_is_approved_undone_and_approved_again(start_service: Open, visit: Visitor) -> None:
    service = start_service(add_duplicates, llm=MergingLLM())
    live_before = service.live_ids()
    page = open_page(visit, service)
    card = run_check(page, "duplicates").filter(has_text=BACKUP)
    merged_side = card.locator(".side.come")
    expect(merged_side).to_contain_text(MERGED)
    expect(merged_side.locator("ins").first).to_have_text(",")
    expect(card.locator(".side.gone")).to_have_count(3)
    expect(card).to_contain_text("one fact in the place of 3 memories")
    press(card, "Approve")
    expect(card).to_contain_text("Done")
    assert len(service.live_ids()) == len(live_before) - 2
    assert service.keeper.changes(limit=1)[0].why == "approved: consolidate"
    assert service.keeper.changes(limit=1)[0].by == "page"
    expect(card.get_by_role("button", name="Undo")).to_be_focused()
    undo(card)
    expect(card.get_by_role("button", name="Approve")).to_be_focused()
    assert service.live_ids() == live_before
    press(card, "Approve")
    expect(card).to_contain_text("Done")
    assert len(service.live_ids()) == len(live_before) - 2


def test_long_check_shows_its_progress(start_service: Open, visit: Visitor) -> None:
    may_continue = threading.Event()

    class SlowLLM(MergingLLM):
        """An LLM that waits for an event."""

        def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
            assert may_continue.wait(60)
            return super().complete(system, user, schema=schema)

    page = open_page(visit, start_service(add_duplicates, llm=SlowLLM()))
    try:
        press(page, "Look for duplicates")
        expect(page.locator(".busy")).to_contain_text("Looking through the memories")
        expect(page.get_by_role("button", name="Look for duplicates")).to_have_attribute("aria-busy", "true")
        assert accessibility_violations(page) == []
    finally:
        may_continue.set()
    expect(page.locator(".plan .card")).to_have_count(2)
    expect(page.locator(".busy")).to_be_hidden()


def test_rejected_merge_is_shown_with_its_reason(start_service: Open, visit: Visitor) -> None:
    page = open_page(visit, start_service(add_duplicates, llm=MergingLLM()))
    run_check(page, "duplicates")
    page.get_by_text("One was left as it is, and why").click()
    rejected = page.locator(".refused")
    expect(rejected).to_contain_text("lost")
    expect(rejected).to_contain_text("proposed: The hourly import of the partner catalogue takes 45 minutes")
    expect(rejected.get_by_role("link").first).to_be_visible()


def test_all_but_dismissed_cards_are_approved_and_undone(start_service: Open, visit: Visitor) -> None:
    service = start_service(lambda prepared: prepared.add(*(f"Rule {n} is kept" for n in range(4) for _ in range(2))))
    live_before = service.live_ids()
    page = open_page(visit, service)
    cards = run_check(page, "duplicates")
    expect(cards).to_have_count(4)
    press(cards.first, "Leave")
    expect(cards.first).to_contain_text("Left as it is")
    press(page, "Approve all")
    expect(page.locator(".notice")).to_contain_text("All 3 are done.")
    assert len(service.live_ids()) == len(live_before) - 3
    expect(cards.filter(has_text="Approved with all the others.")).to_have_count(3)
    press(page, "Undo all")
    expect(page.get_by_role("button", name="Approve all")).to_be_focused()
    assert service.live_ids() == live_before
    press(cards.first, "Bring back")
    press(cards.first, "Approve")
    expect(cards.first).to_contain_text("Done")
    expect(page.locator(".notice")).to_contain_text("Done.")
    assert len(service.live_ids()) == len(live_before) - 1
    undo(cards.first)
    expect(page.locator(".notice")).to_contain_text("Undone.")
    press(page, "Approve all")  # some were undone together, one individually
    expect(page.locator(".notice")).to_contain_text("All 4 are done.")
    assert len(service.live_ids()) == len(live_before) - 4
    press(page, "Undo all")
    expect(page.get_by_role("button", name="Approve all")).to_be_focused()
    assert service.live_ids() == live_before


def test_change_in_the_meantime_is_rejected_with_the_reason(start_service: Open, visit: Visitor) -> None:
    service = start_service(add_duplicates)
    page = open_page(visit, service)
    card = run_check(page, "duplicates").first
    service.keeper.update(2, pinned=True)
    visit.expected.add(409)
    press(card, "Approve")
    expect(page.locator(".notice")).to_contain_text("Memory 2 was changed or retrieved since the plan was made.")
    expect(card.get_by_role("button", name="Approve")).to_be_visible()


def test_cards_are_paged(start_service: Open, visit: Visitor) -> None:
    service = start_service(
        lambda prepared: prepared.add(*(f"Rule number {n} says {n * n}" for n in range(30) for _ in range(2)))
    )
    page = open_page(visit, service)
    cards = run_check(page, "duplicates")
    expect(cards).to_have_count(20)
    press(page, "Show more of the other 10")
    expect(cards).to_have_count(30)
    expect(cards.nth(20)).to_be_focused()


# ── Unused memories ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_unused_memories_are_archived_individually(start_service: Open, visit: Visitor) -> None:
    service = start_service(add_unused)
    live_before = service.live_ids()
    page = open_page(visit, service, "#/unused")
    cards = run_check(page, "unused memories")
    expect(cards).to_have_count(3)
    expect(status(page)).to_contain_text("3 would be archived.")
    kettle = cards.filter(has_text="kettle")
    expect(kettle).to_contain_text("never recalled in the")
    press(kettle, "Approve")
    expect(kettle).to_contain_text("Done")
    assert live_before - service.live_ids() == {2}
    undo(kettle)
    expect(kettle.get_by_role("button", name="Approve")).to_be_visible()
    assert service.live_ids() == live_before
    service.keeper.search("The kettle in the kitchen is new", k=1)
    visit.expected.add(409)
    press(kettle, "Approve")
    expect(page.locator(".notice")).to_contain_text("retrieved since")
    assert service.live_ids() == live_before


def test_reason_for_no_unused_memories_is_shown(start_service: Open, visit: Visitor) -> None:
    page = open_page(visit, start_service(add_contradictions), "#/unused")
    run_check(page, "unused memories")
    expect(status(page)).to_contain_text("There is nothing to archive.")
    expect(page.locator(".plan")).to_contain_text("no retrieval was ever recorded")


# ── Contradictions ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_contradictions_are_compared_word_by_word(start_service: Open, visit: Visitor) -> None:
    page = open_page(visit, start_service(add_contradictions), "#/contradictions")
    cards = run_check(page, "contradictions")
    expect(status(page)).to_have_text("2 pairs cannot both hold.")
    port = cards.filter(has_text="staging")
    expect(port.locator(".side.gone")).to_contain_text("Older")
    expect(port.locator(".side.gone del")).to_have_text("8080")
    expect(port.locator(".side.come")).to_contain_text("Newer")
    expect(port.locator(".side.come ins")).to_have_text("9090")
    expect(port).to_contain_text("it has changed")


@pytest.mark.parametrize(
    ("button", "result", "archived"),
    [
        ("Newer holds", "The newer holds; the older is archived.", {1}),
        ("Older holds", "The older holds; the newer is archived.", {2}),
        ("Both hold", "Both hold.", set()),
        ("Neither holds", "Neither holds; both are archived.", {1, 2}),
    ],
)
def test_contradiction_is_resolved_and_undone(
    start_service: Open, visit: Visitor, button: str, result: str, archived: set[int]
) -> None:
    service = start_service(add_contradictions)
    live_before = service.live_ids()
    page = open_page(visit, service, "#/contradictions")
    card = run_check(page, "contradictions").filter(has_text="staging")
    press(card, button)
    expect(card).to_contain_text(result)
    assert live_before - service.live_ids() == archived
    if button == "Newer holds":
        assert service.keeper.get(1).superseded_by == 2
    assert service.keeper.contradictions().count == 1
    undo(card)
    expect(card.get_by_role("button", name=button)).to_be_visible()
    assert service.live_ids() == live_before
    press(card, button)  # also after the undo
    expect(card).to_contain_text(result)


def test_other_pairs_of_a_memory_are_updated(start_service: Open, visit: Visitor) -> None:
    service = start_service(lambda prepared: prepared.add(OLD, NEW, "The staging API listens on port 7070"))
    page = open_page(visit, service, "#/contradictions")
    cards = run_check(page, "contradictions")
    expect(cards).to_have_count(3)
    newest = cards.filter(has=page.locator("ins", has_text="7070"))
    press(newest.filter(has_text="9090"), "Newer holds")
    expect(cards.filter(has_text="Settled along with another pair.")).to_have_count(1)
    press(newest.filter(has_text="8080"), "Newer holds")  # this page changed the successor
    expect(newest.filter(has_text="8080")).to_contain_text("The newer holds")
    assert service.live_ids() == {3}


def test_store_without_findings_says_so(start_service: Open, visit: Visitor) -> None:
    page = open_page(visit, start_service(), "#/contradictions")
    run_check(page, "contradictions")
    expect(status(page)).to_have_text("No contradictions found.")
    page.get_by_role("link", name="Repeats").click()
    run_check(page, "duplicates")
    expect(status(page)).to_have_text("0 memories were looked at. No duplicates found.")


# ── Usage and runs ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_usage_is_listed(start_service: Open, visit: Visitor) -> None:
    service = start_service(add_unused)
    page = open_page(visit, service, "#/use")
    most_used = page.get_by_role("region", name="Recalled most")
    expect(most_used).to_contain_text("asked for every day")
    expect(most_used).to_contain_text("recalled 70 times")
    never_used = page.get_by_role("region", name="Never recalled, the oldest first")
    expect(never_used.get_by_role("listitem")).to_have_count(8)
    expect(never_used.get_by_role("link").first).to_have_attribute("href", "memories#/1")
    press(never_used, "Show more")
    expect(never_used.get_by_role("listitem")).to_have_count(19)
    unused = page.get_by_role("region", name="Not recalled for 90 days")
    expect(unused).to_contain_text("Every recalled memory was used since then.")


def test_llm_calls_are_shown_with_their_texts(start_service: Open, visit: Visitor) -> None:
    def add_calls(service: MaintenanceService) -> None:
        log = service.keeper.services.access.store.llm_calls
        for session in ("s1", "s2"):
            call_origin = CallOrigin(purpose="learn", client="codex", session=session)
            number = log.start(
                "anthropic", "small", call_origin, f"question {HOSTILE}", characters=400, limits=Limits()
            )
            log.finish(number, "done", seconds=1.0, reply="an answer", tokens=(1_000, 20))

    page = open_page(visit, start_service(add_calls), "#/calls")
    expect(page.get_by_role("region", name="Budget")).to_contain_text("2 calls without a limit")
    today = page.get_by_role("region", name="Today")
    expect(today.get_by_role("listitem")).to_have_count(3)
    expect(today).to_contain_text("2 calls, 800 characters, 2,000 tokens in, 40 out")
    expect(today).to_contain_text("codex · s1")
    newest = page.get_by_role("region", name="Newest calls")
    newest.locator("summary").first.click()
    expect(newest).to_contain_text("an answer")
    expect(newest).to_contain_text("alert(1)")
    assert overflow(page) == 0
    assert accessibility_violations(page) == []


def test_runs_are_listed_and_undone(start_service: Open, visit: Visitor) -> None:
    service = start_service(
        lambda prepared: (
            add_duplicates(prepared),
            prepared.keeper.consolidate(dry_run=False, by="schedule"),
            prepared.keeper.prune(dry_run=False, by="ann"),
        ),
        maintenance_enabled=True,
        prune_schedule="30 4 * * 0",
    )
    page = open_page(visit, service)
    runs = page.get_by_role("region", name="What ran").locator(".run")
    expect(runs).to_have_count(2)
    expect(runs.first).to_contain_text("Archiving unused memories")
    expect(runs.first).to_contain_text("by ann")
    expect(runs.last).to_contain_text("2 done, 0 left")
    schedule = page.get_by_role("region", name="By itself")
    expect(schedule).to_contain_text("every day at 03:00")
    expect(schedule).to_contain_text("Sundays at 04:30")
    undo(runs.last)
    expect(runs.last.locator(".tag")).to_have_text("undone")
    assert len(service.live_ids()) == 10


def test_missing_schedule_is_explained(start_service: Open, visit: Visitor) -> None:
    page = open_page(visit, start_service())
    expect(page.get_by_role("region", name="By itself")).to_contain_text("MAINTENANCE_ENABLED=true")
    expect(page.get_by_role("region", name="What ran")).to_contain_text("Nothing ran yet.")


def test_plan_is_kept_across_tabs(start_service: Open, visit: Visitor) -> None:
    page = open_page(visit, start_service(add_duplicates))
    cards = run_check(page, "duplicates")
    press(cards.first, "Approve")
    expect(cards.first).to_contain_text("Done")
    page.get_by_role("link", name="Use", exact=True).click()
    expect(page.get_by_role("region", name="Recalled most")).to_be_visible()
    page.go_back()
    expect(cards.first).to_contain_text("Done")


# ── Hostile text ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hostile_and_long_texts_are_shown_as_text(start_service: Open, visit: Visitor) -> None:
    service = start_service(
        lambda prepared: (
            prepared.add(f"We deploy with {HOSTILE}", f"We deploy with {HOSTILE}", tags=(HOSTILE,)),
            prepared.add("The plan is " + "long " * 2_000, "The plan is " + "long " * 2_000),
            prepared.add(f"The {HOSTILE} listens on port 8080", f"The {HOSTILE} listens on port 9090"),
        )
    )
    page = open_page(visit, service)
    cards = run_check(page, "duplicates")
    expect(cards.filter(has_text="alert(2)").first).to_contain_text("<script>alert(2)</script>{{7*7}}")
    assert page.locator("main img, main script").count() == 0
    long_card = cards.filter(has_text="The plan is").first
    expect(long_card.get_by_role("button", name="Show all 10,011 characters")).to_have_count(2)
    assert overflow(page) == 0
    long_card.locator(".folded button").first.click()
    assert overflow(page) == 0
    page.get_by_role("link", name="Contradictions").click()
    run_check(page, "contradictions")
    page.get_by_role("link", name="Use", exact=True).click()
    expect(page.get_by_role("region", name="Never recalled, the oldest first")).to_contain_text("<script>")
    assert page.locator("main img, main script").count() == 0
    assert overflow(page) == 0


DIFFERENCES = [
    ("port 8080", "port 9090", ["port ", "-8080", " ", "+9090"]),
    ("the same", "the same", ["the same"]),
    ("", "all new", ["+all new"]),
    ("all gone", "", ["-all gone"]),
    ("We use Fly.io today", "We use Render today", ["We use ", "-Fly.io", " ", "+Render", " today"]),
    ("a b c d", "a x c d e", ["a ", "-b", " ", "+x", " c d ", "+e"]),
    ("one two three four", "three four one two", None),
    ("größe 8 €", "größe 9 €", ["größe ", "-8", " ", "+9", " €"]),
    ("<b>x</b> y", "<i>x</i> y", None),
]


def test_difference_contains_both_texts(start_service: Open, visit: Visitor) -> None:
    script = """async ([before, after]) => {
      const { difference, sides } = await import("./diff.js");
      const inside = (nodes) => {
        const all = document.createElement("p");
        all.append(...nodes);
        all.normalize();
        return all;
      };
      const told = (each) => ({ DEL: "-", INS: "+" }[each.tagName] ?? "") + each.textContent;
      const [one, other] = sides(before, after).map((nodes) => inside(nodes).textContent);
      return [[...inside(difference(before, after)).childNodes].map(told), one, other];
    }"""
    page = open_page(visit, start_service())
    for before, after, nodes in DIFFERENCES:
        inline, before_text, after_text = page.evaluate(script, [before, after])
        assert nodes is None or inline == nodes
        assert (before_text.split(), after_text.split()) == (before.split(), after.split())


def test_texts_too_long_to_compare_are_shown(start_service: Open, visit: Visitor) -> None:
    script = """async () => {
      const { difference } = await import("./diff.js");
      const many = (word) => Array.from({ length: 3000 }, (_, n) => word + n).join(" ");
      return difference(`same ${many("a")} end`, `same ${many("b")} end`).filter((each) => each.tagName).length;
    }"""
    assert open_page(visit, start_service()).evaluate(script) == 2


# ── Permissions ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", ["read", "write"])
def test_key_without_permission_gets_an_explanation(start_service: Open, visit: Visitor, role: str) -> None:
    service = start_service(add_duplicates)
    _, secret = service.keeper.create_key(Grant(name=role, role=role, user="ada"))
    page = open_page(visit, service)
    page.get_by_label("API key").fill(secret)
    press(page, "Open")
    expect(page.locator(".empty")).to_contain_text("Upkeep is for admins")
    expect(page.get_by_role("button", name="Look for duplicates")).to_have_count(0)
    assert accessibility_violations(page) == []


def test_changes_by_an_admin_key_carry_its_name(start_service: Open, visit: Visitor) -> None:
    service = start_service(add_duplicates)
    _, secret = service.keeper.create_key(Grant(name="root", role="admin"))
    page = open_page(visit, service)
    page.get_by_label("API key").fill(secret)
    press(page, "Open")
    card = run_check(page, "duplicates").first
    press(card, "Approve")
    expect(card).to_contain_text("Done")
    assert service.keeper.changes(limit=1)[0].by == "root (key 1) · page"


# ── Accessibility ─────────────────────────────────────────────────────────────────────────────────────────────────────


def add_everything(service: MaintenanceService) -> None:
    add_duplicates(service)
    add_contradictions(service)
    service.keeper.search("when do we deploy?", k=3)
    service.keeper.prune(dry_run=False, by="schedule")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(start_service: Open, visit: Visitor, scheme: str) -> None:
    service = start_service(add_everything, llm=MergingLLM(), maintenance_enabled=True)
    page = open_page(visit, service, color_scheme=scheme)
    dark = "-dark" if scheme == "dark" else ""
    expect(page.locator(".run")).to_be_visible()
    assert accessibility_violations(page) == []
    cards = run_check(page, "duplicates")
    press(cards.filter(has_text="Fly.io"), "Approve")
    expect(cards.filter(has_text="Fly.io")).to_contain_text("Done")
    page.locator(".refused summary").click()
    assert accessibility_violations(page) == []
    screenshot(page, f"upkeep{dark}")
    page.goto(f"{page.url.split('#')[0]}#/contradictions")
    run_check(page, "contradictions")
    assert accessibility_violations(page) == []
    screenshot(page, f"upkeep-contradictions{dark}")
    page.goto(f"{page.url.split('#')[0]}#/use")
    expect(page.get_by_role("region", name="Recalled most").get_by_role("link").first).to_be_visible()
    assert accessibility_violations(page) == []
    screenshot(page, f"upkeep-use{dark}")


def test_page_fits_a_phone(start_service: Open, visit: Visitor) -> None:
    page = open_page(visit, start_service(add_everything, llm=MergingLLM()), viewport=PHONE)
    run_check(page, "duplicates")
    assert overflow(page) == 0
    screenshot(page, "upkeep-phone")
    page.goto(f"{page.url.split('#')[0]}#/contradictions")
    run_check(page, "contradictions")
    assert overflow(page) == 0
    screenshot(page, "upkeep-contradictions-phone")


def test_page_works_by_keyboard(start_service: Open, visit: Visitor) -> None:
    service = start_service(add_contradictions)
    page = open_page(visit, service)
    page.get_by_role("link", name="Unused").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Look for contradictions")).to_be_visible()  # the menu is redrawn by then
    expect(page.get_by_role("link", name="Contradictions")).to_be_focused()
    for _ in range(3):  # past the links to the next views
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Look for contradictions")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".plan .card")).to_have_count(2)
    expect(page.get_by_role("button", name="Look for contradictions")).to_be_focused()
    for _ in range(3):  # past the links to both memories
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Newer holds").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".card").first.get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Newer holds").first).to_be_focused()
