"""Editing TOML as text: only the requested value changes."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import assume, given

from cofio.install import toml_edit
from cofio.install.jsonc import MalformedJson

from .config_files import toml as texts

SERVER = {"command": "/a b/python", "args": ["-m", "cofio", "mcp"]}
PATH = ("mcp_servers", "cofio")
STATE = ("hooks", "state", "/a b/hooks.json:stop:0:0")


def read(text: str) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def test_pair_is_inserted_before_all_tables() -> None:
    text = '# mine\nmodel = "x" # why\n\n[tui]\ntheme = "dark"\n'
    after = toml_edit.put(text, "notify", ["/h/notify"])
    assert after == '# mine\nmodel = "x" # why\nnotify = ["/h/notify"]\n\n[tui]\ntheme = "dark"\n'
    assert toml_edit.drop(after, "notify") == text


def test_pair_is_inserted_first_without_other_pairs() -> None:
    text = "[tui]\nx = 1\n"
    after = toml_edit.put(text, "notify", ["a"])
    assert after == 'notify = ["a"]\n\n[tui]\nx = 1\n'
    assert toml_edit.drop(after, "notify") == text


def test_multiline_value_is_changed_and_restored() -> None:
    text = 'notify = [\n  "say", # aloud ]\n  "done",\n] # beside\nmodel = "x"\n'
    old = toml_edit.raw(text, "notify")
    after = toml_edit.put(text, "notify", ["ours"])
    assert after == 'notify = ["ours"] # beside\nmodel = "x"\n'
    assert toml_edit.put_raw(after, "notify", old) == text


def test_table_name_inside_text_or_comment_is_ignored() -> None:
    text = 'a = """\n[mcp_servers.cofio]\nnotify = 1\n"""\n# [mcp_servers.cofio]\n'
    assert toml_edit.raw(text, "notify") == ""
    after = toml_edit.put_table(text, PATH, SERVER)
    assert after.startswith(text)
    assert toml_edit.drop_table(after, PATH) == text


def test_table_is_updated_and_foreign_keys_kept() -> None:
    text = '[mcp_servers.cofio]\ncommand = "/old" # moved\nstartup_timeout_sec = 20\n\n[z]\n'
    after = toml_edit.put_table(text, PATH, SERVER)
    assert read(after)["mcp_servers"]["cofio"] == {**SERVER, "startup_timeout_sec": 20}
    assert 'command = "/a b/python" # moved\n' in after
    assert toml_edit.put_table(after, PATH, SERVER) == after


def test_table_is_removed_with_its_subtables() -> None:
    text = "[a]\nx = 1\n\n[mcp_servers.cofio2]\n"
    after = toml_edit.put_table(text, PATH, SERVER) + '\n[mcp_servers.cofio.env]\nA = "1"\n\n[z]\n'
    assert toml_edit.drop_table(after, PATH) == text + "\n[z]\n"


@pytest.mark.parametrize(
    "text", ["mcp_servers = { other = {} }\n", 'mcp_servers = "no"\n', "[mcp_servers]\ncofio = { command = 'x' }\n"]
)
def test_unsupported_table_is_rejected(text: str) -> None:
    with pytest.raises(MalformedJson):
        toml_edit.put_table(text, PATH, SERVER)


def test_invalid_toml_is_rejected() -> None:
    for text in ("a = ", "[a\n", 'a = "\n', "a = 1\na = 2\n"):
        with pytest.raises(MalformedJson):
            toml_edit.put(text, "b", 1)


@given(texts())
def test_pair_is_added_and_removed(text: str) -> None:
    before = _read_or_skip(text)
    after = toml_edit.put(text, "notify", ["/a b/notify", 'it\'s "so"'])
    assert read(after) == {**before, "notify": ["/a b/notify", 'it\'s "so"']}
    assert toml_edit.put(after, "notify", ["/a b/notify", 'it\'s "so"']) == after
    without = toml_edit.drop(after, "notify")
    assert read(without) == before
    if text.endswith("\n"):
        assert without == text


@given(texts())
def test_tables_are_added_and_removed(text: str) -> None:
    before = _read_or_skip(text)
    after = toml_edit.put_table(toml_edit.put_table(text, PATH, SERVER), STATE, {"trusted_hash": "sha256:1"})
    assert read(after)["mcp_servers"]["cofio"] == SERVER
    assert read(after)["hooks"]["state"][STATE[-1]] == {"trusted_hash": "sha256:1"}
    assert toml_edit.put_table(after, PATH, SERVER) == after
    for order in ((PATH, STATE), (STATE, PATH)):
        without = after
        for path in order:
            without = toml_edit.drop_table(without, path)
        assert read(without) == before
        if text.endswith("\n"):
            assert without == text


@given(texts())
def test_every_statement_is_found_at_its_position(text: str) -> None:
    values = _read_or_skip(text)
    top = [statement for statement in toml_edit.statements(text) if statement.kind == "pair"]
    for item in top:
        result = tomllib.loads(text[item.start : item.end])
        key = item.key[0]
        assert key in result
    firsts = {statement.key[0] for statement in toml_edit.statements(text) if statement.kind != "pair"}
    assert firsts <= set(values)


def _read_or_skip(text: str) -> dict[str, Any]:
    try:
        return read(text)
    except tomllib.TOMLDecodeError:
        assume(False)
        raise
