"""The page about upkeep, as a person uses it: dry runs as differences, approved one by one, and contradictions."""

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
from cofio.judgement.model import LocalJudge
from cofio.maintenance.service import MaintenanceOptions
from cofio.models.auth import Grant
from cofio.models.llm_calls import CallOrigin, Limits
from cofio.ports import LLM, Completion
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, ScriptedLLM
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.ui.conftest import PHONE, Visitor, at, hindrances, overflow, picture

DAY = 86_400.0
PLACE = {"source": "claude-code/shop", "project": "/srv/shop"}
WEIRD = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} \u202eback'
BACKUP = "The nightly backup of the billing database"
CLUSTER = (f"{BACKUP} runs at 02:00", f"{BACKUP} is kept for 30 days", f"{BACKUP} never includes the audit table")
MERGED = f"{BACKUP} runs at 02:00, is kept for 30 days and never includes the audit table."
IMPORT = "The hourly import of the partner catalogue"
OTHERS = (f"{IMPORT} takes 20 minutes", f"{IMPORT} covers 12 suppliers", f"{IMPORT} reads from an S3 bucket")
OLD, NEW = "The staging API listens on port 8080", "The staging API listens on port 9090"
NOW = "2026-01-18T12:00:00Z"


class Merger(ScriptedLLM):
    """A model that merges the backups well, and the imports badly."""

    def __init__(self) -> None:
        super().__init__([])

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        text = MERGED if BACKUP in user else f"{IMPORT} takes 45 minutes and covers 12 suppliers."
        return Completion(json.dumps({"facts": [{"text": text, "category": "detail", "memories": ["m1", "m2", "m3"]}]}))


class House:
    """A service, with its keeper and its clock."""

    def __init__(self, keeper: Keeper, clock: FixedClock, url: str = "") -> None:
        self.keeper, self.clock, self.caller = keeper, clock, Caller(url) if url else None

    def add(self, *texts: str, **about: Any) -> list[int]:
        """Their ids; each a day after the one before."""
        ids = []
        for text in texts:
            self.clock.advance(DAY)
            ids.append(self.keeper.add(text, dedup=False, **{**PLACE, **about}).memory_id)
        return ids

    def live(self) -> set[int]:
        return {memory.id for memory in self.keeper.list(limit=1_000).memories}


Open = Callable[..., House]


@pytest.fixture
def house(tmp_path: Path, afterwards: Callable[[Callable[[], None]], None], judge: LocalJudge) -> Iterator[Open]:
    """Makes a service that asks the judgement model; what is given is done to its keeper before."""
    stack = ExitStack()

    def make(before: Callable[[House], Any] = lambda _: None, llm: LLM | None = None, **settings: Any) -> House:
        clock = FixedClock()
        store = SqliteStore(tmp_path / "cofio.db", clock)
        keeper = Keeper(
            store, HashEmbedder(), clock, llm=llm, maintenance=MaintenanceOptions(similarity=0.5), judge=judge
        )
        stack.enter_context(keeper)
        before(House(keeper, clock))
        return House(keeper, clock, stack.enter_context(serving(keeper, **settings)))

    yield make
    afterwards(stack.close)


def open_page(visit: Visitor, here: House, where: str = "", **how: Any) -> Page:
    """The page at about the time that the memories are of."""
    assert here.caller
    return at(visit(here.caller, f"/ui/upkeep{where}", **how), NOW)


def press(where: Page | Locator, name: str) -> None:
    where.get_by_role("button", name=name, exact=True).click()


def look(page: Page, for_what: str) -> Locator:
    """The cards that were found."""
    press(page, f"Look for {for_what}")
    expect(page.locator(".plan [role=status]")).to_be_visible()
    return page.locator(".plan .card")


def undo(where: Locator) -> None:
    where.get_by_role("button", name="Undo").click()


def told(page: Page) -> Locator:
    return page.locator(".plan [role=status]")


def repeating(here: House) -> None:
    here.add("We deploy with Fly.io", "We deploy with Fly.io.", "we deploy with Fly.io")
    here.add(*CLUSTER, *OTHERS, "Ann reviews whatever touches billing")


def unused(here: House) -> None:
    here.add("The printer is on floor two", "The kettle in the kitchen is new", "The old wiki is read-only")
    here.add("asked for every day")
    for _ in range(70):
        here.keeper.search("asked for every day", k=1)
        here.clock.advance(DAY)
    for number in range(16):  # of few memories a fifth is none
        here.add(f"Ticket {number} is about the {('red', 'green', 'blue')[number % 3]} button")


