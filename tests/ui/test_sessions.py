"""The sessions page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.http_api.caller import Caller
from tests.ui.conftest import PHONE, Visitor, accessibility_violations, overflow, screenshot

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} "quoted" & \'so\' \u202eback'


def say(caller: Caller, session: str, prompt: str, answer: str = "Noted.", **fields: Any) -> None:
    messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    arguments = {
        "client": "claude-code",
        "source": "claude-code/web",
        "project": "/srv/web",
        "turn": prompt[:40],
        **fields,
    }
    response = caller.post("/capture", {"messages": messages, "session": session, "wait": True, **arguments})
    assert response.status in (200, 202), answer


@pytest.fixture
def service_with_sessions(service: Caller) -> Caller:
    say(service, "4b1f0d2e-first", "I prefer tabs over spaces.", at="2026-01-05T09:00:00Z")
    say(
        service,
        "4b1f0d2e-first",
        "Now add retries to the client",
        "Shall I write tests too?",
        at="2026-01-05T10:00:00Z",
    )
    text = "7. Pending Tasks:\n   - Write the test for timeouts\n" + "Much was done. " * 80
    messages = [{"role": "assistant", "content": text}]
    fields = {"client": "claude-code", "session": "4b1f0d2e-first", "project": "/srv/web", "turn": "compact-1"}
    service.post("/capture", {"messages": messages, "context": "compact_summary", "wait": True, **fields})
    say(service, "9c3-second", "Where do we deploy?", client="codex", project="/srv/api", at="2026-02-01T09:00:00Z")
    return service


def rows(page: Page) -> Locator:
    return page.locator("#sessions .row")


def test_sessions_are_listed_and_opened(service_with_sessions: Caller, visit: Visitor) -> None:
    page = visit(service_with_sessions, "/ui/sessions")
    expect(rows(page)).to_have_count(2)
    first = rows(page).filter(has_text="/srv/web")
    first.get_by_role("button", expanded=False).click()
    for text in ("Now add retries to the client", "Shall I write tests too?", "Write the test for timeouts", "tabs"):
        expect(first.locator(".detail")).to_contain_text(text)
    assert "#/4b1f0d2e-first" in page.url
    screenshot(page, "sessions")
    first.get_by_role("button", name="Show all").click()
    expect(first.locator(".detail")).to_contain_text("Much was done. " * 70)
    first.locator(".head").click()
    expect(first.locator(".detail")).to_be_hidden()


def test_memory_links_to_its_session_where_it_is_undone(service_with_sessions: Caller, visit: Visitor) -> None:
    page = visit(service_with_sessions, "/ui/sessions#/4b1f")
    page.get_by_role("link", name="memory 1").click()
    page.get_by_role("link", name="4b1f0d2e-first").click()
    expect(page.get_by_role("heading", name="Sessions", exact=True)).to_be_visible()
    page.get_by_role("button", name="Undo changeset 1").click()
    expect(page.get_by_text("undone", exact=True)).to_be_visible()
    assert service_with_sessions.get("/stats").json["memories"] == 0


def test_filters_are_applied_and_kept_in_the_url(service_with_sessions: Caller, visit: Visitor) -> None:
    page = visit(service_with_sessions, "/ui/sessions")
    page.get_by_label("Client").fill("codex")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("/srv/api")
    page.get_by_label("Project").fill("/srv/none")
    expect(page.get_by_text("No session matches.")).to_be_visible()
    assert "project=%2Fsrv%2Fnone" in page.url
    page.reload()
    expect(page.get_by_label("Client")).to_have_value("codex")


def test_unknown_session_shows_an_error(service_with_sessions: Caller, visit: Visitor) -> None:
    visit.expected.add(404)
    page = visit(service_with_sessions, "/ui/sessions#/unknown")
    expect(page.get_by_text("There is no session")).to_be_visible()


def test_empty_list_explains_itself(service: Caller, visit: Visitor) -> None:
    expect(visit(service, "/ui/sessions").get_by_text("No session is recorded yet")).to_be_visible()


def test_key_sees_its_own_sessions(serve: Callable[..., Caller], visit: Visitor) -> None:
    service = serve(api_key="the owner")
    key = service.post("/keys", {"name": "ada", "user": "ada"}, {"X-API-Key": "the owner"}).json
    exchange = {"messages": "User: The vault opens at noon", "client": "codex", "session": "s1", "wait": True}
    service.post("/capture", exchange, {"X-API-Key": "the owner"})
    page = visit(service, "/ui/sessions")
    page.get_by_label("API key").fill(key["secret"])
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("No session is recorded yet")).to_be_visible()


def test_sessions_of_two_owners_with_one_id_are_opened_separately(service: Caller, visit: Visitor) -> None:
    for owner in ("ada", "bob", ""):
        say(service, "s1", f"The editor of {owner or 'nobody'}", user=owner)
    page = visit(service, "/ui/sessions")
    for owner in ("ada", "bob", ""):
        row = rows(page).filter(has_text=f" · {owner}") if owner else rows(page).filter(has_not_text=" · ")
        row.locator(".head").click()
        expect(row.locator(".detail")).to_contain_text(f"The editor of {owner or 'nobody'}")
        assert page.url.endswith(f"owner={owner}")
        page.reload()
        expect(page.locator(".detail:visible")).to_have_count(1)
        expect(page.locator(".detail:visible")).to_contain_text(f"The editor of {owner or 'nobody'}")


def test_hostile_texts_are_shown_as_text(service: Caller, visit: Visitor) -> None:
    say(service, "s1/" + HOSTILE, HOSTILE, HOSTILE, project=HOSTILE)
    page = visit(service, "/ui/sessions")
    rows(page).locator(".head").click()
    expect(rows(page).locator(".turns").last).to_contain_text("alert(1)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(service_with_sessions: Caller, visit: Visitor, scheme: Any) -> None:
    page = visit(service_with_sessions, "/ui/sessions#/4b1f0d2e-first", color_scheme=scheme)
    expect(page.get_by_text("Turns, newest first")).to_be_visible()
    assert accessibility_violations(page) == []


def test_page_fits_a_phone(service_with_sessions: Caller, visit: Visitor) -> None:
    page = visit(service_with_sessions, "/ui/sessions#/4b1f0d2e-first", viewport=PHONE)
    expect(page.get_by_text("Turns, newest first")).to_be_visible()
    assert overflow(page) == 0
