"""Writes samples/ anew from the real clients: what their hooks are given, and the transcripts that they write.

python -m tests.acceptance.record

One line a hook run; texts that the client made at length are cut, and what would tell of the machine is put in general.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.acceptance.clients import installed
from tests.acceptance.laptop import Laptop, prompts
from tests.acceptance.models import ErrorReply, ModelRequest, Models, Reply, TextReply, ToolCallReply
from tests.acceptance.proxy import Outside

SAMPLES = Path(__file__).with_name("samples")
EVENTS = (
    "SessionStart UserPromptSubmit Stop StopFailure PreCompact PostCompact SessionEnd SubagentStart SubagentStop"
).split()
LONGEST = 200
_BULKY = "prompt_snapshot skill_listing agent_listing_delta deferred_tools_delta session_context environment".split()
DUMP = """#!/bin/sh
# Keeps what a hook was given; at a start and at a prompt it puts a memory before the agent.
told=$(mktemp "{dump}/$(date +%s%N)-XXXXXX")
if [ "$1" = notify ]; then printf '%s' "$2" > "$told"; exit 0; fi
cat > "$told"
name=$(sed -n 's/.*"hook_event_name":"\\([A-Za-z]*\\)".*/\\1/p' "$told")
case $name in
SessionStart) heading=Relevant ;;
UserPromptSubmit) heading=Retrieved ;;
*) exit 0 ;;
esac
memory="## $heading Memories\\\\n- [claude-code/web] We deploy with Fly.io. (2026-11-01)"
memory="<cofio-memory>\\\\n$memory\\\\n</cofio-memory>"
printf '{{"hookSpecificOutput":{{"hookEventName":"%s","additionalContext":"%s"}}}}' "$name" "$memory"
"""


class Recording:
    """A laptop on which every hook run is recorded."""

    def __init__(self, root: Path, models: Models, outside: Outside) -> None:
        self.root = root
        self.laptop = Laptop(root, installed(), models, outside)
        self.web = self.laptop.project("web")
        self.dump = root / "dump"
        self.dump.mkdir()
        self.script = root / "dump.sh"
        self.script.write_text(DUMP.format(dump=self.dump), encoding="utf-8")
        self.script.chmod(0o755)
        hooks = {name: [{"hooks": [{"type": "command", "command": str(self.script), "timeout": 3}]}] for name in EVENTS}
        (self.laptop.home / ".claude").mkdir()
        for path in (".claude/settings.json", ".codex/hooks.json"):
            (self.laptop.home / path).write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
        config = self.laptop.home / ".codex/config.toml"
        notify = json.dumps([str(self.script), "notify"])
        limit = "model_context_window = 200000\nmodel_auto_compact_token_limit = 20000"
        config.write_text(f"notify = {notify}\n{limit}\n{config.read_text(encoding='utf-8')}", encoding="utf-8")

    def codex(self, *command: str) -> None:
        result = self.laptop.run("codex", "exec", *command, "--dangerously-bypass-hook-trust", at=self.web)
        assert result.code in (0, 1), result.err

    def told(self) -> list[Any]:
        """Return the hook inputs since the last call."""
        paths = sorted(self.dump.iterdir())
        output = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        for path in paths:
            path.unlink()
        return output

    def keep(self, name: str, lines: list[Any]) -> None:
        path = SAMPLES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{json.dumps(_short(line), ensure_ascii=False)}\n" for line in lines)
        path.write_text(self._general(text), encoding="utf-8")

    def _general(self, text: str) -> str:
        """Return the text with generic paths."""
        dashed = re.sub(r"[^A-Za-z0-9]", "-", str(self.laptop.home))
        text = text.replace(dashed, "-home-ann").replace(str(self.laptop.home), "/home/ann")
        text = text.replace(str(self.laptop.clients.parents[1]), "/usr/lib").replace(str(self.root), "/tmp")
        text = text.replace(self.laptop.models.url, "http://127.0.0.1:8000")
        return re.sub(r"Linux \d[\w.-]*", "Linux 6.1.0", text).replace(f":{self.laptop.models.port})", ":8000)")


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return (
            value if len(value) <= LONGEST or re.search("cofio-memory|notification>", value) else f"{value[:LONGEST]}…"
        )
    if isinstance(value, list):
        return [_short(item) for item in value[:5]]
    if isinstance(value, dict) and value.get("type") in _BULKY:
        return {"type": value["type"]}
    return {name: _short(each) for name, each in value.items()} if isinstance(value, dict) else value


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _agent_waited_for(asked: ModelRequest) -> Reply:
    (agent,) = re.findall(r"agent_id[^0-9a-f]*([0-9a-f-]{36})", json.dumps(asked.body["input"][-1]))
    return ToolCallReply("wait_agent", {"targets": [agent], "timeout_ms": 30_000}, "multi_agent_v1")


def _script(models: Models) -> None:
    models.when("Overloaded today", ErrorReply(529))
    models.when("ask an agent", ToolCallReply("Agent", {"description": "Look", "prompt": "AGENT: we build with Bazel.",
                "subagent_type": "general-purpose"}), TextReply("I asked one."))  # fmt: skip
    models.when("AGENT:", TextReply("AGENT'S ANSWER: we always build with Bazel."))


def claude(recording: Recording) -> None:
    """Record a session with a command, a subagent, a compaction and a resume; a fork; a failure; a cleared session."""
    laptop, web = recording.laptop, recording.web
    text = prompts("We switched from Prisma to Drizzle for the web app.", "Please ask an agent how we build.",
                   "/compact", "We run the tests with Vitest.")  # fmt: skip
    assert laptop.claude("", at=web, says=text).code == 0
    session = _newest(laptop.home / ".claude/projects", "*/*.jsonl")
    assert laptop.claude("We lint with Biome.", "--resume", session.stem, at=web).code == 0
    recording.keep("claude-code/session.jsonl", _lines(session))
    recording.keep("claude-code/subagent.jsonl", _lines(next(session.with_suffix("").rglob("agent-a*.jsonl"))))
    hooks = recording.told()
    assert laptop.claude("We format with Biome too.", "--resume", session.stem, "--fork-session", at=web).code == 0
    recording.keep("claude-code/forked.jsonl", _lines(_newest(laptop.home / ".claude/projects", "*/*.jsonl")))
    laptop.claude("Overloaded today: we use pnpm.", at=web)
    recording.keep("claude-code/failed.jsonl", _lines(_newest(laptop.home / ".claude/projects", "*/*.jsonl")))
    assert laptop.claude("", at=web, says=prompts("We use Node 22.", "/clear", "We use Postgres 17.")).code == 0
    recording.keep("claude-code/hooks.jsonl", hooks + recording.told())


def codex(recording: Recording) -> None:
    """Record a session with a subagent and a resume with compaction; a fork; a failure."""
    models = recording.laptop.models
    models.when("spawn an agent",
                ToolCallReply("spawn_agent", {"message": "AGENT: we build with Bazel."}, "multi_agent_v1"),
                _agent_waited_for, TextReply("I asked one.", tokens=50_000))  # fmt: skip
    recording.codex(
        "We switched from Prisma to Drizzle for the web app. Please spawn an agent that looks how we build."
    )
    sessions = recording.laptop.home / ".codex/sessions"
    by_kind = {_lines(path)[0]["payload"]["thread_source"]: path for path in sessions.rglob("*.jsonl")}
    name = _lines(by_kind["user"])[0]["payload"]["id"]
    models.when("We lint with Biome.", TextReply("Good."))
    models.when("CONTEXT CHECKPOINT COMPACTION", TextReply("SUMMARY: the user wants Bazel."))
    recording.codex("resume", name, "We lint with Biome.")
    recording.keep("codex/session.jsonl", _lines(by_kind["user"]))
    recording.keep("codex/subagent.jsonl", _lines(by_kind["subagent"]))
    recording.codex("fork", name, "We format with Biome too.")
    recording.keep("codex/forked.jsonl", _lines(_newest(sessions, "*.jsonl")))
    models.when("We use pnpm.", ErrorReply(500, "server_error", "we are down"))
    recording.codex("We use pnpm.")
    recording.keep("codex/failed.jsonl", _lines(_newest(sessions, "*.jsonl")))
    recording.keep("codex/hooks.jsonl", recording.told())


def _newest(folder: Path, pattern: str) -> Path:
    return max(folder.rglob(pattern), key=lambda path: path.stat().st_mtime_ns)


def main() -> int:
    root = Path(tempfile.mkdtemp(prefix="cofio-record-"))
    try:
        with Models() as models, Outside() as outside:
            _script(models)
            recording = Recording(root, models, outside)
            claude(recording)
            codex(recording)
            print("\n".join(sorted(set(outside.asked))) or "nothing was asked of the outside")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
