"""The page of memories, as a person uses it: a real browser, the real service, a real store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from cofio.keeper import Keeper
from cofio.stores.sqlite import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.api.caller import Caller
from tests.api.conftest import serving
from tests.page.conftest import PHONE, Visitor, hindrances, overflow, picture

WEIRD = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} "quoted" & \'so\' \u202eback'
MANY = 10_000
WEB, API, INFRA = "/home/ada/storefront", "/home/ada/checkout-api", "/home/ada/infra"
#: What people and agents of a small shop have told, oldest first.
TOLD: list[dict[str, Any]] = [
    {"text": "The storefront is built with Astro; pages are rendered on the server, islands hydrate on demand.",
     "kind": "technology", "project": WEB, "agent": "claude-code", "source": "claude-code/storefront", "tags": ["frontend"]},
    {"text": "Prices are kept in minor units as integers. Never use floats for money.",
     "kind": "policy", "project": API, "agent": "codex", "source": "codex/checkout-api", "tags": ["money"]},
    {"text": "Flaky test: test_refund_webhook fails when the sandbox clock is an hour ahead; freeze time before posting.",
     "kind": "learning", "project": API, "agent": "claude-code", "source": "claude-code/checkout-api", "tags": ["tests"]},
    {"text": "Terraform state lives in the bucket shop-tfstate, locked with DynamoDB.",
     "kind": "observation", "project": INFRA, "agent": "codex", "source": "codex/infra", "tags": ["ops"]},
    {"text": "Ada prefers small pull requests, one concern each, with the reason in the first line.",
     "kind": "preference", "agent": "claude-code", "source": "claude-code/storefront", "speaker": "Ada"},
    {"text": "Postgres 16 runs in production; migrations must be reversible and are applied before the rollout.",
     "kind": "technology", "project": API, "agent": "claude-code", "source": "claude-code/checkout-api", "tags": ["db", "ops"]},
    {"text": "When the cart grows beyond 200 lines the tax service times out; we split the request into batches of 50.",
     "kind": "pattern", "project": API, "agent": "codex", "source": "codex/checkout-api", "tags": ["tax"]},
    {"text": "The on-call rota changes on Mondays at 09:00 Berlin time.",
     "kind": "temporal", "agent": "cursor", "source": "cursor/infra", "tags": ["ops"]},
    {"text": "Images are served through the CDN with a year of cache; a new hash is a new name.",
     "kind": "decision", "project": WEB, "agent": "cursor", "source": "cursor/storefront", "tags": ["frontend"]},
    {"text": "Secrets come from Vault at start; nothing is read from .env in production.",
     "kind": "policy", "project": INFRA, "agent": "codex", "source": "codex/infra", "tags": ["security", "ops"]},
    {"text": "We deploy the storefront on Tuesdays and Thursdays, after the smoke tests have passed.",
     "kind": "policy", "project": WEB, "agent": "claude-code", "source": "claude-code/storefront", "tags": ["release"]},
    {"text": "Stripe retries a webhook for three days: handlers are idempotent by event id.",
     "kind": "learning", "project": API, "agent": "claude-code", "source": "claude-code/checkout-api", "tags": ["payments"]},
]  # fmt: skip


def add(service: Caller, text: str, **about: Any) -> int:
    answer = service.post("/memory/add", {"text": text, **about})
    assert answer.status in (200, 201), answer.json
    return int(answer.json["id"])


@pytest.fixture
def shop(service: Caller) -> Caller:
    """What the shop has told, with one memory that was said anew and one that was learned from a conversation."""
    for told in TOLD:
        add(service, **told)
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
    return page.get_by_role("option")


def line(page: Page, says: str) -> Locator:
    return page.get_by_role("option").filter(has_text=says)


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
    page.get_by_role("searchbox", name="Search memories").fill(text)
    expect(page.locator("#list[aria-busy]")).to_have_count(0)


def test_pictures(shop: Caller, visit: Visitor) -> None:
    visit.expected.add(404)
    page = visit(shop, "/ui/memories")
    expect(lines(page).first).to_be_visible()
    line(page, "Stripe").locator(".tick").click()
    line(page, "Images").locator(".tick").click(modifiers=["Shift"])
    open_line(page, "Drizzle")
    picture(page, "memories-list")
    search(page, "when do we deploy the storefront?")
    expect(page.locator(".score").first).to_be_visible()
    open_line(page, "every weekday")
    picture(page, "memories")
    page.emulate_media(color_scheme="dark")
    picture(page, "memories-dark")
    page.set_viewport_size(PHONE)
    picture(page, "memories-phone-detail")
    press(page, "Back to the list")
    picture(page, "memories-phone")
