"""Sanitizing: input from clients becomes an exchange."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.errors import InvalidInput
from cofio.ingest import sanitize
from cofio.ingest.sanitize import LONGEST_INJECTED, MOST_INJECTED, clean
from cofio.ingest.sanitize.messages import read_messages
from cofio.models.exchange import MAX_SAID, Message
from cofio.models.memory import MAX_LABEL
from cofio.text.tokens import LEFT_OUT
from tests.redaction.corpus import SECRETS, join_parts


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def clean_text(text: str, role: str = "user") -> str:
    """Return the sanitized text of one message."""
    return "\n".join(message.text for message in clean([{"role": role, "content": text}]).messages)


def injected_lines(text: str, role: str = "user") -> tuple[str, ...]:
    return clean([{"role": role, "content": text}]).injected


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "User: I use vim\nAssistant: Noted",
        "USER: I use vim\nassistant:Noted",
        "Human: I use vim\nAI: Noted",
        "  You: I use vim\n\nAssistant: Noted\n",
        "**User:** I use vim\n**Assistant:** Noted",
        "### User: I use vim\r\n### Assistant: Noted",
    ],
)
def test_text_with_roles_is_split_into_messages(text: str) -> None:
    assert clean(text).messages == (("user", "I use vim"), ("assistant", "Noted"))


def test_report_without_roles_is_an_assistant_message() -> None:
    assert clean("Threshold: CPU above 90%", context="analysis").messages == (
        ("assistant", "Threshold: CPU above 90%"),
    )
    messages = clean([{"role": "user", "content": "CPU?"}], context="analysis").messages
    assert messages == (("user", "CPU?"),)


def test_text_without_roles_is_a_user_message() -> None:
    text = "I use vim, says the user: me.\nThe assistant is called Ada."
    assert clean(text).messages == (Message("user", text),)


def test_conversation_is_split_and_a_quoted_one_is_not() -> None:
    conversation = "User: I use vim\nAssistant: Noted"
    assert clean(conversation).messages == (("user", "I use vim"), ("assistant", "Noted"))
    for text in (conversation, f"Look at this:\n{conversation}"):
        assert clean([user(text)]).messages == (("user", text),)
    assert clean(f"Look at this:\n{conversation}").messages == (("user", f"Look at this:\n{conversation}"),)


def test_quotation_with_a_role_name_is_not_split() -> None:
    quotation = "The log says\nAI: ready"
    assert clean([{"role": "assistant", "content": quotation}]).messages == (("assistant", quotation),)


ITEMS = [
    {"role": "user", "content": "I use vim"},
    {"role": "User ", "content": "I use vim"},
    {"role": "user", "text": "I use vim"},
    {"role": "user", "content": [{"type": "text", "text": "I use vim"}]},
    {"role": "user", "content": [{"type": "input_text", "text": "I use vim"}]},
    {"role": "user", "content": {"type": "text", "text": "I use vim"}},
    {"type": "user", "uuid": "u", "message": {"role": "user", "content": "I use vim"}},
    {"type": "user", "message": {"content": [{"type": "text", "text": "I use vim"}]}},
    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "I use vim"}},
    {"role": "user", "content": ["I use vim"]},
    {"role": "user", "content": [{"text": "I use vim"}]},
    {"role": "user", "content": {"text": "I use vim"}},
    {"content": "I use vim"},
    {"text": "I use vim"},
    {"role": "", "content": "I use vim"},
    {"type": "text", "text": "I use vim"},
    {"type": "user", "content": "I use vim"},
    Message("user", "I use vim"),
]


@pytest.mark.parametrize("item", ITEMS)
def test_item_of_any_known_format_is_a_message(item: Any) -> None:
    assert clean([item]).messages == (("user", "I use vim"),)


IGNORED_ITEMS = [
    "text", None, 42, [], {}, {"role": "user"}, {"role": "user", "content": 5}, {"role": None, "content": "x"},
    {"role": ["user"], "content": "x"}, {"content": 5}, {"role": "system", "content": "Be nice"},
    {"role": "tool", "content": "exit 0"}, {"role": "developer", "content": "x"}, {"role": "function", "content": "x"},
    {"role": "user", "content": [5]}, {"role": "user", "content": [{"type": "text", "text": 5}, {"type": "text"}]},
    {"type": "tool_result", "content": "x"},
    {"type": "user", "message": "error"}, {"type": "summary", "summary": "x"}, {"type": "system", "content": "x"},
    {"type": "user", "isMeta": True, "message": {"role": "user", "content": "x"}},
    {"type": "user", "isSidechain": True, "message": {"role": "user", "content": "x"}},
    {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": "x"}},
    {"role": "user", "content": " \n "},
]  # fmt: skip


@pytest.mark.parametrize("item", IGNORED_ITEMS)
def test_invalid_or_unknown_item_is_ignored(item: Any) -> None:
    assert clean([user("I use vim"), item, {"role": "assistant", "content": "Noted"}]).messages == (
        ("user", "I use vim"),
        ("assistant", "Noted"),
    )


@pytest.mark.parametrize("messages", [None, 5, {"role": "user", "content": "x"}, b"text", iter([])])
def test_input_that_is_neither_text_nor_list_is_rejected_with_a_hint(messages: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        clean(messages)
    assert "list" in caught.value.hint


NO_MESSAGES: list[list[Any]] = [
    ["I use vim"], [None, 5], [[]], [{}], [{"role": "user"}], [{"role": "user", "msg": "I use vim"}],
    [{"role": None, "content": "x"}], [{"role": ["user"], "content": "x"}], [{"role": "user", "content": 5}],
    [{"user": "I use vim"}],
]  # fmt: skip


@pytest.mark.parametrize("messages", NO_MESSAGES)
def test_list_without_messages_is_rejected_with_an_example(messages: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="contains no message") as caught:
        clean(messages)
    assert '{"role": "user"' in caught.value.hint


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "tool", "content": "exit 0"}],
        [{"role": "user", "content": " "}],
        [{"role": "user", "content": []}],
        [{"role": "user", "content": [{"type": "image", "source": {}}]}],
        [{"role": "assistant", "content": None, "tool_calls": []}],
        [{"role": "assistant", "tool_calls": []}],
        [{"type": "summary", "summary": "x"}],
        [{"type": "user", "isMeta": True, "message": {"role": "user", "content": "x"}}],
    ],
)
def test_empty_messages_are_accepted(messages: list[Any]) -> None:
    assert clean(messages).messages == ()


def test_unknown_field_is_rejected_by_name() -> None:
    with pytest.raises(InvalidInput, match="An exchange has no field foo") as caught:
        clean("x", foo=1)
    assert {"source", "session", "turn", "injected"} <= set(caught.value.hint.replace(".", "").replace(",", "").split())


def test_non_text_blocks_are_removed() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "I use vim."},
        {"type": "tool_use", "name": "Edit", "input": {"text": "secret plan"}},
        {"type": "tool_result", "content": [{"type": "text", "text": "tool says"}]},
        {"type": "image", "source": {}},
        {"type": "document", "text": "page"},
        {"type": "output_text", "text": "And tmux."},
    ]
    assert clean([{"role": "assistant", "content": blocks}]).messages == (("assistant", "I use vim.\n\nAnd tmux."),)


def test_characters_that_cannot_be_stored_are_removed() -> None:
    assert clean("I\x00 use\ud800 vim \U0001f600").messages == (("user", "I use vim \U0001f600"),)


def test_other_fields_of_the_exchange_are_kept() -> None:
    exchange = clean(
        "I use vim", source="acme", client="codex", session="s", turn="t", agent="a", at="2026-02-20T06:44:28Z"
    )
    assert (exchange.source, exchange.client, exchange.session, exchange.turn) == ("acme", "codex", "s", "t")
    assert (exchange.agent, exchange.at) == ("a", "2026-02-20T06:44:28.000000+00:00")
    assert (exchange.context, exchange.visibility) == ("stop", "private")


def test_empty_exchange_is_valid() -> None:
    assert clean([]).messages == ()
    assert clean("").messages == ()
    assert clean("<system-reminder>x</system-reminder>").messages == ()


# ── Blocks ────────────────────────────────────────────────────────────────────────────────────────────────────────────

TAGS = """
    cofio-memory cofio-recall cofio relevant-context system-reminder local-command-stdout local-command-stderr
    local-command-caveat command-name command-message command-args command-contents bash-input bash-stdout bash-stderr
    user-prompt-submit-hook environment_context user_instructions INSTRUCTIONS ide_opened_file ide_selection
    task-notification tool_result function_results think thinking
