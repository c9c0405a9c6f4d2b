"""Prompt recall by the relevance of the judgement model, and without repetition within a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from cofio.core import Keeper
from cofio.judgement.onnx_classifier import Relation
from cofio.judgement.spans import Span
from cofio.models.memory import Fact, Memory
from cofio.ports import SentenceVoice
from cofio.retrieval import recall
from cofio.settings import Settings
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from cofio.text.tokens import search_terms
from tests.cli.conftest import running_service

WEB = "/home/ada/web"


class WordJudge:
    """Judge relevance as the share of a memory's search terms that occur in the prompt."""

    thresholds: Mapping[str, float] = {"relevant": 0.6}

    def __init__(self) -> None:
        self.requests: list[tuple[str, list[str]]] = []

    def spans(self, text: str, previous: str = "", role: str = "user", *, windows: int = 8) -> list[Span]:
        return []

    def passages(self, text: str) -> list[SentenceVoice]:
        return []

    def relation(self, statement: str, memory: str) -> Relation:
        return Relation(1.0, 0.0, 0.0, 0.0)

    def relevance(self, prompt: str, memories: Sequence[str]) -> list[float]:
        self.requests.append((prompt, list(memories)))
        known = set(search_terms(prompt))
        return [len(known & set(search_terms(memory))) / max(1, len(search_terms(memory))) for memory in memories]


@pytest.fixture
def judge() -> WordJudge:
    return WordJudge()


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def keeper(judge: WordJudge, clock: FixedClock) -> Iterator[Keeper]:
    with Keeper(MemoryStore(clock), HashEmbedder(), clock, judge=judge) as keeper:
        yield keeper


def add(keeper: Keeper, text: str, **fields: str) -> int:
    return keeper.add(Fact(text=text, **{"project": WEB, **fields}), dedup=False).memory_id  # type: ignore[arg-type]


# ── Relevance ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_memories_at_or_above_the_threshold_are_injected_best_first(keeper: Keeper) -> None:
    half = add(keeper, "deploy production tuesdays noon")
    most = add(keeper, "deploy production")
    add(keeper, "deploy staging fridays evening")
    result = keeper.recall("deploy to production on tuesdays", project=WEB)
    assert result.ids == (most, half)


def test_after_a_relevant_memory_others_need_half_the_probability(keeper: Keeper) -> None:
    half = add(keeper, "deploy noon")
    add(keeper, "deploy staging fridays evening")
    assert keeper.recall("deploy to production on tuesdays", project=WEB).ids == ()
    most = add(keeper, "deploy production")
    assert keeper.recall("deploy to production on tuesdays", project=WEB).ids == (most, half)


def test_configured_minimum_probability_applies_to_every_memory(judge: WordJudge, clock: FixedClock) -> None:
    with Keeper(MemoryStore(clock), HashEmbedder(), clock, judge=judge, recall_min_score=0.6) as keeper:
        add(keeper, "deploy noon")
        most = add(keeper, "deploy production")
        assert keeper.recall("deploy to production on tuesdays", project=WEB).ids == (most,)


def test_at_most_five_of_the_candidates_are_injected(keeper: Keeper, judge: WordJudge) -> None:
    for number in range(recall.CANDIDATES + 4):
        add(keeper, f"deploy production host{number}")
    assert len(keeper.recall("deploy production", project=WEB).ids) == recall.AT_PROMPT
    [(_, memories)] = judge.requests
    assert len(memories) == recall.CANDIDATES


