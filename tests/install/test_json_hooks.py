"""Adding, updating and removing cofio's hooks in JSON settings with hooks of others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.install import jsonc, merge
from cofio.install.jsonc import MalformedConfig

from .config_files import jsonc as texts

WANTED = {
    "SessionStart": {"type": "command", "command": "'/a b/memory-recall'", "timeout": 10},
    "Stop": {"type": "command", "command": "'/a b/memory-extract'", "timeout": 10},
}
FLAT = {"stop": {"command": "/x/memory-extract cursor", "timeout": 10}}
COFIO_COMMANDS = [item["command"] for item in (*WANTED.values(), *FLAT.values())]
_HANDLERS = st.fixed_dictionaries({"type": st.just("command"), "command": st.sampled_from(["say hi", "lint"])})
_GROUPS = st.lists(st.fixed_dictionaries({"hooks": st.lists(_HANDLERS, min_size=1, max_size=2)}), max_size=2)
#: Settings with or without existing hooks.
SETTINGS = texts(st.one_of(st.integers(), st.dictionaries(st.sampled_from(["Stop", "PreToolUse"]), _GROUPS)))


def without_ours(value: Any) -> Any:
    """Return the settings without cofio's hooks and the containers this empties."""
    hooks = {}
    for event, groups in value.get("hooks", {}).items():
        stored = [
            {**group, "hooks": [hook for hook in group["hooks"] if hook["command"] not in COFIO_COMMANDS]}
            for group in groups
        ]
        hooks[event] = [group for group in stored if group["hooks"]]
    return {**value, "hooks": {event: groups for event, groups in hooks.items() if groups}}


def put(text: str) -> str:
    return merge.put_hooks(text, WANTED, (), grouped=True)


@given(SETTINGS)
def test_hooks_are_added_once_and_nothing_else_changes(text: str) -> None:
    before = jsonc.loads(text)
    if not isinstance(before.get("hooks", {}), dict):
        with pytest.raises(MalformedConfig):
            put(text)
        return
    after = put(text)
    assert put(after) == after
    assert merge.installed(after, COFIO_COMMANDS, grouped=True) == {
        event: [handler["command"]] for event, handler in WANTED.items()
    }
    assert without_ours(jsonc.loads(after)) == without_ours({"hooks": {}, **before})


@given(SETTINGS)
def test_removing_hooks_restores_the_original(text: str) -> None:
    before = jsonc.loads(text)
    if isinstance(before.get("hooks", {}), dict):
        rest = merge.take_hooks(put(text), COFIO_COMMANDS, text, grouped=True)
        assert jsonc.loads(rest) == before
        assert merge.take_hooks(rest, COFIO_COMMANDS, text, grouped=True) == rest


def test_changed_command_is_updated_in_place() -> None:
    text = put('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "old", "timeout": 1}]}, {"hooks": []}]}}')
    renewed = merge.put_hooks(
        text, {**WANTED, "Stop": {**WANTED["Stop"], "command": "new"}}, COFIO_COMMANDS, grouped=True
    )
    groups = jsonc.loads(renewed)["hooks"]["Stop"]
    assert [hook["command"] for group in groups for hook in group["hooks"]] == ["old", "new"]


def test_duplicate_and_obsolete_hooks_are_removed() -> None:
    twice = '{"hooks": {"Stop": [{"hooks": [%s, %s]}], "SubagentStop": [{"hooks": [%s]}]}}' % (
        3 * ('{"command": "\'/a b/memory-extract\'"}',)
    )
    after = jsonc.loads(put(twice))["hooks"]
    assert [hook for group in after["Stop"] for hook in group["hooks"]] == [WANTED["Stop"]]
    assert after["SubagentStop"] == []


@pytest.mark.parametrize(
    ("command", "is_recognized", "is_removed"),
    [
        ("'/a b/memory-extract'", True, True),
        ('bash "/a b/memory-extract"', True, True),
        ("sh -c \"'/a b/memory-extract' claude-code\"", True, True),
        ("COFIO_PROJECT=x '/a b/memory-extract'", True, True),
        ("'/a b/memory-extract' && say done", True, False),
        ("'/a b/memory-extract-mine'", False, False),
        ("'/b/memory-extract'", False, False),
        ("say 'unclosed", False, False),
    ],
)
def test_differently_started_cofio_hook_is_recognized(command: str, is_recognized: bool, is_removed: bool) -> None:
    before = jsonc.put("{}", ("hooks", "Stop"), [{"hooks": [{"command": command, "timeout": 99}]}])
    after = jsonc.loads(put(before))["hooks"]["Stop"]
    assert len(after) == (1 if is_recognized else 2)
    assert (after[0]["hooks"][0]["command"], after[0]["hooks"][0]["timeout"]) == (command, 99)
    assert (command in merge.take_hooks(before, COFIO_COMMANDS, "", grouped=True).replace('\\"', '"')) is not is_removed


def test_foreign_hook_in_our_group_is_kept() -> None:
    text = put("{}").replace('"timeout": 10\n', '"timeout": 10\n          },\n          {\n"command": "theirs"\n', 1)
    rest = merge.take_hooks(text, COFIO_COMMANDS, "", grouped=True)
    assert jsonc.loads(rest) == {"hooks": {"SessionStart": [{"hooks": [{"command": "theirs"}]}]}}


def test_empty_hooks_object_is_kept() -> None:
    before = '{\n  "hooks": {}\n}\n'
    assert merge.take_hooks(put(before), COFIO_COMMANDS, before, grouped=True) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "not an object"),
        ('{"hooks": 1}', "hooks is not an object"),
        ('{"hooks": {"Stop": {}}}', r"hooks\.Stop is not an array"),
    ],
)
def test_unexpected_shape_is_rejected(text: str, message: str) -> None:
    with pytest.raises(MalformedConfig, match=message):
        put(text)


def test_ungrouped_hooks_are_added_and_removed() -> None:
    before = '{"version": 1, "hooks": {"stop": [{"command": "theirs"}]}}'
    after = merge.put_hooks(before, FLAT, (), grouped=False)
    assert jsonc.loads(after)["hooks"]["stop"] == [{"command": "theirs"}, FLAT["stop"]]
    assert merge.take_hooks(after, COFIO_COMMANDS, before, grouped=False) == before


def test_replaced_server_of_the_same_name_is_restored() -> None:
    before = '{"mcpServers": {"cofio": {"command": "theirs", "env": {"A": "1"}}}}'
    after = merge.put_member(before, ("mcpServers", "cofio"), {"command": "ours"})
    assert jsonc.loads(after)["mcpServers"]["cofio"] == {"command": "ours", "env": {"A": "1"}}
    assert jsonc.loads(merge.take_member(after, ("mcpServers", "cofio"), before)) == jsonc.loads(before)
