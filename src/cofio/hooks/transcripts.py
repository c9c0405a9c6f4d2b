"""Turn-by-turn readers for the transcripts that clients write.

    Claude Code's .jsonl | Codex's rollout .jsonl | a JSON list of messages | plain text ─▶ Turn, Turn, …

A turn is a user prompt and the assistant's messages that follow. These formats are undocumented and change: every key
is optional, and unknown entries and broken or incomplete lines are skipped. Context that was injected for the agent (by
hooks, boot files) is included with the role "system", so that hygiene can tell an echo from new information.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cofio.errors import InvalidInput
from cofio.models.exchange import OWN_REQUEST
from cofio.models.memory import MAX_LABEL, to_utc_iso

_log = logging.getLogger(__name__)

Client = Literal["claude-code", "codex", "text"]

_HEAD = 65_536  # bytes read to detect the format
_LONGEST_LINE = 16_777_216  # bytes; a longer line is split and therefore skipped
_SPEAKS = re.compile(r"(?im)^(?=[ \t]*(?:user|human|you):)")
_ROLE = re.compile(r"(?i)^\s*(?:user|human|you):")
_REPLIES = re.compile(r"(?im)^[ \t]*(?:assistant|ai):")
_HINT = "Give a transcript of Claude Code or Codex (.jsonl), a JSON list of messages, or a text file in UTF-8."


class TranscriptTurn(NamedTuple):
    """Messages of one turn, identified by (client, session, turn); `at` is "" where no time is recorded."""

    client: Client
    session: str
    turn: str
    at: str
    messages: list[dict[str, Any]]  # {"role", "content"}, as `hygiene.clean` takes them
    cwd: str = ""  # working folder; "" if the file does not name it


def read_transcript(path: Path, *, speaker: str = "user") -> Iterator[TranscriptTurn]:
    """Yield the turns of a file, oldest first. Raise InvalidInput if it cannot be read or is not text.

    `speaker` is the role for a text that is not a dialogue.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.", _HINT) from error
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        raise InvalidInput(f"{path} is compressed.", "Unpack it first: zstd -d FILE.")
    if b"\x00" in head and path.suffix != ".jsonl":  # a crash may leave NULs between complete lines
        raise InvalidInput(f"{path} is not UTF-8 text.", _HINT)

    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    is_object = start.startswith(b"{") and isinstance(_parse_json(start.split(b"\n", 1)[0]), dict)
    if path.suffix == ".jsonl" or is_object:
        return _read_lines(path)
    if path.suffix == ".json" or start[:1] == b"[":
        return _read_json(path)
    return _read_text(path, speaker)


