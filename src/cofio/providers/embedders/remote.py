"""Embedders behind HTTP: OpenAI and compatible servers, and Ollama."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack
from urllib.parse import urlsplit

import numpy as np

from cofio.errors import Misconfigured, Unavailable
from cofio.providers.embedders.query_cache import QueryCache
from cofio.providers.http import DEFAULT_RETRY, Provider, RetryPolicy, check_url

if TYPE_CHECKING:
    from cofio.ports import Matrix

OPENAI = "https://api.openai.com/v1"
OLLAMA = "http://127.0.0.1:11434"

MAX_TEXTS = 256  # of a batch
MAX_BATCH_CHARACTERS = 400_000  # OpenAI accepts 300,000 tokens
MAX_TEXT_CHARACTERS = 8_000  # OpenAI rejects more than 8,191 tokens instead of truncating

#: Unrelated sentences, whose cosines show the floor of a model.
UNRELATED = (
    "The ferry to the island leaves at half past six in the morning.",
    "Use tabs, not spaces, in the Makefile.",
    "Her grandmother grew tomatoes on the balcony.",
    "The quarterly report is due on the third of May.",
    "Whales breathe air and nurse their young.",
    "The database connection pool holds twenty connections.",
    "He broke his left ankle playing football.",
    "Basalt forms when lava cools quickly.",
)


class EmbedderOptions(TypedDict, total=False):
    """Options of remote embedders: the prefixes for the model, its floor, and the number of cached query vectors."""

    query_prefix: str
    document_prefix: str
    floor: float
    recent: int


class _RemoteEmbedder(ABC):
    """Base class of remote embedders: batches, prefixes, recent queries, and checks of the replies."""

    name: str

    def __init__(self, model: str, provider: Provider, dimension: int | None, options: EmbedderOptions) -> None:
        self.model = model
        self._provider = provider
        self._dimension = dimension
        self._floor = options.get("floor")
        self._prefixes = {"query": options.get("query_prefix", ""), "document": options.get("document_prefix", "")}
        self._recent = QueryCache(options.get("recent", 512))

    @property
    def signature(self) -> str:
        prefixes = f"q={self._prefixes['query']}:d={self._prefixes['document']}"
        return f"{self.name}:{self.model}:{self.dimension}:{prefixes}"

    @property
    def dimension(self) -> int:
        """Return the given dimension, or that of the first vector; requests some vectors if there are none yet."""
        if self._dimension is None:
            self._measure()
        assert self._dimension is not None
        return self._dimension

    @property
    def floor(self) -> float:
        """Return the given floor, or the median cosine of some unrelated sentences, requested at the first use."""
        return self._measure() if self._floor is None else self._floor

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        """Return one row per text, in order; very long texts are truncated."""
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        prefixed = [self._prefixes[kind] + text for text in texts]
        return self._recent.through(prefixed, self._embed_all) if kind == "query" else self._embed_all(prefixed)

    def _measure(self) -> float:
        """Return the floor, and set the dimension, with one request."""
        vectors = self._embed_all([self._prefixes["document"] + text for text in UNRELATED])
        if self._floor is None:
            cosines = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
            self._floor = max(0.0, float(np.median(cosines)))
        return self._floor

    def _embed_all(self, texts: Sequence[str]) -> Matrix:
        return np.concatenate([self._normalize(self._request(batch), len(batch)) for batch in _split_batches(texts)])

    @abstractmethod
    def _request(self, batch: Sequence[str]) -> Sequence[Any]:
        """Return the provider's unchecked vectors of the texts, in order."""

    def _normalize(self, rows: Sequence[Any], count: int) -> Matrix:
        """Return the rows at unit length. Raise Unavailable unless there is one usable vector per text."""
        if len(rows) != count:
            raise self._build_malformed(f"{len(rows)} vectors for {count} texts")
        try:
            raw = np.array(rows, np.float64)
        except (TypeError, ValueError) as error:
            raise self._build_malformed("vectors that are not lists of numbers of one length") from error
        if raw.ndim != 2 or not raw.size or not np.isfinite(raw).all():
            raise self._build_malformed("vectors that are not lists of finite numbers")
        dimension = self._dimension = self._dimension or raw.shape[1]
        if raw.shape[1] != dimension:
            hint = f"Set COFIO_EMBEDDER_DIMENSION to {raw.shape[1]}, or choose a model that has {dimension}."
            raise Misconfigured(f"{self.model} returns vectors of {raw.shape[1]} dimensions, not {dimension}.", hint)
        lengths = np.linalg.norm(raw, axis=1, keepdims=True)
        if not lengths.all():
            raise self._build_malformed("a vector of zeros")
        unit: Matrix = (raw / lengths).astype(np.float32)
        return unit

    def _build_malformed(self, problem: str) -> Unavailable:
        hint = f"Check that {self.model} is an embedding model and that {self._provider.url} is its URL."
        return Unavailable(f"{self._provider.name} answered with {problem}.", hint)


