"""Duration of hygiene, as a multiple of `str.lower` over the same text, which is about the minimum of any processing.

python -m bench.hygiene
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

from bench import measure
from bench.corpus import facts
from cofio.ingest.sanitize import clean, redact

_ROUNDS = 2_000


def main() -> None:
    """Print one line per measure."""
    machine = measure.machine()
    print(f"{machine['cpu']}, Python {machine['python']}, load {machine['load']}")
    print(f"{'':42}{'µs (median)':>12}{'× str.lower':>13}")
    ordinary = " ".join(fact.text for fact in facts(20))[:500]
    named = ordinary.replace(" the ", " the token ", 3)
    exchange = [{"role": "user", "content": ordinary}, {"role": "assistant", "content": ordinary}]
    long = " ".join(fact.text for fact in facts(600))[:50_000]
    _line("redact, an ordinary message of 500", partial(redact, ordinary), ordinary)
    _line("redact, one that speaks of tokens", partial(redact, named), named)
    _line("redact, 50,000 characters", partial(redact, long), long)
    _line("clean, an exchange of 1,000", partial(clean, exchange), ordinary * 2)
    _line("clean, 50,000 characters", partial(clean, long), long)


def _line(label: str, work: Callable[[], object], text: str) -> None:
    rounds = max(20, _ROUNDS * 500 // len(text))
    ours, plain = (statistics.median(measure.each(each for _ in range(rounds))) for each in (work, text.lower))
    print(f"{label:42}{ours * 1e6:>12.1f}{ours / plain:>13.0f}")


if __name__ == "__main__":
    main()
