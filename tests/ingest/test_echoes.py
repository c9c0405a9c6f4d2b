"""What the agent was shown is not news, however it says it again."""

from __future__ import annotations

import json

import pytest

from cofio.core import Keeper
from cofio.models.memory import Fact
from cofio.ports import Judge
from cofio.testing import ScriptedLLM
from tests.ingest.conftest import Learning
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


def memories() -> list[str]:
    """A hundred distinct facts."""
    return [
        template.format(service, 3 + 7 * place + row)
        for row, template in enumerate(TEMPLATES)
        for place, service in enumerate(SERVICES)
    ]


def lightly_paraphrased(text: str) -> str:
    return f"As noted, {text[0].lower()}{text[1:]}, so we keep to that."


WAYS = {
    "tagged": lambda text: f"<cofio-memory>\n- [{SOURCE}] {text}\n</cofio-memory>\nUnderstood.",
    "quoted": lambda text: f'I remember: "{text}".',
    "under the heading": lambda text: f"## Relevant Memories\n\n- [0.80] {text}\n\nI will use that.",
    "paraphrased": lightly_paraphrased,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_replay_in_which_the_assistant_repeats_every_memory_adds_none(learning: Learning, way: str) -> None:
    keeper = learning()
    known = memories()
    keeper.add_all([Fact(text=text, source=SOURCE) for text in known], dedup=False)
    for number, text in enumerate(known):
        turn = [
            {"role": "user", "content": "What do we know about this?"},
            {"role": "assistant", "content": WAYS[way](text)},
        ]
        keeper.capture(turn, wait=True, source=SOURCE, client="c", session="s", turn=str(number))
    assert sorted(memory.text for memory in keeper) == sorted(known)
    assert all(memory.occurrences == 1 for memory in keeper)
    inbox_status = keeper.inbox_status()
    assert (inbox_status.captured, inbox_status.rejected) == (100, 100)


def test_nor_does_it_when_a_model_takes_the_repetition_for_a_fact(learning: Learning, judge: Judge) -> None:
    keeper = learning()
    known = memories()
    keeper.add_all([Fact(text=text, source=SOURCE) for text in known], dedup=False)
    replies = [
        json.dumps({"facts": [{"text": lightly_paraphrased(text), "category": "detail", "said_by": "assistant"}]})
        for text in known
    ]
    taught = learning(ScriptedLLM(replies), judge=judge)
    for text in known:
        learned = taught.extract(f"User: what do we know?\nAssistant: {lightly_paraphrased(text)}", source=SOURCE)
        assert [action["action"] for action in learned.actions] == ["rejected"], learned.actions
    assert sorted(memory.text for memory in taught) == sorted(known)


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
def test_a_lesson_that_is_known_is_not_learned_again_from_the_assistant(learning: Learning, lesson: str) -> None:
    keeper = learning()
    said = [{"role": "user", "content": "Why did it fail?"}, {"role": "assistant", "content": f"{lesson}."}]
    assert keeper.capture(said, wait=True, source=SOURCE).state == "stored"
    echo = keeper.capture(said, wait=True, source=SOURCE)
    assert (echo.state, echo.reason) == ("rejected", "the agent repeats a memory")
    [memory] = keeper
    assert memory.occurrences == 1


def test_what_the_user_brings_back_is_meant_although_the_agent_was_shown_it(by_value: Keeper) -> None:
    keeper = by_value
    for port in ("8080", "9090"):
        keeper.capture(f"The staging port is {port}.", wait=True, source=SOURCE)
    shown = ("The staging port is 8080",)
    keeper.capture("Actually, the staging port is 8080.", wait=True, source=SOURCE, injected=shown)
    assert [memory.text for memory in keeper] == ["The staging port is 8080"]


def test_who_said_it_is_told_by_the_words_where_the_model_does_not(learning: Learning) -> None:
    keeper = learning()
    keeper.add("The auth service listens on port 8080", source=SOURCE)
    taught = learning(ScriptedLLM([json.dumps(["The auth service listens on port 8080"])]))
    talk = "User: what do we know?\nAssistant: As I recall, the auth service listens on port 8080."
    learned = taught.extract(talk, source=SOURCE)
    assert [action["action"] for action in learned.actions] == ["rejected"]
    [memory] = keeper
    assert memory.occurrences == 1


def test_boot_files_are_not_learned(learning: Learning) -> None:
    keeper = learning()
    captured = keeper.capture([{"role": "user", "content": BOOT}], wait=True)
    assert captured.state == "rejected"
    assert list(keeper) == []


def test_nor_is_a_boot_file_that_a_model_reads_back(learning: Learning) -> None:
    told = {"text": "The project always uses pnpm and never npm", "category": "decision", "said_by": "assistant"}
    keeper = learning(ScriptedLLM([json.dumps({"facts": [told]})]))
    learned = keeper.extract(
        [{"role": "user", "content": BOOT}, {"role": "assistant", "content": "We always use pnpm, never npm."}]
    )
    assert [action["action"] for action in learned.actions] == ["rejected"]
    assert list(keeper) == []


def test_what_the_user_says_again_is_noted_as_seen(learning: Learning) -> None:
    keeper = learning()
    keeper.add("User prefers tabs over spaces", source=SOURCE)
    keeper.capture("I prefer tabs over spaces.", wait=True, source=SOURCE)
    [memory] = keeper
    assert memory.occurrences == 2


def test_what_the_assistant_corrects_is_not_an_echo(learning: Learning) -> None:
    keeper: Keeper = learning()
    keeper.add("The auth service listens on port 8080", source=SOURCE)
    told = {"text": "The auth service listens on port 9090", "category": "detail", "said_by": "assistant"}
    taught = learning(ScriptedLLM([json.dumps({"facts": [told]})], reconciles=False), judge=ValueJudge())
    learned = taught.extract("User: move it\nAssistant: The auth service listens on port 9090 now.", source=SOURCE)
    assert [action["action"] for action in learned.actions] == ["add"]  # beside it: an agent's word replaces nothing
