"""The audit of a store: what it finds, what it leaves alone, what it shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cofio.ingest.reconcile.compare import Comparer, JudgedComparer
from cofio.ingest.sanitize import redact
from cofio.maintenance import audit, pair_finder
from cofio.maintenance.echo_detection import boot_lines
from cofio.models.maintenance import Audit, Finding
from cofio.models.memory import Add, Anchor, Delete, Fact, Memory, Noop, Occurrence, Retrieval, Update, to_utc_iso
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from cofio.text.briefing import START, BriefingLine, build_block
from cofio.text.tokens import embedding_text
from tests.judges import ValueJudge, comparer

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
NOW = "2026-06-01T00:00:00+00:00"
BY_VALUE = JudgedComparer(ValueJudge())


class Audited:
    """A real store that is filled and then profiled."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.embedder = HashEmbedder()
        self.comparer: Comparer = comparer()
        store.set_signature(self.embedder.signature)

    def keep(self, *facts: str | Fact, embedded: bool = True) -> list[int]:
        """The ids under which they are kept."""
        made = [fact if isinstance(fact, Fact) else Fact(text=fact) for fact in facts]
        vectors = self.embedder.embed([embedding_text(each.text, each.speaker) for each in made], "document")
        given = dict(enumerate(vectors)) if embedded else {}
        done = self.store.apply([Add(each) for each in made], given, by="test", why="test")
        return [change.memory_id for change in done.changes]

    def profile(self, **how: Any) -> Audit:
        usual = {"redact": redact, "stale": nothing_stale, "comparer": self.comparer, "now": NOW}
        return audit.profile(self.store, **{**usual, **how})

    def find(self, name: str, **how: Any) -> Finding:
        return next(finding for finding in self.profile(**how).findings if finding.name == name)

    def ids(self, name: str) -> list[list[int]]:
        """The ids of each example, as many as there are."""
        return [example["ids"] for example in self.find(name, examples=100).examples]


def nothing_stale(memories: Sequence[Memory]) -> dict[int, list[str]]:
    assert all(memory.anchors for memory in memories)
    return {}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Audited]:
    kept = SqliteStore(tmp_path / "cofio.db", FixedClock())
    yield Audited(kept)
    kept.close()


def test_an_empty_store_has_every_finding_and_none_of_them(store: Audited) -> None:
    found = store.profile()
    assert found.memories == 0
    assert [finding.name for finding in found.findings] == [
        *("secrets", "exact_duplicates", "near_duplicates", "contradictions", "echoes"),
        *("stale_anchors", "never_recalled", "unembedded", "oversized"),
    ]
    assert not any(finding.count or finding.examples for finding in found.findings)


def test_facts_that_have_nothing_to_do_with_each_other_are_no_finding(store: Audited) -> None:
    store.keep("We deploy with Fly.io", "The database is Postgres 16", "Ada reviews what touches billing")
    found = store.profile(now="2026-01-02T00:00:00+00:00")
    assert found.memories == 3
    assert {finding.name: finding.count for finding in found.findings if finding.count} == {}


# ── duplicates ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_copies_are_counted_as_what_could_be_spared_the_largest_group_first(store: Audited) -> None:
    twice = store.keep("We deploy with Fly.io", "we deploy  with fly.io")
    thrice = store.keep(*["The database is Postgres 16"] * 3)
    found = store.find("exact_duplicates")
    assert found.count == 3
    assert [example["ids"] for example in found.examples] == [thrice[:2], twice]
    assert "3 memories" in found.examples[0]["reason"]


def test_the_same_words_in_another_place_are_no_copies(store: Audited) -> None:
    said = "We deploy with Fly.io"
    store.keep(
        Fact(text=said, project="/home/ann/shop"),
        Fact(text=said, project="/home/ann/blog"),
        Fact(text=said, project="/home/ann/shop", visibility="team"),
        Fact(text=said, project="/home/ann/shop", agent="codex"),
        Fact(text=said, project="/home/ann/shop", speaker="Bob"),
    )
    assert store.find("exact_duplicates").count == store.find("near_duplicates").count == 0


