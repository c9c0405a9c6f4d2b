"""What passes for a duplicate, measured: by the cosine alone, and with the guard that compares what the texts say.

    python -m evals.dedup FILE

FILE holds pairs, one JSON object a line: {"a", "b", "label"} with the labels duplicate, contradiction, related and
unrelated. A good rule takes the duplicates and leaves the contradictions.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from cofio import embedders
from cofio.sameness import apart
from cofio.settings import Settings

THRESHOLDS = (0.85, 0.88, 0.90, 0.95)


def main() -> int:
    """The table on stdout; 2 when the data is not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, help="labelled pairs, one JSON object a line")
    path = parser.parse_args().file
    if not path.exists():
        print(f"There is no {path}. Give a file of labelled pairs.", file=sys.stderr)
        return 2
    pairs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    show(pairs, cosines(pairs))
    return 0


def cosines(pairs: list[dict[str, str]]) -> list[float]:
    """The cosine of each pair with the local embedder."""
    texts = sorted({pair[side] for pair in pairs for side in ("a", "b")})
    rows = embedders.make("local", home=Settings.load().home).embed(texts, "document")
    vectors = dict(zip(texts, rows, strict=True))
    return [float(vectors[pair["a"]] @ vectors[pair["b"]]) for pair in pairs]


def show(pairs: list[dict[str, str]], near: list[float]) -> None:
    """Per threshold and label: the share taken for duplicates, by the cosine alone and with the guard."""
    labels = Counter(pair["label"] for pair in pairs)
    print(f"{len(pairs)} pairs; per cent taken for duplicates: by the cosine alone → with the guard")
    print("cosine  " + "  ".join(f"{label:>18}" for label in labels))
    for threshold in THRESHOLDS:
        close = [(pair, cosine) for pair, cosine in zip(pairs, near, strict=True) if cosine >= threshold]
        alone = Counter(pair["label"] for pair, _ in close)
        guarded = Counter(pair["label"] for pair, cosine in close if not apart(pair["b"], pair["a"], cosine))
        shares = (f"{100 * alone[label] / n:.1f} → {100 * guarded[label] / n:.1f}" for label, n in labels.items())
        print(f"{threshold:.2f}    " + "  ".join(f"{share:>18}" for share in shares))


if __name__ == "__main__":
    sys.exit(main())
