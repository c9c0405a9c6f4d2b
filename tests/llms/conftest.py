from __future__ import annotations

from collections.abc import Iterator

import pytest

from cofio.providers.http import RetryPolicy
from cofio.providers.llms.base import RemoteLLM

from .wire import DIALECTS, Dialect, Wire


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def retry(pauses: list[float]) -> RetryPolicy:
    """Return a retry policy that records its pauses instead of sleeping."""
    return RetryPolicy(timeout=5.0, sleep=pauses.append)


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return DIALECTS[request.param]


@pytest.fixture
def wire(dialect: Dialect) -> Iterator[Wire]:
    with Wire(dialect) as server:
        yield server


@pytest.fixture
def llm(wire: Wire, retry: RetryPolicy) -> RemoteLLM:
    """Return the adapter of the dialect, connected to the loopback server."""
    return wire.dialect.make(wire.base, retry)