def test_other_words_for_the_same_are_a_near_duplicate_and_no_copy(store: Audited) -> None:
    first, second = store.keep(
        "The web repository uses pnpm for its packages", "The web repo uses pnpm for its packages"
    )
    store.keep("The repository uses ruff for linting")
    assert store.ids("near_duplicates") == [[second, first]]
    assert store.find("exact_duplicates").count == 0


def test_what_is_archived_repeats_nothing(store: Audited) -> None:
    one, _ = store.keep("We deploy with Fly.io", "We deploy with Fly.io")
    store.store.apply([Delete(one)], {}, by="test", why="test")
    assert store.find("exact_duplicates").count == 0
    assert store.profile().memories == 1


# ── contradictions ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_values_of_one_thing_contradict_each_other_and_the_newer_is_first(store: Audited) -> None:
    store.comparer = BY_VALUE
    old, new = store.keep("The API listens on port 8080", "The API listens on port 9090")
    found = store.find("contradictions")
    assert found.count == 1
    (example,) = found.examples
    assert example["ids"] == [new, old]
    assert example["texts"] == ["The API listens on port 9090", "The API listens on port 8080"]
    assert example["reason"].startswith("it has changed")


def test_what_was_said_again_later_is_the_newer(store: Audited) -> None:
    store.comparer = BY_VALUE
    old, new = store.keep("The API listens on port 8080", "The API listens on port 9090")
    store.store.apply([Noop(old, Occurrence(at="2026-05-01T00:00:00Z"))], {}, by="test", why="test")
    assert store.ids("contradictions") == [[old, new]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We use Stripe for payments", "We also use PayPal for payments"),
        ("We also use PayPal for payments", "We use Stripe for payments"),
        ("The staging database is Postgres", "For now the staging database is SQLite"),
        ("Ada is on call this week", "Bob is on call next week"),
    ],
)
def test_what_may_both_hold_is_no_contradiction(store: Audited, one: str, other: str) -> None:
    store.keep(one, other)
    assert store.find("contradictions").count == 0


def test_two_projects_may_disagree(store: Audited) -> None:
    for project, port in (("/home/ann/shop", 8080), ("/home/ann/blog", 9090)):
        store.keep(Fact(text=f"The API listens on port {port}", project=project))
    assert store.find("contradictions").count == 0


# ── echoes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        build_block([BriefingLine(1, "We deploy with Fly.io", "shop", "2026-01-01")], START)[0],
        "## Relevant Memories\n- [0.80] We deploy with Fly.io",
        "- [claude-code/shop, 2026-01-01] We deploy with Fly.io",
        "[0.83] We deploy with Fly.io",
        "<system-reminder>\nWe deploy with Fly.io\n</system-reminder>",
        "Contents of /home/ann/shop/CLAUDE.md (project instructions):\n\nWe deploy with Fly.io",
        "# AGENTS.md instructions for /home/ann/shop\nWe deploy with Fly.io",
    ],
)
def test_a_text_with_the_marks_of_what_was_put_before_an_agent_is_an_echo(store: Audited, text: str) -> None:
    assert store.ids("echoes") == []
    assert [store.keep(text)] == store.ids("echoes")


@pytest.mark.parametrize(
    "text",
    [
        "Hygiene strips the `<system-reminder>` tag from what is captured",
        "The deploy rules are in CLAUDE.md and AGENTS.md",
        "The heading Relevant Memories is shown in bold",
        "[shop] uses semantic versions",
    ],
)
def test_to_speak_of_such_marks_is_no_echo(store: Audited, text: str) -> None:
    store.keep(text)
    assert store.find("echoes").count == 0


