"""A secret that is in the store, kept on purpose or stored before it was recognised, is shown to no agent."""

from __future__ import annotations

import pytest

from cofio.core import Keeper
from cofio.errors import Forbidden
from cofio.hooks import fallback
from cofio.text import briefing

TOKEN = "gh" + "p_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
SAYS = f"Team policy: the crane gateway is reached with {TOKEN} by everybody"


@pytest.fixture
def leaky(keeper: Keeper) -> Keeper:
    keeper.add(SAYS, keep_secret=True, visibility="team", source=f"cli/{TOKEN}", metadata={"raw": SAYS})
    return keeper


def test_recall_search_and_enrich_redact_it(leaky: Keeper) -> None:
    question = "how is the crane gateway reached?"
    shown = [
        leaky.recall().text,
        leaky.recall(question).text,
        leaky.recall_context(question),
        leaky.enrich_prompt(question, include_team=True),
        *(str(hit.as_dict()) for hit in leaky.search(question)),
    ]
    assert all("[redacted:github-token]" in text and TOKEN not in text for text in shown), shown
    assert leaky.get(1).text == SAYS


def test_lines_of_the_hook_fallback_redact_it() -> None:
    line = fallback._make_line((1, SAYS, "", f"cli/{TOKEN}", "2026-01-01", "policy", 0, "", "", ""))
    block, _ = briefing.build_block([line], briefing.START)
    assert "crane gateway" in block
    assert TOKEN not in block


def test_secret_across_the_limit_of_a_text_is_redacted() -> None:
    assert TOKEN[:12] not in briefing.neutralize("a " * 1_990 + TOKEN)


def test_agent_cannot_keep_a_secret(keeper: Keeper) -> None:
    with pytest.raises(Forbidden):
        keeper.as_assistant().add(SAYS, keep_secret=True)
    assert list(keeper) == []