@pytest.fixture
def model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the search score as a sign of relevance, so that the model decides alone."""
    monkeypatch.setattr(recall, "ANSWERS", 2.0)


@pytest.mark.usefixtures("model_alone")
def test_setting_overrides_the_threshold_of_the_model(judge: WordJudge, clock: FixedClock) -> None:
    store = MemoryStore(clock)
    for minimum, expected in ((0.0, False), (0.4, True), (0.9, False)):
        keeper = Keeper(store, HashEmbedder(), clock, judge=judge, recall_min_score=minimum)
        if not keeper.count():
            add(keeper, "deploy production tuesdays noon")
        assert bool(keeper.recall("deploy to production", project=WEB)) is expected


def test_default_threshold_comes_from_the_model_or_the_search(judge: WordJudge) -> None:
    assert recall.Relevance(judge).least == 0.6
    assert recall.Relevance(None).least == recall.MIN_SCORE
    assert recall.Relevance(judge, 0.9).least == recall.Relevance(None, 0.9).least == 0.9
    assert Settings(recall_min_score=0.0).recall_min_score == 0.0


def test_long_prompt_counts_the_better_of_its_two_questions(keeper: Keeper, judge: WordJudge) -> None:
    first, last = add(keeper, "checkout test fails"), add(keeper, "payment iframe late")
    log = "\n".join(f"2026-11-02T10:14:{number % 60:02}Z ERROR [queue] id={number:08x}" for number in range(200))
    result = keeper.recall(f"the checkout test fails again\n{log}\nthe payment iframe is late", project=WEB)
    assert set(result.ids) == {first, last}
    assert [question for question, _ in judge.requests] == [
        "the checkout test fails again",
        "the payment iframe is late",
    ]


def test_injected_memories_do_not_use_up_candidates(keeper: Keeper, judge: WordJudge) -> None:
    for number in range(recall.CANDIDATES + 4):
        add(keeper, f"deploy production host{number}")
    injected: dict[int, str] = {}
    for _ in range(3):
        result = keeper.recall("deploy production", project=WEB, injected=injected)
        assert len(result.ids) == recall.AT_PROMPT
        assert not injected.keys() & result.injected.keys()
        injected.update(result.injected)


@pytest.mark.usefixtures("model_alone")
def test_context_shows_probabilities_and_omits_irrelevant_memories(keeper: Keeper) -> None:
    add(keeper, "deploy production tuesdays")
    add(keeper, "bananas are yellow")
    assert "- [0.67] deploy production tuesdays" in keeper.recall_context("deploy to production")
    assert "No prior context found." in keeper.recall_context("what about cheese")


def test_enrichment_includes_relevant_memories(keeper: Keeper) -> None:
    add(keeper, "deploy production tuesdays")
    add(keeper, "deploy production mondays", visibility="team")
    add(keeper, "deploy staging rarely nowadays")
    own, team = keeper.enrich_prompt("deploy to production", include_team=True).split("## Relevant Team Context:")
    assert [line.rpartition("] ")[2] for line in own.splitlines()[-1:]] == ["deploy production tuesdays"]
    assert [line.rpartition("] ")[2] for line in team.strip().splitlines()[:-1]] == ["deploy production mondays"]
    assert keeper.enrich_prompt("what about cheese") == ""


def test_warm_loads_the_model(keeper: Keeper, judge: WordJudge) -> None:
    keeper.warm()
    assert judge.requests


# ── Within a session ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_memories_of_the_same_session_are_omitted(keeper: Keeper) -> None:
    origin = {"source": "claude-code/web", "session": "s1"}
    own = add(keeper, "deploy production tuesdays", **origin)
    prompt = "deploy to production on tuesdays"
    assert not keeper.recall(prompt, project=WEB, client="claude-code", session="s1")
    assert not keeper.recall(prompt, project=WEB, session="s1")
    assert keeper.recall(prompt, project=WEB, client="claude-code", session="s2").ids == (own,)
    assert keeper.recall(prompt, project=WEB, client="codex", session="s1").ids == (own,)
    assert keeper.recall(prompt, project=WEB).ids == (own,)


def test_memories_from_before_the_compaction_are_shown_again(keeper: Keeper, clock: FixedClock) -> None:
    origin = {"source": "claude-code/web", "session": "s1"}
    before = add(keeper, "deploy production tuesdays", **origin)
    clock.advance(60)
    since = clock()
    add(keeper, "deploy production noon", **origin)
    result = keeper.recall("deploy production tuesdays noon", project=WEB, session="s1", since=since)
    assert result.ids == (before,)


def test_session_start_omits_memories_of_the_session(keeper: Keeper) -> None:
    add(keeper, "deploy production tuesdays", source="claude-code/web", session="s1")
    other = add(keeper, "bananas are yellow", source="claude-code/web", session="s2")
    assert keeper.recall(project=WEB, client="claude-code", session="s1").ids == (other,)


def test_service_omits_memories_of_the_requesting_session(keeper: Keeper) -> None:
    from cofio.client import Client

    own = add(keeper, "deploy production tuesdays", source="claude-code/web", session="s1")
    prompt = "deploy to production on tuesdays"
    with running_service(keeper, Settings.load({"port": 0}, environ={})) as url, Client(url) as client:
        assert client.recall(prompt, project=WEB).ids == (own,)
        assert not client.recall(prompt, project=WEB, client="claude-code", session="s1")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"session": "s1", "source": "codex"}, True),
        ({"session": "s1", "source": "acme/codex/web"}, True),  # a key's sources lie below its prefix
        ({"session": "s1", "source": "codexes/web"}, False),
        ({"session": "", "source": "codex"}, False),
    ],
)
def test_session_is_identified_by_name_and_client(keeper: Keeper, fields: dict[str, str], expected: bool) -> None:
    memory: Memory = keeper.get(add(keeper, "x", **fields))
    assert recall.CurrentSession("codex", "s1").has(memory) is expected
    assert not recall.CurrentSession("codex", "").has(memory)