def contradicting(here: House) -> None:
    here.add(OLD, NEW, "Sessions expire after 30 minutes of inactivity", "Ann reviews whatever touches billing")
    here.add("Sessions expire after 60 minutes of inactivity")


# ── repeats ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_copies_are_shown_as_what_goes_and_what_stays_and_nothing_is_changed_by_looking(
    house: Open, visit: Visitor
) -> None:
    here = house(repeating)
    before = here.live()
    page = open_page(visit, here)
    cards = look(page, "duplicates")
    expect(told(page)).to_have_text("10 memories were looked at. One merge is proposed.")
    expect(cards).to_have_count(1)  # what touches the same memories belongs together
    expect(cards.locator(".side.gone")).to_have_count(2)
    expect(cards.locator(".side.come")).to_contain_text("We deploy with Fly.io.")
    expect(cards.locator(".side.gone del")).to_have_text("we")
    expect(cards.get_by_role("link").first).to_have_attribute("href", "memories#/1")
    expect(cards).to_contain_text("it is said in the same words")
    assert here.live() == before


def test_a_merge_of_the_model_is_approved_and_undone_and_approved_again(house: Open, visit: Visitor) -> None:
    here = house(repeating, llm=Merger())
    before = here.live()
    page = open_page(visit, here)
    card = look(page, "duplicates").filter(has_text=BACKUP)
    comes = card.locator(".side.come")
    expect(comes).to_contain_text(MERGED)
    expect(comes.locator("ins").first).to_have_text(",")
    expect(card.locator(".side.gone")).to_have_count(3)
    expect(card).to_contain_text("one fact in the place of 3 memories")
    press(card, "Approve")
    expect(card).to_contain_text("Done")
    assert len(here.live()) == len(before) - 2
    assert here.keeper.changes(limit=1)[0].why == "approved: consolidate"
    assert here.keeper.changes(limit=1)[0].by == "page"
    expect(card.get_by_role("button", name="Undo")).to_be_focused()
    undo(card)
    expect(card.get_by_role("button", name="Approve")).to_be_focused()
    assert here.live() == before
    press(card, "Approve")
    expect(card).to_contain_text("Done")
    assert len(here.live()) == len(before) - 2


def test_a_long_look_says_that_it_goes_on(house: Open, visit: Visitor) -> None:
    go_on = threading.Event()

    class Slow(Merger):
        """A model that thinks until it is told to go on."""

        def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
            assert go_on.wait(60)
            return super().complete(system, user, schema=schema)

    page = open_page(visit, house(repeating, llm=Slow()))
    try:
        press(page, "Look for duplicates")
        expect(page.locator(".busy")).to_contain_text("Looking through the memories")
        expect(page.get_by_role("button", name="Look for duplicates")).to_have_attribute("aria-busy", "true")
        assert hindrances(page) == []
    finally:
        go_on.set()
    expect(page.locator(".plan .card")).to_have_count(2)
    expect(page.locator(".busy")).to_be_hidden()


def test_what_is_refused_is_told_with_the_reason(house: Open, visit: Visitor) -> None:
    page = open_page(visit, house(repeating, llm=Merger()))
    look(page, "duplicates")
    page.get_by_text("One was left as it is, and why").click()
    refused = page.locator(".refused")
    expect(refused).to_contain_text("lost")
    expect(refused).to_contain_text("proposed: The hourly import of the partner catalogue takes 45 minutes")
    expect(refused.get_by_role("link").first).to_be_visible()


def test_all_are_approved_but_what_is_left_and_undone_at_once(house: Open, visit: Visitor) -> None:
    here = house(lambda it: it.add(*(f"Rule {n} is kept" for n in range(4) for _ in range(2))))
    before = here.live()
    page = open_page(visit, here)
    cards = look(page, "duplicates")
    expect(cards).to_have_count(4)
    press(cards.first, "Leave")
    expect(cards.first).to_contain_text("Left as it is")
    press(page, "Approve all")
    expect(page.locator(".notice")).to_contain_text("All 3 are done.")
    assert len(here.live()) == len(before) - 3
    expect(cards.filter(has_text="Approved with all the others.")).to_have_count(3)
    press(page, "Undo all")
    expect(page.get_by_role("button", name="Approve all")).to_be_focused()
    assert here.live() == before
    press(cards.first, "Bring back")
    press(cards.first, "Approve")
    expect(cards.first).to_contain_text("Done")
    expect(page.locator(".notice")).to_contain_text("Done.")
    assert len(here.live()) == len(before) - 1
    undo(cards.first)
    expect(page.locator(".notice")).to_contain_text("Undone.")
    press(page, "Approve all")  # some were taken back together, one by itself
    expect(page.locator(".notice")).to_contain_text("All 4 are done.")
    assert len(here.live()) == len(before) - 4
    press(page, "Undo all")
    expect(page.get_by_role("button", name="Approve all")).to_be_focused()
    assert here.live() == before


