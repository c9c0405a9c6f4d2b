"""The page of memories, as a person uses it: a real browser, the real service, a real store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from cofio.core import Keeper
from cofio.models.memory import Add, Fact
from cofio.staleness import StalenessChecker
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.ui.conftest import PHONE, Visitor, hindrances, overflow, picture

WEIRD = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} "quoted" & \'so\' \u202eback'
MANY = 10_000
WEB, API, INFRA = "/home/ada/storefront", "/home/ada/checkout-api", "/home/ada/infra"


def told(text: str, kind: str, project: str, agent: str, *tags: str) -> dict[str, Any]:
    source = f"{agent}/{project.rpartition('/')[2]}" if project else agent
    return {"text": text, "kind": kind, "project": project, "agent": agent, "source": source, "tags": list(tags)}


#: What people and agents of a small shop have told, oldest first.
TOLD = [
    told("The storefront is built with Astro; pages are rendered on the server, islands hydrate on demand.",
         "technology", WEB, "claude-code", "frontend"),
    told("Prices are kept in minor units as integers. Never use floats for money.",
         "policy", API, "codex", "money"),
    told("Flaky test: test_refund_webhook fails when the sandbox clock is an hour ahead; freeze time before posting.",
         "learning", API, "claude-code", "tests"),
    told("Terraform state lives in the bucket shop-tfstate, locked with DynamoDB.",
         "observation", INFRA, "codex", "ops"),
    told("Ada prefers small pull requests, one concern each, with the reason in the first line.",
         "preference", "", "claude-code"),
    told("Postgres 16 runs in production; migrations must be reversible and are applied before the rollout.",
         "technology", API, "claude-code", "db", "ops"),
    told("When the cart grows beyond 200 lines the tax service times out; we split the request into batches of 50.",
         "pattern", API, "codex", "tax"),
    told("The on-call rota changes on Mondays at 09:00 Berlin time.",
         "temporal", "", "cursor", "ops"),
    told("Images are served through the CDN with a year of cache; a new hash is a new name.",
         "decision", WEB, "cursor", "frontend"),
    told("Secrets come from Vault at start; nothing is read from .env in production.",
         "policy", INFRA, "codex", "security", "ops"),
    told("We deploy the storefront on Tuesdays and Thursdays, after the smoke tests have passed.",
         "policy", WEB, "claude-code", "release"),
    told("Stripe retries a webhook for three days: handlers are idempotent by event id.",
         "learning", API, "claude-code", "payments"),
]  # fmt: skip


def add(service: Caller, text: str, **about: Any) -> int:
    answer = service.post("/memory/add", {"text": text, **about})
    assert answer.status in (200, 201), answer.json
    return int(answer.json["id"])


@pytest.fixture
def shop(service: Caller) -> Caller:
    """What the shop has told, with one memory that was said anew and one that was learned from a conversation."""
    for each in TOLD:
        add(service, **each)
    said = [
        {"role": "user", "content": "For the record: we switched from Prisma to Drizzle in the checkout API."},
        {"role": "assistant", "content": "Noted. I will write new queries with Drizzle, and leave the old migrations."},
    ]
    heard = {"client": "claude-code", "session": "s-41", "turn": "3", "agent": "claude-code", "project": API}
    service.post("/capture", {"messages": said, "source": "claude-code/checkout-api", **heard, "wait": True})
    new = "We deploy the storefront every weekday before noon, after the smoke tests have passed."
    service.post("/memory/supersede", {"old_id": 11, "new_text": new, "why": "decided in the retro"})
    service.patch("/memory/2", {"pinned": True})
    return service


def lines(page: Page) -> Locator:
    return page.locator("#list").get_by_role("option")


def line(page: Page, says: str) -> Locator:
    return lines(page).filter(has_text=says)


def pane(page: Page) -> Locator:
    return page.locator("#detail")


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def notice(page: Page) -> Locator:
    return page.locator(".notice")


def open_line(page: Page, says: str) -> Locator:
    """The pane with the memory that says so, once all of it is there."""
    line(page, says).locator(".text").click()
    expect(pane(page).locator(".history")).to_be_visible()
    return pane(page)


def search(page: Page, text: str) -> None:
    with page.expect_response("**/search"):
        page.get_by_role("searchbox", name="Search memories").fill(text)
    expect(page.locator("#count")).to_contain_text("best first")
    expect(page.locator("#list[aria-busy]")).to_have_count(0)


def wide(shown: Locator) -> float:
    return float(shown.evaluate("(each) => each.getBoundingClientRect().width"))


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_newest_come_first_and_one_opens_beside_them(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    expect(page.locator("#count")).to_have_text("13 memories, newest first")
    texts = lines(page).locator(".text").all_inner_texts()
    assert texts[0].startswith("We deploy the storefront every weekday")
    assert texts[-1].startswith("The storefront is built with Astro")
    expect(pane(page)).to_contain_text("Open a memory to read it whole")
    detail = open_line(page, "Prices are kept")
    expect(detail.get_by_role("heading", name="Memory 2")).to_be_visible()
    for each in (
        "Decision",
        "policy",
        "pinned",
        "tag money",
        API,
        "codex alone",
        "told by hand, 100 % sure",
        "never yet",
    ):
        expect(detail).to_contain_text(each)
    assert page.url.endswith("/ui/memories#/2")
    expect(line(page, "Prices are kept")).to_have_attribute("aria-current", "true")
    page.go_back()
    expect(pane(page)).to_contain_text("Open a memory to read it whole")


def test_a_search_is_answered_while_one_types_and_says_why(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    page.get_by_role("searchbox").press_sequentially("when do we deploy the storefront", delay=5)
    expect(page.locator("#count")).to_have_text(re.compile(r"\d+ hits, best first"))
    first = lines(page).first
    expect(first).to_contain_text("every weekday")
    expect(first.locator("mark")).to_have_text(["deploy", "storefront"])
    [hit, *_] = shop.post("/search", {"query": "when do we deploy the storefront", "explain": True, "log": False}).json[
        "results"
    ]
    why = hit["why"]
    for each in (hit["score"], why["vector_share"], why["keyword_share"]):
        expect(first.locator(".score")).to_contain_text(f"{each:.2f}")
    near, worded, scale = (wide(first.locator(each)) for each in (".share.near", ".share.worded", ".shares"))
    assert abs(near / scale - why["vector_share"]) < 0.02
    assert abs(worded / scale - why["keyword_share"]) < 0.02
    detail = open_line(page, "every weekday")
    expect(detail.locator(".why-hit")).to_contain_text(why["formula"])
    expect(detail.locator(".why-hit")).to_contain_text("ranks 1st")
    expect(detail.locator(".held mark")).to_have_text(["deploy", "storefront"])
    search(page, "smoke tests")
    expect(detail.locator(".held mark")).to_have_text(["smoke", "tests"])
    page.get_by_role("searchbox").fill("")
    expect(page.locator("#count")).to_contain_text("newest first")
    expect(detail.locator(".why-hit")).to_have_count(0)


def test_whoever_looks_recalls_nothing(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    search(page, "deploy")
    open_line(page, "every weekday")
    assert {each["retrieval_count"] for each in shop.get("/memories").json["memories"]} == {0}


def test_an_answer_that_comes_late_is_dropped(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    expect(lines(page)).to_have_count(13)
    held: list[Any] = []
    page.route(
        "**/search", lambda route: held.append(route) if "webhook" in route.request.post_data else route.continue_()
    )
    page.get_by_role("searchbox").fill("webhook")
    with page.expect_request("**/search"):
        pass
    page.get_by_role("searchbox").fill("terraform")
    expect(lines(page).first).to_contain_text("Terraform")
    count = page.locator("#count").inner_text()
    with page.expect_response("**/search"):
        held[0].continue_()
    expect(lines(page).first).to_contain_text("Terraform")
    assert page.locator("#count").inner_text() == count


def test_a_search_that_failed_is_made_again_when_something_moves(shop: Caller, visit: Visitor) -> None:
    visit.expected.add(503)
    page = visit(shop, "/ui/memories")
    expect(lines(page).first).to_be_visible()
    page.route("**/search", lambda route: route.fulfill(status=503, json={}))
    page.get_by_role("searchbox").fill("storefront")
    expect(page.locator("#nothing .trouble")).to_be_visible()
    page.unroute("**/search")
    shop.post("/memory/add", {"text": "The storefront has a new search."})
    expect(lines(page).first).to_contain_text("storefront")
    expect(page.locator("#nothing .trouble")).to_have_count(0)


def test_the_list_is_narrowed_and_the_address_remembers(shop: Caller, visit: Visitor) -> None:
    shop.delete("/memory/4")
    page = visit(shop, "/ui/memories")
    press(page, "Filters")
    fields = page.get_by_role("group", name="Filters")
    fields.get_by_label("Project").select_option(API)
    expect(page.locator("#count")).to_have_text("6 memories, newest first")
    fields.get_by_label("Category").select_option("learning")
    fields.get_by_label("Kind").select_option("pattern")
    expect(lines(page)).to_have_count(1)
    for name, value in (
        ("Agent", "codex"),
        ("Source", "codex"),
        ("Tags", "tax"),
        ("From", "2025-12-31"),
        ("To", "2026-01-02"),
    ):
        fields.get_by_label(name, exact=True).fill(value)
        fields.get_by_label(name, exact=True).press("Tab")
        expect(lines(page)).to_have_count(1)
    expect(page.locator(".chip")).to_have_count(8)
    line(page, "cart grows").click()
    page.reload()
    expect(page.locator(".chip")).to_have_count(8)
    expect(lines(page)).to_have_count(1)
    expect(pane(page).locator(".saying")).to_contain_text("cart grows")
    page.get_by_role("button", name="Remove the filter To: until 2026-01-02").click()
    expect(page.locator(".chip")).to_have_count(7)
    press(page, "Clear all")
    expect(page.locator("#count")).to_have_text("12 memories, newest first")
    assert page.url.endswith("#/7")


def test_pinned_and_archived_ones_are_told_apart(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories#/?pinned=1")
    expect(lines(page)).to_have_count(1)
    expect(lines(page)).to_contain_text("pinned")
    page.goto(f"{shop.url}/ui/memories#/?archived=1&q=storefront%20tuesdays")
    expect(lines(page).first).to_contain_text("Tuesdays and Thursdays")
    expect(lines(page).first).to_contain_text("archived")
    page.goto(f"{shop.url}/ui/memories#/?tags=none&q=storefront")
    expect(page.locator(".empty")).to_contain_text("No memory matches")
    press(page, "Show all")
    expect(page.locator("#count")).to_have_text("13 memories, newest first")
    assert page.url.endswith("#/")


def test_a_reload_brings_back_the_search_and_the_memory(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    search(page, "terraform state")
    open_line(page, "Terraform")
    assert page.url.endswith("#/4?q=terraform+state")
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("terraform state")
    expect(lines(page).first).to_have_attribute("aria-current", "true")
    expect(pane(page).locator(".saying")).to_contain_text("shop-tfstate")


def test_a_memory_that_is_not_there_says_so(shop: Caller, visit: Visitor) -> None:
    visit.expected.add(404)
    page = visit(shop, "/ui/memories#/999")
    expect(pane(page).locator(".trouble")).to_contain_text("There is no memory 999.")
    page.goto(f"{shop.url}/ui/memories#/nonsense?kind=gossip")
    visit.expected.add(400)
    expect(pane(page)).to_contain_text("Open a memory to read it whole")
    expect(page.locator("#nothing .trouble")).to_contain_text("kind")


# ── where it comes from ───────────────────────────────────────────────────────────────────────────────────────────────


def test_lineage_history_and_what_differs_are_shown_and_undone(shop: Caller, visit: Visitor) -> None:
    visit.expected.add(404)
    page = visit(shop, "/ui/memories#/14")
    detail = pane(page)
    expect(detail.locator(".lineal del").first).to_contain_text("on Tuesdays and Thursdays")
    expect(detail.locator(".lineal ins").first).to_contain_text("every weekday before noon")
    steps = detail.locator(".history > li")
    expect(steps).to_have_count(3)
    expect(steps.nth(0)).to_contain_text("Archived")
    expect(steps.nth(1)).to_contain_text("Reworded")
    expect(steps.nth(1)).to_contain_text("decided in the retro")
    detail.locator(".lineal a").click()
    expect(detail.locator(".lineal")).to_contain_text("Memory 14 replaced it.")
    detail.locator(".lineal a").click()
    expect(steps).to_have_count(3)
    expect(steps.nth(1).get_by_role("button", name="Undo")).to_have_count(0)  # it is taken back with the one above
    steps.nth(0).get_by_role("button", name="Undo").click()
    expect(notice(page)).to_contain_text("Undone.")
    expect(detail).to_contain_text("Memory 14 is no longer there")
    expect(line(page, "Tuesdays and Thursdays")).to_have_count(1)


def test_the_exchange_that_it_was_learned_from_is_quoted(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories#/13")
    quotes = pane(page).locator("blockquote")
    expect(quotes).to_have_count(2)
    expect(quotes.first).to_contain_text("For the record: we switched from Prisma to Drizzle")
    expect(pane(page)).to_contain_text("read without a language model")
    expect(pane(page).get_by_role("link", name="Capture 1")).to_have_attribute("href", "inbox#/1")
    page.goto(f"{shop.url}/ui/memories#/2")
    expect(pane(page).locator(".history")).to_be_visible()
    expect(quotes).to_have_count(0)


def test_who_said_it_again_is_told(shop: Caller, visit: Visitor) -> None:
    for session in ("s-7", "s-8"):
        add(shop, TOLD[1]["text"], project=API, agent="codex", session=session)
    page = visit(shop, "/ui/memories#/2")
    sightings = pane(page).locator(".sightings li")
    expect(sightings).to_have_count(3)
    expect(sightings.first).to_contain_text("codex in s-8")
    expect(line(page, "Prices")).to_contain_text("3×")


@pytest.fixture
def tree(tmp_path: Path, visit: Visitor) -> Iterator[tuple[Caller, Path]]:
    """A service that looks at a project's files, and the project."""
    project = tmp_path / "web"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    (project / "src" / "cart.py").write_text("LIMIT = 50\n")
    clock = FixedClock()
    keeper = Keeper(SqliteStore(tmp_path / "tree.db", clock), HashEmbedder(), clock, staleness=StalenessChecker())
    with keeper, serving(keeper) as url:
        yield Caller(url), project
        visit.leave()


