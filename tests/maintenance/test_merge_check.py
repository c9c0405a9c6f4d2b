"""The check that a merged text says what its memories say: nothing lost, moved or added."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations

import pytest

from cofio.maintenance.merge_check import SimulatedStore, find_distant_member, find_loss, find_lost_query
from cofio.maintenance.text_claims import holds, read
from cofio.models.memory import Fact, Memory, Merge, Query, Retrieval, Scope
from cofio.ports import Store
from cofio.retrieval.hybrid import hits
from cofio.text.duplicates import find_names
from tests.maintenance.merge_cases import BAD, HONEST, Bad, Case
from tests.maintenance.merge_fixtures import (
    EMBEDDER,
    add_memories,
    apply_decisions,
    embed_documents,
    find_ids,
    open_store,
)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store() as store:
        yield store


def memories(*texts: str) -> list[Memory]:
    return [Memory(id=place, text=text, created_at="", updated_at="") for place, text in enumerate(texts, 1)]


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_complete_merge_is_accepted(case: Case) -> None:
    assert find_loss(memories(*case.members), case.merged) == ""


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_incomplete_merge_is_rejected_with_reason(bad: Bad) -> None:
    reason = find_loss(memories(*bad.members), bad.merged)
    assert reason
    assert bad.reason.lower() in reason.lower()


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_missing_number_name_or_code_is_detected(case: Case) -> None:
    members = memories(*case.members)
    result = read(case.merged)
    digits = re.findall(r"(?<![\w-])\d+(?![\w-])", case.merged)
    for value in {*digits, *result.spans, *find_names(case.merged)}:
        without = re.sub(rf"(?i)(?<![\w-]){re.escape(value)}(?![\w-])", "", case.merged)
        assert holds(read(without), value) or find_loss(members, without), value


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_swapped_numbers_are_detected(case: Case) -> None:
    members = memories(*case.members)
    numbers = re.findall(r"(?<![\w.:-])\d[\d.:]*\d|(?<![\w.:-])\d(?![\w.-])", case.merged)
    for one in set(numbers):
        for other in set(numbers) - {one}:
            swapped = "\0".join(part.replace(other, one) for part in case.merged.split(one)).replace("\0", other)
            assert find_loss(members, swapped), (one, other)


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_removed_negation_is_detected(case: Case) -> None:
    members = memories(*case.members)
    for found in re.finditer(r"(?i)\b(?:never|not|no longer|no|without|instead of)\s+", case.merged):
        turned = case.merged[: found.start()] + case.merged[found.end() :]
        assert find_loss(members, turned), turned


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_added_negation_is_detected(case: Case) -> None:
    members = memories(*case.members)
    for found in re.finditer(r"\b(?:is|are|must|uses|use|runs|run|live)\b(?! (?:not|never|no))", case.merged):
        turned = f"{case.merged[: found.end()]} not{case.merged[found.end() :]}"
        assert find_loss(members, turned), turned


def test_three_quarters_of_swapped_names_are_detected() -> None:
    """The undetected ones are mostly nonsense that no model writes, such as "Kubernetes 1.29" reversed."""
    tried = noticed = 0
    for case in HONEST:
        for one, other in combinations(find_names(case.merged), 2):
            either = re.compile(rf"(?i)(?<![\w/.-])(?:{re.escape(one)}|{re.escape(other)})(?![\w/-])")
            swapped = either.sub(lambda at: other if at.group().lower() == one else one, case.merged)  # noqa: B023
            tried += swapped != case.merged
            noticed += swapped != case.merged and find_loss(memories(*case.members), swapped) != ""
    assert tried > 50
    assert noticed >= 0.75 * tried


@pytest.mark.parametrize("case", [case for case in HONEST if len(case.members) == 3], ids=lambda case: case.name)
def test_missing_memory_is_detected(case: Case) -> None:
    for place, member in enumerate(case.members):
        others = [text for text in case.members if text != member]
        joined = "; ".join(others)
        if not set(read(member).words) <= set(read(joined).words):  # this member has content of its own
            assert find_loss(memories(*case.members), joined), f"memory {place + 1}"


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_concatenated_memories_are_accepted(case: Case) -> None:
    assert find_loss(memories(*case.members), ". ".join(case.members) + ".") == ""


def test_units_and_number_words_may_differ_in_notation() -> None:
    text = memories(
        "The cache keeps 2 replicas for 30 s", "The cache is limited to 512 MB", "The cache can't be shared"
    )
    assert (
        find_loss(text, "The cache keeps two replicas for 30 seconds, is limited to 512MB and cannot be shared.") == ""
    )
    assert "30" in find_loss(
        text, "The cache keeps two replicas for 30 minutes, is limited to 512 MB and cannot be shared."
    )


def test_names_match_in_any_case_and_number() -> None:
    text = memories("The team uses docker images", "Docker images are built by GitHub actions", "Images are scanned")
    assert find_loss(text, "The team uses Docker images, which are built by GitHub Actions and scanned.") == ""


def test_text_dissimilar_to_a_member_is_rejected() -> None:
    text = memories("we deploy with make", "we deploy with make on the server")
    own = embed_documents([memory.text for memory in text])
    assert find_distant_member(text, own, embed_documents(["we deploy with make on the server"])[0]) == ""
    assert "memory 1" in find_distant_member(text, own, embed_documents(["cats sleep all day long"])[0])


# ── searches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def simulate_merge(store: Store, members: list[Memory], text: str) -> SimulatedStore:
    merged = Memory(id=-1, text=text, source="claude-code/app", project="/home/ann/app", created_at="", updated_at="")
    return SimulatedStore(store, [memory.id for memory in members], {-1: (merged, embed_documents([text])[0])})


def record_query(store: Store, memory: Memory, query: str) -> None:
    store.note([Retrieval(memory.id, query, "ann", "2026-02-01T00:00:00.000000+00:00")])


def test_simulated_store_finds_what_the_real_merge_finds(store: Store) -> None:
    case = HONEST[0]
    members = add_memories(store, *case.members)
    for other in HONEST[1:]:
        add_memories(store, *other.members)
    overlay = simulate_merge(store, members, case.merged)
    questions = ("which database do integration tests use", "PostgreSQL 16", "docker compose", "rate limit of the API")
    before = {question: find_ids(question, overlay)[:5] for question in questions}
    (heir, *_) = apply_decisions(
        store, [Merge(tuple(m.id for m in members), Fact(text=case.merged, source="s"))]
    ).changes
    for question in questions:
        after = [-1 if find == heir.memory_id else find for find in find_ids(question, store)[:5]]
        assert set(before[question][:3]) <= set(after)
        assert before[question][0] == after[0]


def test_simulated_store_explains_hits_and_respects_scope(store: Store) -> None:
    members = add_memories(store, *HONEST[0].members)
    overlay = simulate_merge(store, members, HONEST[0].merged)
    vector = EMBEDDER.embed(["PostgreSQL database"], "query")[0]
    (hit,) = hits(Query(text="PostgreSQL database", explain=True), vector, overlay, 0.0)
    assert hit.id == -1
    assert hit.why
    assert "postgresql" in hit.why.words
    assert hits(Query(text="PostgreSQL", scope=Scope(project="/home/ann/other")), vector, overlay, 0.0) == []
    assert overlay.stats() == store.stats()  # other methods are those of the store


def test_query_that_found_a_member_must_find_the_merged_text(store: Store) -> None:
    members = add_memories(store, "we deploy with make", "we deploy from the server", "we deploy on mondays")
    add_memories(store, *(f"the pelican number {index} eats fish" for index in range(12)))
    record_query(store, members[0], "how do we deploy")
    good, bad = (
        simulate_merge(store, members, "we deploy with make from the server"),
        simulate_merge(store, members, "zebra crossing"),
    )
    stands_for = {-1: [memory.id for memory in members]}
    assert find_lost_query(store, find_ids, stands_for, good) == ""
    assert "how do we deploy" in find_lost_query(store, find_ids, stands_for, bad)


def test_query_that_no_longer_finds_a_member_is_ignored(store: Store) -> None:
    members = add_memories(store, "we deploy with make", "we deploy from the server", "we deploy on mondays")
    add_memories(store, *(f"the pelican number {index} eats fish" for index in range(12)))
    record_query(store, members[0], "pelican eats fish")  # found once; other memories are more similar now
    assert (
        find_lost_query(store, find_ids, {-1: [members[0].id]}, simulate_merge(store, members, "zebra crossing")) == ""
    )


# ── function words and symbols ────────────────────────────────────────────────────────────────────────────────────────

QUEUE = (
    "Jobs are retried at most 5 times",
    "Only staging may skip the queue",
    "Jobs probably leak memory when `--keep` is set",
)
KEPT = (
    "Jobs are retried at most 5 times and probably leak memory when `--keep` is set; only staging may skip the queue."
)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("at most", "at least", "at"),
        ("only staging", "staging", "only"),
        ("may skip", "must skip", "m"),
        ("probably leak", "leak", "probably"),
        ("when `--keep` is set", "", "keep"),
        ("`--keep`", "`--Keep`", "eep"),
        ("`--keep`", "`-keep`", "keep"),
        ("staging", "production", ""),
        ("5 times", "5 times or 1 hour", ""),
        ("the queue", "the queue in Kubernetes", ""),
    ],
)
def test_function_word_or_symbol_makes_a_difference(old: str, new: str, reason: str) -> None:
    text = memories(*QUEUE)
    assert find_loss(text, KEPT) == ""
    assert old in KEPT
    result = find_loss(text, KEPT.replace(old, new))
    assert result
    assert reason in result


def test_merged_text_may_rank_slightly_lower(store: Store) -> None:
    one, two = add_memories(store, "we deploy with make", "we deploy with make on the server")
    record_query(store, one, "how do we deploy?")

    def ranked(place: int) -> Callable[..., list[int]]:
        def finds(_: str, searched: Store, _scope: Scope) -> list[int]:
            others = list(range(1000, 1009))
            return [*others[:place], -1, *others[place:]] if isinstance(searched, SimulatedStore) else [one.id, *others]

        return finds

    after = simulate_merge(store, [one, two], "we deploy with make on the server")
    assert find_lost_query(store, ranked(3), {-1: [one.id, two.id]}, after) == ""
    assert find_lost_query(store, ranked(4), {-1: [one.id, two.id]}, after)
