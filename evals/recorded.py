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
MAX_OVERWRITES = 0.01  # share of the new facts
PROVIDERS = ("openai", "anthropic")
#: Parts of a prompt that differ between processors, because scores of the local models do in the last digits: the
#: similarity of candidates, and which memories are listed as known.
_VARYING = re.compile(r', "similarity": [0-9.]+|<known>\n.*?</known>\n\n', re.DOTALL)
_POLL_SECONDS = 0.5  # seconds between two checks for an awaited reply


def digest(system: str, user: str) -> str:
    """Return the key of a prompt."""
    return hashlib.sha256(f"{system}\n\n{_VARYING.sub('', user)}".encode()).hexdigest()[:24]


class RecordedReplies:
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
            self._replies[name] = _await_reply(self._folder, name, f"{system}\n\n{user}\n")
        text = self._replies.get(name)
        (self.missing if text is None else self.used).add(name)
        return text

    @property
    def lines(self) -> list[str]:
        """Return the used replies in the file format."""
        rows = ({"prompt": name, "reply": json.loads(self._replies[name])} for name in sorted(self.used))
        return [json.dumps(row, ensure_ascii=False) for row in rows]


def read_replies(path: Path = REPLIES) -> dict[str, str]:
    """Return the recorded replies by the digests of their prompts."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()
    return {row["prompt"]: json.dumps(row["reply"], ensure_ascii=False) for row in rows}


def _await_reply(folder: Path, name: str, prompt: str) -> str:
    """Write a prompt to the folder, and wait for its reply."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(prompt, encoding="utf-8")
    while True:
        with suppress(OSError, ValueError):  # missing or incomplete
            return json.dumps(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")), ensure_ascii=False)
        time.sleep(_POLL_SECONDS)


def split_prompt(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the system and the user part of a request to any of the providers."""
    contents = {message["role"]: message["content"] for message in body["messages"]}
    blocks = body.get("system")
    return contents.get("system") or "".join(block["text"] for block in blocks or ()), contents["user"]


def to_provider_format(provider: str, text: str, tokens: int) -> dict[str, Any]:
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
def serve(recorded: RecordedReplies, provider: str) -> Iterator[str]:
    """Serve replies on a free local port with the provider's interface; yield the URL for EXTRACT_URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            system, user = split_prompt(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            text = recorded.reply(system, user)
            body = to_provider_format(provider, text or "", (len(system) + len(user)) // 4)
            error = {"error": {"type": "invalid_request_error", "message": "no reply is recorded for this prompt"}}
            reply = json.dumps(error if text is None else body).encode()
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
    model_settings = {"extract_provider": provider, "extract_model": "recorded", "extract_timeout": 3600.0}
    return replace(settings, **model_settings, extract_url=url, extract_key="recorded")  # type: ignore[arg-type]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure sets of streams and print a line each; return 0 if every figure reaches its limit."""
    parser = argparse.ArgumentParser(prog="python -m evals.recorded", description=__doc__.partition("\n")[0])
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="stream files or folders of them")
    parser.add_argument("--provider", choices=PROVIDERS, default="openai", help="interface of the server")
    parser.add_argument("--failures", action="store_true", help="list the failed cases")
    parser.add_argument("--ask", type=Path, metavar="FOLDER", help="folder for missing prompts and replies")
    parser.add_argument("--write", type=Path, metavar="FILE", help="output file for the replies used")
    options = parser.parse_args(arguments)
    settings = Settings.load()
    embedder = bootstrap.make_embedder(settings)
    recorded = RecordedReplies(read_replies(), options.ask)
    outcomes = []
    for stream in (stream for path in options.paths or [SET] for stream in streams.read(path)):
        with serve(recorded, options.provider) as url:
            run_settings = settings_for(settings, options.provider, url)
            outcomes.append(streams.run(stream, run_settings, embedder, use_llm=True))
    if options.write:
        options.write.write_text("".join(f"{line}\n" for line in recorded.lines), encoding="utf-8")
    return _print_figures(streams.total(outcomes), recorded, failures=options.failures)


def _print_figures(total: streams.StreamOutcome, recorded: RecordedReplies, *, failures: bool) -> int:
    counts = total.counts
    is_met = recorded.calls > 0 and not recorded.missing
    for name, success, case, minimum in FIGURES:
        value = total.share(success, case) or 0.0
        is_met &= value >= minimum
        print(f"{name}: {counts[success]} of {counts[case]}, {100 * value:.1f} %; at least {100 * minimum:.0f} %")
    overwrite_share = counts["overwrites"] / max(1, counts["new facts"])
    is_met &= overwrite_share <= MAX_OVERWRITES
    print(f"overwrites: {counts['overwrites']} of {counts['new facts']}, {100 * overwrite_share:.1f} %; at most 1 %")
    print(
        f"deletions {counts['deletions honoured']} of {counts['deletions']}, noise {counts['noise stored']} of"
        f" {counts['noise']}, good {counts['good']} of {counts['stored']}"
    )
    print(
        f"{recorded.calls} calls, {recorded.characters // 4} tokens in; {len(recorded.missing)} prompts without a reply"
    )
    if failures:
        print(*(failure for failure in total.failures if " injected" not in failure), sep="\n")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
