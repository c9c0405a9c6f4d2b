"""The memories page, in a real browser with the real service and a real store."""

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
from tests.ui.conftest import PHONE, Visitor, accessibility_violations, overflow, screenshot

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} "quoted" & \'so\' \u202eback'
LARGE_COUNT = 10_000
WEB, API, INFRA = "/home/ada/storefront", "/home/ada/checkout-api", "/home/ada/infra"


def fact(text: str, kind: str, project: str, agent: str, *tags: str) -> dict[str, Any]:
    source = f"{agent}/{project.rpartition('/')[2]}" if project else agent
    return {"text": text, "kind": kind, "project": project, "agent": agent, "source": source, "tags": list(tags)}


#: Facts of people and agents of a small shop, oldest first.
FACTS = [
    fact("The storefront is built with Astro; pages are rendered on the server, islands hydrate on demand.",
         "technology", WEB, "claude-code", "frontend"),
    fact("Prices are kept in minor units as integers. Never use floats for money.",
         "policy", API, "codex", "money"),
    fact("Flaky test: test_refund_webhook fails when the sandbox clock is an hour ahead; freeze time before posting.",
         "learning", API, "claude-code", "tests"),
    fact("Terraform state lives in the bucket shop-tfstate, locked with DynamoDB.",
         "observation", INFRA, "codex", "ops"),
    fact("Ada prefers small pull requests, one concern each, with the reason in the first line.",
         "preference", "", "claude-code"),
    fact("Postgres 16 runs in production; migrations must be reversible and are applied before the rollout.",
         "technology", API, "claude-code", "db", "ops"),
    fact("When the cart grows beyond 200 lines the tax service times out; we split the request into batches of 50.",
         "pattern", API, "codex", "tax"),
    fact("The on-call rota changes on Mondays at 09:00 Berlin time.",
         "temporal", "", "cursor", "ops"),
    fact("Images are served through the CDN with a year of cache; a new hash is a new name.",
         "decision", WEB, "cursor", "frontend"),
    fact("Secrets come from Vault at start; nothing is read from .env in production.",
         "policy", INFRA, "codex", "security", "ops"),
    fact("We deploy the storefront on Tuesdays and Thursdays, after the smoke tests have passed.",
         "policy", WEB, "claude-code", "release"),
    fact("Stripe retries a webhook for three days: handlers are idempotent by event id.",
         "learning", API, "claude-code", "payments"),
]  # fmt: skip


def add(service: Caller, text: str, **fields: Any) -> int:
    response = service.post("/memory/add", {"text": text, **fields})
    assert response.status in (200, 201), response.json
    return int(response.json["id"])


@pytest.fixture
def shop(service: Caller) -> Caller:
    """Return a service with the shop's facts, one superseded memory and one learned from a conversation."""
    for fields in FACTS:
        add(service, **fields)
    messages = [
        {"role": "user", "content": "For the record: we switched from Prisma to Drizzle in the checkout API."},
        {"role": "assistant", "content": "Noted. I will write new queries with Drizzle, and leave the old migrations."},
    ]
    origin = {"client": "claude-code", "session": "s-41", "turn": "3", "agent": "claude-code", "project": API}
    service.post("/capture", {"messages": messages, "source": "claude-code/checkout-api", **origin, "wait": True})
    new_text = "We deploy the storefront every weekday before noon, after the smoke tests have passed."
    service.post("/memory/supersede", {"old_id": 11, "new_text": new_text, "why": "decided in the retro"})
    service.patch("/memory/2", {"pinned": True})
    return service


def lines(page: Page) -> Locator:
    return page.locator("#list").get_by_role("option")


def line(page: Page, text: str) -> Locator:
    return lines(page).filter(has_text=text)


def pane(page: Page) -> Locator:
    return page.locator("#detail")


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def notice(page: Page) -> Locator:
    return page.locator(".notice")


def open_line(page: Page, text: str) -> Locator:
    """Open a memory and return the pane once it is loaded."""
    line(page, text).locator(".text").click()
    expect(pane(page).locator(".history")).to_be_visible()
    return pane(page)


def search(page: Page, text: str) -> None:
    with page.expect_response("**/search"):
        page.get_by_role("searchbox", name="Search memories").fill(text)
    expect(page.locator("#count")).to_contain_text("best first")
    expect(page.locator("#list[aria-busy]")).to_have_count(0)


