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
    """Notes its pauses in place of making them."""
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
    """The adapter of the dialect, which takes the loopback server for its provider."""
    return wire.dialect.make(wire.base, retry)
