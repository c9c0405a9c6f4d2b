"""Search: matching memories for queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from cofio.ingest.redaction import Redactor
from cofio.ingest.writer import check_author
from cofio.models.memory import FreshnessResult, Hit, Query, QueryKwargs, as_query
from cofio.ports import Store
from cofio.retrieval import hybrid
from cofio.retrieval.encoder import StoreEncoder
from cofio.retrieval.log import RetrievalLog
from cofio.retrieval.reranker import Reranker
from cofio.staleness import StalenessChecker
from cofio.text.secrets import redact_shown


@dataclass(eq=False)
class SearchService:
    """Searches the memories that one caller may see."""

    store: Store
    encoder: StoreEncoder
    reranker: Reranker
    log: RetrievalLog
    staleness: StalenessChecker

    def search(self, query: str | Query, *, by: str = "library", **options: Unpack[QueryKwargs]) -> list[Hit]:
        """Return matching memories, best first. The options are the fields of Query and of Scope.

        Secrets in them are redacted, for agents search too; `get` returns a memory as it is.
        """
        return self.search_all([as_query(query, options)], by=by)[0]

    def search_all(self, queries: Sequence[str | Query], *, by: str = "library") -> list[list[Hit]]:
        """Return one list of hits per query, in order."""
        check_author(by)
        checked = [as_query(query, {}) for query in queries]
        hit_lists = self.run(checked)
        for query, hits in zip(checked, hit_lists, strict=True):
            if query.log:
                self.log.note(hits, query.text, by)
        return [[_redact_hit(self.add_freshness(hit)) for hit in hits] for hits in hit_lists]

    def run(self, queries: Sequence[Query]) -> list[list[Hit]]:
        """Return the hits of each query without logging them."""
        texts = list(dict.fromkeys(query.text for query in queries))
        reranked = [query.text for query in queries if query.hybrid and query.rerank]
        get_questions = self.reranker.encode_queries(reranked)  # on another core while the vectors are computed
        vectors = dict(zip(texts, self.encoder.embed(texts, "query"), strict=True)) if texts else {}
        floor, questions = self.encoder.floor, get_questions()
        return [
            hybrid.hits(query, vectors[query.text], self.store, floor, questions.get(query.text)) for query in queries
        ]

    def add_freshness(self, hit: Hit) -> Hit:
        """Return the hit with the freshness of the code that it references."""
        freshness = self.staleness.check(hit.memory) if hit.memory.anchors else FreshnessResult()
        return replace(hit, freshness=freshness.state, stale=freshness.notes) if freshness.state else hit


def _redact_hit(hit: Hit) -> Hit:
    memory = Redactor(redact_shown).record(hit.memory)
    return hit if memory is hit.memory else replace(hit, memory=memory)
