"""Duration of hygiene, as a multiple of `str.lower` over the same text, which is about the minimum of any processing.

python -m bench.sanitize
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
    with_tokens = ordinary.replace(" the ", " the token ", 3)
    exchange = [{"role": "user", "content": ordinary}, {"role": "assistant", "content": ordinary}]
    long_text = " ".join(fact.text for fact in facts(600))[:50_000]
    _print_row("redact, an ordinary message of 500", partial(redact, ordinary), ordinary)
    _print_row("redact, one that speaks of tokens", partial(redact, with_tokens), with_tokens)
    _print_row("redact, 50,000 characters", partial(redact, long_text), long_text)
    _print_row("clean, an exchange of 1,000", partial(clean, exchange), ordinary * 2)
    _print_row("clean, 50,000 characters", partial(clean, long_text), long_text)


def _print_row(label: str, work: Callable[[], object], text: str) -> None:
    rounds = max(20, _ROUNDS * 500 // len(text))
    duration, baseline = (
        statistics.median(measure.time_calls(call for _ in range(rounds))) for call in (work, text.lower)
    )
    print(f"{label:42}{duration * 1e6:>12.1f}{duration / baseline:>13.0f}")


if __name__ == "__main__":
    main()
