"""Finding clusters of similar memories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cofio.maintenance.clusters import LARGEST, group_by_place, near_pairs, star_clusters, without_ids
from cofio.models.memory import Candidate, Scope
from cofio.ports import Store
from tests.maintenance.merge_fixtures import add_memories, open_store


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store() as store:
        yield store


def graph(*edges: tuple[int, int]) -> dict[int, list[Candidate]]:
    """Return a symmetric neighbour graph with equal cosines."""
    results: dict[int, list[Candidate]] = {}
    for one, other in edges:
        results.setdefault(one, []).append(Candidate(other, 0.8))
        results.setdefault(other, []).append(Candidate(one, 0.8))
    return results


def grouped(store: Store, scope: Scope | None = None) -> list[list[str]]:
    results = group_by_place(store, scope or Scope(), lambda: False)
    return sorted(sorted(entry.text for entry in entries) for entries in results.values())


def test_star_has_a_centre_and_its_neighbours() -> None:
    assert star_clusters(graph((1, 2), (1, 3), (1, 4)), 3) == [[1, 2, 3, 4]]


def test_chain_is_not_one_cluster() -> None:
    chain = graph(*((index, index + 1) for index in range(1, 10)))
    assert all(len(star) == 3 for star in star_clusters(chain, 3))  # a centre and two neighbours, never the whole chain


def test_clusters_are_disjoint() -> None:
    results = star_clusters(graph(*((one, other) for one in range(9) for other in range(one) if (one + other) % 3)), 3)
    members = [item for star in results for item in star]
    assert members
    assert len(members) == len(set(members))


def test_cluster_size_is_limited() -> None:
    assert star_clusters(graph((1, 2), (3, 4), (4, 5)), 3) == [[4, 3, 5]]
    crowd = graph(*((0, index) for index in range(1, 40)))
    assert [len(star) for star in star_clusters(crowd, 3)] == [LARGEST]


def test_largest_clusters_come_first() -> None:
    assert star_clusters(graph((1, 2), (1, 3), (4, 5), (4, 6), (4, 7)), 3) == [[4, 5, 6, 7], [1, 2, 3]]


def test_excluded_ids_are_removed_from_the_graph() -> None:
    left = without_ids(graph((1, 2), (1, 3), (2, 3)), [3])
    assert {each: [one.id for one in close] for each, close in left.items()} == {1: [2], 2: [1]}


def test_memories_of_different_scopes_are_separate(store: Store) -> None:
    add_memories(store, "a", "b")
    add_memories(store, "c", project="/home/ann/other")
    add_memories(store, "d", visibility="team")
    add_memories(store, "e", visibility="team", agent="codex")  # team memories of any agent
    add_memories(store, "f", agent="codex")
    add_memories(store, "g", speaker="Ann")
    add_memories(store, "h", source="codex/app")  # any client in a project
    assert grouped(store) == [["a", "b", "h"], ["c"], ["d", "e"], ["f"], ["g"]]


def test_memories_without_project_are_grouped_by_source_prefix(store: Store) -> None:
    for source in ("web/app/one", "web/app/two", "web/app", "web/other", "web"):
        add_memories(store, source, source=source, project="")
    assert grouped(store) == [["web"], ["web/app", "web/app/one", "web/app/two"], ["web/other"]]


def test_archived_memories_and_other_scopes_are_skipped(store: Store) -> None:
    add_memories(store, "here")
    add_memories(store, "elsewhere", source="codex/app")
    assert grouped(store, Scope(source_prefix="claude-code")) == [["here"]]


def test_all_pages_are_read(store: Store) -> None:
    add_memories(store, *(f"fact number {index}" for index in range(450)))
    (entries,) = group_by_place(store, Scope(), lambda: False).values()
    assert len({entry.id for entry in entries}) == 450


def test_long_text_is_replaced_by_its_fingerprint(store: Store) -> None:
    add_memories(store, "word " * 300, "WORD " * 300, "other " * 300)
    (entries,) = group_by_place(store, Scope(), lambda: False).values()
    assert [entry.text for entry in entries] == ["", "", ""]
    assert len({entry.said for entry in entries}) == 2


def test_grouping_stops_on_request(store: Store) -> None:
    add_memories(store, *(f"we deploy number {index}" for index in range(300)))
    (entries,) = group_by_place(store, Scope(), lambda: False).values()
    assert group_by_place(store, Scope(), lambda: True) == {}
    assert len(near_pairs(store, entries, 0.2, lambda: True)) == 1
