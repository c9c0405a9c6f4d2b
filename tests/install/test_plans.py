"""What is written for each client, on real files; and that uninstalling puts every byte back."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.errors import InvalidInput, Misconfigured
from cofio.install import claude_code, clients, codex, plan
from cofio.install.jsonc import MalformedConfig
from cofio.install.manifest import Manifest

from .config_files import jsonc as json_texts
from .config_files import toml as toml_texts
from .conftest import Machine

MINE = """\
{
  // mine
  "model": "opus",
  "hooks": {
    "Stop": [
      { "hooks": [ { "type": "command", "command": "say done" } ] }, // loud
    ],
  },
}
"""
CLIENTS = ("claude-code", "codex", "openclaw", "cursor")


def commands(told: dict[str, Any]) -> dict[str, list[str]]:
    return {
        event: [each["command"] for group in groups for each in group.get("hooks", [group])]
        for event, groups in told["hooks"].items()
    }


# ── what each client gets ─────────────────────────────────────────────────────────────────────────────────────────────


def test_claude_code_gets_six_hooks_without_matchers_and_a_server(machine: Machine) -> None:
    (machine.has("claude-code") / "settings.json").write_text(MINE)
    machine.install("claude-code")
    hooks = machine.json(".claude/settings.json")["hooks"]
    assert {event: groups[-1]["hooks"][0]["timeout"] for event, groups in hooks.items()} == {
        "SessionStart": 10, "UserPromptSubmit": 5, "Stop": 10, "StopFailure": 5, "PreCompact": 10, "SessionEnd": 2,
    }  # fmt: skip
    assert hooks["Stop"][0]["hooks"][0]["command"] == "say done"
    ours = [handler for groups in hooks.values() for group in groups for handler in group["hooks"]][1:]
    assert all("matcher" not in group for groups in hooks.values() for group in groups)
    assert all("async" not in handler for handler in ours)
    server = machine.json(".claude/.claude.json")["mcpServers"]["cofio"]
    assert server["args"][-1] == "mcp"
    assert server["env"] == {"COFIO_HOME": str(machine.home)}


@pytest.mark.parametrize(
    ("says", "registered"),
    [
        ("2.1.76 (Claude Code)", True),
        ("2.1.317 (Claude Code)", True),
        ("2.1.75 (Claude Code)", False),
        ("1.9.200", False),
        ("who knows", False),
    ],
)
def test_an_event_is_registered_where_the_version_of_the_client_knows_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, says: str, registered: bool
) -> None:
    program = machine.user / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{says}'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    machine.has("claude-code")
    machine.install("claude-code")
    hooks = machine.json(".claude/settings.json")["hooks"]
    assert ("PostCompact" in hooks) == registered
    assert len(hooks) == 6 + registered
    assert [each.state for each in machine.install("claude-code") if each.path.name == "settings.json"] == ["unchanged"]


def test_a_client_that_hangs_over_its_version_gets_what_every_version_knows(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = machine.user / "claude"
    program.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setattr(claude_code, "_PATIENCE", 0.1)
    assert claude_code.installed_version() == ()
    assert "PostCompact" not in claude_code.hooks_in(machine.user)


def test_a_hook_is_found_by_the_shell_whatever_its_folder_is_called(machine: Machine) -> None:
    machine.has("claude-code")
    machine.install("claude-code")
    for event, [command] in commands(machine.json(".claude/settings.json")).items():
        assert "'" in str(machine.user)
        done = subprocess.run(["sh", "-c", command], input=b"{}", capture_output=True, timeout=30)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), event
        assert os.access(shlex.split(command)[0], os.X_OK)


def test_a_hook_starts_the_launcher_of_our_home_and_no_other(machine: Machine) -> None:
    machine.has("claude-code")
    machine.install("claude-code")
    launcher = machine.home / "hook"
    launcher.write_text('#!/bin/sh\necho "$@"\n')
    launcher.chmod(0o755)
    [command] = commands(machine.json(".claude/settings.json"))["SessionEnd"]
    around = {**os.environ, "COFIO_HOME": "/nowhere"}
    assert subprocess.check_output(["sh", "-c", command], env=around) == b"claude-code commit\n"
    [command] = commands(_installed(machine, "codex", ".codex/hooks.json"))["SessionStart"]
    assert subprocess.check_output(["sh", "-c", command], env=around) == b"codex recall\n"
    [command] = commands(_installed(machine, "cursor", ".cursor/hooks.json"))["beforeSubmitPrompt"]
    assert subprocess.check_output(["sh", "-c", command], env=around) == b"cursor query\n"


def _installed(machine: Machine, client: str, path: str) -> Any:
    machine.has(client)
    machine.install(client)
    return machine.json(path)


def test_our_plugin_is_not_doubled(machine: Machine) -> None:
    (machine.has("claude-code") / "settings.json").write_text('{"enabledPlugins": {"cofio@cofio": true, "x@y": true}}')
    (machine.has("codex") / "config.toml").write_text('[plugins."cofio@cofio"]\nenabled = true\n')
    before = machine.files()
    for client in ("claude-code", "codex"):
        assert machine.install(client) == []
        [note] = clients.plan_install(client, machine.settings, clients.InstallOptions()).notes
        assert "twice" in note
    assert machine.files() == before


def test_codex_gets_a_file_with_nothing_but_hooks_and_a_server_at_the_end(machine: Machine) -> None:
    (machine.has("codex") / "config.toml").write_text('model = "x" # mine\n\n[tui]\ntheme = "dark"\n')
    machine.install("codex")
    told = machine.json(".codex/hooks.json")
    assert list(told) == ["hooks"]
    assert list(told["hooks"]) == ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"]
    assert all(each.endswith(" codex") for [each] in commands(told).values())
    config = (machine.user / ".codex" / "config.toml").read_text()
    assert config.startswith('model = "x" # mine\n\n[tui]\ntheme = "dark"\n\n[mcp_servers.cofio]\n')
    assert "trusted_hash" not in config
    assert "notify" not in config


def test_notify_tells_us_and_then_does_what_it_did(machine: Machine) -> None:
    heard, old = machine.user / "heard", machine.user / "old one"
    old.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {shlex.quote(str(heard))}\n')
    old.chmod(0o755)
    before = f'notify = [\n  "{old}", # mine\n  "it\'s",\n]\n'
    (machine.has("codex") / "config.toml").write_text(before)
    machine.install("codex", notify=True)
    machine.install("codex", notify=True)  # ours is not chained to itself
    [program] = tomllib.loads((machine.user / ".codex" / "config.toml").read_text())["notify"]
    launcher = machine.home / "hook"
    launcher.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {shlex.quote(str(heard) + ".ours")}\n')
    launcher.chmod(0o755)
    subprocess.run([program, '{"type": "agent-turn-complete"}'], check=True, timeout=30)
    assert heard.read_text() == 'it\'s|{"type": "agent-turn-complete"}|'
    assert _once_there(Path(f"{heard}.ours")) == 'codex|notify|{"type": "agent-turn-complete"}|'
    (machine.user / ".codex" / "config.toml").write_text(
        (machine.user / ".codex" / "config.toml").read_text() + "\n[new]\n"
    )
    machine.uninstall("codex")
    assert (machine.user / ".codex" / "config.toml").read_text() == before + "\n[new]\n"


def _once_there(path: Path) -> str:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return path.read_text()


def test_notify_alone_is_taken_out_again_without_its_record(machine: Machine) -> None:
    (machine.has("codex") / "config.toml").write_text('notify = ["say", "x"]\nmodel = "y"\n')
    machine.install("codex", notify=True, mcp=False)
    (machine.home / "install.json").unlink()
    machine.uninstall("codex")
    assert (machine.user / ".codex" / "config.toml").read_text() == 'notify = ["say", "x"]\nmodel = "y"\n'


def test_openclaw_gets_the_plugin_in_its_slot_and_gives_the_slot_back(machine: Machine) -> None:
    before = """{
  // lobster
  plugins: {
    slots: { memory: "memory-lancedb", contextEngine: 'legacy' },
    allow: ["telegram"],
    entries: { telegram: { enabled: true } },
  },
}
"""
    path = machine.has("openclaw") / "openclaw.json"
    path.write_text(before)
    machine.install("openclaw")
    told = machine.json(".openclaw/openclaw.json")["plugins"]
    assert told["slots"] == {"memory": "cofio", "contextEngine": "legacy"}
    assert told["allow"] == ["telegram", "cofio"]
    assert told["entries"]["cofio"]["hooks"] == {"allowConversationAccess": True}
    [folder] = told["load"]["paths"]
    assert json.loads((Path(folder) / "openclaw.plugin.json").read_text())["id"] == "cofio"
    assert {"SKILL.md", "scripts"} <= {each.name for each in (machine.user / ".openclaw/skills/cofio").iterdir()}
    path.write_text(path.read_text().replace("// lobster", "// a lobster"))
    machine.uninstall("openclaw")
    assert path.read_text() == before.replace("// lobster", "// a lobster")
    assert not Path(folder).exists()
    assert list(machine.files()) == [".openclaw/openclaw.json"]


def test_cursor_gets_its_own_shape(machine: Machine) -> None:
    machine.has("cursor")
    machine.install("cursor")
    told = machine.json(".cursor/hooks.json")
    assert told["version"] == 1
    assert list(told["hooks"]) == [
        "sessionStart",
        "beforeSubmitPrompt",
        "afterAgentResponse",
        "preCompact",
        "sessionEnd",
    ]
    assert all(list(entry) == ["command", "timeout"] for [entry] in told["hooks"].values())


# ── putting everything back ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("client", CLIENTS)
def test_what_was_not_there_is_gone_again(machine: Machine, client: str) -> None:
    files, folders = machine.files(), machine.folders()
    machine.install(client, notify=True, trust=True)
    assert machine.files() != files
    machine.uninstall(client)
    assert (machine.files(), machine.folders()) == (files, folders)
    assert not (machine.home / "install.json").exists()
    assert not (machine.home / "backups").exists()


@pytest.mark.parametrize("client", CLIENTS)
def test_installing_twice_is_installing_once(machine: Machine, client: str) -> None:
    machine.has(client)
    machine.install(client, notify=True, trust=True)
    files, record = machine.files(), (machine.home / "install.json").read_bytes()
    assert {each.state for each in machine.install(client, notify=True, trust=True)} == {"unchanged"}
    assert machine.files() == files
    assert (machine.home / "install.json").read_bytes() == record


@settings(deadline=None, max_examples=40)
@given(json_texts(st.one_of(st.integers(), st.dictionaries(st.just("a"), st.lists(st.integers(), max_size=2)))))
def test_any_json_file_comes_back_byte_for_byte(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        for client, name in (("claude-code", "settings.json"), ("openclaw", "openclaw.json"), ("cursor", "hooks.json")):
            (machine.has(client) / name).write_bytes(text.encode())
            _there_and_back(machine, client)


@settings(deadline=None, max_examples=40)
@given(toml_texts())
def test_any_toml_file_comes_back_byte_for_byte(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        (machine.has("codex") / "config.toml").write_bytes(text.encode())
        _there_and_back(machine, "codex")


def _there_and_back(machine: Machine, client: str) -> None:
    """Install twice and uninstall, or have the file refused: either way it is as it was."""
    before = machine.files()
    wishes = clients.InstallOptions(notify=True, trust=True)
    edits = plan.InstallPlan(client=client, edits=clients.plan_install(client, machine.settings, wishes).edits)
    try:
        plan.carry_out(edits, Manifest.load(machine.home), clients.TAKES)
    except InvalidInput:
        assert machine.files() == before
        return
    first = machine.files()
    plan.carry_out(edits, Manifest.load(machine.home), clients.TAKES)
    assert machine.files() == first
    machine.uninstall(client)
    assert machine.files() == before


def test_what_others_changed_meanwhile_stays(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_text(MINE)
    machine.install("claude-code")
    path.write_text(path.read_text().replace('"opus"', '"sonnet"'))
    states = {each.path.name: each.state for each in machine.uninstall("claude-code")}
    assert states["settings.json"] == "taken out"
    assert path.read_text() == MINE.replace('"opus"', '"sonnet"')


def test_a_file_that_we_began_and_others_went_on_with_stays(machine: Machine) -> None:
    machine.has("claude-code")
    machine.install("claude-code")
    state = machine.user / ".claude" / ".claude.json"
    state.write_text(json.dumps({"numStartups": 3, **json.loads(state.read_text())}))
    machine.uninstall("claude-code")
    assert json.loads(state.read_text()) == {"numStartups": 3}
    assert not (machine.user / ".claude" / "settings.json").exists()


def test_installing_again_after_others_changed_something_keeps_their_change_for_good(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_text(MINE)
    machine.install("claude-code")
    theirs = path.read_text().replace('"opus"', '"sonnet"').replace('"timeout": 5', '"timeout": 50')
    path.write_text(theirs)
    machine.install("claude-code")
    assert '"timeout": 50' in path.read_text()
    assert machine.uninstall("claude-code")
    assert path.read_text() == MINE.replace('"opus"', '"sonnet"')


def test_a_lost_record_and_lost_copies_leave_nothing_of_ours_behind(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_text(MINE)
    machine.install("claude-code")
    for each in (machine.home / "backups").iterdir():
        each.unlink()
    machine.uninstall("claude-code")
    assert path.read_text() == MINE
    machine.install("claude-code")
    (machine.home / "install.json").unlink()
    machine.uninstall("claude-code")
    assert path.read_text() == MINE


def test_a_file_of_ours_that_somebody_changed_is_left_to_them(machine: Machine) -> None:
    machine.has("claude-code")
    machine.install("claude-code")
    changed = machine.user / ".claude" / "hooks" / "memory" / "memory-query"
    changed.write_text("#!/bin/sh\n# mine now\n")
    states = {each.path.name: each.state for each in machine.uninstall("claude-code")}
    assert states["memory-query"] == "kept"
    assert list(machine.files()) == [".claude/hooks/memory/memory-query"]


def test_a_script_that_may_not_be_executed_is_mended(machine: Machine) -> None:
    machine.has("claude-code")
    machine.install("claude-code")
    path = machine.user / ".claude" / "hooks" / "memory" / "memory-query"
    path.chmod(0o644)
    planned = clients.plan_install("claude-code", machine.settings, clients.InstallOptions())
    assert plan.changed_paths(planned, Manifest.load(machine.home)) == [path]
    assert {each.path: each.state for each in machine.install("claude-code")}[path] == "written"
    assert os.access(path, os.X_OK)
    machine.uninstall("claude-code")
    assert machine.files() == {}


@pytest.mark.parametrize("last", ["first", "second"])
@pytest.mark.parametrize("order", [("first", "second"), ("first", "second", "first")])
def test_two_homes_leave_nothing_behind_whichever_is_asked(machine: Machine, order: tuple[str, ...], last: str) -> None:
    machine.has("claude-code")
    for home in order:
        machine.home = machine.user / home
        machine.install("claude-code")
    machine.home = machine.user / last
    machine.uninstall("claude-code")
    assert {file for file in machine.files() if file.startswith(".claude/")} == set()
    machine.home = machine.user / ("second" if last == "first" else "first")
    machine.uninstall("claude-code")
    assert not any((machine.user / home / "install.json").exists() for home in order)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_lost_record_leaves_no_file_of_ours_behind(machine: Machine, client: str) -> None:
    machine.has(client)
    machine.install(client)
    (machine.home / "install.json").unlink()
    machine.uninstall(client)
    assert machine.files() == {}
    assert machine.folders() <= {FOLDER[client], f"{FOLDER[client]}/skills"}


def test_a_hook_that_its_owner_wraps_is_not_doubled_and_goes_with_the_scripts(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    machine.install("claude-code")
    told = json.loads(path.read_text())
    for event, start in (("Stop", "bash {}"), ("PreCompact", "{} && say done")):
        hook = told["hooks"][event][0]["hooks"][0]
        hook["command"] = start.format(hook["command"])
    path.write_text(json.dumps(told))
    machine.install("claude-code")
    assert json.loads(path.read_text()) == told
    last = machine.uninstall("claude-code")[-1]
    assert (last.path, last.state) == (path, "kept")
    assert "starts a removed script" in last.detail
    assert list(json.loads(path.read_text())["hooks"]) == ["PreCompact"]


def test_codex_approves_what_its_owner_changed_about_a_hook(machine: Machine) -> None:
    path = machine.has("codex") / "hooks.json"
    machine.install("codex")
    path.write_text(path.read_text().replace('"timeout": 5', '"timeout": 6'))
    machine.install("codex", trust=True)
    assert codex.untrusted_events(machine.settings) == []
    machine.uninstall("codex")
    assert machine.files() == {}


def test_a_server_of_the_same_name_in_codex_comes_back_though_the_file_was_touched(machine: Machine) -> None:
    path = machine.has("codex") / "config.toml"
    before = 'model = "x"\n\n[mcp_servers.cofio] # mine\ncommand = "theirs" # really\nargs = ["a"]\n\n[tui]\n'
    path.write_text(before)
    machine.install("codex")
    assert "theirs" not in path.read_text()
    path.write_text(path.read_text().replace('model = "x"', 'model = "y"'))
    machine.uninstall("codex")
    assert path.read_text() == before.replace('model = "x"', 'model = "y"')


@pytest.mark.parametrize("client", ["claude-code", "cursor"])
def test_a_server_of_the_same_name_elsewhere_comes_back_too(machine: Machine, client: str) -> None:
    path = machine.has(client) / {"claude-code": ".claude.json", "cursor": "mcp.json"}[client]
    path.write_text('{"mcpServers": {"cofio": {"command": "theirs", "args": ["a"]}}}')
    machine.install(client)
    assert "theirs" not in path.read_text()
    path.write_text(path.read_text().replace("{", '{"x": 1, ', 1))
    machine.uninstall(client)
    assert json.loads(path.read_text())["mcpServers"]["cofio"] == {"command": "theirs", "args": ["a"]}


def test_an_older_copy_goes_when_a_newer_takes_its_place(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_text(MINE)
    machine.install("claude-code", mcp=False)
    path.write_text(path.read_text().replace('"opus"', '"sonnet"').replace("memory-recall", "memory-mine"))
    machine.install("claude-code", mcp=False)
    assert len(list((machine.home / "backups").iterdir())) == 1
    machine.uninstall("claude-code")
    assert not (machine.home / "backups").exists()


# ── care with files ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_linked_file_stays_a_link_and_keeps_its_permissions(machine: Machine) -> None:
    dotfiles = machine.user / "dotfiles"
    dotfiles.mkdir()
    real = dotfiles / "settings.json"
    real.write_text(MINE)
    real.chmod(0o640)
    link = machine.has("claude-code") / "settings.json"
    link.symlink_to(real)
    machine.install("claude-code")
    assert link.is_symlink()
    assert "memory-recall" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    machine.uninstall("claude-code")
    assert link.is_symlink()
    assert real.read_text() == MINE


def test_a_link_that_led_nowhere_leads_nowhere_again(machine: Machine) -> None:
    link, real = machine.has("claude-code") / "settings.json", machine.user / "dotfiles" / "settings.json"
    link.symlink_to(real)
    machine.install("claude-code")
    assert "memory-recall" in real.read_text()
    machine.uninstall("claude-code")
    assert link.is_symlink()
    assert not real.parent.exists()


def test_a_copy_of_what_was_there_is_for_its_owner_alone(machine: Machine) -> None:
    (machine.has("claude-code") / ".claude.json").write_text('{"oauthAccount": {"secret": 1}}')
    machine.install("claude-code")
    for path in (machine.home / "install.json", *(machine.home / "backups").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((machine.home / "backups").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("client", "name", "text"),
    [
        ("claude-code", "settings.json", '{"hooks": {'),
        ("claude-code", ".claude.json", "{]"),
        ("claude-code", "settings.json", '{"hooks": []}'),
        ("codex", "config.toml", "model = "),
        ("codex", "config.toml", "mcp_servers = { a = {} }"),
        ("codex", "hooks.json", '{"hooks": {"Stop": 1}}'),
        ("openclaw", "openclaw.json", "{plugins: []}"),
        ("cursor", "hooks.json", "[]"),
    ],
)
def test_a_file_that_cannot_be_merged_stops_everything_before_anything_is_written(
    machine: Machine, client: str, name: str, text: str
) -> None:
    (machine.has(client) / name).write_text(text)
    before = machine.files()
    with pytest.raises(InvalidInput, match="cannot be parsed") as refusal:
        machine.install(client)
    assert str(machine.user / name) in refusal.value.message.replace(f"/{FOLDER[client]}/", "/")
    assert "nothing was changed" in refusal.value.hint
    assert machine.files() == before
    assert not machine.home.exists()


FOLDER = {"claude-code": ".claude", "codex": ".codex", "openclaw": ".openclaw", "cursor": ".cursor"}


def test_text_that_is_not_utf8_is_left_alone(machine: Machine) -> None:
    (machine.has("claude-code") / "settings.json").write_bytes('{"a": "é"}'.encode("latin-1"))
    with pytest.raises(InvalidInput, match="UTF-8"):
        machine.install("claude-code")


def test_a_byte_order_mark_and_windows_line_ends_stay(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_bytes(b'\xef\xbb\xbf{\r\n  "a": 1\r\n}\r\n')
    machine.install("claude-code")
    content = path.read_bytes()
    assert content.startswith(b'\xef\xbb\xbf{\r\n  "a": 1,\r\n')
    assert content.count(b"\n") == content.count(b"\r\n")


def test_a_client_that_writes_at_the_same_moment_loses_nothing(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_text('{"a": 1}')
    planned = clients.plan_install("claude-code", machine.settings, clients.InstallOptions(mcp=False))
    [edit] = planned.edits
    times = []

    def meanwhile(text: str, known: Any) -> str:
        times.append(text)
        if len(times) == 2:  # between the plan and its writing
            path.write_text('{"a": 1, "theirs": 2}')
        return edit.put(text, known)

    raced = plan.FileEdit(path=edit.path, kind=edit.kind, put=meanwhile, ours=edit.ours)
    plan.carry_out(
        plan.InstallPlan(client="claude-code", copies=planned.copies, edits=(raced,)),
        Manifest.load(machine.home),
        clients.TAKES,
    )
    assert machine.json(".claude/settings.json")["theirs"] == 2
    assert "Stop" in machine.json(".claude/settings.json")["hooks"]
    machine.uninstall("claude-code")
    assert path.read_text() == '{"a": 1, "theirs": 2}'


def test_a_record_that_is_no_record_is_named(machine: Machine) -> None:
    machine.home.mkdir()
    (machine.home / "install.json").write_text("[]")
    with pytest.raises(Misconfigured, match="record"):
        Manifest.load(machine.home)


def test_malformed_is_an_error_of_the_caller() -> None:
    assert issubclass(MalformedConfig, InvalidInput)
