"""Late-interaction re-ranking: the best hits of a search are re-ranked by token embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Timer
from typing import Literal

import pytest

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import Forbidden, Misconfigured, StoreError
from cofio.models.memory import Fact, Viewer
from cofio.ports import Matrix
from cofio.retrieval.hybrid import READ_WEIGHT
from cofio.server.background.inbox_worker import InboxWorker
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore, WordOverlapModel
from cofio.text.tokens import read_in_context


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    clock = FixedClock()
    with Keeper(MemoryStore(clock), HashEmbedder(), clock, reranker=WordOverlapModel()) as keeper:
        yield keeper


class FailingModel(WordOverlapModel):
    """Raise Misconfigured instead of loading a model."""

    def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:
        raise Misconfigured("The model is gone.", "Bring it back.")


class NewerModel(WordOverlapModel):
    """Use another model signature."""

    signature = "words, anew"


class CountingModel(WordOverlapModel):
    """Record the texts to embed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:
        self.texts += texts
        return super().read(texts, kind)


# ── Embedded text ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_first_person_is_replaced_by_the_speaker() -> None:
    assert read_in_context("I'm moving, and my cat too. I’ve told me", "Ann", "") == (
        "Ann: Ann is moving, and Ann's cat too. Ann has told Ann"
    )
    assert read_in_context("I moved", "", "") == "I moved"
    assert read_in_context("I moved", r"C:\1", "") == r"C:\1: C:\1 moved"  # a name is no pattern


def test_end_of_the_previous_message_goes_first() -> None:
    assert read_in_context("yes", "Ann", "shall we?") == "shall we? Ann: yes"
    assert len(read_in_context("yes", "", "x" * 1_000)) == 250 + len(" yes")


# ── Ranking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_reranking_blends_the_token_score_into_the_score(keeper: Keeper) -> None:
    keeper.add("the harbour is closed", context="when does the ferry to Oban leave")
    before = keeper.search("when does the ferry leave", explain=True)[0]
    assert keeper.services.embeddings.pending_token_embeddings() == 1
    assert keeper.services.embeddings.build_token_embeddings() == 1
    assert keeper.services.embeddings.pending_token_embeddings() == 0
    after = keeper.search("when does the ferry leave", explain=True)[0]
    assert after.score == pytest.approx((1 - READ_WEIGHT) * before.score + READ_WEIGHT * 1.0)
    assert after.why is not None
    shares = after.why.vector_share + after.why.keyword_share
    assert shares + READ_WEIGHT == pytest.approx(after.score)
    assert f"{READ_WEIGHT:.2f} × 1.000 (re-ranking)" in after.why.formula
    plain = keeper.search("when does the ferry leave", rerank=False)[0]
    assert plain.score == pytest.approx(before.score)


def test_better_token_match_ranks_first(keeper: Keeper) -> None:
    keeper.add("ferry timetable, leave")
    keeper.add("at nine", context="when does the ferry leave?")
    question = "when does the ferry leave"
    assert keeper.search(question)[0].text == "ferry timetable, leave"
    keeper.services.embeddings.build_token_embeddings()
    assert keeper.search(question)[0].text == "at nine"


def test_memory_without_token_embeddings_keeps_its_score(keeper: Keeper) -> None:
    keeper.add("tea is served at four")
    keeper.services.embeddings.build_token_embeddings()
    keeper.add("coffee is served at five")
    scores = {hit.text: hit.score for hit in keeper.search("what is served", k=5)}
    plain = {hit.text: hit.score for hit in keeper.search("what is served", k=5, rerank=False)}
    assert scores["coffee is served at five"] == pytest.approx(plain["coffee is served at five"])
    assert scores["tea is served at four"] != pytest.approx(plain["tea is served at four"])


def test_memory_too_long_to_embed_keeps_its_score() -> None:
    class ShortTextModel(WordOverlapModel):
        """Embed texts of at most ten words."""

        def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:
            return [words if len(words.split()) <= 10 else b"" for words in super().read(texts, kind)]

    clock = FixedClock()
    long = "the ferry leaves at nine from the northern pier unless a storm is announced by the harbour master"
    with Keeper(MemoryStore(clock), HashEmbedder(), clock, reranker=ShortTextModel()) as keeper:
        keeper.add(long)
        before = keeper.search("when does the ferry leave")[0].score
        assert (
            keeper.services.embeddings.build_token_embeddings(),
            keeper.services.embeddings.pending_token_embeddings(),
        ) == (1, 0)
        assert keeper.search("when does the ferry leave")[0].score == pytest.approx(before)
        assert keeper.search(f"when does the ferry leave, and {long}")


def test_pages_of_reranked_hits_do_not_overlap(keeper: Keeper) -> None:
    keeper.add_all([Fact(text=f"ferry number {number} leaves at {number % 7}") for number in range(90)], dedup=False)
    keeper.services.embeddings.build_token_embeddings(most=45)
    question = "which ferry leaves at 3"
    paged = [hit.id for skip in range(0, 40, 8) for hit in keeper.search(question, k=8, skip=skip)]
    assert len(set(paged)) == len(paged) == 40


def test_search_waits_for_a_slow_model() -> None:
    class SlowModel(WordOverlapModel):
        """Embed a query only after its vector was made."""

        ready = Event()

        def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:
            if kind == "query":
                self.ready.wait(60)
            return super().read(texts, kind)

    class SignallingEmbedder(HashEmbedder):
        def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
            if kind == "query":
                Timer(0.6, SlowModel.ready.set).start()
            return super().embed(texts, kind)

    clock = FixedClock()
    with Keeper(MemoryStore(clock), SignallingEmbedder(), clock, reranker=SlowModel()) as keeper:
        keeper.add("the ferry leaves at nine")
        keeper.services.embeddings.build_token_embeddings()
        plain = keeper.search("when does the ferry leave", rerank=False)[0].score
        assert keeper.search("when does the ferry leave")[0].score != pytest.approx(plain)