def test_what_was_touched_meanwhile_is_refused_with_the_reason(house: Open, visit: Visitor) -> None:
    here = house(repeating)
    page = open_page(visit, here)
    card = look(page, "duplicates").first
    here.keeper.update(2, pinned=True)
    visit.expected.add(409)
    press(card, "Approve")
    expect(page.locator(".notice")).to_contain_text("Memory 2 was changed or retrieved since this was shown.")
    expect(card.get_by_role("button", name="Approve")).to_be_visible()


def test_many_cards_come_a_few_at_a_time(house: Open, visit: Visitor) -> None:
    here = house(lambda it: it.add(*(f"Rule number {n} says {n * n}" for n in range(30) for _ in range(2))))
    page = open_page(visit, here)
    cards = look(page, "duplicates")
    expect(cards).to_have_count(20)
    press(page, "Show more of the other 10")
    expect(cards).to_have_count(30)
    expect(cards.nth(20)).to_be_focused()


# ── unused ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_nobody_asks_for_is_set_aside_one_by_one(house: Open, visit: Visitor) -> None:
    here = house(unused)
    before = here.live()
    page = open_page(visit, here, "#/unused")
    cards = look(page, "unused memories")
    expect(cards).to_have_count(3)
    expect(told(page)).to_contain_text("3 would be archived.")
    kettle = cards.filter(has_text="kettle")
    expect(kettle).to_contain_text("never recalled in the")
    press(kettle, "Approve")
    expect(kettle).to_contain_text("Done")
    assert before - here.live() == {2}
    undo(kettle)
    expect(kettle.get_by_role("button", name="Approve")).to_be_visible()
    assert here.live() == before
    here.keeper.search("The kettle in the kitchen is new", k=1)
    visit.expected.add(409)
    press(kettle, "Approve")
    expect(page.locator(".notice")).to_contain_text("retrieved since")
    assert here.live() == before


def test_why_nothing_is_set_aside_is_told(house: Open, visit: Visitor) -> None:
    page = open_page(visit, house(contradicting), "#/unused")
    look(page, "unused memories")
    expect(told(page)).to_contain_text("There is nothing to archive.")
    expect(page.locator(".plan")).to_contain_text("no retrieval was ever recorded")


# ── contradictions ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_contradictions_stand_side_by_side_with_the_words_that_differ(house: Open, visit: Visitor) -> None:
    page = open_page(visit, house(contradicting), "#/contradictions")
    cards = look(page, "contradictions")
    expect(told(page)).to_have_text("2 pairs cannot both hold.")
    port = cards.filter(has_text="staging")
    expect(port.locator(".side.gone")).to_contain_text("Older")
    expect(port.locator(".side.gone del")).to_have_text("8080")
    expect(port.locator(".side.come")).to_contain_text("Newer")
    expect(port.locator(".side.come ins")).to_have_text("9090")
    expect(port).to_contain_text("it has changed")


@pytest.mark.parametrize(
    ("button", "says", "gone"),
    [
        ("Newer holds", "The newer holds; the older is archived.", {1}),
        ("Older holds", "The older holds; the newer is archived.", {2}),
        ("Both hold", "Both hold.", set()),
        ("Neither holds", "Neither holds; both are archived.", {1, 2}),
    ],
)
def test_a_contradiction_is_settled_and_the_settlement_taken_back(
    house: Open, visit: Visitor, button: str, says: str, gone: set[int]
) -> None:
    here = house(contradicting)
    before = here.live()
    page = open_page(visit, here, "#/contradictions")
    card = look(page, "contradictions").filter(has_text="staging")
    press(card, button)
    expect(card).to_contain_text(says)
    assert before - here.live() == gone
    if button == "Newer holds":
        assert here.keeper.get(1).superseded_by == 2
    assert here.keeper.contradictions().count == 1
    undo(card)
    expect(card.get_by_role("button", name=button)).to_be_visible()
    assert here.live() == before
    press(card, button)  # as of the undo
    expect(card).to_contain_text(says)


