"""Parsing transcripts of clients, including broken ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.errors import InvalidInput
from cofio.hooks.transcripts import TranscriptTurn, is_prompt, read_transcript
from cofio.ingest import sanitize


def write_lines(path: Path, lines: Iterable[Any]) -> Path:
    result = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(result) + "\n", encoding="utf-8")
    return path


def prompt(uuid: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "user", "uuid": uuid, "parentUuid": None, "sessionId": "s-1", "timestamp": "2026-02-20T06:44:28.000Z",
        "cwd": "/p", "isSidechain": False, "message": {"role": "user", "content": content}, **more,
    }  # fmt: skip


def reply(uuid: str, message_id: str, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"id": message_id, "role": "assistant", "model": "m", "content": list(blocks)}
    return {"type": "assistant", "uuid": uuid, "sessionId": "s-1", "message": message, **more}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def item(role: str, *texts: str, kind: str = "input_text") -> dict[str, Any]:
    content = [{"type": kind, "text": entry} for entry in texts]
    payload = {"type": "message", "role": role, "content": content}
    return {"timestamp": "2026-02-20T06:44:28.123Z", "type": "response_item", "payload": payload}


def messages_of(turn: TranscriptTurn) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in turn.messages]


# ── Claude Code ───────────────────────────────────────────────────────────────────────────────────────────────────────

TOOL_USE = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}


def test_session_started_by_cofio_has_no_turns(tmp_path: Path) -> None:
    own = "<cofio-request>\nWe use Biome.\n</cofio-request>"
    lines = [prompt("u-1", own), reply("a-1", "m-1", text("We use Biome."))]
    assert list(read_transcript(write_lines(tmp_path / "claude.jsonl", lines))) == []
    messages = [("user", "input_text", own), ("assistant", "output_text", "We use Biome.")]
    rollout = [
        {
            "type": "response_item",
            "payload": {"type": "message", "role": role, "content": [{"type": kind, "text": told}]},
        }
        for role, kind, told in messages
    ]
    assert list(read_transcript(write_lines(tmp_path / "rollout.jsonl", rollout))) == []


def test_turn_is_a_prompt_with_the_assistants_replies(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "s-1.jsonl",
        [
            {"type": "summary", "summary": "Old", "leafUuid": "x"},
            {"type": "file-history-snapshot", "messageId": "m"},
            prompt("u1", "Use drizzle, not prisma"),
            reply("a1", "m1", {"type": "thinking", "thinking": "hm"}),
            reply("a2", "m1", text("OK, drizzle.")),
            reply("a3", "m1", TOOL_USE),
            prompt("u2", [TOOL_RESULT], toolUseResult={"ok": True}),
            reply("a4", "m2", text("Done.")),
            {"type": "system", "subtype": "turn_duration", "content": "5 s"},
            prompt("u3", [text("Thanks"), {"type": "image", "source": {}}], timestamp="2026-02-20T06:50:00Z"),
        ],
    )
    first, second = read_transcript(path)
    assert first == TranscriptTurn(
        "claude-code",
        "s-1",
        "u1",
        "2026-02-20T06:44:28.000000+00:00",
        [
            {"role": "user", "content": "Use drizzle, not prisma"},
            {"role": "assistant", "content": "OK, drizzle."},
            {"role": "assistant", "content": "Done."},
        ],
        "/p",
    )
    assert (second.turn, messages_of(second)) == ("u3", [("user", "Thanks")])


def test_reply_split_over_lines_is_one_message(tmp_path: Path) -> None:
    lines = [prompt("u1", "Go"), reply("a1", "m1", text("One.")), reply("a2", "m1", TOOL_USE)]
    lines += [reply("a3", "m1", text("Two.")), reply("a4", "m2", text("Three."))]
    (turn,) = read_transcript(write_lines(tmp_path / "s.jsonl", lines))
    assert messages_of(turn) == [("user", "Go"), ("assistant", "One.\n\nTwo."), ("assistant", "Three.")]


NO_PROMPTS = [
    prompt("x", "Be nice", isMeta=True),
    prompt("x", "Search the code", isSidechain=True),
    prompt("x", "This session is being continued from a previous conversation that ran out", isCompactSummary=True),
    prompt("x", "This session is being continued from a previous conversation that ran out"),
    prompt("x", [TOOL_RESULT, text("and text beside it")]),
    prompt("x", "<command-message>init</command-message>\n<command-name>/init</command-name>"),
    prompt("x", "<local-command-stdout>done</local-command-stdout>"),
    prompt("x", "<bash-input>ls</bash-input><bash-stdout>a</bash-stdout>"),
    prompt("x", "<system-reminder>The file changed.</system-reminder>"),
    prompt("x", "<system-reminder>It was cut o"),
    prompt("x", "<task-notification>ready</task-notification>"),
    prompt("x", "Caveat: The messages below were generated by the user while running local commands."),
    prompt("x", "Stop hook feedback:\nnot yet"),
    prompt("x", "[Request interrupted by user for tool use]"),
    prompt("x", [{"type": "image", "source": {}}]),
    prompt("x", ["wow"]),
    prompt("x", {"odd": 1}),
    prompt("x", None),
    {**prompt("x", ""), "message": "error"},
    {"type": "attachment", "uuid": "x", "attachment": {"type": "hook_success", "content": "ok"}},
    {"type": "queue-operation", "content": "queued", "sessionId": "s-1"},
    reply("x", "m9", text("API Error: 529 overloaded"), isApiErrorMessage=True),
    {**reply("x", "m9", text("No response requested.")), "message": {"model": "<synthetic>", "content": [text("No.")]}},
    {"silly": "this"},
    42,
    [1],
    '"massive error"',
    '{"type": "user", "uuid": "x", "message": {"role": "us',
    "",
]


@pytest.mark.parametrize("line", NO_PROMPTS)
def test_other_lines_are_skipped(tmp_path: Path, line: Any) -> None:
    lines = [prompt("u1", "We use uv."), line, reply("a1", "m1", text("Noted.")), line]
    (turn,) = read_transcript(write_lines(tmp_path / "s.jsonl", lines))
    assert messages_of(turn) == [("user", "We use uv."), ("assistant", "Noted.")]


def test_prompt_after_a_system_reminder_is_a_prompt(tmp_path: Path) -> None:
    result = "<system-reminder>Today is Friday.</system-reminder>\nWe use uv."
    (turn,) = read_transcript(write_lines(tmp_path / "s.jsonl", [prompt("u1", result)]))
    assert messages_of(turn) == [("user", result)]


def test_copied_line_counts_once(tmp_path: Path) -> None:
    lines = [prompt("u1", "We use uv."), prompt("u1", "We use uv.", sessionId="s-2"), prompt("u2", "And ruff.")]
    assert [turn.turn for turn in read_transcript(write_lines(tmp_path / "s.jsonl", lines))] == ["u1", "u2"]


def test_broken_line_does_not_reserve_its_uuid(tmp_path: Path) -> None:
    lines = [{**prompt("u1", ""), "message": "error"}, prompt("u1", "We use uv.")]
    assert [messages_of(turn) for turn in read_transcript(write_lines(tmp_path / "s.jsonl", lines))] == [
        [("user", "We use uv.")]
    ]


def test_injected_context_is_returned_separately(tmp_path: Path) -> None:
    def hook(content: Any) -> dict[str, Any]:
        return {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": content}}

    lines = [
        hook(["<cofio-memory>\n- [acme] We use uv\n</cofio-memory>"]),
        prompt("u1", "Set it up"),
        hook("<cofio-memory>\n- [acme] We use ruff\n</cofio-memory>"),
        reply("a1", "m1", text("You use uv.")),
        prompt("u2", "Good"),
    ]
    first, second = read_transcript(write_lines(tmp_path / "s.jsonl", lines))
    assert [role for role, _ in messages_of(first)] == ["system", "user", "system", "assistant"]
    assert sanitize.clean(first.messages).injected == ("We use uv", "We use ruff")
    assert sanitize.clean(second.messages).injected == ("We use uv",)


def test_invalid_ids_and_times_are_empty(tmp_path: Path) -> None:
    lines = [prompt("u\x00\ud800" + "1" * 2000, "Hi", sessionId=["s"], timestamp="yesterday")]
    (turn,) = read_transcript(write_lines(tmp_path / "s.jsonl", lines))
    assert (turn.session, turn.at, len(turn.turn)) == ("", "", 1024)
    exchange = sanitize.clean(turn.messages, client=turn.client, session=turn.session, turn=turn.turn, at=turn.at)
    assert exchange.turn == turn.turn


def test_broken_lines_are_counted_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    list(read_transcript(write_lines(tmp_path / "s.jsonl", [prompt("u1", "Hi"), "{", "{"])))
    assert "2 lines" in caplog.text


# ── Codex ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

META = {"type": "session_meta", "payload": {"id": "thread-1", "cwd": "/p", "source": "cli"}}
AGENTS = "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>\n- Use tabs in Go\n</INSTRUCTIONS>"


def test_rollout_is_read_without_codex_instructions(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "rollout-2026-02-20T06-44-28-thread-1.jsonl",
        [
            META,
            item("developer", "<permissions instructions>ask</permissions instructions>"),
            item("user", AGENTS, "<environment_context><cwd>/p</cwd></environment_context>"),
            {"type": "event_msg", "payload": {"type": "task_started", "turn_id": "turn-a"}},
            item("user", "Use drizzle"),
            {"type": "event_msg", "payload": {"type": "user_message", "message": "Use drizzle"}},
            {"type": "turn_context", "payload": {"model": "m"}},
            {"type": "response_item", "payload": {"type": "reasoning", "summary": [], "encrypted_content": "x"}},
            {"type": "response_item", "payload": {"type": "function_call", "name": "shell", "arguments": "{}"}},
            {"type": "response_item", "payload": {"type": "function_call_output", "output": "Use prisma"}},
            item("assistant", "Done.", kind="output_text"),
            {"type": "compacted", "payload": {"message": "summary", "replacement_history": [item("user", "Again")]}},
            '{"timestamp":"2026-02-20T06:4',
            {**item("user", "And tests"), "ordinal": 17},
            item("user", "<turn_aborted>stopped</turn_aborted>"),
            item("user", "Third"),
        ],
    )
    turns = list(read_transcript(path))
    assert [(turn.client, turn.session, turn.turn) for turn in turns] == [
        ("codex", "thread-1", "turn-a"),
        ("codex", "thread-1", "17"),
        ("codex", "thread-1", "3"),
    ]
    assert turns[0].at == "2026-02-20T06:44:28.123000+00:00"
    exchanges = [sanitize.clean(turn.messages) for turn in turns]
    assert [tuple(exchange.messages) for exchange in exchanges] == [
        (("user", "Use drizzle"), ("assistant", "Done.")),
        (("user", "And tests"),),
        (("user", "Third"),),
    ]
    assert all("Use tabs in Go" in exchange.injected for exchange in exchanges)


def test_prompt_after_the_instructions_file_is_a_prompt(tmp_path: Path) -> None:
    (turn,) = read_transcript(write_lines(tmp_path / "r.jsonl", [META, item("user", AGENTS, "Use drizzle")]))
    assert sanitize.clean(turn.messages).messages == (("user", "Use drizzle"),)


@pytest.mark.parametrize("meta", [{"parent_thread_id": "t-0"}, {"source": {"subagent": "review"}}])
def test_subagent_rollout_has_no_turns(tmp_path: Path, meta: dict[str, Any]) -> None:
    lines = [{"type": "session_meta", "payload": {"id": "t", **meta}}, item("user", "Review it")]
    assert list(read_transcript(write_lines(tmp_path / "r.jsonl", lines))) == []


# ── messages and texts ────────────────────────────────────────────────────────────────────────────────────────────────

MESSAGES = [
    {"role": "system", "content": "Be nice"},
    {"role": "human", "content": "I use vim", "timestamp": 1771569868},
    {"role": "assistant", "content": [{"type": "text", "text": "Noted"}]},
    "broken",
    {"role": "user"},
    {"role": "user", "text": "And tmux"},
]


@pytest.mark.parametrize("document", [MESSAGES, {"messages": MESSAGES}], ids=["list", "object"])
@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "lines"])
def test_json_messages_are_read_as_turns(tmp_path: Path, document: Any, indent: int | None) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(document, indent=indent), encoding="utf-8")
    first, second = read_transcript(path)
    assert [role for role, _ in messages_of(first)] == ["system", "user", "assistant"]
    assert (first.client, first.at) == ("text", "2026-02-20T06:44:28.000000+00:00")
    assert ("user", "And tmux") in messages_of(second)


def test_json_lines_of_messages_or_conversations_are_read(tmp_path: Path) -> None:
    tagged = [{"role": "user", "content": "One"}, {"role": "assistant", "content": "Two"}]
    assert [messages_of(turn) for turn in read_transcript(write_lines(tmp_path / "a.jsonl", tagged))] == [
        [("user", "One"), ("assistant", "Two")]
    ]
    assert (
        len(list(read_transcript(write_lines(tmp_path / "b.jsonl", [{"messages": tagged}, {"messages": tagged}])))) == 2
    )


def test_equal_messages_have_equal_turn_ids(tmp_path: Path) -> None:
    def turns(name: str, content: str) -> set[str]:
        path = tmp_path / name
        path.write_text(json.dumps([{"role": "user", "content": content}]), encoding="utf-8")
        return {turn.turn for turn in read_transcript(path)}

    assert turns("a.json", "I use vim") == turns("b.json", "I use vim")
    assert turns("a.json", "I use vim") != turns("a.json", "I use ed")


def test_dialogue_in_a_text_file_has_a_turn_per_user_message(tmp_path: Path) -> None:
    path = tmp_path / "talk.txt"
    path.write_text("User: one\nAssistant: two\n\nUser: three\nwith more\nAI: four\n", encoding="utf-8")
    turns = list(read_transcript(path))
    assert [[(message["role"], message["content"]) for message in turn.messages] for turn in turns] == [
        [("user", "one"), ("assistant", "two")],
        [("user", "three\nwith more"), ("assistant", "four")],
    ]
    assert len({turn.turn for turn in turns}) == 2


@pytest.mark.parametrize("name", ["notes.md", "notes.txt", "notes"])
def test_text_file_is_one_turn(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("\ufeffUser: I use vim\nAssistant: Noted\n", encoding="utf-8")
    (turn,) = read_transcript(tmp_path / name)
    assert (turn.client, turn.session, turn.at) == ("text", "", "")
    assert sanitize.clean(turn.messages).messages == (("user", "I use vim"), ("assistant", "Noted"))


def test_empty_file_has_no_turns(tmp_path: Path) -> None:
    for name in ("a.md", "a.jsonl"):
        (tmp_path / name).write_text("\n", encoding="utf-8")
        assert list(read_transcript(tmp_path / name)) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"\x00\x01"),
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfd rest"),
        ("a.json", b'[{"role": "user"'),
        ("b.json", b'{\n"title": "x"}'),
        ("utf16.txt", "hello".encode("utf-16")),
    ],
)
def test_unsupported_file_is_rejected_with_hint(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput) as refusal:
        list(read_transcript(tmp_path / name))
    assert refusal.value.hint


def test_nul_bytes_after_a_crash_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\x00" * 100 + json.dumps(prompt("u1", "We use uv.")).encode() + b"\n" + b"\x00" * 100)
    assert [turn.turn for turn in read_transcript(path)] == ["u1"]


def test_missing_file_and_folder_are_rejected(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(InvalidInput) as refusal:
            read_transcript(path)
        assert refusal.value.hint


# ── random input ──────────────────────────────────────────────────────────────────────────────────────────────────────

leaf = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
key = st.sampled_from("type role content text message payload uuid sessionId timestamp attachment id ordinal".split())
word = st.sampled_from("user assistant text message response_item session_meta attachment tool_result".split())
json_value = st.recursive(
    leaf | word, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(key, inner, max_size=5), max_leaves=12
)


@given(lines=st.lists(json_value | st.text(max_size=30), max_size=8))
def test_random_lines_are_read_and_a_valid_turn_is_found(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("any") / "x.jsonl"
    raw = [
        json.dumps(line).encode() if not isinstance(line, str) else line.encode("utf-8", "replace") for line in lines
    ]
    raw.insert(len(raw) // 2, json.dumps(prompt("known", "We use uv.")).encode())
    raw.insert(0, json.dumps({"type": "summary", "leafUuid": "x"}).encode())
    path.write_bytes(b"\n".join(raw))
    assert "known" in {turn.turn for turn in read_transcript(path)}


def test_long_heading_is_checked_quickly() -> None:
    start_time = time.monotonic()
    assert not is_prompt("# AGENTS.md instructions" + " " * 300_000)
    assert time.monotonic() - start_time < 5
