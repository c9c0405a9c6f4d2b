"""The PostgreSQL store compared with plain SQL on the same indexes, and with the embedded store.

    python -m bench.server [--url URL] [--size 100000] [--agreeing 10000] [--strict] [--json PATH]

    material ─▶ PostgreSQL ─┬ cofio: hybrid search, everywhere, in one project, as a viewer
                            └ plain SQL over the same tables: HNSW and ts_rank, fused half and half
    material ─▶ both stores ─▶ the five best of each query, compared

Embedding is excluded: vectors are looked up (see bench/vectors.py). Without a URL the server of the tests is started;
it does not wait for the disk, which affects writes, but not the searches measured here.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import measure
from bench.vectors import ANCHORS, Material
from cofio.core import Keeper
from cofio.errors import CofioError
from cofio.models.memory import Add, Fact, Viewer
from cofio.ports import Embedder, Vector
from cofio.providers import embedders
from cofio.settings import Settings

_RESULTS = Path(__file__).parent / "results"
_PROMPTS, _WARMING = 200, 60
_BATCH = 1_000
_PROJECTS = 50
_DEPTH = 100  # candidates of each kind, for plain SQL
_K = 5
_WORD = re.compile(r"\w+")
_VIEWER = Viewer(agent="agent-7", team="blue")
_NOTES = (
    "Embedding is excluded: vectors are looked up in a table; prompts have their own real vectors.",
    "Plain SQL searches the same tables and indexes: HNSW (ef_search 100) and ts_rank over an OR of the words that"
    " tell, the hundred best of either, scaled and summed half and half; it looks at no scope and fetches only texts.",
    "Each prompt is timed once, after others have warmed the caches; one client, one connection.",
)
BARS = (("hybrid search p95 under 50 ms", "search_p95_ms", 50.0),)
AGREES = 0.95  # minimum share of queries with the same five best in both stores


@contextmanager
def database(url: str | None) -> Iterator[str]:
    """Yield the given database URL, or that of an empty temporary one on the tests' server."""
    if url:
        yield url
        return
    from tests import postgres

    with postgres.server() as server, postgres.database(server) as made:
        yield made


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def written(url: str, material: Material, size: int) -> float:
    """Return the memories per second that a store accepts in batches."""
    with _keeper(url, material.embedder(0, size), material.folder) as keeper:
        took = measure.once(lambda: _add(keeper, material, size))
    asked, _, _ = material.prompts()
    with _keeper(url, material.embedder(), material.folder) as keeper:
        took += measure.once(lambda: keeper.search(asked[0]))  # builds a deferred index
    return size / took


def _add(keeper: Keeper, material: Material, size: int) -> None:
    said, first = material.said(0, size), None
    for start in range(0, size, _BATCH):
        some = [Add(_fact(start + place, *each)) for place, each in enumerate(said[start : start + _BATCH])]
        done = keeper.apply(some, by="bench", why="a series, as an import is", part_of=first)
        first = first or done.id


def _fact(number: int, source: str, text: str) -> Fact:
    """Return a fact; projects, agents and teams alternate, so that a scope is a small share of all."""
    agent, team = f"agent-{number % 20}", ("red", "blue")[number % 2]
    visibility = ("private", "team", "global")[number % 3]
    project = f"/srv/p{number % _PROJECTS}"
    return Fact(text=text, source=source, project=project, agent=agent, team=team, visibility=visibility)


def _keeper(url: str, embedder: Any, folder: Path) -> Keeper:
    import cofio

    return cofio.open(url, embedder=embedder, home=folder)


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def searched(url: str, material: Material) -> dict[str, float]:
    """Return the percentiles of cofio's searches: everywhere, in one project, and as a viewer with limited access."""
    asked, warming, _ = material.prompts()
    figures: dict[str, float] = {}
    with _keeper(url, material.embedder(), material.folder) as keeper:
        viewed = keeper.as_viewer(_VIEWER)
        ways: dict[str, Callable[[str], object]] = {
            "search": lambda text: keeper.search(text, k=_K),
            "project": lambda text: keeper.search(text, k=_K, project="/srv/p7"),
            "viewer": lambda text: viewed.search(text, k=_K),
        }
        for name, way in ways.items():
            for text in warming:
                way(text)
            figures |= measure.p50_p95(name, [measure.once(lambda: way(text)) for text in asked])  # noqa: B023
        return {**figures, "recall_at_10": _recall(keeper, material)}