""".split()


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("tag", TAGS)
def test_client_block_is_removed(tag: str, role: str) -> None:
    assert clean_text(f"We use uv.\n<{tag}>\nThey use pip.\n</{tag}>\nAlways.", role) == "We use uv.\n\nAlways."
    assert clean_text(f'We use uv. <{tag} kind="x">They use pip.</{tag}>', role) == "We use uv."


def test_text_around_a_removed_block_is_separated() -> None:
    assert clean_text("uv<think>x</think>pip") == "uv pip"


def test_nested_block_of_the_same_name_ends_with_the_outer_one() -> None:
    assert clean_text("A.<think>one<think>two</think>three</think>B.") == "A. B."


def test_mention_of_its_own_tag_does_not_keep_a_block_open() -> None:
    text = "<system-reminder>A <system-reminder> is not for users.</system-reminder>\nWe use uv."
    assert clean_text(text) == "We use uv."


def test_user_tags_are_kept() -> None:
    text = "<instructions>Always use tabs</instructions> and <b>bold</b>, List<String>"
    assert clean_text(text) == text


@pytest.mark.parametrize("tag", ["cofio-memory", "system-reminder", "environment_context", "think", "tool_result"])
def test_unclosed_block_extends_to_the_end_of_its_message(tag: str) -> None:
    exchange = clean([user(f"We use uv.\n<{tag}>\nThey use pip."), {"role": "assistant", "content": "Noted"}])
    assert exchange.messages == (("user", "We use uv."), ("assistant", "Noted"))


def test_unclosed_block_ends_with_its_part_of_the_message() -> None:
    parts = [{"type": "text", "text": "<system-reminder>cut o"}, {"type": "text", "text": "We use uv."}]
    assert clean([user(parts)]).messages == (("user", "We use uv."),)


def test_mention_of_a_tag_is_kept() -> None:
    for text in ("The <system-reminder> tag is stripped. We use uv.", "`<think>` opens it and `</think>` closes it."):
        assert clean_text(text) == text


def test_tag_inside_code_does_not_open_a_block() -> None:
    assert clean_text("See\n```\n<think>\n```\nWe use uv.") == "See\n\nWe use uv."


def test_unclosed_short_wrapper_removes_its_line_only() -> None:
    assert clean_text("<command-name>/init\nWe use uv.") == "We use uv."


HEADINGS = """
    ## Relevant Memories|## Retrieved Memories|## Relevant Personal Context:|## Relevant Team Context:|## Known Patterns
    |## Active Thresholds
