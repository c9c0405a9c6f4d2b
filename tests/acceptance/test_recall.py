"""A memory that was stored before reaches the model: in the real clients, in what they really ask it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cofio.text.briefing import START_TOKENS, estimate_tokens
from tests.acceptance.laptop import CLIENTS, Laptop, Ran, prompts

CONVENTIONS = (
    "We use pnpm, never npm.",
    "We deploy with Fly.io.",
    "We write commit messages in the imperative.",
    "We run the end-to-end tests with Playwright.",
    "We keep feature flags in Unleash.",
    "We decided to host the docs with Docusaurus.",
    "We decided to keep sessions in Redis.",
    "We decided to name branches after their ticket.",
    "We decided to send e-mail through Postmark.",
    "We decided to cache images on the CDN for a day.",
)
PARTS = (
    "accounts audit backups badges banners billing calendar carts charts comments coupons dashboards discounts "
    "downloads drafts exports feedback filters forms holidays imports inventory invites invoices labels licences "
    "logins maps menus messages orders payments permissions photos profiles quotas ratings receipts refunds reminders "
    "reports returns roles search shipping signatures stock surveys tags taxes themes tickets vouchers webhooks"
).split()
DECISIONS = (*CONVENTIONS, *(f"We decided to keep the code for {each} in a package of its own." for each in PARTS))
DETAIL = "The invoice PDFs are rendered by Typst, from the templates in billing/pdf."
START, PROMPT = "## Relevant Memories", "## Retrieved Memories"


@pytest.fixture(scope="module")
def web(laptop: Laptop) -> Path:
    web = laptop.project("web")
    for text in DECISIONS:  # more than a start has room for
        laptop.remember(text, web, category="decision", dedup=False)
    laptop.remember(DETAIL, web, category="detail", dedup=False)
    return web


def blocks(ran: Ran) -> list[str]:
    """What cofio put before the model, block by block."""
    return re.findall(r"<cofio-memory>.*?</cofio-memory>", ran.read, re.DOTALL)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_matters_in_the_project_is_there_at_the_start_and_a_trivial_prompt_brings_no_more(
    laptop: Laptop, web: Path, client: str
) -> None:
    ran = laptop.prompt(client, "Continue.", at=web)
    assert (ran.code, ran.out.strip()) == (0, "Noted.")
    (block,) = blocks(ran)
    assert START in block
    assert START_TOKENS - 40 < estimate_tokens(block) <= START_TOKENS  # there is room for no other
    assert 8 < sum(text in block for text in DECISIONS) < len(DECISIONS)
    assert DETAIL not in block


@pytest.mark.parametrize("client", CLIENTS)
def test_a_prompt_brings_what_it_is_about(laptop: Laptop, web: Path, client: str) -> None:
    ran = laptop.prompt(client, "How are the invoice PDFs rendered?", at=web)
    (block,) = [each for each in blocks(ran) if PROMPT in each]
    assert DETAIL in block
    assert ran.code == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_a_prompt_about_something_else_brings_nothing(laptop: Laptop, web: Path, client: str) -> None:
    ran = laptop.prompt(client, "What is the tallest mountain in the Alps?", at=web)
    assert START in ran.read
    assert PROMPT not in ran.read


def test_a_session_that_is_resumed_is_not_given_the_same_again(laptop: Laptop, web: Path) -> None:
    laptop.claude("How are the invoice PDFs rendered?", "--session-id", SESSION, at=web)
    ran = laptop.claude("Where do the invoice PDFs get rendered?", "--resume", SESSION, at=web)
    assert ran.read.count(DETAIL) == 1  # from the transcript, where it stays


SESSION = "5b3f7a52-61c5-4c1c-8a51-0d3d5a0a5f10"


def test_after_a_compaction_the_memories_are_given_anew(laptop: Laptop, web: Path) -> None:
    ran = laptop.claude("", at=web, says=prompts("Say hello.", "/compact", "Say goodbye."))
    last = ran.asked[-1]
    assert "being continued" in last.text  # all but the summary is gone
    assert last.text.count(START) == 1


def test_a_project_elsewhere_with_the_same_name_is_given_nothing_of_it(laptop: Laptop, web: Path) -> None:
    for client in CLIENTS:
        namesake = laptop.project(f"{client}/acme/web")  # one for each: what one says there, the other may be given
        ran = laptop.prompt(client, "How are the invoice PDFs rendered?", at=namesake)
        assert ran.asked
        assert blocks(ran) == []


def test_what_belongs_to_no_project_is_given_in_every_one(laptop: Laptop, web: Path) -> None:
    elsewhere = laptop.project("api")
    laptop.remember("I prefer answers in British English.")
    for client in CLIENTS:
        (block,) = blocks(laptop.prompt(client, "Continue.", at=elsewhere))
        assert "British English" in block


def test_every_hook_was_answered_by_the_service_and_status_says_so(laptop: Laptop, web: Path) -> None:
    laptop.prompt("claude-code", "How are the invoice PDFs rendered?", at=web)
    assert laptop.rungs()
    assert [line for line in laptop.rungs() if " service " not in line] == []
    told = laptop.json("status")["hooks"]
    assert set(told["rungs"]) == {"service"}
    assert (told["spool"], told["bad"]) == (0, 0)
