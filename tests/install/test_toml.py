"""Edits of TOML text change one pair or table and keep every other byte."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import assume, given

from cofio.install import toml_edit
from cofio.install.jsonc import MalformedConfig

from .config_files import toml as texts

SERVER = {"command": "/a b/python", "args": ["-m", "cofio", "mcp"], "env": {"COFIO_HOME": "/a b"}}
PATH = ("mcp_servers", "cofio")
STATE = ("hooks", "state", "/a b/hooks.json:stop:0:0")


def read(text: str) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def test_new_pair_is_inserted_before_the_tables() -> None:
    text = '# mine\nmodel = "x" # why\n\n[tui]\ntheme = "dark"\n'
    after = toml_edit.put(text, (), {"notify": ["/h/notify"]})
    assert after == '# mine\nmodel = "x" # why\nnotify = ["/h/notify"]\n\n[tui]\ntheme = "dark"\n'
    assert toml_edit.drop(after, ("notify",)) == text


def test_new_pair_is_first_if_there_are_only_tables() -> None:
    text = "[tui]\nx = 1\n"
    after = toml_edit.put(text, (), {"notify": ["a"]})
    assert after == 'notify = ["a"]\n\n[tui]\nx = 1\n'
    assert toml_edit.drop(after, ("notify",)) == text


def test_value_of_several_lines_is_restored() -> None:
    text = 'notify = [\n  "say", # aloud ]\n  "done",\n] # beside\nmodel = "x"\n'
    after = toml_edit.put(text, (), {"notify": ["ours"]})
    assert after == 'notify = ["ours"] # beside\nmodel = "x"\n'
    assert toml_edit.restore(after, ("notify",), text) == text


def test_names_in_strings_and_comments_are_ignored() -> None:
    text = 'a = """\n[mcp_servers.cofio]\nnotify = 1\n"""\n# [mcp_servers.cofio]\n'
    assert toml_edit.drop(text, ("notify",)) == text
    after = toml_edit.put(text, PATH, SERVER)
    assert after.startswith(text)
    assert toml_edit.drop(after, PATH) == text


def test_existing_table_is_updated_and_keeps_other_pairs() -> None:
    text = '[mcp_servers.cofio]\ncommand = "/old" # moved\nstartup_timeout_sec = 20\n\n[z]\n'
    after = toml_edit.put(text, PATH, SERVER)
    assert read(after)["mcp_servers"]["cofio"] == {**SERVER, "startup_timeout_sec": 20}
    assert 'command = "/a b/python" # moved\n' in after
    assert toml_edit.put(after, PATH, SERVER) == after


def test_drop_removes_a_table_and_the_tables_below_it() -> None:
    text = "[a]\nx = 1\n\n[mcp_servers.cofio2]\n"
    after = toml_edit.put(text, PATH, SERVER) + '\n[mcp_servers.cofio.tools]\nA = "1"\n\n[z]\n'
    assert toml_edit.drop(after, PATH) == text + "\n[z]\n"


@pytest.mark.parametrize(
    "text", ["mcp_servers = { other = {} }\n", 'mcp_servers = "no"\n', "[mcp_servers]\ncofio = { command = 'x' }\n"]
)
def test_put_rejects_a_table_that_is_not_written_as_one(text: str) -> None:
    with pytest.raises(MalformedConfig):
        toml_edit.put(text, PATH, SERVER)


def test_put_rejects_text_that_is_not_toml() -> None:
    for text in ("a = ", "[a\n", 'a = "\n', "a = 1\na = 2\n"):
        with pytest.raises(MalformedConfig):
            toml_edit.put(text, (), {"b": 1})


@given(texts())
def test_dropping_a_new_pair_gives_the_original_text(text: str) -> None:
    before = _read_or_skip(text)
    after = toml_edit.put(text, (), {"notify": ["/a b/notify", 'it\'s "so"']})
    assert read(after) == {**before, "notify": ["/a b/notify", 'it\'s "so"']}
    assert toml_edit.put(after, (), {"notify": ["/a b/notify", 'it\'s "so"']}) == after
    without = toml_edit.drop(after, ("notify",))
    assert read(without) == before
    if text.endswith("\n"):
        assert without == text


@given(texts())
def test_dropping_new_tables_gives_the_original_text(text: str) -> None:
    before = _read_or_skip(text)
    after = toml_edit.put(toml_edit.put(text, PATH, SERVER), STATE, {"trusted_hash": "sha256:1"})
    assert read(after)["mcp_servers"]["cofio"] == SERVER
    assert read(after)["hooks"]["state"][STATE[-1]] == {"trusted_hash": "sha256:1"}
    assert toml_edit.put(after, PATH, SERVER) == after
    for order in ((PATH, STATE), (STATE, PATH)):
        without = after
        for path in order:
            without = toml_edit.drop(without, path)
        assert read(without) == before
        if text.endswith("\n"):
            assert without == text


@given(texts())
def test_a_statement_has_its_path_and_its_full_lines(text: str) -> None:
    values = _read_or_skip(text)
    statements = toml_edit.split_statements(text)
    assert "".join(statement.source for statement in statements) == text.removeprefix("\ufeff")
    for statement in statements:
        assert list(tomllib.loads(statement.source)) == list(statement.path[:1])
    assert {statement.path[0] for statement in statements if statement.kind == "header"} <= set(values)


def test_a_comment_with_a_unicode_line_end_is_one_line() -> None:
    text = "# mine\u2028notify = 1\nmodel = 'x'\n"
    after = toml_edit.put(text, (), {"notify": ["a"]})
    assert after == text + 'notify = ["a"]\n'
    assert toml_edit.drop(after, ("notify",)) == text


def _read_or_skip(text: str) -> dict[str, Any]:
    try:
        return read(text)
    except tomllib.TOMLDecodeError:
        assume(False)
        raise