def test_other_pairs_of_a_memory_follow(house: Open, visit: Visitor) -> None:
    here = house(lambda it: it.add(OLD, NEW, "The staging API listens on port 7070"))
    page = open_page(visit, here, "#/contradictions")
    cards = look(page, "contradictions")
    expect(cards).to_have_count(3)
    newest = cards.filter(has=page.locator("ins", has_text="7070"))
    press(newest.filter(has_text="9090"), "Newer holds")
    expect(cards.filter(has_text="Settled along with another pair.")).to_have_count(1)
    press(newest.filter(has_text="8080"), "Newer holds")  # the heir was touched, by us
    expect(newest.filter(has_text="8080")).to_contain_text("The newer holds")
    assert here.live() == {3}


def test_a_calm_store_says_so(house: Open, visit: Visitor) -> None:
    page = open_page(visit, house(), "#/contradictions")
    look(page, "contradictions")
    expect(told(page)).to_have_text("No contradictions found.")
    page.get_by_role("link", name="Repeats").click()
    look(page, "duplicates")
    expect(told(page)).to_have_text("0 memories were looked at. No duplicates found.")


# ── use and runs ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_use_is_shown_in_short_lists(house: Open, visit: Visitor) -> None:
    here = house(unused)
    page = open_page(visit, here, "#/use")
    most = page.get_by_role("region", name="Recalled most")
    expect(most).to_contain_text("asked for every day")
    expect(most).to_contain_text("recalled 70 times")
    never = page.get_by_role("region", name="Never recalled, the oldest first")
    expect(never.get_by_role("listitem")).to_have_count(8)
    expect(never.get_by_role("link").first).to_have_attribute("href", "memories#/1")
    press(never, "Show more")
    expect(never.get_by_role("listitem")).to_have_count(19)
    stale = page.get_by_role("region", name="Not recalled for 90 days")
    expect(stale).to_contain_text("Every recalled memory was used since then.")


def test_model_calls_are_shown_with_their_texts(house: Open, visit: Visitor) -> None:
    def called(it: House) -> None:
        log = it.keeper.services.access.store.llm_calls
        for session in ("s1", "s2"):
            about = CallOrigin(purpose="learn", client="codex", session=session)
            number = log.start("anthropic", "small", about, f"question {WEIRD}", characters=400, limits=Limits())
            log.finish(number, "done", seconds=1.0, reply="an answer", tokens=(1_000, 20))

    page = open_page(visit, house(called), "#/calls")
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
    assert hindrances(page) == []


def test_what_ran_is_told_and_taken_back(house: Open, visit: Visitor) -> None:
    here = house(lambda it: (repeating(it), it.keeper.consolidate(dry_run=False, by="schedule"), it.keeper.prune(
        dry_run=False, by="ann")), maintenance_enabled=True, prune_schedule="30 4 * * 0")  # fmt: skip
    page = open_page(visit, here)
    runs = page.get_by_role("region", name="What ran").locator(".run")
    expect(runs).to_have_count(2)
    expect(runs.first).to_contain_text("Archiving unused memories")
    expect(runs.first).to_contain_text("by ann")
    expect(runs.last).to_contain_text("2 done, 0 left")
    itself = page.get_by_role("region", name="By itself")
    expect(itself).to_contain_text("every day at 03:00")
    expect(itself).to_contain_text("Sundays at 04:30")
    undo(runs.last)
    expect(runs.last.locator(".tag")).to_have_text("undone")
    assert len(here.live()) == 10


def test_without_a_schedule_it_says_how_to_have_one(house: Open, visit: Visitor) -> None:
    page = open_page(visit, house())
    expect(page.get_by_role("region", name="By itself")).to_contain_text("MAINTENANCE_ENABLED=true")
    expect(page.get_by_role("region", name="What ran")).to_contain_text("Nothing ran yet.")


def test_a_plan_stays_while_one_looks_elsewhere(house: Open, visit: Visitor) -> None:
    page = open_page(visit, house(repeating))
    cards = look(page, "duplicates")
    press(cards.first, "Approve")
    expect(cards.first).to_contain_text("Done")
    page.get_by_role("link", name="Use", exact=True).click()
    expect(page.get_by_role("region", name="Recalled most")).to_be_visible()
    page.go_back()
    expect(cards.first).to_contain_text("Done")


