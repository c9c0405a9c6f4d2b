"""The path with a language model, measured with a model that is always right.

    python -m evals.oracle [PATH ...] [--failures]

A local server with OpenAI's interface answers from the labels of streams: with the facts of the turn in the prompt, and
with the memory that a fact replaces or ends. Streams are captured with default settings and this server as the
provider. A fact that is missing in the end was lost by cofio, not by the model. The exit status is 1 if fewer than 95 %
of facts, updates or deletions are right.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cofio import bootstrap
from cofio.ports import Embedder
from cofio.settings import Settings
from cofio.text.tokens import words
from cofio_eval import streams
from cofio_eval.streams import Stream, StreamOutcome

ROOT = Path(__file__).resolve().parents[1]
SETS = tuple(ROOT / "evals" / "data" / "streams" / name for name in ("dev", "test"))
MIN_SHARE = 0.95
#: (name of the figure, counter of the successes, counter of the cases)
FIGURES = (
    ("facts", "facts stored", "facts"),
    ("updates", "updates right", "updates"),
    ("deletions", "deletions honoured", "deletions"),
)
_SAME_TURN = 0.6  # share of a turn's words that the transcript must contain
_EXCHANGE = re.compile(r'<exchange id="(t\d+)"[^>]*>\n(.*?)\n</exchange>', re.DOTALL)
_TURN = re.compile(r'<turn by="user">\n(.*?)\n</turn>', re.DOTALL)


@dataclass(frozen=True)
class Change:
    """Change by a labelled fact: the fact itself, and the earlier one that it replaces, ends or repeats."""

    text: str
    action: str  # ADD, UPDATE, DELETE or NOOP
    earlier: Mapping[str, Any] | None = None

    @property
    def earlier_text(self) -> str:
        return self.earlier["text"] if self.earlier else ""

    def is_about(self, memory: str) -> bool:
        """Return whether a memory says the earlier fact."""
        earlier = self.earlier
        return earlier is not None and (
            _normalize(memory) == _normalize(earlier["text"]) or streams.holds(memory, earlier["keywords"])
        )


class Oracle:
    """Model that answers requests from the labels of one stream, and counts them."""

    def __init__(self, stream: Stream) -> None:
        self._exchanges = stream["exchanges"]
        self._facts = {fact["id"]: fact for exchange in self._exchanges for fact in exchange["facts"]}
        labels = [
            change for exchange in self._exchanges for change in self._list_changes(exchange) if change.action != "NOOP"
        ]
        self._changes = {_normalize(change.text): change for change in labels}
        self.calls = 0
        self.input_tokens = 0  # four characters each
        self.hidden: list[str] = []  # changes to memories that were not shown to it

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to a request of OpenAI's chat interface."""
        user = next(message["content"] for message in body["messages"] if message["role"] == "user")
        tokens = sum(len(message["content"]) for message in body["messages"]) // 4
        self.calls += 1
        self.input_tokens += tokens
        content = {"facts": self._extract(user)} if "<transcript>" in user else {"decisions": self._decide(user)}
        reply = {"role": "assistant", "content": json.dumps(content)}
        usage = {"prompt_tokens": tokens, "completion_tokens": len(reply["content"]) // 4}
        return {"choices": [{"index": 0, "message": reply, "finish_reason": "stop"}], "usage": usage}

    def _list_changes(self, exchange: Mapping[str, Any]) -> Iterator[Change]:
        """Yield the changes of an exchange: its first fact replaces the fact named by `replaces`."""
        earlier = self._facts.get(exchange.get("replaces"))
        for fact in exchange["facts"]:
            yield Change(fact["text"], "UPDATE" if earlier else "ADD", earlier)
            earlier = None
        if ended := self._facts.get(exchange.get("deletes")):
            yield Change(f"No longer true: {ended['text']}", "DELETE", ended)
        if repeated := self._facts.get(exchange.get("repeats")):
            yield Change(repeated["text"], "NOOP", repeated)

    def _extract(self, user: str) -> list[dict[str, Any]]:
        """Return the labels of the exchanges in the prompt, without those that a later one changes."""
        transcript = user.partition("<transcript>")[2].partition("</transcript>")[0]
        exchanges = [(name, self._find_exchange(text)) for name, text in _EXCHANGE.findall(transcript)]
        labels = [(name, change) for name, exchange in exchanges if exchange for change in self._list_changes(exchange)]
        outdated = {change.earlier["text"] for _, change in labels if change.earlier and change.action != "NOOP"}
        texts = {change.text for _, change in labels}
        return [
            {
                "exchange": name,
                "text": change.text,
                "category": "decision",
                "kind": "retraction" if change.action == "DELETE" else "other",
                "confidence": "high",
                "said_by": "user",
                "entities": [],
            }
            for name, change in labels
            if change.text not in outdated and not (change.action == "DELETE" and change.earlier_text in texts)
        ]

    def _find_exchange(self, text: str) -> Mapping[str, Any] | None:
        """Return the exchange of the stream that matches the transcript, if there is one."""
        turn_words = set(words(" ".join(_TURN.findall(text))))
        exchange: Mapping[str, Any] = max(
            self._exchanges, key=lambda candidate: _measure_overlap(turn_words, candidate["user"])
        )
        return exchange if _measure_overlap(turn_words, exchange["user"]) >= _SAME_TURN else None

    def _decide(self, user: str) -> list[dict[str, Any]]:
        memories = {row["memory"]: row["text"] for row in _rows(user, "memories")}
        return [self._decide_fact(fact, memories) for fact in _rows(user, "facts")]

    def _decide_fact(self, fact: Mapping[str, Any], memories: Mapping[str, str]) -> dict[str, Any]:
        change = self._changes.get(_normalize(fact["text"])) or Change(fact["text"], "ADD")
        candidates = [candidate["memory"] for candidate in fact["similar"]]
        memory = next((name for name in candidates if change.is_about(memories[name])), None)
        if change.earlier and memory is None:
            self.hidden.append(f"{change.action} of {change.earlier['text']!r} by {change.text!r}")
        action = change.action if memory else "ADD"
        if duplicate := next(
            (name for name in candidates if _normalize(memories[name]) == _normalize(fact["text"])), None
        ):
            action, memory = "NOOP", duplicate
        return {"fact": fact["fact"], "action": action, "memory": memory, "text": None}


def _normalize(text: str) -> str:
    return " ".join(text.split())


def _measure_overlap(found_words: set[str], turn: str) -> float:
    turn_words = set(words(turn))
    return len(found_words & turn_words) / max(1, len(found_words | turn_words))


def _rows(prompt: str, name: str) -> list[dict[str, Any]]:
    lines = prompt.partition(f"<{name}>\n")[2].partition(f"\n</{name}>")[0].splitlines()
    return [json.loads(line) for line in lines]


@contextmanager
def serve(oracle: Oracle) -> Iterator[str]:
    """Serve an oracle on a free local port; yield the URL for EXTRACT_URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            reply = json.dumps(oracle.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply.encode())))
            self.end_headers()
            self.wfile.write(reply.encode())

        def log_message(self, *args: Any) -> None:
            """Keep the requests out of the output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()


def run(stream: Stream, settings: Settings, embedder: Embedder) -> tuple[StreamOutcome, Oracle]:
    """Learn a stream with the oracle as the provider; return the counts and the oracle."""
    oracle = Oracle(stream)
    with serve(oracle) as url:
        run_settings = replace(
            settings, extract_provider="openai", extract_model="oracle", extract_key="oracle", extract_url=url
        )
        return streams.run(stream, run_settings, embedder, use_llm=True), oracle


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure sets of streams and print a line each; return 0 if every figure reaches the limit."""
    parser = argparse.ArgumentParser(prog="python -m evals.oracle", description=__doc__.partition("\n")[0])
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="stream files or folders of them")
    parser.add_argument("--failures", action="store_true", help="list the failed cases")
    options = parser.parse_args(arguments)
    settings = Settings.load()
    embedder = bootstrap.make_embedder(settings)
    is_met = True
    for path in options.paths or SETS:
        stream_list = streams.read(path)
        runs = [run(stream, settings, embedder) for stream in stream_list]
        total = streams.total(outcome for outcome, _ in runs)
        shares = [(name, success, case, total.share(success, case)) for name, success, case in FIGURES]
        is_met &= all(value is None or value >= MIN_SHARE for *_, value in shares)
        exchanges = sum(len(stream["exchanges"]) for stream in stream_list)
        tokens, calls = sum(oracle.input_tokens for _, oracle in runs), sum(oracle.calls for _, oracle in runs)
        figures = [f"{name} {total.counts[success]} of {total.counts[case]}" for name, success, case, _ in shares]
        figures += [f"noise {total.counts['noise stored']} of {total.counts['noise']}"]
        figures += [
            f"overwrites {total.counts['overwrites']}",
            f"good {total.counts['good']} of {total.counts['stored']}",
        ]
        print(f"{path}: {', '.join(figures)}; {calls} calls, {100 * tokens // exchanges} tokens per 100 exchanges")
        if options.failures:
            lost = [failure for outcome, _ in runs for failure in outcome.failures if " injected" not in failure]
            print(*lost, *(f"not shown: {stream}" for _, oracle in runs for stream in oracle.hidden), sep="\n")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
