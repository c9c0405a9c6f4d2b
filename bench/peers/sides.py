"""Sides of the comparison: the adapter of each, its environment, and its options."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from cofio.text.tokens import STOP_WORDS

PLACE = Path(__file__).parents[2] / "build" / "peers"
_ADAPTERS = Path(__file__).parent / "adapters"

Measure = Literal["quality", "speed", "sameness"]
_ALL: tuple[Measure, ...] = ("quality", "speed", "sameness")


@dataclass(frozen=True, slots=True)
class Side:
    """Row of the tables. `environment` is the folder of its virtual environment; "" is the current one."""

    name: str
    adapter: Path
    environment: str = ""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    measures: Sequence[Measure] = _ALL
    how: str = ""

    @property
    def peer(self) -> str:
        """Return the name for `--peers`."""
        return self.environment or self.name.partition(",")[0]

    @property
    def python(self) -> Path:
        return PLACE / self.environment / "bin" / "python" if self.environment else Path(sys.executable)

    @property
    def missing(self) -> str:
        """Return why its environment is missing."""
        reason = PLACE / f"{self.environment}.reason"
        told = reason.read_text(encoding="utf-8").strip() if reason.exists() else "run `make bench-peers`"
        return f"not installed: {told}"


_COFIO = Side("cofio", _ADAPTERS / "of_cofio.py", options={"fields": True, "dedup": False})

SIDES = (
    replace(
        _COFIO,
        measures=("quality",),
        how="for what is found: speaker, date and the two turns said before as fields of a fact",
    ),
    replace(
        _COFIO,
        name="cofio, text alone",
        options={},
        measures=("quality",),
        how="for what is found: what the others get",
    ),
    replace(
        _COFIO,
        options={"dedup": True},
        measures=("speed",),
        how="for speed, with the defaults: every add looks for what is known",
    ),
    replace(
        _COFIO, name="cofio, no dedup in bulk", options={}, measures=("speed",), how="for speed: `add_all(dedup=False)`"
    ),
    replace(_COFIO, name="cofio, add", options={}, measures=("sameness",), how="`add`: a fact that somebody adds"),
    replace(
        _COFIO,
        name="cofio, capture",
        options={"capture": True},
        measures=("sameness",),
        how="`capture`: what was said in a conversation, read by rules, without a model",
    ),
    Side(
        "mem0",
        _ADAPTERS / "of_mem0.py",
        "mem0ai",
        how="`infer=False`, Qdrant inside its process. Merging and correcting are its model's, which it did not have"
        " here, as no side had one; its keyword score needs files from a model hub, so it searched by vectors alone",
    ),
    Side("chromadb", _ADAPTERS / "of_chromadb.py", "chromadb", how="a persistent client, HNSW, cosine"),
    Side(
        "mcp-memory-service",
        _ADAPTERS / "of_mcp_memory_service.py",
        "mcp-memory-service",
        how="its SQLite-vec storage and `retrieve`; one is added by `store` with its defaults (a cosine of 0.85 within"
        " a day is a repeat), many by `store_batch`",
    ),
    Side(
        "mcp-memory-service, hybrid",
        _ADAPTERS / "of_mcp_memory_service.py",
        "mcp-memory-service",
        {"hybrid": True},
        ("quality", "speed"),
        how="the same with `retrieve_hybrid`",
    ),
    Side(
        "txtai", _ADAPTERS / "of_txtai.py", "txtai", how="content stored; an add is in memory until the index is saved"
    ),
    Side(
        "txtai, hybrid",
        _ADAPTERS / "of_txtai.py",
        "txtai",
        {"hybrid": True},
        ("quality", "speed"),
        how="the same with its keyword index",
    ),
    Side(
        "FTS5",
        _ADAPTERS / "of_fts5.py",
        options={"stop": sorted(STOP_WORDS)},
        how="plain SQLite: porter stemming, without stop words, OR; no vectors",
    ),
    Side(
        "NumPy", _ADAPTERS / "of_numpy.py", how="exact cosine over a matrix in memory; nothing is written until the end"
    ),
)
PEERS = tuple(dict.fromkeys(side.peer for side in SIDES))


def chosen(peers: Iterable[str], measure: Measure) -> list[Side]:
    """Return the sides of these peers that take part in a measure, always including cofio."""
    wanted = {"cofio", *peers}
    return [side for side in SIDES if side.peer in wanted and measure in side.measures]
