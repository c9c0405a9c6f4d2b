"""The team page: shared facts, and patterns that agents state repeatedly."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.http_api.caller import Caller
from tests.ui.conftest import PHONE, Visitor, accessibility_violations, overflow, screenshot

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} "quoted" & \'so\' \u202eback'
LONG_LENGTH = 10_000
TEAM_FACTS: list[tuple[str, str, str, int]] = [
    ("cursor", "other", "The design tokens are generated: edit tokens.json, not the stylesheet", 1),
    ("codex", "learning", "A retried webhook charges twice unless the idempotency key is kept", 4),
    ("ops", "policy", "Billing never migrates its database on a Friday", 2),
    ("claude-code", "technology", "We moved from Jest to Vitest; snapshots live beside the tests", 1),
    ("codex", "pattern", "The search index lags behind writes by up to 40 seconds under load", 3),
    ("ops", "temporal", "Staging is reset from the production snapshot every Monday at six", 1),
    ("reviewer", "policy", "Migrations stay compatible with the release before", 5),
    ("reviewer", "policy", "Every amount of money is a whole number of minor units; floats are refused in review", 7),
]


def add_team_fact(caller: Caller, text: str, agent: str = "", times: int = 1, **fields: Any) -> int:
    """State a team fact this many times and return its id."""
    for _ in range(times):
        response = caller.post("/memory/add", {"text": text, "agent": agent, "visibility": "team", **fields})
        assert response.status in (200, 201), response.json
    number: int = response.json["id"]
    return number


@pytest.fixture
def team(service: Caller) -> Caller:
    now = datetime(2026, 1, 1, tzinfo=UTC)  # the start of the clock of the service
    for age, (agent, kind, text, times) in enumerate(reversed(TEAM_FACTS)):
        add_team_fact(service, text, agent, times, kind=kind, created_at=(now - timedelta(days=age * 1.4)).isoformat())
    service.post("/memory/add", {"text": "Ada's own note"})
    return service


def box(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def facts(page: Page) -> Locator:
    return box(page, "Facts").get_by_role("listitem")


def patterns(page: Page) -> Locator:
    return box(page, "What agents keep saying").get_by_role("listitem")


def enter_key(page: Page, secret: str) -> None:
    page.get_by_label("API key").fill(secret)
    page.get_by_role("button", name="Open", exact=True).click()


def test_facts_and_repeated_patterns_are_listed(team: Caller, visit: Visitor) -> None:
    page = visit(team, "/ui/team")
    expect(facts(page)).to_have_count(8)
    expect(facts(page).first).to_contain_text("Every amount of money")  # the newest
    expect(facts(page).first).to_contain_text("told 7 times")
    expect(page.locator("body")).not_to_contain_text("Ada's own note")
    expect(patterns(page)).to_have_count(5)
    times = [text.split()[0] for text in patterns(page).all_inner_texts()]
    assert [time.rstrip("×") for time in times] == ["7", "5", "4", "3", "2"]
    expect(patterns(page).first).to_contain_text("reviewer")
    widths = page.locator(".patterns .level").evaluate_all("(bars) => bars.map((bar) => bar.style.inlineSize)")
    assert (widths[0], widths[-1][:5]) == ("100%", "28.57")
    newest = team.get("/team/facts", limit=1).json["memories"][0]
    for entry in (facts(page).first, patterns(page).first):
        expect(entry.locator(".words")).to_have_attribute("href", f"memories#/{newest['id']}")
    expect(page.locator("#status")).to_have_text("8 facts, 5 patterns")


def test_facts_are_filtered_and_the_url_is_updated(team: Caller, visit: Visitor) -> None:
    page = visit(team, "/ui/team")
    tabs = page.get_by_role("navigation", name="Categories")
    tabs.get_by_role("link", name="Learnings").click()
    expect(facts(page)).to_have_count(2)
    expect(patterns(page)).to_have_count(2)
    assert page.url.endswith("#/learning")
    tabs.get_by_role("link", name="Decisions").click()
    expect(facts(page)).to_have_count(4)
    facts(page).first.get_by_role("link", name="policy").click()
    expect(facts(page)).to_have_count(3)
    expect(tabs.locator("[aria-current]")).to_have_text("Kind: policy")
    page.reload()
    expect(facts(page)).to_have_count(3)
    page.go_back()
    expect(facts(page)).to_have_count(4)
    page.goto(f"{team.url}/ui/team#/threshold")
    expect(box(page, "Facts")).to_contain_text("The team knows nothing of this kind.")
    expect(box(page, "What agents keep saying")).to_contain_text("Nothing of this kind was stated twice.")
    visit.expected.add(400)
    page.goto(f"{team.url}/ui/team#/gossip")
    expect(page.locator(".trouble")).to_contain_text("gossip")
    tabs.get_by_role("link", name="All").click()
    expect(facts(page)).to_have_count(8)


def test_several_teams_are_distinguished(service: Caller, visit: Visitor) -> None:
    add_team_fact(service, "We deploy on Fridays.", team="web")
    add_team_fact(service, "We never deploy on Fridays.", team="R&D / north")
    page = visit(service, "/ui/team")
    expect(facts(page)).to_have_count(2)
    facts(page).first.get_by_role("link", name="R&D / north").click()
    expect(facts(page)).to_have_count(1)
    expect(facts(page)).to_contain_text("We never deploy")
    page.reload()
    expect(facts(page)).to_have_count(1)
    page.get_by_role("link", name="Team: R&D / north").click()
    expect(facts(page)).to_have_count(2)


def test_long_list_is_paged(service: Caller, visit: Visitor) -> None:
    batch = [{"text": f"Service {number} has port {7000 + number}.", "visibility": "team"} for number in range(70)]
    service.post("/memory/add-batch", {"memories": batch})
    page = visit(service, "/ui/team")
    expect(facts(page)).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(facts(page)).to_have_count(70)
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)


def test_empty_page_explains_itself_and_updates_live(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/team")
    expect(page.locator(".empty")).to_contain_text("No team memories yet")
    expect(page.locator(".empty .command")).to_have_text(
        'cofio add "Billing never migrates on a Friday" --agent ops --visibility team',
    )
    assert accessibility_violations(page) == []
    screenshot(page, "team-empty")
    add_team_fact(service, "Billing never migrates on a Friday", "ops")
    expect(facts(page)).to_have_count(1)  # it appears without a reload
    expect(box(page, "What agents keep saying")).to_contain_text("No agent has stated the same fact twice yet.")
    link = facts(page).first.locator(".words")
    link.focus()
    add_team_fact(service, "Billing never migrates on a Friday", "ops")
    expect(patterns(page)).to_have_count(1)
    expect(link).to_be_focused()


def test_key_sees_its_own_team(serve: Callable[..., Caller], visit: Visitor) -> None:
    service = serve(api_key="owner")
    owner = service.with_key("owner")
    add_team_fact(owner, "Web deploys on Fridays.", team="web")
    add_team_fact(owner, "Data has a secret plan.", team="data")
    for role in ("read", "write"):
        key = owner.post("/keys", {"name": f"ann's {role}", "user": "ann", "team": "web", "role": role}).json
        page = visit(service, "/ui/team")
        enter_key(page, key["secret"])
        expect(facts(page)).to_have_count(1)
        expect(facts(page)).to_contain_text("Web deploys on Fridays.")
        expect(page.locator("body")).not_to_contain_text("secret plan")
        expect(page.locator(".trouble")).to_have_count(0)
    secret = owner.post("/keys", {"name": "eve", "user": "eve", "team": "ops", "role": "read"}).json["secret"]
    page = visit(service, "/ui/team")
    enter_key(page, secret)
    expect(page.locator(".empty")).to_contain_text("No team memories yet")
    expect(page.locator(".empty code")).to_have_count(0)  # the key may not add
    page.get_by_role("button", name="Forget key").click()
    expect(page.locator("#team")).to_be_empty()


def test_revoked_key_is_reported_and_another_key_works(serve: Callable[..., Caller], visit: Visitor) -> None:
    visit.expected = {401}
    service = serve(api_key="owner")
    owner = service.with_key("owner")
    add_team_fact(owner, "Web deploys on Fridays.", team="web")
    key = owner.post("/keys", {"name": "ann", "user": "ann", "team": "web", "role": "read"}).json
    page = visit(service, "/ui/team")
    enter_key(page, key["secret"])
    expect(facts(page)).to_have_count(1)
    owner.delete(f"/keys/{key['id']}")
    page.get_by_role("link", name="Decisions").click()  # two requests, both rejected
    expect(page.locator("#gate .trouble")).to_contain_text("was revoked")
    expect(page.locator("#team")).to_be_empty()
    page.wait_for_load_state("networkidle")
    expect(page.locator("#gate .trouble")).to_contain_text("was revoked")
    enter_key(page, "owner")
    expect(box(page, "Facts")).to_be_visible()


def test_hostile_texts_are_shown_as_text(service: Caller, visit: Visitor) -> None:
    for text in (HOSTILE, "W" * LONG_LENGTH, "<b>" * 3_333, "\u202eright to left \u2066 isolate"):
        add_team_fact(service, text, HOSTILE, 2, user="U" * 500, team=HOSTILE)
    page = visit(service, "/ui/team", viewport=PHONE)
    expect(facts(page)).to_have_count(4)
    expect(patterns(page)).to_have_count(4)
    expect(facts(page).nth(3)).to_contain_text(HOSTILE[:60])
    expect(patterns(page).first).to_contain_text("onerror")
    assert page.locator("main img, main script").count() == 0
    assert page.locator(".words b").count() == 0
    assert overflow(page) == 0
    assert facts(page).nth(2).evaluate("(it) => it.getBoundingClientRect().height") < 200
    assert accessibility_violations(page) == []


def test_page_works_by_keyboard(team: Caller, visit: Visitor) -> None:
    page = visit(team, "/ui/team")
    expect(facts(page)).to_have_count(8)
    page.get_by_role("link", name="Learnings").focus()
    page.keyboard.press("Enter")
    expect(facts(page)).to_have_count(2)
    expect(page.locator("#which [aria-current]")).to_be_focused()
    focused = []
    for _ in range(9):
        page.keyboard.press("Tab")
        focused.append(page.evaluate("document.activeElement.getAttribute('href')"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert focused[0] == "#/detail"
    assert [target.partition("#")[0] for target in focused[1:]] == ["memories", ""] * 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(team: Caller, visit: Visitor, scheme: Any) -> None:
    page = visit(team, "/ui/team", color_scheme=scheme)
    expect(facts(page)).to_have_count(8)
    assert accessibility_violations(page) == []
    assert overflow(page) == 0
    screenshot(page, "team" if scheme == "light" else "team-dark")


@pytest.mark.parametrize("width", [360, 768, 2560])
def test_page_fits_every_screen(team: Caller, visit: Visitor, width: int) -> None:
    page = visit(team, "/ui/team", viewport={"width": width, "height": 740})
    expect(facts(page)).to_have_count(8)
    assert overflow(page) == 0
    if width == PHONE["width"]:
        assert accessibility_violations(page) == []
        screenshot(page, "team-phone")