def _recall(keeper: Keeper, material: Material) -> float:
    """Return the recall@10 of the vector search over all prompts."""
    asked, _, _ = material.prompts()
    last: list[float] = (
        material.exact(keeper.count(), 10) - 1e-6
    ).tolist()  # of two at the same distance either will do
    found = [
        sum(hit.similarity >= least for hit in keeper.search(text, k=10, hybrid=False))
        for text, least in zip(asked, last, strict=True)
    ]
    return sum(found) / (10 * len(asked))


def plainly(url: str, material: Material) -> dict[str, float]:
    """Return the percentiles of the same searches in plain SQL."""
    import psycopg
    from pgvector.psycopg import register_vector

    from cofio.text.tokens import search_terms

    asked, warming, vectors = material.prompts()
    with psycopg.connect(url, autocommit=True) as connection:
        register_vector(connection)
        connection.execute("SET hnsw.ef_search = 100")
        plain = _Plain(connection, int(vectors.shape[1]))
        every = [*asked, *warming]
        pieces = [(search_terms(text), vector) for text, vector in zip(every, vectors, strict=True)]
        for piece in pieces[len(asked) :]:
            plain.search(*piece)
        took = [measure.once(lambda: plain.search(*piece)) for piece in pieces[: len(asked)]]  # noqa: B023
    return measure.p50_p95("plain", took)


class _Plain:
    """Obvious SQL implementation on these tables."""

    def __init__(self, connection: Any, dimension: int) -> None:
        self._connection = connection
        self._near = (
            f"SELECT memory_id, -(vector::halfvec({dimension}) <#> %s::halfvec({dimension})) FROM vectors"
            f" ORDER BY vector::halfvec({dimension}) <#> %s::halfvec({dimension}) LIMIT {_DEPTH}"
        )

    def search(self, words: Sequence[str], vector: Vector) -> list[tuple[str]]:
        near = dict(self._connection.execute(self._near, (vector, vector)).fetchall())
        asked = " | ".join(word for each in words for word in _WORD.findall(each))
        matched = dict(self._connection.execute(_MATCHED, {"asked": asked}).fetchall()) if asked else {}
        fused = {each: _scaled(near).get(each, 0) + _scaled(matched).get(each, 0) for each in near | matched}
        best = sorted(fused, key=lambda each: -fused[each])[:_K]
        found: list[tuple[str]] = self._connection.execute(
            "SELECT text FROM memories WHERE id = ANY(%s)", (best,)
        ).fetchall()
        return found


_MATCHED = f"""
SELECT id, ts_rank(said, q) FROM memories, to_tsquery('cofio', %(asked)s) q
WHERE said @@ q ORDER BY 2 DESC LIMIT {_DEPTH}
"""


def _scaled(scores: Mapping[int, float]) -> dict[int, float]:
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=1.0)
    return {each: 0.5 * (score - low) / ((high - low) or 1.0) for each, score in scores.items()}


# ── agreement of the stores ───────────────────────────────────────────────────────────────────────────────────────────


def agreeing(first: str, second: str, material: Material) -> float:
    """Return the share of prompts with the same five best memories, compared as texts, in both stores."""
    asked, _, _ = material.prompts()
    one, other = (_best(url, material, asked) for url in (first, second))
    return sum(each == their for each, their in zip(one, other, strict=True)) / len(asked)


def _best(url: str, material: Material, asked: Sequence[str]) -> list[set[str]]:
    with _keeper(url, material.embedder(), material.folder) as keeper:
        return [{hit.text for hit in keeper.search(text, k=_K)} for text in asked]


