"""Our hooks among those of others: put in once, renewed in place, taken out without a trace."""

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
OURS = [each["command"] for each in (*WANTED.values(), *FLAT.values())]
_HANDLERS = st.fixed_dictionaries({"type": st.just("command"), "command": st.sampled_from(["say hi", "lint"])})
_GROUPS = st.lists(st.fixed_dictionaries({"hooks": st.lists(_HANDLERS, min_size=1, max_size=2)}), max_size=2)
#: Settings in which somebody has hooks already, or has none.
SETTINGS = texts(st.one_of(st.integers(), st.dictionaries(st.sampled_from(["Stop", "PreToolUse"]), _GROUPS)))


def without_ours(value: Any) -> Any:
    """The settings less our hooks, and less what then holds nothing."""
    hooks = {}
    for event, groups in value.get("hooks", {}).items():
        kept = [
            {**group, "hooks": [each for each in group["hooks"] if each["command"] not in OURS]} for group in groups
        ]
        hooks[event] = [group for group in kept if group["hooks"]]
    return {**value, "hooks": {event: groups for event, groups in hooks.items() if groups}}


def put(text: str) -> str:
    return merge.put_hooks(text, WANTED, (), grouped=True)


@given(SETTINGS)
def test_ours_are_added_once_and_nothing_else_changes(text: str) -> None:
    before = jsonc.loads(text)
    if not isinstance(before.get("hooks", {}), dict):
        with pytest.raises(MalformedConfig):
            put(text)
        return
    after = put(text)
    assert put(after) == after
    assert merge.installed(after, OURS, grouped=True) == {
        event: [handler["command"]] for event, handler in WANTED.items()
    }
    assert without_ours(jsonc.loads(after)) == without_ours({"hooks": {}, **before})


@given(SETTINGS)
def test_what_is_taken_out_leaves_what_was_there(text: str) -> None:
    before = jsonc.loads(text)
    if isinstance(before.get("hooks", {}), dict):
        rest = merge.take_hooks(put(text), OURS, text, grouped=True)
        assert jsonc.loads(rest) == before
        assert merge.take_hooks(rest, OURS, text, grouped=True) == rest


def test_a_changed_command_is_renewed_where_it_stands() -> None:
    text = put('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "old", "timeout": 1}]}, {"hooks": []}]}}')
    renewed = merge.put_hooks(text, {**WANTED, "Stop": {**WANTED["Stop"], "command": "new"}}, OURS, grouped=True)
    groups = jsonc.loads(renewed)["hooks"]["Stop"]
    assert [each["command"] for group in groups for each in group["hooks"]] == ["old", "new"]


def test_doubles_of_ours_and_events_that_we_left_go() -> None:
    twice = '{"hooks": {"Stop": [{"hooks": [%s, %s]}], "SubagentStop": [{"hooks": [%s]}]}}' % (
        3 * ('{"command": "\'/a b/memory-extract\'"}',)
    )
    after = jsonc.loads(put(twice))["hooks"]
    assert [each for group in after["Stop"] for each in group["hooks"]] == [WANTED["Stop"]]
    assert after["SubagentStop"] == []


@pytest.mark.parametrize(
    ("command", "is_there", "goes"),
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
def test_a_hook_that_runs_ours_in_another_way_is_ours_and_goes_unless_it_does_more(
    command: str, is_there: bool, goes: bool
) -> None:
    before = jsonc.put("{}", ("hooks", "Stop"), [{"hooks": [{"command": command, "timeout": 99}]}])
    after = jsonc.loads(put(before))["hooks"]["Stop"]
    assert len(after) == (1 if is_there else 2)
    assert (after[0]["hooks"][0]["command"], after[0]["hooks"][0]["timeout"]) == (command, 99)
    assert (command in merge.take_hooks(before, OURS, "", grouped=True).replace('\\"', '"')) is not goes


def test_what_somebody_added_to_our_group_stays() -> None:
    text = put("{}").replace('"timeout": 10\n', '"timeout": 10\n          },\n          {\n"command": "theirs"\n', 1)
    rest = merge.take_hooks(text, OURS, "", grouped=True)
    assert jsonc.loads(rest) == {"hooks": {"SessionStart": [{"hooks": [{"command": "theirs"}]}]}}


def test_empty_hooks_of_somebody_stay_when_ours_go() -> None:
    before = '{\n  "hooks": {}\n}\n'
    assert merge.take_hooks(put(before), OURS, before, grouped=True) == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "not an object"),
        ('{"hooks": 1}', "hooks is not an object"),
        ('{"hooks": {"Stop": {}}}', r"hooks\.Stop is not an array"),
    ],
)
def test_a_shape_that_is_not_theirs_is_refused(text: str, says: str) -> None:
    with pytest.raises(MalformedConfig, match=says):
        put(text)


def test_hooks_without_groups_come_and_go_too() -> None:
    before = '{"version": 1, "hooks": {"stop": [{"command": "theirs"}]}}'
    after = merge.put_hooks(before, FLAT, (), grouped=False)
    assert jsonc.loads(after)["hooks"]["stop"] == [{"command": "theirs"}, FLAT["stop"]]
    assert merge.take_hooks(after, OURS, before, grouped=False) == before


def test_a_server_of_the_same_name_comes_back_when_ours_goes() -> None:
    before = '{"mcpServers": {"cofio": {"command": "theirs", "env": {"A": "1"}}}}'
    after = merge.put_member(before, ("mcpServers", "cofio"), {"command": "ours"})
    assert jsonc.loads(after)["mcpServers"]["cofio"] == {"command": "ours", "env": {"A": "1"}}
    assert jsonc.loads(merge.take_member(after, ("mcpServers", "cofio"), before)) == jsonc.loads(before)