def test_vector_only_search_is_not_reranked(keeper: Keeper) -> None:
    keeper.add("the ferry leaves at nine")
    before = keeper.search("ferry", hybrid=False)[0].score
    keeper.services.embeddings.build_token_embeddings()
    assert keeper.search("ferry", hybrid=False)[0].score == before


def test_search_without_reranking_does_not_embed_the_query() -> None:
    clock, reader = FixedClock(), CountingModel()
    with Keeper(MemoryStore(clock), HashEmbedder(), clock, reranker=reader) as keeper:
        keeper.search("one", hybrid=False)
        keeper.search("two", rerank=False)
        keeper.search("three")
    assert reader.texts == ["three"]


def test_reranking_respects_visibility(keeper: Keeper) -> None:
    keeper.add(Fact(text="the ferry leaves at nine", user="bob", visibility="private"))
    keeper.add(Fact(text="the ferry is blue", user="ann", visibility="private"))
    keeper.services.embeddings.build_token_embeddings()
    ann = keeper.as_viewer(Viewer(user="ann"))
    assert [hit.text for hit in ann.search("when does the ferry leave", k=5)] == ["the ferry is blue"]
    with pytest.raises(Forbidden):
        ann.services.embeddings.pending_token_embeddings()


# ── Failures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_failing_model_disables_reranking_and_logs_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = FixedClock()
    with Keeper(MemoryStore(clock), HashEmbedder(), clock, reranker=FailingModel()) as keeper:
        keeper.add("the ferry leaves at nine")
        assert keeper.search("ferry")[0].text == "the ferry leaves at nine"
        assert keeper.search("ferry")
        assert [record.message for record in caplog.records].count(caplog.records[-1].message) == 1


def test_failing_model_affects_nothing_but_reranking(caplog: pytest.LogCaptureFixture) -> None:
    clock = FixedClock()
    with Keeper(MemoryStore(clock), HashEmbedder(), clock, reranker=FailingModel()) as keeper:
        keeper.add(Fact(text="the ferry leaves at nine", user="ann"))
        ann = keeper.as_viewer(Viewer(user="ann"))
        keeper.warm()
        assert keeper.services.embeddings.build_token_embeddings() == 0
        assert InboxWorker(keeper)._do_pending_work() == 2.0
        assert ann.search("ferry")
        assert len(caplog.records) == 1  # viewers hear of it too


def test_search_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock, reranker=WordOverlapModel()) as keeper:
        keeper.add("the ferry leaves at nine")
        with store._file.writing() as connection:
            assert keeper.search("ferry")
            assert connection.execute("SELECT count(*) FROM meta WHERE name = 'reader'").fetchone() == (0,)


def test_worker_yields_to_writers(tmp_path: Path) -> None:
    clock = FixedClock()
    stores = [SqliteStore(tmp_path / "cofio.db", clock) for _ in range(2)]
    with Keeper(stores[0], HashEmbedder(), clock, reranker=WordOverlapModel()) as keeper:
        keeper.add_all([Fact(text=f"fact {number}") for number in range(20)], dedup=False)
        keeper.services.embeddings.build_token_embeddings(most=1)
        with stores[1]._file.writing():
            assert InboxWorker(keeper)._do_pending_work() == 2.0
        stores[1].close()


def test_two_models_on_one_store_do_not_mix_token_embeddings() -> None:
    clock, store = FixedClock(), MemoryStore(FixedClock())
    old, new = (Keeper(store, HashEmbedder(), clock, reranker=model()) for model in (WordOverlapModel, NewerModel))
    old.add("the ferry leaves at nine")
    assert old.services.embeddings.build_token_embeddings() == 1
    assert new.services.embeddings.build_token_embeddings() == 1
    old.add("the harbour is closed")
    assert old.services.embeddings.build_token_embeddings() == 0  # it is the newer one's to read
    plain = [hit.score for hit in old.search("ferry", rerank=False)]
    assert [hit.score for hit in old.search("ferry")] == plain
    assert [hit.score for hit in new.search("ferry")] != plain


def test_closed_keeper_raises_store_error(tmp_path: Path) -> None:
    clock = FixedClock()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock, reranker=WordOverlapModel())
    keeper.search("ferry")
    keeper.close()
    with pytest.raises(StoreError, match="closed"):
        keeper.search("ferry")


def test_without_a_model_nothing_is_pending() -> None:
    clock = FixedClock()
    with Keeper(MemoryStore(clock), HashEmbedder(), clock) as keeper:
        keeper.add("the ferry leaves at nine")
        assert (
            keeper.services.embeddings.pending_token_embeddings(),
            keeper.services.embeddings.build_token_embeddings(),
        ) == (0, 0)


def test_reranking_can_be_disabled(tmp_path: Path) -> None:
    assert bootstrap.make_reader(Settings.load({"home": tmp_path, "rerank": False})) is None


# ── In the background ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_worker_embeds_pending_memories_and_idles_when_done(tmp_path: Path) -> None:
    clock = FixedClock()
    with Keeper(
        SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock, reranker=WordOverlapModel()
    ) as keeper:
        keeper.add_all([Fact(text=f"fact {number}") for number in range(20)], dedup=False)
        worker = InboxWorker(keeper)
        assert worker._do_pending_work() < 2.0
        assert keeper.services.embeddings.pending_token_embeddings() == 12
        worker._do_pending_work()
        assert worker._do_pending_work() == 2.0
        assert keeper.services.embeddings.pending_token_embeddings() == 0