class OpenAIEmbedder(_RemoteEmbedder):
    """Embedder at `POST {url}/embeddings`: OpenAI and compatible servers. `dimension` is sent if given."""

    name = "openai"

    def __init__(
        self,
        model: str,
        *,
        url: str = OPENAI,
        key: str = "",
        dimension: int | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
        **options: Unpack[EmbedderOptions],
    ) -> None:
        url = check_url(url, "OpenAI").rstrip("/")
        host = urlsplit(url).netloc
        if url == OPENAI and not key:
            hint = "Set COFIO_EMBEDDER_KEY, or use the embedder `local`."
            raise Misconfigured("The OpenAI embedder needs an API key.", hint)
        denied = f"Set COFIO_EMBEDDER_KEY to a key that {host} accepts for {model}, or use the embedder `local`."
        absent = f"Check the model's name, {model}, and COFIO_EMBEDDER_URL, {url} (usually it ends in /v1)."
        hint = "Try again later; the embedder `local` needs no provider."
        hints = {401: denied, 403: denied, 404: absent}
        name = "OpenAI" if url == OPENAI else host
        super().__init__(model, Provider(name, url, key, retry, hint, hints), dimension, options)
        self._extra = {"dimensions": dimension} if dimension else {}

    def _request(self, batch: Sequence[str]) -> Sequence[Any]:
        body = {"input": list(batch), "model": self.model, "encoding_format": "float", **self._extra}
        entries = _get_list(self._provider.post("/embeddings", body), "data")
        if entries is None or not all(isinstance(entry, Mapping) for entry in entries):
            raise self._build_malformed("a reply without a list of vectors")
        placed = {str(entry.get("index", place)): entry.get("embedding") for place, entry in enumerate(entries)}
        if placed.keys() != {str(place) for place in range(len(batch))}:
            raise self._build_malformed(f"{len(placed)} vectors for {len(batch)} texts")
        return [placed[str(place)] for place in range(len(batch))]


class OllamaEmbedder(_RemoteEmbedder):
    """Embedder at `POST {url}/api/embed`: a model served by Ollama."""

    name = "ollama"

    def __init__(
        self,
        model: str,
        *,
        url: str = OLLAMA,
        dimension: int | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
        **options: Unpack[EmbedderOptions],
    ) -> None:
        hint = f"Check that Ollama runs at {url}: `ollama serve` starts it."
        hints = {404: f"Run `ollama pull {model}`, or choose a model that `ollama list` shows."}
        super().__init__(model, Provider("Ollama", url, "", retry, hint, hints), dimension, options)

    def _request(self, batch: Sequence[str]) -> Sequence[Any]:
        body = {"model": self.model, "input": list(batch), "truncate": True}
        rows = _get_list(self._provider.post("/api/embed", body), "embeddings")
        if rows is None:
            raise self._build_malformed("a reply without a list of vectors")
        return rows


def _get_list(reply: Any, name: str) -> list[Any] | None:
    value = reply.get(name) if isinstance(reply, Mapping) else None
    return value if isinstance(value, list) else None


def _split_batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in lists that fit one request, each truncated to `MAX_TEXT_CHARACTERS` characters."""
    batch: list[str] = []
    size = 0
    for text in texts:
        cut = text[:MAX_TEXT_CHARACTERS] or " "  # OpenAI rejects empty texts
        if batch and (len(batch) == MAX_TEXTS or size + len(cut) > MAX_BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(cut)
        size += len(cut)
    yield batch
