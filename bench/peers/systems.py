"""Systems of the comparison: the adapter of each, its environment, and its options."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from cofio.text.tokens import STOP_WORDS

BUILD_FOLDER = Path(__file__).parents[2] / "build" / "peers"
_ADAPTERS = Path(__file__).parent / "adapters"

Measure = Literal["quality", "speed", "updates"]
_ALL: tuple[Measure, ...] = ("quality", "speed", "updates")


@dataclass(frozen=True, slots=True)
class System:
    """Row of the tables. `environment` is the folder of its virtual environment; "" is the current one."""

    name: str
    adapter: Path
    environment: str = ""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    measures: Sequence[Measure] = _ALL
    description: str = ""

    @property
    def peer(self) -> str:
        """Return the name for `--peers`."""
        return self.environment or self.name.partition(",")[0]

    @property
    def python(self) -> Path:
        return BUILD_FOLDER / self.environment / "bin" / "python" if self.environment else Path(sys.executable)

    @property
    def missing_reason(self) -> str:
        """Return why its environment is missing."""
        reason = BUILD_FOLDER / f"{self.environment}.reason"
        text = reason.read_text(encoding="utf-8").strip() if reason.exists() else "run `make bench-peers`"
        return f"not installed: {text}"


_COFIO = System("cofio", _ADAPTERS / "of_cofio.py", options={"fields": True, "dedup": False})

SYSTEMS = (
    replace(
        _COFIO,
        measures=("quality",),
        description="for retrieval quality: speaker, date and the two preceding turns as fields of a fact",
    ),
    replace(
        _COFIO,
        name="cofio, text only",
        options={},
        measures=("quality",),
        description="for retrieval quality: the same text as the other systems",
    ),
    replace(
        _COFIO,
        options={"dedup": True},
        measures=("speed",),
        description="for speed: the defaults, with a duplicate check for every add",
    ),
    replace(
        _COFIO,
        name="cofio, no dedup in bulk",
        options={},
        measures=("speed",),
        description="for speed: `add_all(dedup=False)`",
    ),
    replace(_COFIO, name="cofio, add", options={}, measures=("updates",), description="`add`: a fact added explicitly"),
    replace(
        _COFIO,
        name="cofio, capture",
        options={"capture": True},
        measures=("updates",),
        description="`capture`: a conversation turn, with extraction by rules and without a language model",
    ),
    System(
        "mem0",
        _ADAPTERS / "of_mem0.py",
        "mem0ai",
        description="`infer=False`, Qdrant inside its process. Merging and updating need its language model, which"
        " no system had here; its keyword score needs files from a model hub, so it searched by vectors only",
    ),
    System("chromadb", _ADAPTERS / "of_chromadb.py", "chromadb", description="a persistent client, HNSW, cosine"),
    System(
        "mcp-memory-service",
        _ADAPTERS / "of_mcp_memory_service.py",
        "mcp-memory-service",
        description="its SQLite-vec storage and `retrieve`; single adds by `store` with its defaults (a cosine of"
        " 0.85 within a day counts as a duplicate), bulk adds by `store_batch`",
    ),
    System(
        "mcp-memory-service, hybrid",
        _ADAPTERS / "of_mcp_memory_service.py",
        "mcp-memory-service",
        {"hybrid": True},
        ("quality", "speed"),
        description="the same with `retrieve_hybrid`",
    ),
    System(
        "txtai",
        _ADAPTERS / "of_txtai.py",
        "txtai",
        description="content stored; an add is in memory until the index is saved",
    ),
    System(
        "txtai, hybrid",
        _ADAPTERS / "of_txtai.py",
        "txtai",
        {"hybrid": True},
        ("quality", "speed"),
        description="the same with its keyword index",
    ),
    System(
        "FTS5",
        _ADAPTERS / "of_fts5.py",
        options={"stop": sorted(STOP_WORDS)},
        description="plain SQLite: porter stemming, without stop words, OR; no vectors",
    ),
    System(
        "NumPy", _ADAPTERS / "of_numpy.py", description="exact cosine over a matrix in memory; written to disk on close"
    ),
)
PEERS = tuple(dict.fromkeys(system.peer for system in SYSTEMS))


def select_systems(peers: Iterable[str], measure: Measure) -> list[System]:
    """Return the systems of these peers that take part in a measure, always including cofio."""
    names = {"cofio", *peers}
    return [system for system in SYSTEMS if system.peer in names and measure in system.measures]