def test_what_a_memory_speaks_of_is_looked_at_and_still_holds(tree: tuple[Caller, Path], visit: Visitor) -> None:
    service, project = tree
    add(service, "The limit of a batch stands in src/cart.py", project=str(project))
    page = visit(service, "/ui/memories#/1")
    expect(pane(page)).to_contain_text("Unchanged.")
    expect(pane(page).locator(".anchors")).to_contain_text("src/cart.py")
    expect(page.get_by_role("button", name="Still holds")).to_have_count(0)
    (project / "src" / "cart.py").write_text("LIMIT = 60\n")
    page.reload()
    expect(pane(page)).to_contain_text("Some of it has changed.")
    press(page, "Still holds")
    expect(notice(page)).to_contain_text("It still holds")
    expect(pane(page)).to_contain_text("Unchanged.")
    notice(page).get_by_role("button", name="Undo").click()
    expect(pane(page)).to_contain_text("Some of it has changed.")


# ── changing one ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_memory_is_changed_in_its_place_and_taken_back(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories#/8")
    expect(pane(page).locator(".history")).to_be_visible()
    press(page, "Edit")
    form = pane(page).get_by_role("form", name="Edit memory 8")
    expect(form.get_by_role("textbox", name="Text")).to_be_focused()
    form.get_by_role("textbox", name="Text").fill("The on-call rota changes on Mondays at 10:00 Berlin time.")
    form.get_by_label("Kind").select_option("policy")
    form.get_by_role("textbox", name="Tags").fill("ops, rota")
    form.get_by_role("textbox", name="Project").fill(INFRA)
    form.get_by_label("Pinned").check()
    form.get_by_role("textbox", name="Why").fill("new rota")
    press(page, "Save")
    expect(notice(page)).to_contain_text("Changed: The on-call rota changes on Mondays at 10:00")
    kept = shop.get("/memory/8").json
    assert (kept["kind"], kept["category"], kept["tags"]) == ("policy", "decision", ["ops", "rota"])
    assert (kept["project"], kept["pinned"]) == (INFRA, True)
    expect(line(page, "at 10:00")).to_contain_text("pinned")
    newest = pane(page).locator(".history > li").first
    expect(newest).to_contain_text("new rota")
    expect(newest.locator("del").first).to_contain_text("09:00")
    expect(newest.locator(".difference")).to_contain_text("kind temporal")
    expect(page.get_by_role("button", name="Edit", exact=True)).to_be_focused()
    notice(page).get_by_role("button", name="Undo").click()
    expect(line(page, "at 09:00")).to_be_visible()
    expect(pane(page).locator(".saying")).to_contain_text("at 09:00")