def _parse_json(raw: bytes) -> Any:
    try:
        return json.loads(raw.replace(b"\x00", b"").decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return None


def _read_text(path: Path, speaker: str) -> Iterator[TranscriptTurn]:
    """Yield one turn; for a dialogue ("User: …", "Assistant: …"), one turn per message of the user."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    dialogue = _REPLIES.search(text)
    for part in _SPEAKS.split(text) if dialogue else [text]:
        if part.strip():
            messages = [{"role": "user" if dialogue else speaker, "content": part}]
            yield TranscriptTurn("text", "", _digest(messages), "", _split_roles(part) if dialogue else messages)


def _split_roles(part: str) -> list[dict[str, Any]]:
    """Return the messages of one turn of a dialogue."""
    said, *replies = _REPLIES.split(part)
    turn = [("user", _ROLE.sub("", said)), *(("assistant", reply) for reply in replies)]
    return [{"role": role, "content": text.strip()} for role, text in turn if text.strip()]


def _read_json(path: Path) -> Iterator[TranscriptTurn]:
    value = _parse_json(path.read_bytes())
    if value is None:
        raise InvalidInput(f"{path} is not complete, valid JSON.", _HINT)
    if not _list_messages(value):
        hint = 'Give a list of {"role", "content"}, or {"messages": [...]}.'
        raise InvalidInput(f"{path} contains no messages.", hint)
    return _read_messages(value)


def _read_messages(value: Any) -> Iterator[TranscriptTurn]:
    """Return the turns of a list of messages, or of {"messages": [...]}. Messages without a user are one turn."""
    session = _clean_label(value.get("session_id") or value.get("session")) if isinstance(value, Mapping) else ""
    lines = _list_messages(value)
    roles = {line.role for line in lines}
    turns = _group_turns("text", lines)
    if "assistant" in roles and "user" not in roles:
        at = next((line.at for line in reversed(lines) if line.at), "")
        messages = [{"role": line.role, "content": line.content} for line in lines]
        turns = iter([TranscriptTurn("text", "", "", at, messages)])
    for turn in turns:
        yield turn._replace(session=session, turn=_digest(turn.messages))


def _list_messages(value: Any) -> list[_TranscriptLine]:
    items = value.get("messages") if isinstance(value, Mapping) else value
    messages: list[_TranscriptLine] = []
    for item in items if isinstance(items, list) else []:
        if isinstance(item, Mapping) and isinstance(item.get("role"), str):
            content = item.get("content") if item.get("content") is not None else item.get("text")
            if isinstance(content, str | list):
                role = item["role"].strip().lower()
                at = _parse_time(item.get("timestamp") or item.get("created_at"))
                messages.append(_TranscriptLine(_ROLES.get(role, role), content, at=at))
    return messages


def _digest(messages: list[dict[str, Any]]) -> str:
    """Return a turn name derived from the messages, so that reading a file twice adds nothing."""
    return hashlib.blake2b(json.dumps(messages, sort_keys=True).encode(), digest_size=12).hexdigest()


class _TranscriptLine(NamedTuple):
    """A relevant line of a transcript: speaker and content. Assistant lines with the same `part_of` are one message."""

    role: str
    content: Any
    session: str = ""
    turn: str = ""
    at: str = ""
    part_of: str = ""
    within: bool = False  # sent by the user while the agent worked: part of the running turn
    cwd: str = ""


def _read_lines(path: Path) -> Iterator[TranscriptTurn]:
    remaining = _parse_lines(path)
    head: list[Mapping[str, Any]] = []
    client: Client | None = None
    for line in remaining:
        head.append(line)
        if client := _detect_client(line):
            break
    lines = itertools.chain(head, remaining)
    if client == "codex":
        return _group_turns(client, _read_codex(lines))
    if client == "claude-code":
        return _group_turns(client, _read_claude(lines))
    if client is None:
        return iter(())
    listed, tagged = itertools.tee(lines)  # either one conversation or one message per line
    conversations = (turn for line in listed for turn in _read_messages(line))
    return itertools.chain(conversations, _read_messages([line for line in tagged if "role" in line]))


def _detect_client(line: Mapping[str, Any]) -> Client | None:
    if isinstance(line.get("payload"), Mapping):
        return "codex"
    if "sessionId" in line or "leafUuid" in line or isinstance(line.get("message"), Mapping):
        return "claude-code"
    return "text" if "role" in line or "messages" in line else None


def _parse_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a file, one per line. Other lines are skipped and counted in the log."""
    broken = 0
    with path.open("rb") as file:
        for raw in iter(lambda: file.readline(_LONGEST_LINE), b""):
            line = _parse_json(raw)
            if isinstance(line, dict):
                yield line
            elif raw.strip():
                broken += 1
    if broken:
        _log.warning("%s: %d lines could not be read and were skipped", path, broken)


def _group_turns(client: Client, lines: Iterable[_TranscriptLine]) -> Iterator[TranscriptTurn]:
    """Yield one turn per prompt, with the messages after it. Context before the first prompt is added to each turn.

    A forked session begins with copies of the other session's turns, all named like its own first turn: of turns with
    the same name only the last is yielded.
    """
    standing: list[dict[str, Any]] = []
    turn: TranscriptTurn | None = None
    part_of = ""
    for line in lines:
        message = {"role": line.role, "content": line.content}
        if line.role == "user" and not (line.within and turn):
            if turn and not (turn.turn and turn.turn == line.turn):
                yield turn
            turn = TranscriptTurn(client, line.session, line.turn, line.at, [*standing, message], line.cwd)
        elif turn is None:
            if line.role != "assistant":
                standing.append(message)
        elif line.part_of and line.part_of == part_of and turn.messages[-1]["role"] == "assistant":
            turn.messages[-1]["content"] += f"\n\n{line.content}"
        else:
            turn.messages.append(message)
        part_of = line.part_of
    if turn:
        yield turn


def _read_claude(lines: Iterable[Mapping[str, Any]]) -> Iterator[_TranscriptLine]:
    seen_ids: set[str] = set()  # a resumed or forked session copies lines
    for line in lines:
        uuid = _clean_label(line.get("uuid"))
        if uuid in seen_ids or any(line.get(mark) is True for mark in _ASIDE):
            continue
        message = _read_claude_line(line, uuid)
        if message:
            seen_ids |= {uuid} - {""}
            yield message


def _read_claude_line(line: Mapping[str, Any], uuid: str) -> _TranscriptLine | None:
    if line.get("type") == "attachment":
        return _read_attachment(line.get("attachment"), _clean_label(line.get("sessionId")), uuid)
    message = line.get("message")
    if not isinstance(message, Mapping):
        return None
    text = _extract_text(message.get("content"))
    if line.get("type") == "user" and is_prompt(text):
        session, at = _clean_label(line.get("sessionId")), _parse_time(line.get("timestamp"))
        turn = _clean_label(line.get("promptId")) or uuid  # the name that hooks use, if present
        return _TranscriptLine("user", text, session, turn, at, cwd=_clean_folder(line.get("cwd")))
    if line.get("type") == "assistant" and text and message.get("model") != "<synthetic>":
        return _TranscriptLine("assistant", text, part_of=_clean_label(message.get("id")))
    return None


def _read_attachment(attachment: Any, session: str, uuid: str) -> _TranscriptLine | None:
    """Return the context that a hook injected, or a message that the user sent while the agent worked."""
    if not isinstance(attachment, Mapping):
        return None
    if attachment.get("type") == "queued_command" and attachment.get("commandMode") == "prompt":
        text = _extract_text(attachment.get("prompt"))
        return _TranscriptLine("user", text, session, uuid, within=True) if is_prompt(text) else None
    if attachment.get("type") != "hook_additional_context":
        return None
    content = attachment.get("content")
    texts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    text = "\n\n".join(part for part in texts if isinstance(part, str))
    return _TranscriptLine("system", text) if text else None


def _read_codex(lines: Iterable[Mapping[str, Any]]) -> Iterator[_TranscriptLine]:
    session = turn_id = cwd = ""
    prompts = 0
    for line in lines:
        payload = line.get("payload")
        if not isinstance(payload, Mapping):
            continue
        if line.get("type") == "session_meta":
            if _is_subagent(payload):
                return  # no user speaks in a subagent's thread
            session = session or _clean_label(payload.get("id") or payload.get("session_id"))
            cwd = _clean_folder(payload.get("cwd")) or cwd
        elif line.get("type") == "turn_context":
            cwd = _clean_folder(payload.get("cwd")) or cwd
        elif line.get("type") == "event_msg" and payload.get("type") == "task_started":
            turn_id = _clean_label(payload.get("turn_id"))
        elif line.get("type") == "response_item" and payload.get("type") == "message":
            message = _read_codex_message(line, payload)
            if message and message.role == "user":
                prompts += 1
                turn = turn_id or _clean_label(line.get("ordinal")) or str(prompts)
                message = message._replace(session=session, turn=turn, at=_parse_time(line.get("timestamp")), cwd=cwd)
                turn_id = ""
            if message:
                yield message


def _read_codex_message(line: Mapping[str, Any], payload: Mapping[str, Any]) -> _TranscriptLine | None:
    metadata = line.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("compaction_output") is True:
        return None  # the model's own summary
    role, text = payload.get("role"), _extract_text(payload.get("content"))
    if not text or role not in ("user", "assistant", "developer", "system"):
        return None
    if role == "assistant":
        return _TranscriptLine("assistant", text)
    return _TranscriptLine("user" if role == "user" and is_prompt(text) else "system", text)


def is_subagents(thread: str, codex_home: Path) -> bool:
    """Return whether a Codex thread belongs to a subagent, according to its rollout file."""
    if not re.fullmatch(r"[\w-]{8,64}", thread):
        return False
    for path in (codex_home / "sessions").glob(f"*/*/*/rollout-*{thread}*.jsonl"):
        for line in itertools.islice(_parse_lines(path), 1):
            meta = line.get("payload")
            if isinstance(meta, Mapping) and _is_subagent(meta):
                return True
    return False


def _is_subagent(meta: Mapping[str, Any]) -> bool:
    source = meta.get("source")
    return bool(meta.get("parent_thread_id")) or (isinstance(source, Mapping) and "subagent" in source)


def _extract_text(content: Any) -> str:
    """Return the text of a message; "" if it contains a tool result."""
    if isinstance(content, str):
        return content.strip()
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    if any(block.get("type") == "tool_result" for block in blocks):
        return ""
    texts = [block.get("text") for block in blocks if block.get("type") in ("text", "input_text", "output_text")]
    return "\n\n".join(text for text in texts if isinstance(text, str)).strip()


def is_prompt(text: str) -> bool:
    """Return whether a user wrote the text: something remains after the client's wrappers are removed."""
    place = 0
    while wrapper := _WRAPPER.match(text, place):
        end = text.find(f"</{wrapper[1]}>", wrapper.end())
        if end < 0:
            return False
        place = end + len(wrapper[1]) + 3
    return bool(text[place:].strip()) and not text[place:].lstrip().startswith(_SYNTHETIC)


def is_own_request(text: str) -> bool:
    """Return whether the prompt is one that cofio sends to a coding agent as its model."""
    return text.lstrip().startswith(f"<{OWN_REQUEST}>")


def _clean_label(value: Any) -> str:
    """Return a value usable as a label of an Exchange; "" for any other value."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text.encode("utf-8", "ignore").decode().replace("\x00", "").strip()[:MAX_LABEL]


def _clean_folder(value: Any) -> str:
    return value if isinstance(value, str) and "\x00" not in value else ""


def _parse_time(value: Any) -> str:
    try:
        return to_utc_iso(value) if value else ""
    except InvalidInput:
        return ""


_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "model": "assistant"}
_ASIDE = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_WRAPPER = re.compile(
    r"\s*(?:# AGENTS\.md instructions[^\n]*(?:\n\s*)?)?<(INSTRUCTIONS|system-reminder|local-command-[a-z]+"
    r"|command-[a-z]+|bash-[a-z]+|task-notification|user-prompt-submit-hook"
    r"|environment_context|user_instructions|turn_aborted|codex_internal_context|goal_context|startup_context|skill"
    r"|tools|user_shell_command|subagent_notification|(?:apps|skills|plugins|environments)_instructions|collaboration_mode|multi_agent_mode"
    r"|context_window[\w-]*|external_[\w-]+|cofio[\w-]*|relevant-context)(?:\s[^<>]*)?>"
)
_SYNTHETIC = (
    "Caveat: The messages below were generated by the user",
    "Stop hook feedback:",
    "[Request interrupted by user",
    "This session is being continued from a previous conversation",
    "# AGENTS.md instructions",
)
