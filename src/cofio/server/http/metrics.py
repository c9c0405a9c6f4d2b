"""Prometheus metrics: requests by route, durations, memories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

from cofio.models.dashboard import Injection
from cofio.models.exchange import InboxStatus, LearningResult
from cofio.version import __version__

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS"})
_TOKENS = (0, 50, 100, 200, 400, 800, 1_600)
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """Metrics of one app; two apps in a process share none."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "cofio_http_requests", "HTTP requests answered.", ("route", "method", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "cofio_http_request_seconds",
            "Duration of HTTP requests in seconds.",
            ("route",),
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._in_flight = Gauge("cofio_http_in_flight", "HTTP requests in progress.", registry=self._registry)
        self._memories = Gauge(
            "cofio_memories", "Memories in the store, without archived ones.", registry=self._registry
        )
        self._learning = Histogram(
            "cofio_learning_seconds",
            "Duration of learning from an exchange, by method: pattern, llm or none.",
            ("method",),
            registry=self._registry,
            buckets=_SECONDS,
        )
        self._facts = Counter("cofio_facts", "Facts extracted, by decision.", ("action",), registry=self._registry)
        self._misses = Counter(
            "cofio_pattern_misses",
            "Fact-like sentences that no pattern matched.",
            registry=self._registry,
        )
        self._calls = Counter("cofio_model_calls", "Prompts sent to the language model.", registry=self._registry)
        self._tokens = Counter(
            "cofio_model_tokens", "Tokens billed for the language model.", ("direction",), registry=self._registry
        )
        self._injected = Histogram(
            "cofio_injected_tokens",
            "Tokens injected at a prompt or session start; 0 if nothing matched.",
            ("occasion",),
            registry=self._registry,
            buckets=_TOKENS,
        )
        self._inbox = Gauge("cofio_inbox", "Captured exchanges, by state.", ("state",), registry=self._registry)
        Info("cofio", "Version of the service.", registry=self._registry).info({"version": __version__})

    @contextmanager
    def flight(self) -> Iterator[None]:
        """Count a request in progress."""
        with self._in_flight.track_inprogress():
            yield

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a reply. Routes are templates, so that callers cannot create new series."""
        self._requests.labels(route, method if method in _METHODS else "other", str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def learned(self, result: LearningResult) -> None:
        """Count an exchange that was learned from; for a dry run, only the cost. The histogram counts exchanges."""
        if not result.dry_run:
            self._learning.labels(result.method).observe(result.seconds)
            self._misses.inc(result.missed)
            for action in result.actions:
                self._facts.labels(action["action"]).inc()
        self._calls.inc(result.usage.calls)
        self._tokens.labels("input").inc(result.usage.input_tokens)
        self._tokens.labels("output").inc(result.usage.output_tokens)
        self._tokens.labels("cache_read").inc(result.usage.cache_read_tokens)
        self._tokens.labels("cache_write").inc(result.usage.cache_write_tokens)

    def injected(self, injection: Injection) -> None:
        """Count an injection. The histogram counts prompts and starts, its sum is of tokens."""
        self._injected.labels(injection.occasion).observe(injection.tokens)

    def render(self, memories: int, inbox: InboxStatus) -> bytes:
        """Return all metrics in the Prometheus text format."""
        self._memories.set(memories)
        for state in ("pending", "parked", "stored", "merged", "rejected"):
            self._inbox.labels(state).set(getattr(inbox, state) - (inbox.parked if state == "pending" else 0))
        return generate_latest(self._registry)