def test_a_memory_is_changed_by_keys_alone(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories#/5")
    pane(page).get_by_role("button", name="Edit").focus()
    page.keyboard.press("Enter")
    field = pane(page).get_by_role("textbox").first
    expect(field).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.type(" By keys.")
    expect(field).to_have_value(re.compile("By keys"))
    page.keyboard.press("Tab")
    expect(field).not_to_be_focused()


def test_what_was_begun_is_there_when_one_comes_back_and_cancel_drops_it(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories#/8")
    expect(pane(page).locator(".history")).to_be_visible()
    press(page, "Edit")
    text = pane(page).get_by_role("textbox", name="Text")
    text.fill("begun, and not done")
    line(page, "Stripe").locator(".text").click()
    expect(pane(page).locator(".saying")).to_contain_text("Stripe")
    line(page, "on-call").locator(".text").click()
    expect(text).to_have_value("begun, and not done")
    press(page, "Cancel")
    expect(pane(page).locator(".saying")).to_contain_text("at 09:00")
    press(page, "Edit")
    expect(text).to_have_value(TOLD[7]["text"])
    text.fill(" ")
    press(page, "Save")
    expect(pane(page).get_by_role("alert")).to_contain_text("“Text” is empty.")
    assert shop.get("/memory/8").json["text"] == TOLD[7]["text"]


def test_it_is_said_anew_pinned_archived_and_brought_back(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories#/4")
    expect(pane(page).locator(".history")).to_be_visible()
    press(page, "Reword")
    form = page.get_by_role("dialog", name="Reword")
    press(page, "Replace it")
    expect(form.get_by_role("alert")).to_contain_text("The text is unchanged.")
    form.get_by_role("textbox", name="What holds now").fill("Terraform state lives in OpenTofu Cloud.")
    press(page, "Replace it")
    expect(pane(page).get_by_role("heading", name="Memory 15")).to_be_visible()
    expect(pane(page).locator(".lineal")).to_contain_text("memory 4")
    assert shop.get("/memory/4").json["superseded_by"] == 15
    expect(notice(page)).to_contain_text("Reworded: Terraform")
    press(page, "Pin")
    expect(notice(page)).to_contain_text("Pinned: Terraform")
    expect(page.get_by_role("button", name="Unpin", exact=True)).to_be_focused()
    press(page, "Archive")
    expect(notice(page)).to_contain_text("Archived: Terraform")
    expect(line(page, "Terraform")).to_have_count(0)
    expect(pane(page).locator(".label.archived")).to_be_visible()
    press(page, "Restore")
    expect(line(page, "Terraform")).to_have_count(1)
    expect(notice(page)).to_contain_text("Restored: Terraform")  # until then, Undo is of the archiving
    notice(page).get_by_role("button", name="Undo").click()
    expect(line(page, "Terraform")).to_have_count(0)
    expect(page.get_by_role("button", name="Restore", exact=True)).to_be_visible()


def test_nothing_is_erased_before_one_is_sure(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories#/4")
    expect(pane(page).locator(".history")).to_be_visible()
    press(page, "Erase …")
    form = page.get_by_role("dialog", name="Erase this memory for good?")
    expect(form).to_contain_text("shop-tfstate")
    assert hindrances(page) == []
    press(page, "Erase for good")
    expect(form.get_by_role("alert")).to_contain_text("Nothing was erased.")
    assert shop.get("/memory/4").status == 200
    form.get_by_label("I know that it cannot be restored").check()
    press(page, "Erase for good")
    expect(notice(page)).to_contain_text("Memory 4 is erased.")
    expect(notice(page).get_by_role("button", name="Undo")).to_have_count(0)
    expect(line(page, "Terraform")).to_have_count(0)
    assert shop.get("/memory/4").status == 404


def test_a_memory_is_added_and_one_that_was_known_says_so(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    expect(lines(page)).to_have_count(13)
    for text, answer in (
        ("Feature flags live in Unleash.", "Added: Feature"),
        ("feature flags  live in unleash.", "Already known"),
    ):
        press(page, "Add a memory")
        form = page.get_by_role("dialog", name="Add a memory")
        form.get_by_role("textbox", name="What is to be remembered").fill(text)
        form.get_by_label("Kind").select_option("technology")
        form.get_by_role("textbox", name="Tags").fill("flags, ops")
        form.get_by_role("button", name="Add", exact=True).click()
        expect(notice(page)).to_contain_text(answer)
        expect(pane(page).get_by_role("heading", name="Memory 15")).to_be_visible()
    expect(lines(page)).to_have_count(14)
    kept = shop.get("/memory/15").json
    assert (kept["kind"], kept["tags"], kept["occurrences"]) == ("technology", ["flags", "ops"], 2)
    notice(page).get_by_role("button", name="Undo").click()
    expect(pane(page)).not_to_contain_text("Said 2 times")
    assert shop.get("/memory/15").json["occurrences"] == 1


# ── changing many ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_range_is_ticked_and_archived_in_one_changeset_with_one_undo(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    line(page, "Stripe").locator(".tick").click()
    line(page, "cart grows").locator(".tick").click(modifiers=["Shift"])
    line(page, "on-call").click(modifiers=["Control"])  # not this one
    bulk = page.get_by_role("group", name="What is ticked")
    expect(bulk).to_contain_text("4 ticked")
    expect(page.locator('[aria-selected="true"]')).to_have_count(4)
    assert hindrances(page) == []
    bulk.get_by_role("button", name="Archive").click()
    expect(notice(page)).to_contain_text("Archived: 4 memories.")
    expect(lines(page)).to_have_count(9)
    expect(bulk).to_be_hidden()
    expect(page.get_by_role("listbox")).to_be_focused()
    [newest, *_] = shop.get("/changes").json["changesets"]
    assert len(shop.get(f"/changes/{newest['id']}").json["changes"]) == 4
    notice(page).get_by_role("button", name="Undo").click()
    expect(lines(page)).to_have_count(13)


def test_categories_tags_and_pins_are_set_for_all_that_is_ticked(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    expect(lines(page)).to_have_count(13)
    box = page.get_by_role("listbox")
    box.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    bulk = page.get_by_role("group", name="What is ticked")
    expect(bulk).to_contain_text("3 ticked")
    bulk.get_by_role("button", name="Tag …").click()
    page.get_by_role("dialog", name="Tag 3 memories").get_by_role("combobox", name="Tags").fill("q3, retro")
    press(page, "Add")
    expect(notice(page)).to_contain_text("Tagged: 3 memories.")
    ids = (14, 13, 12)
    assert [shop.get(f"/memory/{each}").json["tags"][-2:] for each in ids] == [["q3", "retro"]] * 3
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    bulk.get_by_role("button", name="Category …").click()
    page.get_by_role("dialog").get_by_label("Category").select_option("detail")
    press(page, "Set")
    expect(notice(page)).to_contain_text("Changed: 2 memories.")
    assert [shop.get(f"/memory/{each}").json["category"] for each in ids] == ["detail", "detail", "learning"]
    page.keyboard.press("Control+a")
    expect(bulk).to_contain_text("13 ticked")
    bulk.get_by_role("button", name="Pin", exact=True).click()
    expect(notice(page)).to_contain_text("Pinned: 12 memories.")  # one was before
    page.keyboard.press("Control+a")
    expect(bulk.get_by_role("button", name="Pin", exact=True)).to_have_count(0)
    page.keyboard.press("Escape")
    expect(bulk).to_be_hidden()
    notice(page).get_by_role("button", name="Undo").click()
    expect(page.locator(".flag.pinned")).to_have_count(1)


# ── very many ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Ten thousand memories, without vectors."""
    clock = FixedClock()
    store = SqliteStore(tmp_path_factory.mktemp("crowd") / "cofio.db", clock)
    kinds = ("policy", "learning", "observation")
    facts = [Fact(text=f"Service {each} listens on port {each + 2_000}.", kind=kinds[each % 3]) for each in range(MANY)]
    for start in range(0, MANY, 250):
        store.apply([Add(fact) for fact in facts[start : start + 250]], {}, by="test", why="many")
    with Keeper(store, HashEmbedder(), clock) as keeper, serving(keeper) as url:
        yield Caller(url)


def scroll_to(page: Page, share: float) -> None:
    page.locator("#list").evaluate("(box, share) => (box.scrollTop = share * box.scrollHeight)", share)


def test_ten_thousand_are_scrolled_through_with_a_few_rows_in_the_page(crowd: Caller, visit: Visitor) -> None:
    page = visit(crowd, "/ui/memories")
    expect(page.locator("#count")).to_have_text("10,000 memories, newest first")
    expect(lines(page).first).to_contain_text("Service 9999 ")
    asked: list[str] = []
    page.on("request", lambda each: "/memories?" in each.url and asked.append(each.url))
    most = 0
    for step in range(1, 20):
        scroll_to(page, step / 20)
        expect(lines(page).filter(has_text=re.compile(rf"Service {MANY - MANY * step // 20 - 5} "))).to_have_count(1)
        expect(page.locator(".line.blank")).to_have_count(0)
        most = max(most, lines(page).count())
    assert most < 60
    assert len(asked) < 100  # what lies between was not read
    scroll_to(page, 1)
    last = lines(page).last
    expect(last).to_contain_text("Service 0 ")
    expect(last).to_have_attribute("aria-posinset", "10000")
    expect(last).to_have_attribute("aria-setsize", "10000")
    assert [int(each) for each in lines(page).evaluate_all("all => all.map((each) => each.ariaPosInSet)")] == sorted(
        range(MANY, MANY - lines(page).count(), -1)
    )


def test_keys_reach_both_ends_and_every_page_between(crowd: Caller, visit: Visitor) -> None:
    page = visit(crowd, "/ui/memories")
    box = page.get_by_role("listbox")
    expect(lines(page).first).to_be_visible()
    box.focus()

    def active() -> Locator:
        return page.locator(f"#{box.get_attribute('aria-activedescendant')}")

    page.keyboard.press("End")
    expect(active()).to_contain_text("Service 0 ")
    expect(active()).to_be_in_viewport(ratio=0.9)
    page.keyboard.press("Enter")
    expect(pane(page).get_by_role("heading", name="Memory 1", exact=True)).to_be_visible()
    page.keyboard.press("PageUp")
    place = int(active().get_attribute("aria-posinset") or 0)
    assert MANY - 30 < place < MANY
    page.keyboard.press("ArrowUp")
    expect(active()).to_have_attribute("aria-posinset", str(place - 1))
    page.keyboard.press("Home")
    expect(active()).to_contain_text("Service 9999 ")
    page.keyboard.press("PageDown")
    assert int(active().get_attribute("aria-posinset") or 0) > 3
    assert lines(page).count() < 60
    page.keyboard.press("Control+a")
    expect(page.get_by_role("group", name="What is ticked")).to_contain_text("1,000 ticked")  # the most at once
    page.keyboard.press("Escape")


def test_what_comes_meanwhile_moves_nothing_under_whoever_reads(crowd: Caller, visit: Visitor) -> None:
    page = visit(crowd, "/ui/memories#/5000")
    expect(page.locator("#count")).to_have_text("10,000 memories, newest first")
    scroll_to(page, 0.5)
    row = lines(page).filter(has_text="Service 4995 ")
    expect(row).to_have_count(1)
    expect(pane(page).locator(".history")).to_be_visible()
    press(page, "Edit")
    text = pane(page).get_by_role("textbox", name="Text")
    text.fill("half a thou")
    where = row.bounding_box()
    fresh = add(crowd, "A new one, while somebody reads.")
    pill = page.get_by_role("button", name="1 new memory: show")
    expect(pill).to_be_visible()
    assert row.bounding_box() == where
    crowd.patch("/memory/5000", {"tags": ["elsewhere"]})
    expect(pane(page)).to_contain_text("It was changed meanwhile.")
    expect(text).to_have_value("half a thou")
    expect(text).to_be_focused()
    assert row.bounding_box() == where
    pill.click()
    expect(lines(page).first).to_contain_text("A new one, while somebody reads.")
    expect(page.get_by_role("listbox")).to_be_focused()
    add(crowd, "And another, at the top.")
    expect(lines(page).first).to_contain_text("And another, at the top.")
    expect(text).to_have_value("half a thou")
    press(page, "Cancel")
    expect(pane(page).locator(".history > li").last).to_contain_text("with 249 others")
    pane(page).get_by_role("button", name=re.compile("Undo")).last.click()
    expect(page.get_by_role("dialog", name="Undo the whole change?")).to_contain_text("249 others")
    press(page, "Cancel")
    for each in (fresh, fresh + 1):
        crowd.delete(f"/memory/{each}", purge="true")


# ── who may what ──────────────────────────────────────────────────────────────────────────────────────────────────────


def keyed(serve: Callable[..., Caller], role: str) -> tuple[Caller, str]:
    """A service with a key of this role for Ada, and her secret."""
    owner = serve(api_key="owner")
    owner = owner.having("owner")
    add(owner, "The whole team deploys on weekdays.", visibility="global", kind="policy")
    add(owner, "Bob looks for another job.", user="bob")
    made = owner.post("/keys", {"name": "ada", "user": "ada", "role": role}).json
    return owner, made["secret"]


def enter(page: Page, secret: str) -> None:
    page.get_by_label("API key").fill(secret)
    press(page, "Open")


def test_a_key_to_read_shows_everything_and_offers_nothing(serve: Callable[..., Caller], visit: Visitor) -> None:
    owner, secret = keyed(serve, "read")
    visit.expected.add(401)
    page = visit(owner, "/ui/memories")
    enter(page, secret)
    expect(lines(page)).to_have_count(1)
    expect(page.locator(".line .tick")).to_have_count(0)
    detail = open_line(page, "The whole team")
    names = page.get_by_role("button").all_inner_texts()
    assert not {"Edit", "Archive", "Pin", "Reword", "Erase …", "Add a memory", "Undo"} & set(names)
    expect(detail.locator(".history")).to_contain_text("Kept")
    page.get_by_role("listbox").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Control+a")
    expect(page.get_by_role("group", name="What is ticked")).to_be_hidden()
    assert page.get_by_role("listbox").get_attribute("aria-multiselectable") is None
    assert hindrances(page) == []
    press(page, "Forget key")
    expect(page.get_by_label("API key")).to_be_visible()
    expect(page.locator(".line")).to_have_count(0)


def test_a_key_to_write_sees_its_own_and_changes_it(serve: Callable[..., Caller], visit: Visitor) -> None:
    owner, secret = keyed(serve, "write")
    page = visit(owner, "/ui/memories")
    enter(page, secret)
    expect(lines(page)).to_have_count(1)
    press(page, "Add a memory")
    page.get_by_role("dialog").get_by_role("textbox", name="What is to be remembered").fill("Ada likes tea.")
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    expect(lines(page)).to_have_count(2)
    visit.expected.add(403)
    page.goto(f"{owner.url}/ui/memories#/1")
    expect(pane(page).locator(".saying")).to_contain_text("The whole team")
    press(page, "Erase …")
    page.get_by_role("dialog").get_by_label("I know that it cannot be restored").check()
    press(page, "Erase for good")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Memory 1 is not private to you.")
    assert owner.get("/memory/1").status == 200


def test_what_was_begun_with_one_key_is_gone_with_it(serve: Callable[..., Caller], visit: Visitor) -> None:
    owner, secret = keyed(serve, "write")
    number = add(owner.having(secret), "Ada likes tea.")
    page = visit(owner, f"/ui/memories#/{number}")
    enter(page, secret)
    press(page, "Edit")
    pane(page).locator("textarea").fill("Ada likes coffee, and nobody is to know.")
    press(page, "Forget key")
    expect(page.locator("#detail")).to_be_empty()
    enter(page, "owner")
    expect(pane(page).locator(".saying .text")).to_have_text("Ada likes tea.")
    expect(page.locator("textarea")).to_have_count(0)


def test_an_empty_store_says_what_to_do(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/memories")
    expect(page.locator(".empty")).to_contain_text("Nothing is remembered yet")
    expect(page.get_by_role("listbox")).to_be_hidden()
    assert hindrances(page) == []
    page.locator(".empty").get_by_role("button", name="Add a memory").click()
    page.get_by_role("dialog").get_by_role("textbox", name="What is to be remembered").fill("We deploy on Fridays.")
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    expect(lines(page)).to_have_count(1)


#: Scrolls the pane to its end; the history may be drawn after the text.
HISTORY_AT_THE_END = """() => {
  const pane = document.querySelector("#detail");
  pane.scrollTop = pane.scrollHeight;
  const history = pane.querySelector(".history")?.getBoundingClientRect();
  return history && history.bottom > 0 && history.top < innerHeight;
}"""


# ── for everybody, whatever it says ───────────────────────────────────────────────────────────────────────────────────


def test_whatever_a_memory_says_is_shown_as_it_is(service: Caller, visit: Visitor) -> None:
    add(service, WEIRD, project=WEIRD, source=WEIRD, agent=WEIRD, tags=[WEIRD], metadata={WEIRD: WEIRD}, speaker=WEIRD)
    long = "".join(f"word{number} " for number in range(1_300))[:10_000].strip()
    add(service, long)
    add(service, "x" * 10_000)
    said = [{"role": "user", "content": f"We switched from Prisma to Drizzle. {WEIRD}"}]
    service.post("/capture", {"messages": said, "wait": True, "client": WEIRD, "session": WEIRD, "turn": "1"})
    service.patch("/memory/1", {"text": f"{WEIRD} more"})
    page = visit(service, "/ui/memories#/1")
    expect(pane(page).locator(".saying .text")).to_have_text(f"{WEIRD} more")
    expect(pane(page).locator(".history > li")).to_have_count(2)
    expect(pane(page).locator(".history ins").first).to_contain_text("more")
    assert page.locator("#page img, #page script").count() == 0
    assert overflow(page) == 0
    for number, text in ((2, long), (3, "x" * 10_000)):
        page.goto(f"{service.url}/ui/memories#/{number}")
        expect(pane(page).locator(".saying .text")).to_have_text(text)
        page.wait_for_function(HISTORY_AT_THE_END)
        assert overflow(page) == 0
    heights = lines(page).evaluate_all("all => all.map((each) => each.getBoundingClientRect().height)")
    assert len(set(heights)) == 1
    page.goto(f"{service.url}/ui/memories#/4")
    expect(pane(page).locator("blockquote")).to_contain_text("<script>")
    search(page, "script alert quoted")
    expect(lines(page).first).to_contain_text("<script>alert(2)</script>")
    assert page.locator("#page img, #page script").count() == 0
    page.set_viewport_size(PHONE)
    assert overflow(page) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_hinders_anybody(shop: Caller, visit: Visitor, scheme: Any) -> None:
    page = visit(shop, "/ui/memories", color_scheme=scheme)
    line(page, "Stripe").locator(".tick").click()
    press(page, "Filters")
    open_line(page, "every weekday")
    assert hindrances(page) == []
    search(page, "deploy the storefront")
    expect(page.locator(".score").first).to_be_visible()
    assert hindrances(page) == []
    press(page, "Edit")
    assert hindrances(page) == []
    press(page, "Add a memory")
    assert hindrances(page) == []


def test_everything_is_reached_with_the_keyboard(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    expect(lines(page)).to_have_count(13)
    page.get_by_role("button", name="Add a memory").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Filters")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("listbox")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(pane(page).get_by_role("heading", name="Memory 13")).to_be_visible()
    expect(page.get_by_role("listbox")).to_be_focused()
    page.keyboard.press("Tab")
    expect(pane(page).locator(":focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_be_focused()
    expect(pane(page)).to_contain_text("Open a memory to read it whole")


def test_on_a_phone_the_memory_lies_over_the_list(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories", viewport=PHONE)
    expect(lines(page).first).to_be_visible()
    assert overflow(page) == 0
    scroll_to(page, 0.4)
    row = line(page, "cart grows")
    where = row.bounding_box()
    row.locator(".text").click()
    expect(pane(page).locator(".history")).to_be_visible()
    expect(page.get_by_role("listbox")).to_be_hidden()
    expect(pane(page).get_by_role("heading", name="Memory 7")).to_be_focused()
    assert overflow(page) == 0
    assert hindrances(page) == []
    press(page, "Back to the list")
    expect(pane(page)).to_be_hidden()
    expect(page.get_by_role("listbox")).to_be_focused()
    assert row.bounding_box() == where
    assert hindrances(page) == []


def test_pictures(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    line(page, "Stripe").locator(".tick").click()
    line(page, "Images").locator(".tick").click(modifiers=["Shift"])
    open_line(page, "Drizzle")
    picture(page, "memories-ticked")
    press(page, "Filters")
    press(page, "Edit")
    picture(page, "memories-edit")
    press(page, "Cancel")
    press(page, "Filters")
    search(page, "when do we deploy the storefront?")
    open_line(page, "every weekday")
    picture(page, "memories")
    page.emulate_media(color_scheme="dark")
    picture(page, "memories-dark")
    page.set_viewport_size(PHONE)
    picture(page, "memories-phone-detail")
    press(page, "Back to the list")
    picture(page, "memories-phone")


# ── episodes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_switch_shows_what_was_said_beside_the_memories(shop: Caller, visit: Visitor) -> None:
    about = {"session": "s-42", "turn": "1", "client": "codex", "wait": True}
    shop.post("/capture", {"messages": "Shall we meet at the harbour?", **about})
    page = visit(shop, "/ui/memories")
    page.get_by_role("searchbox").fill("harbour")
    expect(page.locator("#episodes")).to_be_hidden()
    press(page, "Filters")
    page.get_by_label("Episodes too: what was said").check()
    episodes = page.locator("#episodes")
    expect(episodes.get_by_role("heading")).to_have_text("Episodes: what was said")
    row = episodes.locator("details").first
    expect(row.locator("summary")).to_contain_text("session s-42")
    row.locator("summary").click()
    expect(row).to_contain_text("User: Shall we meet at the harbour?")
    assert "episodes=1" in page.url
    assert hindrances(page) == []
    page.get_by_label("Episodes too: what was said").uncheck()
    expect(episodes).to_be_hidden()
