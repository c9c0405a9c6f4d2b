"""The path with a language model, measured with recorded replies of a capable one.

    python -m evals.recorded [PATH ...] [--provider openai|anthropic] [--failures]
    python -m evals.recorded [PATH ...] --ask FOLDER

A local server with the provider's interface answers every prompt with its recorded reply. Replies are keyed by a digest
of the prompt without the known memories: a changed prompt has none and must be recorded again. With `--ask`, such a
prompt is written to FOLDER/<digest>.txt, and its reply is awaited in FOLDER/<digest>.json, written by any external
process, which sees only the prompts. The exit status is 1 if a figure misses its limit, or a reply is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cofio import bootstrap
from cofio.settings import Settings
from cofio_eval import streams

ROOT = Path(__file__).resolve().parents[1]
SET = ROOT / "evals" / "data" / "streams" / "test"
REPLIES = ROOT / "evals" / "data" / "replies.jsonl"
#: (name of the figure, counter of the successes, counter of the cases, least share)
FIGURES = (("facts", "facts stored", "facts", 0.85), ("updates", "updates right", "updates", 0.80))
MOST_OVERWRITES = 0.01  # share of the new facts
PROVIDERS = ("openai", "anthropic")
#: Parts of a prompt that differ between processors, because scores of the local models do in the last digits: the
#: similarity of candidates, and which memories are listed as known.
_VARYING = re.compile(r', "similarity": [0-9.]+|<known>\n.*?</known>\n\n', re.DOTALL)
_LOOK = 0.5  # seconds between two checks for an awaited reply


def digest(system: str, user: str) -> str:
    """Return the key of a prompt."""
    return hashlib.sha256(f"{system}\n\n{_VARYING.sub('', user)}".encode()).hexdigest()[:24]


class Recorded:
    """Replies by the digest of their prompt; missing ones are requested in a folder, if one is given."""

    def __init__(self, replies: Mapping[str, str], folder: Path | None = None) -> None:
        self._replies = dict(replies)
        self._folder = folder
        self.used: set[str] = set()
        self.missing: set[str] = set()
        self.calls = 0
        self.characters = 0  # of prompts

    def reply(self, system: str, user: str) -> str | None:
        """Return the reply to a prompt; None if none is recorded."""
        name = digest(system, user)
        self.calls += 1
        self.characters += len(system) + len(user)
        if name not in self._replies and self._folder:
            self._replies[name] = _answer(self._folder, name, f"{system}\n\n{user}\n")
        found = self._replies.get(name)
        (self.missing if found is None else self.used).add(name)
        return found

    @property
    def lines(self) -> list[str]:
        """Return the used replies in the file format."""
        told = ({"prompt": name, "reply": json.loads(self._replies[name])} for name in sorted(self.used))
        return [json.dumps(each, ensure_ascii=False) for each in told]


def read(path: Path = REPLIES) -> dict[str, str]:
    """Return the recorded replies by the digests of their prompts."""
    told = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()
    return {each["prompt"]: json.dumps(each["reply"], ensure_ascii=False) for each in told}


def _answer(folder: Path, name: str, prompt: str) -> str:
    """Write a prompt to the folder, and wait for its reply."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(prompt, encoding="utf-8")
    while True:
        with suppress(OSError, ValueError):  # missing or incomplete
            return json.dumps(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")), ensure_ascii=False)
        time.sleep(_LOOK)


def prompt_of(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the system and the user part of a request to any of the providers."""
    said = {each["role"]: each["content"] for each in body["messages"]}
    blocks = body.get("system")
    return said.get("system") or "".join(block["text"] for block in blocks or ()), said["user"]


def as_told_by(provider: str, text: str, tokens: int) -> dict[str, Any]:
    """Return a reply in the format of a provider's interface."""
    message = {"role": "assistant", "content": text}
    if provider == "anthropic":
        usage = {"input_tokens": tokens, "output_tokens": len(text) // 4}
        return {
            "type": "message",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": usage,
        }
    usage = {"prompt_tokens": tokens, "completion_tokens": len(text) // 4}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}


@contextmanager
def serve(recorded: Recorded, provider: str) -> Iterator[str]:
    """Serve replies on a free local port with the provider's interface; yield the URL for EXTRACT_URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            system, user = prompt_of(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            text = recorded.reply(system, user)
            told = as_told_by(provider, text or "", (len(system) + len(user)) // 4)
            error = {"error": {"type": "invalid_request_error", "message": "no reply is recorded for this prompt"}}
            reply = json.dumps(error if text is None else told).encode()
            self.send_response(400 if text is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *args: Any) -> None:
            """Keep the requests out of the output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}" + ("/v1" if provider == "openai" else "")
        finally:
            server.shutdown()


def settings_for(settings: Settings, provider: str, url: str) -> Settings:
    """Return the settings for a provider's model at this URL."""
    named = {"extract_provider": provider, "extract_model": "recorded", "extract_timeout": 3600.0}
    return replace(settings, **named, extract_url=url, extract_key="recorded")  # type: ignore[arg-type]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure sets of streams and print a line each; return 0 if every figure reaches its limit."""
    parser = argparse.ArgumentParser(prog="python -m evals.recorded", description=__doc__.partition("\n")[0])
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="stream files or folders of them")
    parser.add_argument("--provider", choices=PROVIDERS, default="openai", help="interface of the server")
    parser.add_argument("--failures", action="store_true", help="list the failed cases")
    parser.add_argument("--ask", type=Path, metavar="FOLDER", help="folder for missing prompts and replies")
    parser.add_argument("--write", type=Path, metavar="FILE", help="output file for the replies used")
    asked = parser.parse_args(arguments)
    settings = Settings.load()
    embedder = bootstrap.make_embedder(settings)
    recorded = Recorded(read(), asked.ask)
    outcomes = []
    for stream in (stream for path in asked.paths or [SET] for stream in streams.read(path)):
        with serve(recorded, asked.provider) as url:
            own = settings_for(settings, asked.provider, url)
            outcomes.append(streams.run(stream, own, embedder, use_llm=True))
    if asked.write:
        asked.write.write_text("".join(f"{line}\n" for line in recorded.lines), encoding="utf-8")
    return _told(streams.total(outcomes), recorded, failures=asked.failures)


def _told(total: streams.StreamOutcome, recorded: Recorded, *, failures: bool) -> int:
    counts = total.counts
    reached = recorded.calls > 0 and not recorded.missing
    for name, right, all_, least in FIGURES:
        share = total.share(right, all_) or 0.0
        reached &= share >= least
        print(f"{name}: {counts[right]} of {counts[all_]}, {100 * share:.1f} %; at least {100 * least:.0f} %")
    wrong = counts["overwrites"] / max(1, counts["new facts"])
    reached &= wrong <= MOST_OVERWRITES
    print(f"overwrites: {counts['overwrites']} of {counts['new facts']}, {100 * wrong:.1f} %; at most 1 %")
    print(
        f"deletions {counts['deletions honoured']} of {counts['deletions']}, noise {counts['noise stored']} of"
        f" {counts['noise']}, good {counts['good']} of {counts['stored']}"
    )
    print(
        f"{recorded.calls} calls, {recorded.characters // 4} tokens in; {len(recorded.missing)} prompts without a reply"
    )
    if failures:
        print(*(failure for failure in total.failures if " injected" not in failure), sep="\n")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
