"""Edits of TOML as text: what is asked for changes, every other byte stays."""

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


def test_a_pair_goes_before_every_table() -> None:
    text = '# mine\nmodel = "x" # why\n\n[tui]\ntheme = "dark"\n'
    after = toml_edit.put(text, "notify", ["/h/notify"])
    assert after == '# mine\nmodel = "x" # why\nnotify = ["/h/notify"]\n\n[tui]\ntheme = "dark"\n'
    assert toml_edit.drop(after, "notify") == text


def test_a_pair_goes_first_where_there_are_only_tables() -> None:
    text = "[tui]\nx = 1\n"
    after = toml_edit.put(text, "notify", ["a"])
    assert after == 'notify = ["a"]\n\n[tui]\nx = 1\n'
    assert toml_edit.drop(after, "notify") == text


def test_a_value_of_many_lines_is_changed_and_put_back_as_it_was() -> None:
    text = 'notify = [\n  "say", # aloud ]\n  "done",\n] # beside\nmodel = "x"\n'
    old = toml_edit.raw(text, "notify")
    after = toml_edit.put(text, "notify", ["ours"])
    assert after == 'notify = ["ours"] # beside\nmodel = "x"\n'
    assert toml_edit.put_raw(after, "notify", old) == text


def test_a_table_of_the_same_name_inside_a_text_or_a_comment_is_none() -> None:
    text = 'a = """\n[mcp_servers.cofio]\nnotify = 1\n"""\n# [mcp_servers.cofio]\n'
    assert toml_edit.raw(text, "notify") == ""
    after = toml_edit.put_table(text, PATH, SERVER)
    assert after.startswith(text)
    assert toml_edit.drop_table(after, PATH) == text


def test_a_table_is_brought_up_to_date_and_what_others_added_to_it_stays() -> None:
    text = '[mcp_servers.cofio]\ncommand = "/old" # moved\nstartup_timeout_sec = 20\n\n[z]\n'
    after = toml_edit.put_table(text, PATH, SERVER)
    assert read(after)["mcp_servers"]["cofio"] == {**SERVER, "startup_timeout_sec": 20}
    assert 'command = "/a b/python" # moved\n' in after
    assert toml_edit.put_table(after, PATH, SERVER) == after


def test_a_table_goes_with_those_below_it_and_its_neighbours_stay() -> None:
    text = "[a]\nx = 1\n\n[mcp_servers.cofio2]\n"
    after = toml_edit.put_table(text, PATH, SERVER) + '\n[mcp_servers.cofio.env]\nA = "1"\n\n[z]\n'
    assert toml_edit.drop_table(after, PATH) == text + "\n[z]\n"


@pytest.mark.parametrize(
    "text", ["mcp_servers = { other = {} }\n", 'mcp_servers = "no"\n', "[mcp_servers]\ncofio = { command = 'x' }\n"]
)
def test_a_table_that_cannot_be_written_as_one_is_refused(text: str) -> None:
    with pytest.raises(MalformedJson):
        toml_edit.put_table(text, PATH, SERVER)


def test_what_is_no_toml_is_refused() -> None:
    for text in ("a = ", "[a\n", 'a = "\n', "a = 1\na = 2\n"):
        with pytest.raises(MalformedJson):
            toml_edit.put(text, "b", 1)


@given(texts())
def test_a_pair_comes_and_goes(text: str) -> None:
    before = _read_or_skip(text)
    after = toml_edit.put(text, "notify", ["/a b/notify", 'it\'s "so"'])
    assert read(after) == {**before, "notify": ["/a b/notify", 'it\'s "so"']}
    assert toml_edit.put(after, "notify", ["/a b/notify", 'it\'s "so"']) == after
    without = toml_edit.drop(after, "notify")
    assert read(without) == before
    if text.endswith("\n"):
        assert without == text


@given(texts())
def test_tables_come_and_go(text: str) -> None:
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
def test_every_statement_is_found_where_it_stands(text: str) -> None:
    values = _read_or_skip(text)
    top = [statement for statement in toml_edit.statements(text) if statement.kind == "pair"]
    for each in top:
        told = tomllib.loads(text[each.start : each.end])
        key = each.key[0]
        assert key in told
    firsts = {statement.key[0] for statement in toml_edit.statements(text) if statement.kind != "pair"}
    assert firsts <= set(values)


def _read_or_skip(text: str) -> dict[str, Any]:
    try:
        return read(text)
    except tomllib.TOMLDecodeError:
        assume(False)
        raise