def width_of(element: Locator) -> float:
    return float(element.evaluate("(each) => each.getBoundingClientRect().width"))


# ── Viewing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_newest_memories_come_first_and_one_opens_next_to_the_list(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    expect(page.locator("#count")).to_have_text("13 memories, newest first")
    texts = lines(page).locator(".text").all_inner_texts()
    assert texts[0].startswith("We deploy the storefront every weekday")
    assert texts[-1].startswith("The storefront is built with Astro")
    expect(pane(page)).to_contain_text("Open a memory to read it whole")
    detail = open_line(page, "Prices are kept")
    expect(detail.get_by_role("heading", name="Memory 2")).to_be_visible()
    for text in (
        "Decision",
        "policy",
        "pinned",
        "tag money",
        API,
        "codex alone",
        "told by hand, 100 % sure",
        "never yet",
    ):
        expect(detail).to_contain_text(text)
    assert page.url.endswith("/ui/memories#/2")
    expect(line(page, "Prices are kept")).to_have_attribute("aria-current", "true")
    page.go_back()
    expect(pane(page)).to_contain_text("Open a memory to read it whole")


def test_search_runs_while_typing_and_explains_hits(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    page.get_by_role("searchbox").press_sequentially("when do we deploy the storefront", delay=5)
    expect(page.locator("#count")).to_have_text(re.compile(r"\d+ hits, best first"))
    first = lines(page).first
    expect(first).to_contain_text("every weekday")
    expect(first.locator("mark")).to_have_text(["deploy", "storefront"])
    [hit, *_] = shop.post("/search", {"query": "when do we deploy the storefront", "explain": True, "log": False}).json[
        "results"
    ]
    explanation = hit["why"]
    for share in (hit["score"], explanation["vector_share"], explanation["keyword_share"]):
        expect(first.locator(".score")).to_contain_text(f"{share:.2f}")
    vector_width, keyword_width, total_width = (
        width_of(first.locator(selector)) for selector in (".share.near", ".share.worded", ".shares")
    )
    assert abs(vector_width / total_width - explanation["vector_share"]) < 0.02
    assert abs(keyword_width / total_width - explanation["keyword_share"]) < 0.02
    detail = open_line(page, "every weekday")
    expect(detail.locator(".why-hit")).to_contain_text(explanation["formula"])
    expect(detail.locator(".why-hit")).to_contain_text("ranks 1st")
    expect(detail.locator(".held mark")).to_have_text(["deploy", "storefront"])
    search(page, "smoke tests")
    expect(detail.locator(".held mark")).to_have_text(["smoke", "tests"])
    page.get_by_role("searchbox").fill("")
    expect(page.locator("#count")).to_contain_text("newest first")
    expect(detail.locator(".why-hit")).to_have_count(0)


def test_viewing_is_not_a_retrieval(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    search(page, "deploy")
    open_line(page, "every weekday")
    assert {memory["retrieval_count"] for memory in shop.get("/memories").json["memories"]} == {0}


def test_late_reply_is_discarded(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    expect(lines(page)).to_have_count(13)
    held_routes: list[Any] = []
    page.route(
        "**/search",
        lambda route: held_routes.append(route) if "webhook" in route.request.post_data else route.continue_(),
    )
    page.get_by_role("searchbox").fill("webhook")
    with page.expect_request("**/search"):
        pass
    page.get_by_role("searchbox").fill("terraform")
    expect(lines(page).first).to_contain_text("Terraform")
    count = page.locator("#count").inner_text()
    with page.expect_response("**/search"):
        held_routes[0].continue_()
    expect(lines(page).first).to_contain_text("Terraform")
    assert page.locator("#count").inner_text() == count


def test_failed_search_is_repeated_after_a_change(shop: Caller, visit: Visitor) -> None:
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


def test_filters_are_applied_and_kept_in_the_url(shop: Caller, visit: Visitor) -> None:
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


def test_pinned_and_archived_memories_are_marked(shop: Caller, visit: Visitor) -> None:
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


def test_reload_restores_the_search_and_the_memory(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    search(page, "terraform state")
    open_line(page, "Terraform")
    assert page.url.endswith("#/4?q=terraform+state")
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("terraform state")
    expect(lines(page).first).to_have_attribute("aria-current", "true")
    expect(pane(page).locator(".saying")).to_contain_text("shop-tfstate")


def test_unknown_memory_shows_an_error(shop: Caller, visit: Visitor) -> None:
    visit.expected.add(404)
    page = visit(shop, "/ui/memories#/999")
    expect(pane(page).locator(".trouble")).to_contain_text("There is no memory 999.")
    page.goto(f"{shop.url}/ui/memories#/nonsense?kind=gossip")
    visit.expected.add(400)
    expect(pane(page)).to_contain_text("Open a memory to read it whole")
    expect(page.locator("#nothing .trouble")).to_contain_text("kind")


# ── Origin ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lineage_history_and_differences_are_shown_and_undone(shop: Caller, visit: Visitor) -> None:
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
    expect(steps.nth(1).get_by_role("button", name="Undo")).to_have_count(0)  # it is undone together with the one above
    steps.nth(0).get_by_role("button", name="Undo").click()
    expect(notice(page)).to_contain_text("Undone.")
    expect(detail).to_contain_text("Memory 14 is no longer there")
    expect(line(page, "Tuesdays and Thursdays")).to_have_count(1)


def test_source_exchange_is_quoted(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories#/13")
    quotes = pane(page).locator("blockquote")
    expect(quotes).to_have_count(2)
    expect(quotes.first).to_contain_text("For the record: we switched from Prisma to Drizzle")
    expect(pane(page)).to_contain_text("read without a language model")
    expect(pane(page).get_by_role("link", name="Capture 1")).to_have_attribute("href", "inbox#/1")
    page.goto(f"{shop.url}/ui/memories#/2")
    expect(pane(page).locator(".history")).to_be_visible()
    expect(quotes).to_have_count(0)


def test_occurrences_are_listed(shop: Caller, visit: Visitor) -> None:
    for session in ("s-7", "s-8"):
        add(shop, FACTS[1]["text"], project=API, agent="codex", session=session)
    page = visit(shop, "/ui/memories#/2")
    occurrences = pane(page).locator(".sightings li")
    expect(occurrences).to_have_count(3)
    expect(occurrences.first).to_contain_text("codex in s-8")
    expect(line(page, "Prices")).to_contain_text("3×")


@pytest.fixture
def tree(tmp_path: Path, visit: Visitor) -> Iterator[tuple[Caller, Path]]:
    """Return a service that reads a project's files, and the project folder."""
    project = tmp_path / "web"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    (project / "src" / "cart.py").write_text("LIMIT = 50\n")
    clock = FixedClock()
    keeper = Keeper(SqliteStore(tmp_path / "tree.db", clock), HashEmbedder(), clock, staleness=StalenessChecker())
    with keeper, serving(keeper) as url:
        yield Caller(url), project
        visit.close()


def test_stale_references_are_shown_and_confirmed(tree: tuple[Caller, Path], visit: Visitor) -> None:
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


# ── Editing one memory ────────────────────────────────────────────────────────────────────────────────────────────────


def test_memory_is_edited_in_place_and_undone(shop: Caller, visit: Visitor) -> None:
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
    stored = shop.get("/memory/8").json
    assert (stored["kind"], stored["category"], stored["tags"]) == ("policy", "decision", ["ops", "rota"])
    assert (stored["project"], stored["pinned"]) == (INFRA, True)
    expect(line(page, "at 10:00")).to_contain_text("pinned")
    newest = pane(page).locator(".history > li").first
    expect(newest).to_contain_text("new rota")
    expect(newest.locator("del").first).to_contain_text("09:00")
    expect(newest.locator(".difference")).to_contain_text("kind temporal")
    expect(page.get_by_role("button", name="Edit", exact=True)).to_be_focused()
    notice(page).get_by_role("button", name="Undo").click()
    expect(line(page, "at 09:00")).to_be_visible()
    expect(pane(page).locator(".saying")).to_contain_text("at 09:00")


def test_memory_is_edited_by_keyboard(shop: Caller, visit: Visitor) -> None:
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


def test_draft_is_kept_until_cancel(shop: Caller, visit: Visitor) -> None:
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
    expect(text).to_have_value(FACTS[7]["text"])
    text.fill(" ")
    press(page, "Save")
    expect(pane(page).get_by_role("alert")).to_contain_text("“Text” is empty.")
    assert shop.get("/memory/8").json["text"] == FACTS[7]["text"]


def test_memory_is_superseded_pinned_archived_and_restored(shop: Caller, visit: Visitor) -> None:
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
    expect(notice(page)).to_contain_text("Restored: Terraform")  # until then, Undo refers to the archiving
    notice(page).get_by_role("button", name="Undo").click()
    expect(line(page, "Terraform")).to_have_count(0)
    expect(page.get_by_role("button", name="Restore", exact=True)).to_be_visible()


def test_purge_requires_confirmation(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories#/4")
    expect(pane(page).locator(".history")).to_be_visible()
    press(page, "Erase …")
    form = page.get_by_role("dialog", name="Erase this memory for good?")
    expect(form).to_contain_text("shop-tfstate")
    assert accessibility_violations(page) == []
    press(page, "Erase for good")
    expect(form.get_by_role("alert")).to_contain_text("Nothing was erased.")
    assert shop.get("/memory/4").status == 200
    form.get_by_label("I know that it cannot be restored").check()
    press(page, "Erase for good")
    expect(notice(page)).to_contain_text("Memory 4 is erased.")
    expect(notice(page).get_by_role("button", name="Undo")).to_have_count(0)
    expect(line(page, "Terraform")).to_have_count(0)
    assert shop.get("/memory/4").status == 404


def test_memory_is_added_and_a_duplicate_is_reported(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    expect(lines(page)).to_have_count(13)
    for text, expected_notice in (
        ("Feature flags live in Unleash.", "Added: Feature"),
        ("feature flags  live in unleash.", "Already known"),
    ):
        press(page, "Add a memory")
        form = page.get_by_role("dialog", name="Add a memory")
        form.get_by_role("textbox", name="What is to be remembered").fill(text)
        form.get_by_label("Kind").select_option("technology")
        form.get_by_role("textbox", name="Tags").fill("flags, ops")
        form.get_by_role("button", name="Add", exact=True).click()
        expect(notice(page)).to_contain_text(expected_notice)
        expect(pane(page).get_by_role("heading", name="Memory 15")).to_be_visible()
    expect(lines(page)).to_have_count(14)
    stored = shop.get("/memory/15").json
    assert (stored["kind"], stored["tags"], stored["occurrences"]) == ("technology", ["flags", "ops"], 2)
    notice(page).get_by_role("button", name="Undo").click()
    expect(pane(page)).not_to_contain_text("Said 2 times")
    assert shop.get("/memory/15").json["occurrences"] == 1


# ── Editing several memories ──────────────────────────────────────────────────────────────────────────────────────────


def test_range_is_selected_and_archived_in_one_changeset(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    line(page, "Stripe").locator(".tick").click()
    line(page, "cart grows").locator(".tick").click(modifiers=["Shift"])
    line(page, "on-call").click(modifiers=["Control"])  # deselects this one
    bulk = page.get_by_role("group", name="What is ticked")
    expect(bulk).to_contain_text("4 ticked")
    expect(page.locator('[aria-selected="true"]')).to_have_count(4)
    assert accessibility_violations(page) == []
    bulk.get_by_role("button", name="Archive").click()
    expect(notice(page)).to_contain_text("Archived: 4 memories.")
    expect(lines(page)).to_have_count(9)
    expect(bulk).to_be_hidden()
    expect(page.get_by_role("listbox")).to_be_focused()
    [newest, *_] = shop.get("/changes").json["changesets"]
    assert len(shop.get(f"/changes/{newest['id']}").json["changes"]) == 4
    notice(page).get_by_role("button", name="Undo").click()
    expect(lines(page)).to_have_count(13)


def test_category_tags_and_pins_are_set_for_the_selection(shop: Caller, visit: Visitor) -> None:
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
    assert [shop.get(f"/memory/{memory_id}").json["tags"][-2:] for memory_id in ids] == [["q3", "retro"]] * 3
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    bulk.get_by_role("button", name="Category …").click()
    page.get_by_role("dialog").get_by_label("Category").select_option("detail")
    press(page, "Set")
    expect(notice(page)).to_contain_text("Changed: 2 memories.")
    assert [shop.get(f"/memory/{memory_id}").json["category"] for memory_id in ids] == ["detail", "detail", "learning"]
    page.keyboard.press("Control+a")
    expect(bulk).to_contain_text("13 ticked")
    bulk.get_by_role("button", name="Pin", exact=True).click()
    expect(notice(page)).to_contain_text("Pinned: 12 memories.")  # one was pinned before
    page.keyboard.press("Control+a")
    expect(bulk.get_by_role("button", name="Pin", exact=True)).to_have_count(0)
    page.keyboard.press("Escape")
    expect(bulk).to_be_hidden()
    notice(page).get_by_role("button", name="Undo").click()
    expect(page.locator(".flag.pinned")).to_have_count(1)


# ── Ten thousand memories ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def large_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Return a service with ten thousand memories without vectors."""
    clock = FixedClock()
    store = SqliteStore(tmp_path_factory.mktemp("crowd") / "cofio.db", clock)
    kinds = ("policy", "learning", "observation")
    facts = [
        Fact(text=f"Service {number} listens on port {number + 2_000}.", kind=kinds[number % 3])
        for number in range(LARGE_COUNT)
    ]
    for start in range(0, LARGE_COUNT, 250):
        store.apply([Add(fact) for fact in facts[start : start + 250]], {}, by="test", why="many")
    with Keeper(store, HashEmbedder(), clock) as keeper, serving(keeper) as url:
        yield Caller(url)


def scroll_to(page: Page, share: float) -> None:
    page.locator("#list").evaluate("(box, share) => (box.scrollTop = share * box.scrollHeight)", share)


def test_ten_thousand_memories_are_scrolled_with_few_rows_in_the_page(large_service: Caller, visit: Visitor) -> None:
    page = visit(large_service, "/ui/memories")
    expect(page.locator("#count")).to_have_text("10,000 memories, newest first")
    expect(lines(page).first).to_contain_text("Service 9999 ")
    requested_urls: list[str] = []
    page.on("request", lambda request: "/memories?" in request.url and requested_urls.append(request.url))
    max_rows = 0
    for step in range(1, 20):
        scroll_to(page, step / 20)
        expect(
            lines(page).filter(has_text=re.compile(rf"Service {LARGE_COUNT - LARGE_COUNT * step // 20 - 5} "))
        ).to_have_count(1)
        expect(page.locator(".line.blank")).to_have_count(0)
        max_rows = max(max_rows, lines(page).count())
    assert max_rows < 60
    assert len(requested_urls) < 100  # skipped pages are not loaded
    scroll_to(page, 1)
    last = lines(page).last
    expect(last).to_contain_text("Service 0 ")
    expect(last).to_have_attribute("aria-posinset", "10000")
    expect(last).to_have_attribute("aria-setsize", "10000")
    assert [
        int(position) for position in lines(page).evaluate_all("all => all.map((each) => each.ariaPosInSet)")
    ] == sorted(range(LARGE_COUNT, LARGE_COUNT - lines(page).count(), -1))


def test_keyboard_reaches_both_ends_and_every_page(large_service: Caller, visit: Visitor) -> None:
    page = visit(large_service, "/ui/memories")
    box = page.get_by_role("listbox")
    expect(lines(page).first).to_be_visible()
    box.focus()

    def active_row() -> Locator:
        return page.locator(f"#{box.get_attribute('aria-activedescendant')}")

    page.keyboard.press("End")
    expect(active_row()).to_contain_text("Service 0 ")
    expect(active_row()).to_be_in_viewport(ratio=0.9)
    page.keyboard.press("Enter")
    expect(pane(page).get_by_role("heading", name="Memory 1", exact=True)).to_be_visible()
    page.keyboard.press("PageUp")
    position = int(active_row().get_attribute("aria-posinset") or 0)
    assert LARGE_COUNT - 30 < position < LARGE_COUNT
    page.keyboard.press("ArrowUp")
    expect(active_row()).to_have_attribute("aria-posinset", str(position - 1))
    page.keyboard.press("Home")
    expect(active_row()).to_contain_text("Service 9999 ")
    page.keyboard.press("PageDown")
    assert int(active_row().get_attribute("aria-posinset") or 0) > 3
    assert lines(page).count() < 60
    page.keyboard.press("Control+a")
    expect(page.get_by_role("group", name="What is ticked")).to_contain_text("1,000 ticked")  # the maximum
    page.keyboard.press("Escape")


def test_new_memories_do_not_move_the_view(large_service: Caller, visit: Visitor) -> None:
    page = visit(large_service, "/ui/memories#/5000")
    expect(page.locator("#count")).to_have_text("10,000 memories, newest first")
    scroll_to(page, 0.5)
    row = lines(page).filter(has_text="Service 4995 ")
    expect(row).to_have_count(1)
    expect(pane(page).locator(".history")).to_be_visible()
    press(page, "Edit")
    text = pane(page).get_by_role("textbox", name="Text")
    text.fill("half a thou")
    position = row.bounding_box()
    first_id = add(large_service, "A new one, while somebody reads.")
    pill = page.get_by_role("button", name="1 new memory: show")
    expect(pill).to_be_visible()
    assert row.bounding_box() == position
    large_service.patch("/memory/5000", {"tags": ["elsewhere"]})
    expect(pane(page)).to_contain_text("It was changed meanwhile.")
    expect(text).to_have_value("half a thou")
    expect(text).to_be_focused()
    assert row.bounding_box() == position
    pill.click()
    expect(lines(page).first).to_contain_text("A new one, while somebody reads.")
    expect(page.get_by_role("listbox")).to_be_focused()
    add(large_service, "And another, at the top.")
    expect(lines(page).first).to_contain_text("And another, at the top.")
    expect(text).to_have_value("half a thou")
    press(page, "Cancel")
    expect(pane(page).locator(".history > li").last).to_contain_text("with 249 others")
    pane(page).get_by_role("button", name=re.compile("Undo")).last.click()
    expect(page.get_by_role("dialog", name="Undo the whole change?")).to_contain_text("249 others")
    press(page, "Cancel")
    for memory_id in (first_id, first_id + 1):
        large_service.delete(f"/memory/{memory_id}", purge="true")


# ── Permissions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def service_with_key(serve: Callable[..., Caller], role: str) -> tuple[Caller, str]:
    """Return a service with a key of this role for Ada, and its secret."""
    owner = serve(api_key="owner")
    owner = owner.with_key("owner")
    add(owner, "The whole team deploys on weekdays.", visibility="global", kind="policy")
    add(owner, "Bob looks for another job.", user="bob")
    key = owner.post("/keys", {"name": "ada", "user": "ada", "role": role}).json
    return owner, key["secret"]


def enter_key(page: Page, secret: str) -> None:
    page.get_by_label("API key").fill(secret)
    press(page, "Open")


def test_read_key_sees_memories_and_is_offered_no_actions(serve: Callable[..., Caller], visit: Visitor) -> None:
    owner, secret = service_with_key(serve, "read")
    visit.expected.add(401)
    page = visit(owner, "/ui/memories")
    enter_key(page, secret)
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
    assert accessibility_violations(page) == []
    press(page, "Forget key")
    expect(page.get_by_label("API key")).to_be_visible()
    expect(page.locator(".line")).to_have_count(0)


def test_write_key_sees_and_edits_its_own_memories(serve: Callable[..., Caller], visit: Visitor) -> None:
    owner, secret = service_with_key(serve, "write")
    page = visit(owner, "/ui/memories")
    enter_key(page, secret)
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
    alert = page.get_by_role("dialog").get_by_role("alert")
    expect(alert).to_contain_text("Memory 1 is not private to you, so this key may not erase it.")
    assert owner.get("/memory/1").status == 200


def test_draft_is_removed_with_the_key(serve: Callable[..., Caller], visit: Visitor) -> None:
    owner, secret = service_with_key(serve, "write")
    number = add(owner.with_key(secret), "Ada likes tea.")
    page = visit(owner, f"/ui/memories#/{number}")
    enter_key(page, secret)
    press(page, "Edit")
    pane(page).locator("textarea").fill("Ada likes coffee, and nobody is to know.")
    press(page, "Forget key")
    expect(page.locator("#detail")).to_be_empty()
    enter_key(page, "owner")
    expect(pane(page).locator(".saying .text")).to_have_text("Ada likes tea.")
    expect(page.locator("textarea")).to_have_count(0)


def test_empty_store_explains_what_to_do(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/memories")
    expect(page.locator(".empty")).to_contain_text("Nothing is remembered yet")
    expect(page.get_by_role("listbox")).to_be_hidden()
    assert accessibility_violations(page) == []
    page.locator(".empty").get_by_role("button", name="Add a memory").click()
    page.get_by_role("dialog").get_by_role("textbox", name="What is to be remembered").fill("We deploy on Fridays.")
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    expect(lines(page)).to_have_count(1)


#: Scroll the pane to its end; the history may be drawn after the text.
HISTORY_AT_THE_END = """() => {
  const pane = document.querySelector("#detail");
  pane.scrollTop = pane.scrollHeight;
  const history = pane.querySelector(".history")?.getBoundingClientRect();
  return history && history.bottom > 0 && history.top < innerHeight;
}"""


# ── Accessibility and hostile text ────────────────────────────────────────────────────────────────────────────────────


def test_hostile_and_long_texts_are_shown_as_text(service: Caller, visit: Visitor) -> None:
    add(
        service,
        HOSTILE,
        project=HOSTILE,
        source=HOSTILE,
        agent=HOSTILE,
        tags=[HOSTILE],
        metadata={HOSTILE: HOSTILE},
        speaker=HOSTILE,
    )
    long_text = "".join(f"word{number} " for number in range(1_300))[:10_000].strip()
    add(service, long_text)
    add(service, "x" * 10_000)
    messages = [{"role": "user", "content": f"We switched from Prisma to Drizzle. {HOSTILE}"}]
    service.post("/capture", {"messages": messages, "wait": True, "client": HOSTILE, "session": HOSTILE, "turn": "1"})
    service.patch("/memory/1", {"text": f"{HOSTILE} more"})
    page = visit(service, "/ui/memories#/1")
    expect(pane(page).locator(".saying .text")).to_have_text(f"{HOSTILE} more")
    expect(pane(page).locator(".history > li")).to_have_count(2)
    expect(pane(page).locator(".history ins").first).to_contain_text("more")
    assert page.locator("#page img, #page script").count() == 0
    assert overflow(page) == 0
    for number, text in ((2, long_text), (3, "x" * 10_000)):
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
def test_page_is_accessible(shop: Caller, visit: Visitor, scheme: Any) -> None:
    page = visit(shop, "/ui/memories", color_scheme=scheme)
    line(page, "Stripe").locator(".tick").click()
    press(page, "Filters")
    open_line(page, "every weekday")
    assert accessibility_violations(page) == []
    search(page, "deploy the storefront")
    expect(page.locator(".score").first).to_be_visible()
    assert accessibility_violations(page) == []
    press(page, "Edit")
    assert accessibility_violations(page) == []
    press(page, "Add a memory")
    assert accessibility_violations(page) == []


def test_page_works_by_keyboard(shop: Caller, visit: Visitor) -> None:
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


def test_memory_covers_the_list_on_a_phone(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories", viewport=PHONE)
    expect(lines(page).first).to_be_visible()
    assert overflow(page) == 0
    scroll_to(page, 0.4)
    row = line(page, "cart grows")
    position = row.bounding_box()
    row.locator(".text").click()
    expect(pane(page).locator(".history")).to_be_visible()
    expect(page.get_by_role("listbox")).to_be_hidden()
    expect(pane(page).get_by_role("heading", name="Memory 7")).to_be_focused()
    assert overflow(page) == 0
    assert accessibility_violations(page) == []
    press(page, "Back to the list")
    expect(pane(page)).to_be_hidden()
    expect(page.get_by_role("listbox")).to_be_focused()
    assert row.bounding_box() == position
    assert accessibility_violations(page) == []


def test_screenshots(shop: Caller, visit: Visitor) -> None:
    page = visit(shop, "/ui/memories")
    line(page, "Stripe").locator(".tick").click()
    line(page, "Images").locator(".tick").click(modifiers=["Shift"])
    open_line(page, "Drizzle")
    screenshot(page, "memories-ticked")
    press(page, "Filters")
    press(page, "Edit")
    screenshot(page, "memories-edit")
    press(page, "Cancel")
    press(page, "Filters")
    search(page, "when do we deploy the storefront?")
    open_line(page, "every weekday")
    screenshot(page, "memories")
    page.emulate_media(color_scheme="dark")
    screenshot(page, "memories-dark")
    page.set_viewport_size(PHONE)
    screenshot(page, "memories-phone-detail")
    press(page, "Back to the list")
    screenshot(page, "memories-phone")


# ── Episodes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_episodes_are_shown_next_to_memories_on_request(shop: Caller, visit: Visitor) -> None:
    fields = {"session": "s-42", "turn": "1", "client": "codex", "wait": True}
    shop.post("/capture", {"messages": "Shall we meet at the harbour?", **fields})
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
    assert accessibility_violations(page) == []
    page.get_by_label("Episodes too: what was said").uncheck()
    expect(episodes).to_be_hidden()
