"""Stored memories reach the model in requests of the real clients."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cofio.text.briefing import START_TOKENS, estimate_tokens
from tests.acceptance.laptop import CLIENTS, ClientRun, Laptop, prompts

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
DECISIONS = (*CONVENTIONS, *(f"We decided to keep the code for {part} in a package of its own." for part in PARTS))
DETAIL = "The invoice PDFs are rendered by Typst, from the templates in billing/pdf."
START, PROMPT = "## Relevant Memories", "## Retrieved Memories"


@pytest.fixture(scope="module")
def web(laptop: Laptop) -> Path:
    web = laptop.project("web")
    for text in DECISIONS:  # more than the session start has room for
        laptop.remember(text, web, category="decision", dedup=False)
    laptop.remember(DETAIL, web, category="detail", dedup=False)
    return web


def blocks(ran: ClientRun) -> list[str]:
    """Return the blocks that cofio injected."""
    return re.findall(r"<cofio-memory>.*?</cofio-memory>", ran.read, re.DOTALL)


@pytest.mark.parametrize("client", CLIENTS)
def test_session_start_injects_decisions_and_trivial_prompt_adds_nothing(
    laptop: Laptop, web: Path, client: str
) -> None:
    run = laptop.prompt(client, "Continue.", at=web)
    assert (run.code, run.out.strip()) == (0, "Noted.")
    (block,) = blocks(run)
    assert START in block
    assert START_TOKENS - 40 < estimate_tokens(block) <= START_TOKENS  # no room for others
    assert 8 < sum(text in block for text in DECISIONS) < len(DECISIONS)
    assert DETAIL not in block


@pytest.mark.parametrize("client", CLIENTS)
def test_prompt_injects_matching_memories(laptop: Laptop, web: Path, client: str) -> None:
    run = laptop.prompt(client, "How are the invoice PDFs rendered?", at=web)
    (block,) = [block for block in blocks(run) if PROMPT in block]
    assert DETAIL in block
    assert run.code == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_unrelated_prompt_injects_nothing(laptop: Laptop, web: Path, client: str) -> None:
    run = laptop.prompt(client, "What is the tallest mountain in the Alps?", at=web)
    assert START in run.read
    assert PROMPT not in run.read


def test_resumed_session_gets_no_repeats(laptop: Laptop, web: Path) -> None:
    laptop.claude("How are the invoice PDFs rendered?", "--session-id", SESSION, at=web)
    run = laptop.claude("Where do the invoice PDFs get rendered?", "--resume", SESSION, at=web)
    assert run.read.count(DETAIL) == 1  # from the transcript, which keeps it


SESSION = "5b3f7a52-61c5-4c1c-8a51-0d3d5a0a5f10"


def test_memories_are_injected_again_after_compaction(laptop: Laptop, web: Path) -> None:
    run = laptop.claude("", at=web, says=prompts("Say hello.", "/compact", "Say goodbye."))
    last = run.asked[-1]
    assert "being continued" in last.text  # only the summary remains
    assert last.text.count(START) == 1


def test_project_with_the_same_name_elsewhere_gets_nothing(laptop: Laptop, web: Path) -> None:
    for client in CLIENTS:
        namesake = laptop.project(
            f"{client}/acme/web"
        )  # one marker each, because a statement there may be recalled by the other
        run = laptop.prompt(client, "How are the invoice PDFs rendered?", at=namesake)
        assert run.asked
        assert blocks(run) == []


def test_memories_without_project_are_injected_everywhere(laptop: Laptop, web: Path) -> None:
    other = laptop.project("api")
    laptop.remember("I prefer answers in British English.")
    for client in CLIENTS:
        (block,) = blocks(laptop.prompt(client, "Continue.", at=other))
        assert "British English" in block


def test_service_answered_every_hook_according_to_status(laptop: Laptop, web: Path) -> None:
    laptop.prompt("claude-code", "How are the invoice PDFs rendered?", at=web)
    assert laptop.rungs()
    assert [line for line in laptop.rungs() if " service " not in line] == []
    output = laptop.json("status")["hooks"]
    assert set(output["rungs"]) == {"service"}
    assert (output["spool"], output["bad"]) == (0, 0)