"""


@pytest.mark.parametrize("heading", [heading.strip() for heading in HEADINGS.split("|")])
def test_recalled_section_is_removed_with_its_list(heading: str) -> None:
    recalled = "- [0.80] We use Postgres\n* [acme] Deploys go\n  through CI\n1. Third\n"
    exchange = clean(f"Hello.\n\n{heading}\n{recalled}\nWe use uv.\n- Mine")
    assert exchange.messages == (("user", "Hello.\n\nWe use uv.\n- Mine"),)
    assert exchange.injected == ("We use Postgres", "Deploys go", "through CI", "Third")


def test_heading_without_a_list_is_kept() -> None:
    text = "## Known Patterns\nWe use the repository pattern."
    assert clean_text(text) == text


# ── Synthetic lines ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "line",
    [
        "Caveat: The messages below were generated by the user while running local commands. DO NOT respond to them.",
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
        "No response requested.",
        "API Error: 529 overloaded",
        "(no content)",
        "# AGENTS.md instructions for /p",
    ],
)
def test_line_generated_by_the_client_is_removed(line: str) -> None:
    assert clean_text(f"We use uv.\n{line}\nAlways.") == "We use uv.\n\nAlways."


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("This session is being continued from a previous conversation that ran out of context.\nWe use pip.", "user"),
        ("Stop hook feedback:\nWe use pip.", "user"),
        ("API Error: Connection refused.\nWe use pip.", "assistant"),
    ],
)
def test_message_generated_by_the_client_is_removed(text: str, role: str) -> None:
    assert clean_text(text, role) == ""


def test_user_message_about_an_error_is_kept() -> None:
    text = "API Error: that is what we log when the gateway is down."
    assert clean_text(text) == text


# ── Code and pasted text ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "code",
    [
        "```python\nx = 'we use pip'\n```",
        "```\nwe use pip\n```",
        "~~~sh\nwe use pip\n```\n~~~",
        "````md\n```\nwe use pip\n```\n````",
        "  ```js\n  we use pip\n  ```",
        "- ```js\n  we use pip\n  ```",
        "> ```\n> we use pip\n> ```",
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    pip()\n    ^^^^^\nValueError: no pip',
        'Traceback (most recent call last):\n  File "a.py", line 1\nsubprocess.TimeoutExpired: pip',
        "at foo (file.js:1:2)\n    at async bar (node:internal/x:3:4)\n    at /srv/app.js:10:5",
        "\tat com.acme.Pip.run(Pip.java:12)\n\t... 12 more\nCaused by: com.acme.PipException: no",
        "diff --git a/x b/x\nindex 1234567..89abcde\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ f\n-we use pip\n+we pip\n x",
        "@@ -1 +1 @@\n-pip\n+pip3",
        "*** Begin Patch\n*** Update File: x\n-we use pip\n*** End Patch",
        "2026-02-20T06:44:28Z INFO we use pip\n2026-02-20 06:44:28,123 [main] ERROR pip failed",
        "[2026-02-20 06:44:28] level=info msg=pip\n12:00:01.5 WARN pip",
        "goroutine 1 [running]:\n  /srv/pip.go:10 +0x1d",
    ],
)
def test_pasted_text_is_removed_and_prose_kept(code: str) -> None:
    assert clean_text(f"We use uv:\n{code}\nAlways use it.") == "We use uv:\n\nAlways use it."
    assert clean_text(code) == ""


@pytest.mark.parametrize(
    "text",
    [
        "We use `uv` and ```uv run```.",
        "The meeting is at 10:30:00, at the office (see map.md:12).",
        "  at the office we use uv, from 10:30",
        "2026-02-20: we chose uv.",
        "2026-02-20 06:44 we chose uv over pip",
        "- we use uv\n+ we use ruff\n--- and nothing else ---",
        "An ERROR at startup means that uv is missing.",
        "File a ticket, line 3 of the form is for the team.",
    ],
)
def test_text_that_resembles_a_paste_is_kept(text: str) -> None:
    assert clean_text(text) == text.strip()


def test_unclosed_fence_with_a_language_is_code_to_the_end() -> None:
    assert clean_text("We use uv:\n```sh\npip install x\n") == "We use uv:"


def test_closing_fence_without_opening_removes_only_itself() -> None:
    assert clean_text("rest of code\n```\nWe use uv.") == "rest of code\n\nWe use uv."


def test_hunk_ends_after_the_lines_its_header_states() -> None:
    assert clean_text("@@ -1 +1 @@\n-pip\n+pip3\n- we use uv") == "- we use uv"


# ── Injected memories ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_recalled_memories_are_recorded_as_injected() -> None:
    recalled = "## Relevant Memories\n- [acme] We use uv. Never pip.\n\n* [0.80] [acme] Tabs in Go"
    assert injected_lines(f"<cofio-memory>\n{recalled}\n</cofio-memory>") == ("We use uv.", "Never pip.", "Tabs in Go")


@pytest.mark.parametrize("name", ["CLAUDE.md", "AGENTS.md", "MEMORY.md", "GEMINI.md", ".cursorrules"])
def test_boot_files_are_recorded_as_injected(name: str) -> None:
    text = f"<system-reminder>\nContents of /p/{name}:\n# Rules\n- Use uv\n</system-reminder>\nHello"
    assert injected_lines(text)[1:] == ("Rules", "Use uv")
    assert injected_lines(text.replace(name, "report.txt")) == ()


def test_codex_instructions_are_recorded_as_injected() -> None:
    assert injected_lines("# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>\n- Use uv\n</INSTRUCTIONS>") == ("Use uv",)
    assert injected_lines("<user_instructions>Use uv.</user_instructions>") == ("Use uv.",)


def test_recalled_memories_inside_a_reminder_are_found() -> None:
    text = "<system-reminder>hook says: <cofio-memory>- Use uv</cofio-memory></system-reminder>"
    assert injected_lines(text) == ("Use uv",)


def test_truncated_recall_block_is_recorded_as_injected() -> None:
    assert injected_lines("Hello\n<cofio-memory>\n- Use uv") == ("Use uv",)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_messages_are_removed_but_their_boot_files_are_injected(role: str) -> None:
    assert clean([{"role": role, "content": "Contents of CLAUDE.md\n- Use uv"}]).messages == ()
    assert injected_lines("Contents of CLAUDE.md\n- Use uv", role)[-1] == "Use uv"
    assert injected_lines("<cofio-memory>\n- Use uv\n</cofio-memory>", role) == ("Use uv",)
    assert injected_lines("Be nice.", role) == ()


def test_injected_lines_given_by_the_caller_come_last() -> None:
    exchange = clean("<cofio-memory>- one</cofio-memory>", injected=["- [acme] two", "three. Four.", 5])
    assert exchange.injected == ("one", "two", "three.", "Four.")
    assert clean("x", injected="two").injected == ("two",)
    assert clean("x", injected=None).injected == ()


def test_newest_injected_lines_are_kept_without_duplicates() -> None:
    lines = [f"- line {number}" for number in range(300)]
    injected = clean("x", injected=[*lines, "line 7"]).injected
    assert len(injected) == MOST_INJECTED
    assert injected[-2:] == ("line 299", "line 7")
    long_lines = clean("x", injected=["a" * 900 + str(number) for number in range(50)]).injected
    assert sum(map(len, long_lines)) <= LONGEST_INJECTED
    assert long_lines[-1].endswith("49")


# ── Secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("kind", "before", "secret", "after"), SECRETS)
def test_secrets_are_redacted_in_every_field(kind: str, before: str, secret: str, after: str) -> None:
    text = before + secret + after
    exchange = clean(
        [
            user(f"Look: {text}"),
            {"role": "assistant", "content": f"<cofio-memory>\n- {text}\n</cofio-memory>\n{text}"},
            {"role": "system", "content": f"Contents of CLAUDE.md\n{text}"},
            user(f"```\n{text}\n```\n<system-reminder>CLAUDE.md {text}"),
        ],
        injected=[text],
    )
    assert secret not in str(exchange.as_dict())
    assert secret.replace("\n", "\\n") not in str(exchange.as_dict())


def test_private_key_with_its_header_in_a_diff_is_removed() -> None:
    body = "\n".join(join_parts("MIIEvQIBADANBgkqhkiG9w0B", "AQEFAASCBKcwggSj", str(line)) for line in range(3))
    head, tail = join_parts("-----BEGIN ", "PRIVATE KEY", "-----"), join_parts("-----END ", "PRIVATE KEY", "-----")
    assert "MIIE" not in str(clean(f"@@ -1 +0,0 @@\n{head}\n{body}\n{tail}").as_dict())


def test_secret_exposed_by_a_removed_block_is_redacted() -> None:
    secret = join_parts("hunt", "er2!x")
    assert clean_text(f"my password is <think>which?</think>{secret}") == "my password is  [redacted:password]"


LABELS = ("source", "context", "client", "session", "turn", "agent")


@pytest.mark.parametrize("label", LABELS)
def test_secrets_in_labels_are_redacted_reproducibly(label: str) -> None:
    password = join_parts("hunt", "er2x9")
    token = join_parts("gh", "p_", "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4")
    url = f"https://bob:{password}@git.acme.io/{token}"
    exchange = clean("x", **{label: url})
    assert getattr(exchange, label) == "https://bob:[redacted:url-password]@git.acme.io/[redacted:github-token]"
    assert clean("x", **{label: url}) == exchange


@pytest.mark.parametrize(
    "name",
    [
        "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "3f786850e387550fdab836ed7e6dc881de23001b",
        "/home/ada/acme/app",
        "git@github.com:acme/app.git",
        "toolu_01A09q90qw90lq917835lq9",
        "4111111111111111",  # an id that is also a valid card number
        "2026-02-20T06:44:28Z",
    ],
)
def test_label_without_secrets_is_unchanged(name: str) -> None:
    exchange = clean("x", **dict.fromkeys(LABELS, name))
    assert {getattr(exchange, label) for label in LABELS} == {name}


def test_redaction_does_not_exceed_the_length_limit_of_a_label() -> None:
    label = "a" * (MAX_LABEL - 13) + " pw=" + join_parts("Zt7k", "Qm2p!")
    assert len(clean("x", source=label).source) == len(label) == MAX_LABEL
    with pytest.raises(InvalidInput):
        clean("x", source=label + "a")
    with pytest.raises(InvalidInput):
        clean("x", source=5)


# ── Size ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_long_text_keeps_whole_sentences_of_both_ends() -> None:
    text = " ".join(f"Sentence number {number} is here." for number in range(5_000))
    (message,) = clean(text).messages
    first, mark, last = message.text.partition(f"\n\n{LEFT_OUT}\n\n")
    assert mark
    assert MAX_SAID - 100 < len(message.text) <= MAX_SAID
    assert text.startswith(first)
    assert first.endswith(" is here.")
    assert text.endswith(f" {last}")
    assert last.startswith("Sentence number ")
    assert MAX_SAID / 2 - 50 < len(first) < MAX_SAID / 2 < len(last) + 50


@pytest.mark.parametrize("answer", ["", "Done. " * 2_000])
def test_text_before_and_after_a_long_paste_is_kept(answer: str) -> None:
    pasted = "\n".join(f"row {number} of the table says nothing of interest" for number in range(5_000))
    prompt = f"We never deploy on a Friday.\n\n{pasted}\n\nWhy is row 7 wrong?"
    messages = clean([user(prompt), *([{"role": "assistant", "content": answer}] if answer else [])]).messages
    assert messages[0].text.startswith("We never deploy on a Friday.\n\nrow 0 ")
    assert messages[0].text.count(LEFT_OUT) == 1
    assert messages[0].text.endswith("\n\nWhy is row 7 wrong?")
    assert MAX_SAID - 200 < sum(len(message.text) for message in messages) <= MAX_SAID
    assert [message.text for message in messages[1:]] == ([answer.strip()] if answer else [])


def test_older_message_keeps_its_end_only() -> None:
    messages = [user("first " + "word " * 12_000 + "last"), user("newer " * 2_000)]
    older, newer = clean(messages).messages
    assert LEFT_OUT not in older.text + newer.text
    assert older.text.startswith("word ")
    assert older.text.endswith(" last")
    assert newer.text.startswith("newer ")


def test_newest_of_many_messages_are_kept() -> None:
    messages = [user(f"message {number} " + "word " * 1_000) for number in range(40)]
    exchange = clean(messages)
    assert sum(len(message.text) for message in exchange.messages) <= MAX_SAID
    assert exchange.messages[-1].text.startswith("message 39 ")
    assert len(exchange.messages) < 15


def test_text_without_sentences_is_cut_between_words_or_anywhere() -> None:
    (words,) = clean("wordy " * 20_000).messages
    assert set(words.text.split()) == {"wordy", LEFT_OUT}
    (letters,) = clean("y" + "a" * 100_000 + "z").messages
    first, last = letters.text.split(f"\n\n{LEFT_OUT}\n\n")
    assert (len(letters.text), first[0], last[-1]) == (MAX_SAID, "y", "z")
    assert len(last) == MAX_SAID / 2


# ── Any input ─────────────────────────────────────────────────────────────────────────────────────────────────────────

PIECES = [f"<{tag}>" for tag in TAGS] + [f"</{tag}>" for tag in TAGS] + ["## Relevant Memories\n- a\n", "```", "```py"]
PIECES += [
    "\n",
    " ",
    "User: ",
    "Assistant: ",
    "@@ -1,2 +1,2 @@\n",
    "Traceback (most recent call last):\n",
    "We use uv.",
]
some_text = st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=15).map("".join)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | some_text,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from("role content text type message payload".split()), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(st.lists(json_value, max_size=6), json_value)
def test_any_list_becomes_an_exchange(messages: list[Any], injected: Any) -> None:
    try:
        exchange = clean(messages, injected=injected)
    except InvalidInput:
        exchange = clean([*messages, user("x")], injected=injected)
    assert all(message.text.strip() == message.text != "" for message in exchange.messages)
    serialized = json.dumps(exchange.as_dict(), ensure_ascii=False)
    assert "\\u0000" not in serialized
    assert serialized.encode()


@given(some_text)
def test_sanitizing_is_idempotent(text: str) -> None:
    def clean_again(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return clean([{"role": item.role, "content": item.text} for item in messages]).messages

    stable = clean_again(clean_again(clean(text).messages))  # removing a block may expose another
    assert clean_again(stable) == stable
    assert not any("cofio-memory>" in message.text and "</cofio" in message.text for message in stable)


@given(some_text)
def test_block_is_removed_at_any_position(text: str) -> None:
    block = "\n<cofio-memory>\n- the heron flies at noon\n</cofio-memory>\n"
    assert "heron" not in str(clean([user(text + block + "end")]).messages)


PATHOLOGICAL = [
    "<think>",
    "</think>",
    "<system-reminder ",
    "<system-reminder><cofio>",
    "```\n",
    "```py\n",
    "User: x\n",
    "\n",
    "\n ",
    "`",
]
PATHOLOGICAL += [
    "## Relevant Memories\n- a\n",
    "@@ -1,99 +1,99 @@\n",
    "*** Begin Patch\n",
    "Traceback (most recent call last):\n",
]
PATHOLOGICAL += [
    "    at f (x:1)\n",
    "2026-02-20T06:44:28 ",
    "- [a] ",
    "#> |",
    "<cofio-memory>\n- a. B\n",
    "Caveat: The ",
]


@pytest.mark.parametrize("piece", PATHOLOGICAL)
def test_time_is_linear_in_the_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        durations = []
        for _ in range(3):
            started = time.thread_time()
            clean([user(text)], injected=[text])
            durations.append(time.thread_time() - started)
        return min(durations)

    assert seconds(80_000) < 12 * max(seconds(20_000), 0.002)


# ── long deliveries ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [1, 8])
def test_work_on_a_long_delivery_is_bounded(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def measure(text: str) -> str:
        lengths.append(len(text))
        return text

    monkeypatch.setattr(sanitize, "redact", measure)
    text = "We deploy on Fridays. " + "secret=" * 50_000 + " We test on Mondays."
    exchange = clean([{"role": "user", "content": text} for _ in range(count)])
    assert 0 < sum(lengths) <= 2 * sanitize.MOST_READ
    assert exchange.messages[-1].text.endswith("We test on Mondays.")
    assert exchange.messages[0].text.startswith("We deploy on Fridays.") or count > 1


def test_middle_of_a_long_delivery_is_left_out_between_messages() -> None:
    messages = [{"role": "user", "content": f"Message {number}. " + "word " * 30_000} for number in range(5)]
    kept = list(sanitize._leave_out_middle(read_messages(messages)))
    assert [message.texts[0][:9] for message in kept] == ["Message 0", "word word"]
    assert sum(len(message.texts[0]) for message in kept) <= sanitize.MOST_READ
