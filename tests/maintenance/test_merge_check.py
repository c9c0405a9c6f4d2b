"""Whether a text says what some memories say: good merges pass, what loses, moves or adds something does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest

from cofio.maintenance.merge_check import SimulatedStore, find_distant_member, find_loss, find_lost_query
from cofio.maintenance.text_claims import holds, read
from cofio.models.memory import Fact, Memory, Merge, Query, Retrieval, Scope
from cofio.ports import Store
from cofio.retrieval.hybrid import hits
from cofio.text.duplicates import find_names
from tests.maintenance.merge_cases import BAD, HONEST, Bad, Case
from tests.maintenance.merge_fixtures import EMBEDDER, documents, done, finds, opened, remember


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with opened(request.param, tmp_path) as store:
        yield store


def memories(*texts: str) -> list[Memory]:
    return [Memory(id=place, text=text, created_at="", updated_at="") for place, text in enumerate(texts, 1)]


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_a_merge_that_says_it_all_passes(case: Case) -> None:
    assert find_loss(memories(*case.members), case.merged) == ""


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_a_merge_that_does_not_is_refused_with_the_reason(bad: Bad) -> None:
    reason = find_loss(memories(*bad.members), bad.merged)
    assert reason
    assert bad.reason.lower() in reason.lower()


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_no_number_name_or_code_can_be_taken_out_of_a_good_merge(case: Case) -> None:
    members = memories(*case.members)
    told = read(case.merged)
    digits = re.findall(r"(?<![\w-])\d+(?![\w-])", case.merged)
    for value in {*digits, *told.spans, *find_names(case.merged)}:
        without = re.sub(rf"(?i)(?<![\w-]){re.escape(value)}(?![\w-])", "", case.merged)
        assert holds(read(without), value) or find_loss(members, without), value


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_no_two_numbers_of_a_good_merge_can_change_places(case: Case) -> None:
    members = memories(*case.members)
    numbers = re.findall(r"(?<![\w.:-])\d[\d.:]*\d|(?<![\w.:-])\d(?![\w.-])", case.merged)
    for one in set(numbers):
        for other in set(numbers) - {one}:
            swapped = "\0".join(part.replace(other, one) for part in case.merged.split(one)).replace("\0", other)
            assert find_loss(members, swapped), (one, other)


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_no_negation_can_be_taken_out_of_a_good_merge(case: Case) -> None:
    members = memories(*case.members)
    for found in re.finditer(r"(?i)\b(?:never|not|no longer|no|without|instead of)\s+", case.merged):
        turned = case.merged[: found.start()] + case.merged[found.end() :]
        assert find_loss(members, turned), turned


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_no_negation_can_be_put_into_a_good_merge(case: Case) -> None:
    members = memories(*case.members)
    for found in re.finditer(r"\b(?:is|are|must|uses|use|runs|run|live)\b(?! (?:not|never|no))", case.merged):
        turned = f"{case.merged[: found.end()]} not{case.merged[found.end() :]}"
        assert find_loss(members, turned), turned


def test_three_quarters_of_the_names_that_change_places_are_noticed() -> None:
    """What is missed is mostly nonsense that no model would write, such as "Kubernetes 1.29" turned round."""
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
def test_no_memory_can_be_left_out_of_a_merge(case: Case) -> None:
    for place, member in enumerate(case.members):
        others = [text for text in case.members if text != member]
        joined = "; ".join(others)
        if not set(read(member).words) <= set(read(joined).words):  # it says something of its own
            assert find_loss(memories(*case.members), joined), f"memory {place + 1}"


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_the_memories_one_after_the_other_are_always_a_good_merge(case: Case) -> None:
    assert find_loss(memories(*case.members), ". ".join(case.members) + ".") == ""


def test_units_and_number_words_may_be_written_in_another_way() -> None:
    said = memories(
        "The cache keeps 2 replicas for 30 s", "The cache is limited to 512 MB", "The cache can't be shared"
    )
    assert (
        find_loss(said, "The cache keeps two replicas for 30 seconds, is limited to 512MB and cannot be shared.") == ""
    )
    assert "30" in find_loss(
        said, "The cache keeps two replicas for 30 minutes, is limited to 512 MB and cannot be shared."
    )


def test_names_are_the_same_in_any_case_and_number() -> None:
    said = memories("The team uses docker images", "Docker images are built by GitHub actions", "Images are scanned")
    assert find_loss(said, "The team uses Docker images, which are built by GitHub Actions and scanned.") == ""


def test_a_text_far_from_a_member_is_refused() -> None:
    said = memories("we deploy with make", "we deploy with make on the server")
    own = documents([memory.text for memory in said])
    assert find_distant_member(said, own, documents(["we deploy with make on the server"])[0]) == ""
    assert "memory 1" in find_distant_member(said, own, documents(["cats sleep all day long"])[0])


# ── searches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def what_if(store: Store, members: list[Memory], text: str) -> SimulatedStore:
    merged = Memory(id=-1, text=text, source="claude-code/app", project="/home/ann/app", created_at="", updated_at="")
    return SimulatedStore(store, [memory.id for memory in members], {-1: (merged, documents([text])[0])})


def asked(store: Store, memory: Memory, query: str) -> None:
    store.note([Retrieval(memory.id, query, "ann", "2026-02-01T00:00:00.000000+00:00")])


def test_the_overlay_finds_what_is_found_once_the_merge_is_done(store: Store) -> None:
    case = HONEST[0]
    members = remember(store, *case.members)
    for other in HONEST[1:]:
        remember(store, *other.members)
    overlay = what_if(store, members, case.merged)
    questions = ("which database do integration tests use", "PostgreSQL 16", "docker compose", "rate limit of the API")
    before = {question: finds(question, overlay)[:5] for question in questions}
    (heir, *_) = done(store, [Merge(tuple(m.id for m in members), Fact(text=case.merged, source="s"))]).changes
    for question in questions:
        after = [-1 if find == heir.memory_id else find for find in finds(question, store)[:5]]
        assert set(before[question][:3]) <= set(after)
        assert before[question][0] == after[0]


def test_the_overlay_explains_hits_and_keeps_to_the_scope(store: Store) -> None:
    members = remember(store, *HONEST[0].members)
    overlay = what_if(store, members, HONEST[0].merged)
    vector = EMBEDDER.embed(["PostgreSQL database"], "query")[0]
    (hit,) = hits(Query(text="PostgreSQL database", explain=True), vector, overlay, 0.0)
    assert hit.id == -1
    assert hit.why
    assert "postgresql" in hit.why.words
    assert hits(Query(text="PostgreSQL", scope=Scope(project="/home/ann/other")), vector, overlay, 0.0) == []
    assert overlay.stats() == store.stats()  # whatever is no search is the store's own


def test_a_query_that_found_a_member_must_find_the_merged_text(store: Store) -> None:
    members = remember(store, "we deploy with make", "we deploy from the server", "we deploy on mondays")
    remember(store, *(f"the pelican number {each} eats fish" for each in range(12)))
    asked(store, members[0], "how do we deploy")
    good, bad = (
        what_if(store, members, "we deploy with make from the server"),
        what_if(store, members, "zebra crossing"),
    )
    stands_for = {-1: [memory.id for memory in members]}
    assert find_lost_query(store, finds, stands_for, good) == ""
    assert "how do we deploy" in find_lost_query(store, finds, stands_for, bad)


def test_a_query_that_finds_no_member_today_asks_for_nothing(store: Store) -> None:
    members = remember(store, "we deploy with make", "we deploy from the server", "we deploy on mondays")
    remember(store, *(f"the pelican number {each} eats fish" for each in range(12)))
    asked(store, members[0], "pelican eats fish")  # it was found once; others are nearer by now
    assert find_lost_query(store, finds, {-1: [members[0].id]}, what_if(store, members, "zebra crossing")) == ""


# ── small words and signs ─────────────────────────────────────────────────────────────────────────────────────────────

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
def test_a_small_word_or_a_sign_makes_the_difference(old: str, new: str, reason: str) -> None:
    said = memories(*QUEUE)
    assert find_loss(said, KEPT) == ""
    assert old in KEPT
    told = find_loss(said, KEPT.replace(old, new))
    assert told
    assert reason in told


def test_a_search_may_find_it_a_little_further_down_and_no_more(store: Store) -> None:
    one, two = remember(store, "we deploy with make", "we deploy with make on the server")
    asked(store, one, "how do we deploy?")

    def ranked(place: int) -> Callable[..., list[int]]:
        def finds(_: str, searched: Store, _scope: Scope) -> list[int]:
            others = list(range(1000, 1009))
            return [*others[:place], -1, *others[place:]] if isinstance(searched, SimulatedStore) else [one.id, *others]

        return finds

    after = what_if(store, [one, two], "we deploy with make on the server")
    assert find_lost_query(store, ranked(3), {-1: [one.id, two.id]}, after) == ""
    assert find_lost_query(store, ranked(4), {-1: [one.id, two.id]}, after)
