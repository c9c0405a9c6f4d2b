"""Daily cost of a language model, and the loss if it reads less.

    python -m evals.cost [PATH ...] [--reply CHARACTERS]

Streams are learned with a model that is always right (`evals.oracle`), with assistant replies as long as the reports of
coding agents. Tokens are counted from the prompts sent to the model, four characters each, for a day of 100 prompts.
Batches are full, nothing fails, and no session compacts. The exit status is 1 if such a day takes more than 80,000
tokens with default settings, if the model is not called, or if too much is lost.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cofio import bootstrap
from cofio.settings import Settings
from cofio_eval import streams
from cofio_eval.streams import Stream
from evals import oracle

DAY = 100  # prompts per day
MAX_TOKENS = 80_000  # per day with default settings
REPLY = 1_200  # characters of an assistant's reply
#: Filler text of a coding agent's reports, none of which is worth remembering.
REPORT = (
    "I read the file and the two callers first, then made the change in one place.",
    "The tests of the package pass, and the linter has nothing to say.",
    "I left the public signature as it was, so nothing else had to move.",
    "Here is what changed: the branch for the empty case returns early, and the loop below it is gone.",
    "The diff has 34 lines added and 12 removed.",
    "Let me know if you would rather have this in two commits.",
    "I also ran the type checker over the folder, without findings.",
    "If you like, I can look at the neighbouring module next.",
)


def pad_replies(stream: Stream, characters: int) -> Stream:
    """Return the stream with replies of at least this many characters."""
    return {**stream, "exchanges": [_pad_reply(exchange, characters) for exchange in stream["exchanges"]]}


def _pad_reply(exchange: dict[str, Any], characters: int) -> dict[str, Any]:
    reply = exchange["assistant"]
    for sentence in itertools.cycle(REPORT):
        if len(reply) >= characters:
            return {**exchange, "assistant": reply}
        reply = f"{reply} {sentence}"
    raise AssertionError("unreachable")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every setting and print a line each; return 0 if the default one meets its limits."""
    parser = argparse.ArgumentParser(prog="python -m evals.cost", description=__doc__.partition("\n")[0])
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="stream files or folders of them")
    parser.add_argument("--reply", type=int, default=REPLY, help="characters of an assistant's reply")
    options = parser.parse_args(arguments)
    defaults = Settings().llm_reads, Settings().llm_batch_turns  # independent of the settings on this machine
    settings = Settings.load()
    embedder = bootstrap.make_embedder(settings)
    padded_streams = [
        pad_replies(stream, options.reply) for path in options.paths or oracle.SETS[1:] for stream in streams.read(path)
    ]
    prompts = sum(len(stream["exchanges"]) for stream in padded_streams)
    is_met = False
    for reads, batch_turns in itertools.product(("all", "doubtful"), (defaults[1], 1)):
        run_settings = replace(settings, llm_reads=reads, llm_batch_turns=batch_turns)
        runs = [oracle.run(stream, run_settings, embedder) for stream in padded_streams]
        total = streams.total(outcome for outcome, _ in runs)
        tokens = DAY * sum(stream.input_tokens for _, stream in runs) // prompts
        calls = DAY * sum(stream.calls for _, stream in runs) / prompts
        shares = {name: total.share(*counters) or 0.0 for name, *counters in oracle.FIGURES}
        figures = ", ".join(f"{name} {100 * value:.0f} %" for name, value in shares.items())
        print(
            f"reads {reads}, {batch_turns} turns at once: {tokens:,} tokens in, {calls:.0f} calls a day; {figures}",
            flush=True,
        )
        if (reads, batch_turns) == defaults:
            is_met = 0 < tokens <= MAX_TOKENS and min(shares.values()) >= oracle.MIN_SHARE
    print(f"a day has {DAY} prompts; with default settings it may take {MAX_TOKENS:,} tokens in")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