# ── hostile texts ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_whatever_a_memory_says_is_shown_as_it_is_and_does_nothing(house: Open, visit: Visitor) -> None:
    here = house(
        lambda it: (
            it.add(f"We deploy with {WEIRD}", f"We deploy with {WEIRD}", tags=(WEIRD,)),
            it.add("The plan is " + "long " * 2_000, "The plan is " + "long " * 2_000),
            it.add(f"The {WEIRD} listens on port 8080", f"The {WEIRD} listens on port 9090"),
        )
    )
    page = open_page(visit, here)
    cards = look(page, "duplicates")
    expect(cards.filter(has_text="alert(2)").first).to_contain_text("<script>alert(2)</script>{{7*7}}")
    assert page.locator("main img, main script").count() == 0
    long = cards.filter(has_text="The plan is").first
    expect(long.get_by_role("button", name="Show all 10,011 characters")).to_have_count(2)
    assert overflow(page) == 0
    long.locator(".folded button").first.click()
    assert overflow(page) == 0
    page.get_by_role("link", name="Contradictions").click()
    look(page, "contradictions")
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


def test_a_difference_holds_both_texts(house: Open, visit: Visitor) -> None:
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
    page = open_page(visit, house())
    for before, after, nodes in DIFFERENCES:
        inline, one, other = page.evaluate(script, [before, after])
        assert nodes is None or inline == nodes
        assert (one.split(), other.split()) == (before.split(), after.split())


def test_texts_that_are_too_long_to_compare_are_shown_all_the_same(house: Open, visit: Visitor) -> None:
    script = """async () => {
      const { difference } = await import("./diff.js");
      const many = (word) => Array.from({ length: 3000 }, (_, n) => word + n).join(" ");
      return difference(`same ${many("a")} end`, `same ${many("b")} end`).filter((each) => each.tagName).length;
    }"""
    assert open_page(visit, house()).evaluate(script) == 2


# ── who may ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", ["read", "write"])
def test_a_key_that_may_not_is_told_kindly(house: Open, visit: Visitor, role: str) -> None:
    here = house(repeating)
    _, secret = here.keeper.create_key(Grant(name=role, role=role, user="ada"))
    page = open_page(visit, here)
    page.get_by_label("API key").fill(secret)
    press(page, "Open")
    expect(page.locator(".empty")).to_contain_text("Upkeep is for admins")
    expect(page.get_by_role("button", name="Look for duplicates")).to_have_count(0)
    assert hindrances(page) == []


def test_an_admin_with_a_key_does_it_under_their_name(house: Open, visit: Visitor) -> None:
    here = house(repeating)
    _, secret = here.keeper.create_key(Grant(name="root", role="admin"))
    page = open_page(visit, here)
    page.get_by_label("API key").fill(secret)
    press(page, "Open")
    card = look(page, "duplicates").first
    press(card, "Approve")
    expect(card).to_contain_text("Done")
    assert here.keeper.changes(limit=1)[0].by == "root (key 1) · page"


# ── for everybody ─────────────────────────────────────────────────────────────────────────────────────────────────────


def everything(here: House) -> None:
    repeating(here)
    contradicting(here)
    here.keeper.search("when do we deploy?", k=3)
    here.keeper.prune(dry_run=False, by="schedule")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anybody_out(house: Open, visit: Visitor, scheme: str) -> None:
    here = house(everything, llm=Merger(), maintenance_enabled=True)
    page = open_page(visit, here, color_scheme=scheme)
    dark = "-dark" if scheme == "dark" else ""
    expect(page.locator(".run")).to_be_visible()
    assert hindrances(page) == []
    cards = look(page, "duplicates")
    press(cards.filter(has_text="Fly.io"), "Approve")
    expect(cards.filter(has_text="Fly.io")).to_contain_text("Done")
    page.locator(".refused summary").click()
    assert hindrances(page) == []
    picture(page, f"upkeep{dark}")
    page.goto(f"{page.url.split('#')[0]}#/contradictions")
    look(page, "contradictions")
    assert hindrances(page) == []
    picture(page, f"upkeep-contradictions{dark}")
    page.goto(f"{page.url.split('#')[0]}#/use")
    expect(page.get_by_role("region", name="Recalled most").get_by_role("link").first).to_be_visible()
    assert hindrances(page) == []
    picture(page, f"upkeep-use{dark}")


def test_on_a_phone_nothing_is_cut_off(house: Open, visit: Visitor) -> None:
    page = open_page(visit, house(everything, llm=Merger()), viewport=PHONE)
    look(page, "duplicates")
    assert overflow(page) == 0
    picture(page, "upkeep-phone")
    page.goto(f"{page.url.split('#')[0]}#/contradictions")
    look(page, "contradictions")
    assert overflow(page) == 0
    picture(page, "upkeep-contradictions-phone")


def test_everything_is_reached_with_the_keyboard(house: Open, visit: Visitor) -> None:
    here = house(contradicting)
    page = open_page(visit, here)
    page.get_by_role("link", name="Unused").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Look for contradictions")).to_be_visible()  # the menu is drawn anew by then
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
