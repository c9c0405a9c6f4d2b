"""Which memories may belong together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.maintenance.clusters import LARGEST, group_by_place, near_pairs, star_clusters, without_ids
from cofio.models.memory import Candidate, Scope
from cofio.ports import Store
from tests.maintenance.merge_fixtures import opened, remember


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with opened(request.param, tmp_path) as store:
        yield store


def graph(*edges: tuple[int, int]) -> dict[int, list[Candidate]]:
    """Who is near whom, both ways, all with the same cosine."""
    found: dict[int, list[Candidate]] = {}
    for one, other in edges:
        found.setdefault(one, []).append(Candidate(other, 0.8))
        found.setdefault(other, []).append(Candidate(one, 0.8))
    return found


def grouped(store: Store, scope: Scope | None = None) -> list[list[str]]:
    found = group_by_place(store, scope or Scope(), lambda: False)
    return sorted(sorted(entry.text for entry in entries) for entries in found.values())


def test_a_star_is_a_centre_and_those_near_to_it() -> None:
    assert star_clusters(graph((1, 2), (1, 3), (1, 4)), 3) == [[1, 2, 3, 4]]


def test_a_chain_is_no_cluster() -> None:
    chain = graph(*((each, each + 1) for each in range(1, 10)))
    assert all(
        len(star) == 3 for star in star_clusters(chain, 3)
    )  # a centre and its two neighbours, never the whole chain


def test_no_memory_is_in_two_clusters() -> None:
    found = star_clusters(graph(*((one, other) for one in range(9) for other in range(one) if (one + other) % 3)), 3)
    members = [each for star in found for each in star]
    assert members
    assert len(members) == len(set(members))


def test_a_cluster_has_at_least_so_many_members_and_never_too_many() -> None:
    assert star_clusters(graph((1, 2), (3, 4), (4, 5)), 3) == [[4, 3, 5]]
    crowd = graph(*((0, each) for each in range(1, 40)))
    assert [len(star) for star in star_clusters(crowd, 3)] == [LARGEST]


def test_those_with_most_near_them_come_first() -> None:
    assert star_clusters(graph((1, 2), (1, 3), (4, 5), (4, 6), (4, 7)), 3) == [[4, 5, 6, 7], [1, 2, 3]]


def test_what_is_left_out_is_nobodys_neighbour() -> None:
    left = without_ids(graph((1, 2), (1, 3), (2, 3)), [3])
    assert {each: [one.id for one in close] for each, close in left.items()} == {1: [2], 2: [1]}


def test_projects_visibilities_speakers_and_private_agents_are_kept_apart(store: Store) -> None:
    remember(store, "a", "b")
    remember(store, "c", project="/home/ann/other")
    remember(store, "d", visibility="team")
    remember(store, "e", visibility="team", agent="codex")  # the team's, whoever said it
    remember(store, "f", agent="codex")
    remember(store, "g", speaker="Ann")
    remember(store, "h", source="codex/app")  # in a project any client may tell
    assert grouped(store) == [["a", "b", "h"], ["c"], ["d", "e"], ["f"], ["g"]]


def test_what_belongs_to_no_project_is_grouped_by_the_first_two_parts_of_its_source(store: Store) -> None:
    for source in ("web/app/one", "web/app/two", "web/app", "web/other", "web"):
        remember(store, source, source=source, project="")
    assert grouped(store) == [["web"], ["web/app", "web/app/one", "web/app/two"], ["web/other"]]


def test_archived_memories_and_those_outside_the_scope_are_not_read(store: Store) -> None:
    remember(store, "here")
    remember(store, "elsewhere", source="codex/app")
    assert grouped(store, Scope(source_prefix="claude-code")) == [["here"]]


def test_more_memories_than_a_page_are_all_read(store: Store) -> None:
    remember(store, *(f"fact number {each}" for each in range(450)))
    (entries,) = group_by_place(store, Scope(), lambda: False).values()
    assert len({entry.id for entry in entries}) == 450


def test_a_long_text_is_not_kept_but_is_known_by_its_words(store: Store) -> None:
    remember(store, "word " * 300, "WORD " * 300, "other " * 300)
    (entries,) = group_by_place(store, Scope(), lambda: False).values()
    assert [entry.text for entry in entries] == ["", "", ""]
    assert len({entry.said for entry in entries}) == 2


def test_it_stops_when_it_is_told_to(store: Store) -> None:
    remember(store, *(f"we deploy number {each}" for each in range(300)))
    (entries,) = group_by_place(store, Scope(), lambda: False).values()
    assert group_by_place(store, Scope(), lambda: True) == {}
    assert len(near_pairs(store, entries, 0.2, lambda: True)) == 1
