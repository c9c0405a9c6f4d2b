"""Prometheus metrics: requests by route, durations, memories."""

from __future__ import annotations

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
        self._registry = registry = CollectorRegistry()
        labels = ("route", "method", "status")
        self._requests = Counter("cofio_http_requests", "HTTP requests answered.", labels, registry=registry)
        text = "Duration of HTTP requests in seconds."
        self._seconds = Histogram("cofio_http_request_seconds", text, ("route",), registry=registry, buckets=_SECONDS)
        self.in_flight = Gauge("cofio_http_in_flight", "HTTP requests in progress.", registry=registry)
        text = "Memories in the store, without archived ones."
        self._memories = Gauge("cofio_memories", text, registry=registry)
        text = "Duration of learning from an exchange, by method: pattern, llm or none."
        self._learning = Histogram("cofio_learning_seconds", text, ("method",), registry=registry, buckets=_SECONDS)
        self._facts = Counter("cofio_facts", "Facts extracted, by decision.", ("action",), registry=registry)
        text = "Fact-like sentences that no pattern matched."
        self._misses = Counter("cofio_pattern_misses", text, registry=registry)
        self._calls = Counter("cofio_model_calls", "Prompts sent to the language model.", registry=registry)
        text = "Tokens billed for the language model."
        self._tokens = Counter("cofio_model_tokens", text, ("direction",), registry=registry)
        text = "Tokens injected at a prompt or session start; 0 if nothing matched."
        self._injected = Histogram("cofio_injected_tokens", text, ("occasion",), registry=registry, buckets=_TOKENS)
        self._inbox = Gauge("cofio_inbox", "Captured exchanges, by state.", ("state",), registry=registry)
        Info("cofio", "Version of the service.", registry=registry).info({"version": __version__})

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
        for direction in ("input", "output", "cache_read", "cache_write"):
            self._tokens.labels(direction).inc(getattr(result.usage, f"{direction}_tokens"))

    def injected(self, injection: Injection) -> None:
        """Count an injection. The histogram counts prompts and starts, its sum is of tokens."""
        self._injected.labels(injection.occasion).observe(injection.tokens)

    def render(self, memories: int, inbox: InboxStatus) -> bytes:
        """Return all metrics in the Prometheus text format."""
        self._memories.set(memories)
        for state in ("pending", "parked", "stored", "merged", "rejected"):
            self._inbox.labels(state).set(getattr(inbox, state) - (inbox.parked if state == "pending" else 0))
        return generate_latest(self._registry)