def test_what_an_agent_learned_again_from_another_is_an_echo(store: Audited) -> None:
    said = "We deploy the shop with Fly.io"
    (first,) = store.keep(Fact(text=said, project="/home/ann/shop", agent="claude-code"))
    again = store.keep(Fact(text=f"{said}.", project="/home/ann/shop", agent="codex", method="llm"))
    told = store.keep(Fact(text=said, project="/home/ann/shop", speaker="Assistant"))
    assert store.ids("echoes") == [[*told, first], [*again, first]]


def test_what_people_say_or_type_in_is_no_echo(store: Audited) -> None:
    said = "We deploy the shop with Fly.io"
    store.keep(Fact(text=said, project="/home/ann/shop", agent="claude-code", method="llm"))
    store.keep(Fact(text=said, project="/home/ann/shop", agent="codex"))  # typed in
    store.keep(Fact(text=said, project="/home/ann/shop", speaker="Bob", method="llm"))
    store.keep(Fact(text=said, project="/home/ann/blog", method="llm"))  # where nobody could see the first
    assert store.find("echoes").count == 0


def test_what_belongs_to_no_project_is_echoed_anywhere(store: Audited) -> None:
    (first,) = store.keep("Ann prefers tabs over spaces")
    again = store.keep(Fact(text="Ann prefers tabs over spaces", project="/home/ann/shop", method="pattern"))
    assert store.ids("echoes") == [[*again, first]]


def test_what_was_learned_from_a_boot_file_of_the_project_is_an_echo(store: Audited, tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("# Shop\n\n- **Deploy** the shop with Fly.io.\n- never on Fridays\n")
    said = Fact(text="Deploy the shop with Fly.io", project=str(tmp_path), method="llm")
    (echo,) = store.keep(said)
    store.keep(replace(said, method="manual"), replace(said, project="/home/ann/blog"), replace(said, project="shop"))
    store.keep(replace(said, text="Deploy the blog with Fly.io"))
    found = store.find("echoes", boot=boot_lines)
    assert [(example["ids"], example["reason"]) for example in found.examples] == [([echo], "CLAUDE.md says so")]
    assert store.find("echoes").count == 0


def test_a_boot_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").mkdir()
    (tmp_path / "AGENTS.md").write_bytes(b"\xff\xfe Use pnpm\n")
    assert [name for _, name in boot_lines(str(tmp_path))] == ["AGENTS.md"]
    assert list(boot_lines("shop")) == list(boot_lines("/no\0where")) == []


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("where", "fact"),
    [
        ("text", Fact(text=f"The deploy token is {KEY}")),
        ("context", Fact(text="That is the token", context=f"Is it {KEY}?")),
        ("metadata", Fact(text="That is the token", metadata={"seen": {"token": KEY}})),
        ("tags", Fact(text="That is the token", tags=(KEY,))),
    ],
)
def test_a_secret_is_found_wherever_it_stands_and_is_never_shown(store: Audited, where: str, fact: Fact) -> None:
    ids = store.keep(fact)
    found = store.profile()
    secrets = next(finding for finding in found.findings if finding.name == "secrets")
    assert [example["ids"] for example in secrets.examples] == [ids]
    assert where in secrets.examples[0]["reason"]
    assert "[redacted:" in secrets.examples[0]["reason"]
    assert KEY not in json.dumps(found.as_dict())


def test_a_secret_that_was_superseded_or_archived_is_still_there(store: Audited) -> None:
    old, archived = store.keep(f"The first token is {KEY}", f"The other token is {KEY}")
    done = store.store.apply([Update(old, Fact(text="The token is gone")), Delete(archived)], {}, by="test", why="test")
    assert store.ids("secrets") == [[done.changes[0].memory_id], [archived], [old]]


def test_no_other_finding_shows_a_secret_either(store: Audited) -> None:
    one, other = f"{KEY}", f"{KEY[:-4]}Zz9Y"
    store.keep(*[f"The deploy token is {one}"] * 2, f"The deploy token is {other}", f"{one} " + "long " * 500)
    told = json.dumps(store.profile(examples=100).as_dict())
    assert one not in told
    assert other not in told
    assert "[redacted:" in told


