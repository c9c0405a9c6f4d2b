"""Echoes: the agent repeats injected memories in various forms, and nothing is learned."""

from __future__ import annotations

import json

import pytest

from cofio.core import Keeper
from cofio.models.memory import Fact
from cofio.ports import Judge
from cofio.testing import ScriptedLLM
from tests.ingest.conftest import KeeperFactory
from tests.judges import ValueJudge

SOURCE = "claude-code/shop"

SERVICES = ("auth", "billing", "search", "mail", "media", "orders", "stock", "audit", "gateway", "reports")
TEMPLATES = (
    "The {} service listens on port {}",
    "The {} service keeps its logs for {} days",
    "Deployments of the {} service wait {} minutes between regions",
    "The {} service retries failed calls {} times",
    "The {} service runs {} replicas in production",
    "The {} queue holds at most {} jobs",
    "The {} cache expires after {} seconds",
    "Backups of the {} database are kept for {} weeks",
    "The {} team meets on day {} of the month",
    "Alerts of the {} service fire above {} errors a minute",
)


def make_facts() -> list[str]:
    """Return a hundred distinct facts."""
    return [
        template.format(service, 3 + 7 * index + row)
        for row, template in enumerate(TEMPLATES)
        for index, service in enumerate(SERVICES)
    ]


def paraphrase(text: str) -> str:
    return f"As noted, {text[0].lower()}{text[1:]}, so we keep to that."


ECHO_FORMS = {
    "tagged": lambda text: f"<cofio-memory>\n- [{SOURCE}] {text}\n</cofio-memory>\nUnderstood.",
    "quoted": lambda text: f'I remember: "{text}".',
    "under the heading": lambda text: f"## Relevant Memories\n\n- [0.80] {text}\n\nI will use that.",
    "paraphrased": paraphrase,
}


@pytest.mark.parametrize("form", ECHO_FORMS)
def test_echo_of_every_memory_adds_nothing(make_keeper: KeeperFactory, form: str) -> None:
    keeper = make_keeper()
    facts = make_facts()
    keeper.add_all([Fact(text=text, source=SOURCE) for text in facts], dedup=False)
    for number, text in enumerate(facts):
        turn = [
            {"role": "user", "content": "What do we know about this?"},
            {"role": "assistant", "content": ECHO_FORMS[form](text)},
        ]
        keeper.capture(turn, wait=True, source=SOURCE, client="c", session="s", turn=str(number))
    assert sorted(memory.text for memory in keeper) == sorted(facts)
    assert all(memory.occurrences == 1 for memory in keeper)
    inbox_status = keeper.inbox_status()
    assert (inbox_status.captured, inbox_status.rejected) == (100, 100)


def test_echo_extracted_by_an_llm_is_rejected(make_keeper: KeeperFactory, judge: Judge) -> None:
    keeper = make_keeper()
    facts = make_facts()
    keeper.add_all([Fact(text=text, source=SOURCE) for text in facts], dedup=False)
    replies = [
        json.dumps({"facts": [{"text": paraphrase(text), "category": "detail", "said_by": "assistant"}]})
        for text in facts
    ]
    llm_keeper = make_keeper(ScriptedLLM(replies), judge=judge)
    for text in facts:
        learned = llm_keeper.extract(f"User: what do we know?\nAssistant: {paraphrase(text)}", source=SOURCE)
        assert [action["action"] for action in learned.actions] == ["rejected"], learned.actions
    assert sorted(memory.text for memory in llm_keeper) == sorted(facts)


BOOT = """<system-reminder>
As you answer, you can use the following context:
# claudeMd
Contents of /home/ann/shop/CLAUDE.md (project instructions, checked into the codebase):

- We always use pnpm, never npm.
- Commit messages follow Conventional Commits.
</system-reminder>
Please fix the login page."""


LESSONS = [
    "Found workaround for the timeouts by adding an index to the orders table",
    "Found workaround for the login loop by clearing the session cookie",
]


@pytest.mark.parametrize("lesson", LESSONS)
def test_known_workaround_is_not_learned_again_from_the_assistant(make_keeper: KeeperFactory, lesson: str) -> None:
    keeper = make_keeper()
    messages = [{"role": "user", "content": "Why did it fail?"}, {"role": "assistant", "content": f"{lesson}."}]
    assert keeper.capture(messages, wait=True, source=SOURCE).state == "stored"
    echo = keeper.capture(messages, wait=True, source=SOURCE)
    assert (echo.state, echo.reason) == ("rejected", "the agent repeats a memory")
    [memory] = keeper
    assert memory.occurrences == 1


def test_user_statement_is_learned_even_if_it_was_injected(value_keeper: Keeper) -> None:
    keeper = value_keeper
    for port in ("8080", "9090"):
        keeper.capture(f"The staging port is {port}.", wait=True, source=SOURCE)
    injected = ("The staging port is 8080",)
    keeper.capture("Actually, the staging port is 8080.", wait=True, source=SOURCE, injected=injected)
    assert [memory.text for memory in keeper] == ["The staging port is 8080"]


def test_speaker_is_derived_from_the_text_if_the_llm_omits_it(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    keeper.add("The auth service listens on port 8080", source=SOURCE)
    llm_keeper = make_keeper(ScriptedLLM([json.dumps(["The auth service listens on port 8080"])]))
    conversation = "User: what do we know?\nAssistant: As I recall, the auth service listens on port 8080."
    learned = llm_keeper.extract(conversation, source=SOURCE)
    assert [action["action"] for action in learned.actions] == ["rejected"]
    [memory] = keeper
    assert memory.occurrences == 1


def test_boot_files_are_not_learned(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    captured = keeper.capture([{"role": "user", "content": BOOT}], wait=True)
    assert captured.state == "rejected"
    assert list(keeper) == []


def test_boot_file_extracted_by_an_llm_is_rejected(make_keeper: KeeperFactory) -> None:
    fact = {"text": "The project always uses pnpm and never npm", "category": "decision", "said_by": "assistant"}
    keeper = make_keeper(ScriptedLLM([json.dumps({"facts": [fact]})]))
    learned = keeper.extract(
        [{"role": "user", "content": BOOT}, {"role": "assistant", "content": "We always use pnpm, never npm."}]
    )
    assert [action["action"] for action in learned.actions] == ["rejected"]
    assert list(keeper) == []


def test_repetition_by_the_user_is_an_occurrence(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    keeper.add("User prefers tabs over spaces", source=SOURCE)
    keeper.capture("I prefer tabs over spaces.", wait=True, source=SOURCE)
    [memory] = keeper
    assert memory.occurrences == 2


def test_correction_by_the_assistant_is_not_an_echo(make_keeper: KeeperFactory) -> None:
    keeper: Keeper = make_keeper()
    keeper.add("The auth service listens on port 8080", source=SOURCE)
    fact = {"text": "The auth service listens on port 9090", "category": "detail", "said_by": "assistant"}
    llm_keeper = make_keeper(ScriptedLLM([json.dumps({"facts": [fact]})], reconciles=False), judge=ValueJudge())
    learned = llm_keeper.extract("User: move it\nAssistant: The auth service listens on port 9090 now.", source=SOURCE)
    assert [action["action"] for action in learned.actions] == ["add"]  # an agent replaces nothing