# ── a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def measured(
    url: str | None, size: int, agreed: int, embedder: Embedder, *, anchors: int = ANCHORS, folder: Path | None = None
) -> dict[str, Any]:
    """Return the figures as plain values."""
    with tempfile.TemporaryDirectory(prefix="cofio-bench-", dir=folder) as name:
        place = Path(name)
        _tell(f"embedding {anchors:,} facts and {_PROMPTS + _WARMING} prompts with {embedder.signature}")
        most = max(size, agreed)
        material = Material.make(place, embedder, count=most, asked=_PROMPTS, warming=_WARMING, anchors=anchors)
        with database(url) as large:
            figures = _at_size(large, material, size)
        with database(None if url is None else _beside(url)) as small:
            figures["agreeing"] = _agreed(small, f"sqlite://{place / 'embedded.db'}", material, agreed)
    about = {"machine": measure.machine(), "size": size, "agreeing_size": agreed}
    return {**about, "figures": figures, "notes": list(_NOTES)}


def _at_size(url: str, material: Material, size: int) -> dict[str, float]:
    _tell(f"writing {size:,} memories to PostgreSQL")
    figures = {"written_per_s": written(url, material, size)}
    _settle(url)
    _tell("searching")
    return {**figures, **searched(url, material), **plainly(url, material)}


def _agreed(server: str, file: str, material: Material, size: int) -> float:
    _tell(f"writing {size:,} memories to both stores, and comparing")
    for each in (server, file):
        written(each, material, size)
    return agreeing(server, file, material)


def _settle(url: str) -> None:
    """Run the maintenance that the server would do some minutes after bulk writes."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _beside(url: str) -> str:
    """Return the same database for another tenant."""
    return f"{url}{'&' if '?' in url else '?'}tenant=agreeing-{int(time.time())}"


def missed(results: Mapping[str, Any]) -> list[str]:
    """Return the targets that were missed."""
    over = [says for says, name, most in BARS if results["figures"][name] > most]
    return over + ([f"the same five best for {AGREES:.0%}"] if results["figures"]["agreeing"] < AGREES else [])


def show(results: Mapping[str, Any]) -> None:
    """Print the figures, with the machine and the targets."""
    about, figures = results["machine"], results["figures"]
    print(f"{about['cpu']}, {about['cores']} cores, Python {about['python']}; load average {about['load']:.2f}")
    print(f"\n{results['size']:,} memories in PostgreSQL, written at {figures['written_per_s']:,.0f} a second")
    print(f"{'':24}{'p50 ms':>8}{'p95 ms':>9}{'p95 / plain':>13}")
    rows = (
        ("plain SQL", "plain"),
        ("hybrid search", "search"),
        ("  in one project", "project"),
        ("  as a viewer", "viewer"),
    )
    for label, name in rows:
        ratio = figures[f"{name}_p95_ms"] / figures["plain_p95_ms"]
        print(f"{label:24}{figures[f'{name}_p50_ms']:8.1f}{figures[f'{name}_p95_ms']:9.1f}{ratio:13.2f}")
    print(f"recall@10 of the vectors{figures['recall_at_10']:8.3f}")
    print(f"\n{results['agreeing_size']:,} memories in both stores: the same five best for {figures['agreeing']:.1%}")
    for note in results["notes"]:
        print(f"- {note}")
    wrong = missed(results)
    for says, name, _ in BARS:
        print(f"bar: {'not met' if says in wrong else 'met'}: {says} ({figures[name]:.3g})")
    print(f"bar: {'not met' if figures['agreeing'] < AGREES else 'met'}: the same five best for at least {AGREES:.0%}")


def _tell(what: str) -> None:
    print(f"{what} ...", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="an empty PostgreSQL database; default: one on a server started for the run")
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--agreeing", type=int, default=10_000, help="number of memories for comparing both stores")
    parser.add_argument("--json", type=Path, default=_RESULTS / "server.json")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    given = parser.parse_args()
    settings = Settings.load()
    try:
        embedder = embedders.make("local", home=settings.home, download=settings.model_download)
        results = measured(given.url, given.size, given.agreeing, embedder)
    except CofioError as error:
        sys.exit(str(error))
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    show(results)
    sys.exit(1 if given.strict and missed(results) else 0)


if __name__ == "__main__":
    main()