# ── the rest ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_old_and_was_never_recalled_is_told_with_how_long_that_was_noted(store: Audited) -> None:
    old, asked_for = store.keep("We deploy with Fly.io", "The database is Postgres 16")
    store.store.note([Retrieval(asked_for, "which database?", "test", to_utc_iso("2026-01-02T00:00:00Z"))])
    assert store.ids("never_recalled") == [[old]]
    assert "since 2026-01-02, 150 days" in store.find("never_recalled").says
    assert "too short" not in store.find("never_recalled").says
    early = store.find("never_recalled", now="2026-01-20T00:00:00+00:00")
    assert early.count == 0
    assert "too short" in early.says


def test_where_nothing_was_ever_searched_for_it_says_so(store: Audited) -> None:
    store.keep("We deploy with Fly.io")
    found = store.find("never_recalled")
    assert found.count == 1
    assert "no search was ever recorded" in found.says


def test_what_speaks_of_something_that_changed_is_stale(store: Audited) -> None:
    anchor = Anchor(kind="file", name="src/app.py", path="src/app.py", hash="1")
    fresh, stale = store.keep(*(Fact(text=f"Start {each} in src/app.py", anchors=(anchor,)) for each in "ab"))
    store.keep("We deploy with Fly.io")
    asked: list[int] = []

    def tell(memories: Sequence[Memory]) -> dict[int, list[str]]:
        asked.extend(memory.id for memory in memories)
        return {stale: ["src/app.py has changed since"], fresh: []}

    found = store.find("stale_anchors", stale=tell)
    assert sorted(asked) == [fresh, stale]
    assert [(example["ids"], example["reason"]) for example in found.examples] == [
        ([stale], "src/app.py has changed since")
    ]


def test_what_has_no_vector_and_what_is_too_long_is_told(store: Audited) -> None:
    without = store.keep("We deploy with Fly.io", embedded=False)
    long = store.keep("word " * 500)
    assert store.ids("unembedded") == [without]
    assert store.ids("oversized") == [long]
    assert len(store.find("oversized").examples[0]["texts"][0]) < 300


def test_examples_are_as_many_as_asked_for_and_counts_tell_all(store: Audited) -> None:
    store.keep(*(f"fact {each} " + "word " * 500 for each in range(7)))
    assert [len(store.find("oversized", examples=most).examples) for most in (0, 3)] == [0, 3]
    assert store.find("oversized", examples=0).count == 7


def test_two_audits_tell_the_same_and_change_nothing(store: Audited) -> None:
    store.keep(
        "The API listens on port 8080", "The API listens on port 9090", "The API listens on port 7070", "x " * 2000
    )
    before = store.store.stats()
    assert store.profile() == store.profile()
    assert {**store.store.stats(), "bytes": 0} == {**before, "bytes": 0}


def test_only_the_nearest_pairs_are_compared_and_the_note_says_so(
    store: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.comparer = BY_VALUE
    said = "The public API of the shop listens on port"
    store.keep(f"{said} 8080", f"{said} 9090", f"For the admins, {said} 80")
    assert store.profile().note == ""
    monkeypatch.setattr(pair_finder, "MOST_PAIRS", 1)
    found = store.profile()
    assert "1 nearest" in found.note
    assert {finding.name: finding.count for finding in found.findings}["contradictions"] == 1


def test_progress_goes_on_to_the_end(store: Audited) -> None:
    store.keep("The API listens on port 8080", "The API listens on port 9090")
    told: list[tuple[int, int]] = []
    store.profile(progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1] == (100, 100)


def test_an_audit_goes_through_all_pages(store: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_PAGE", 2)
    ids = store.keep("We deploy with Fly.io", *(f"fact number {each}" for each in range(5)), "We deploy with Fly.io")
    assert store.profile().memories == 7
    assert store.ids("exact_duplicates") == [[ids[0], ids[-1]]]
