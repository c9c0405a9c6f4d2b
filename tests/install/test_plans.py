"""Files written for each client, and their exact restoration on uninstall."""

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

USER_SETTINGS = """\
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
        event: [item["command"] for group in groups for item in group.get("hooks", [group])]
        for event, groups in told["hooks"].items()
    }


# ── files of each client ──────────────────────────────────────────────────────────────────────────────────────────────


def test_claude_code_gets_six_hooks_and_a_server(machine: Machine) -> None:
    (machine.has("claude-code") / "settings.json").write_text(USER_SETTINGS)
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
    ("version_output", "registered"),
    [
        ("2.1.76 (Claude Code)", True),
        ("2.1.317 (Claude Code)", True),
        ("2.1.75 (Claude Code)", False),
        ("1.9.200", False),
        ("who knows", False),
    ],
)
def test_event_is_registered_if_the_client_version_supports_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, version_output: str, registered: bool
) -> None:
    program = machine.user / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{version_output}'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    machine.has("claude-code")
    machine.install("claude-code")
    hooks = machine.json(".claude/settings.json")["hooks"]
    assert ("PostCompact" in hooks) == registered
    assert len(hooks) == 6 + registered
    assert [item.state for item in machine.install("claude-code") if item.path.name == "settings.json"] == ["unchanged"]


def test_hanging_version_command_selects_common_events(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    program = machine.user / "claude"
    program.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setattr(claude_code, "_PATIENCE", 0.1)
    assert claude_code.installed_version() == ()
    assert "PostCompact" not in claude_code.hooks_in(machine.user)


def test_hook_command_is_quoted_for_the_shell(machine: Machine) -> None:
    machine.has("claude-code")
    machine.install("claude-code")
    for event, [command] in commands(machine.json(".claude/settings.json")).items():
        assert "'" in str(machine.user)
        result = subprocess.run(["sh", "-c", command], input=b"{}", capture_output=True, timeout=30)
        assert (result.returncode, result.stdout, result.stderr) == (0, b"", b""), event
        assert os.access(shlex.split(command)[0], os.X_OK)


def test_hook_starts_the_launcher_of_its_home(machine: Machine) -> None:
    machine.has("claude-code")
    machine.install("claude-code")
    launcher = machine.home / "hook"
    launcher.write_text('#!/bin/sh\necho "$@"\n')
    launcher.chmod(0o755)
    [command] = commands(machine.json(".claude/settings.json"))["SessionEnd"]
    env = {**os.environ, "COFIO_HOME": "/nowhere"}
    assert subprocess.check_output(["sh", "-c", command], env=env) == b"claude-code commit\n"
    [command] = commands(_installed(machine, "codex", ".codex/hooks.json"))["SessionStart"]
    assert subprocess.check_output(["sh", "-c", command], env=env) == b"codex recall\n"
    [command] = commands(_installed(machine, "cursor", ".cursor/hooks.json"))["beforeSubmitPrompt"]
    assert subprocess.check_output(["sh", "-c", command], env=env) == b"cursor query\n"


def _installed(machine: Machine, client: str, path: str) -> Any:
    machine.has(client)
    machine.install(client)
    return machine.json(path)


def test_plugin_is_not_duplicated(machine: Machine) -> None:
    (machine.has("claude-code") / "settings.json").write_text('{"enabledPlugins": {"cofio@cofio": true, "x@y": true}}')
    (machine.has("codex") / "config.toml").write_text('[plugins."cofio@cofio"]\nenabled = true\n')
    before = machine.files()
    for client in ("claude-code", "codex"):
        assert machine.install(client) == []
        [note] = clients.plan_install(client, machine.settings, clients.InstallOptions()).notes
        assert "twice" in note
    assert machine.files() == before


def test_codex_gets_a_hooks_file_and_a_server(machine: Machine) -> None:
    (machine.has("codex") / "config.toml").write_text('model = "x" # mine\n\n[tui]\ntheme = "dark"\n')
    machine.install("codex")
    output = machine.json(".codex/hooks.json")
    assert list(output) == ["hooks"]
    assert list(output["hooks"]) == ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"]
    assert all(each.endswith(" codex") for [each] in commands(output).values())
    config = (machine.user / ".codex" / "config.toml").read_text()
    assert config.startswith('model = "x" # mine\n\n[tui]\ntheme = "dark"\n\n[mcp_servers.cofio]\n')
    assert "trusted_hash" not in config
    assert "notify" not in config


def test_notify_runs_cofio_and_then_the_previous_command(machine: Machine) -> None:
    heard, old = machine.user / "heard", machine.user / "old one"
    old.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {shlex.quote(str(heard))}\n')
    old.chmod(0o755)
    before = f'notify = [\n  "{old}", # mine\n  "it\'s",\n]\n'
    (machine.has("codex") / "config.toml").write_text(before)
    machine.install("codex", notify=True)
    machine.install("codex", notify=True)  # not chained to itself
    [program] = tomllib.loads((machine.user / ".codex" / "config.toml").read_text())["notify"]
    launcher = machine.home / "hook"
    launcher.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {shlex.quote(str(heard) + ".ours")}\n')
    launcher.chmod(0o755)
    subprocess.run([program, '{"type": "agent-turn-complete"}'], check=True, timeout=30)
    assert heard.read_text() == 'it\'s|{"type": "agent-turn-complete"}|'
    assert _wait_for_content(Path(f"{heard}.ours")) == 'codex|notify|{"type": "agent-turn-complete"}|'
    (machine.user / ".codex" / "config.toml").write_text(
        (machine.user / ".codex" / "config.toml").read_text() + "\n[new]\n"
    )
    machine.uninstall("codex")
    assert (machine.user / ".codex" / "config.toml").read_text() == before + "\n[new]\n"


def _wait_for_content(path: Path) -> str:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return path.read_text()


def test_notify_alone_is_removed_without_its_manifest(machine: Machine) -> None:
    (machine.has("codex") / "config.toml").write_text('notify = ["say", "x"]\nmodel = "y"\n')
    machine.install("codex", notify=True, mcp=False)
    (machine.home / "install.json").unlink()
    machine.uninstall("codex")
    assert (machine.user / ".codex" / "config.toml").read_text() == 'notify = ["say", "x"]\nmodel = "y"\n'


def test_openclaw_slot_is_taken_and_given_back(machine: Machine) -> None:
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
    output = machine.json(".openclaw/openclaw.json")["plugins"]
    assert output["slots"] == {"memory": "cofio", "contextEngine": "legacy"}
    assert output["allow"] == ["telegram", "cofio"]
    assert output["entries"]["cofio"]["hooks"] == {"allowConversationAccess": True}
    [folder] = output["load"]["paths"]
    assert json.loads((Path(folder) / "openclaw.plugin.json").read_text())["id"] == "cofio"
    assert {"SKILL.md", "scripts"} <= {path.name for path in (machine.user / ".openclaw/skills/cofio").iterdir()}
    path.write_text(path.read_text().replace("// lobster", "// a lobster"))
    machine.uninstall("openclaw")
    assert path.read_text() == before.replace("// lobster", "// a lobster")
    assert not Path(folder).exists()
    assert list(machine.files()) == [".openclaw/openclaw.json"]


def test_cursor_gets_its_own_format(machine: Machine) -> None:
    machine.has("cursor")
    machine.install("cursor")
    output = machine.json(".cursor/hooks.json")
    assert output["version"] == 1
    assert list(output["hooks"]) == [
        "sessionStart",
        "beforeSubmitPrompt",
        "afterAgentResponse",
        "preCompact",
        "sessionEnd",
    ]
    assert all(list(entry) == ["command", "timeout"] for [entry] in output["hooks"].values())


# ── uninstalling ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("client", CLIENTS)
def test_created_files_and_folders_are_removed(machine: Machine, client: str) -> None:
    files, folders = machine.files(), machine.folders()
    machine.install(client, notify=True, trust=True)
    assert machine.files() != files
    machine.uninstall(client)
    assert (machine.files(), machine.folders()) == (files, folders)
    assert not (machine.home / "install.json").exists()
    assert not (machine.home / "backups").exists()


@pytest.mark.parametrize("client", CLIENTS)
def test_second_install_changes_nothing(machine: Machine, client: str) -> None:
    machine.has(client)
    machine.install(client, notify=True, trust=True)
    files, record = machine.files(), (machine.home / "install.json").read_bytes()
    assert {item.state for item in machine.install(client, notify=True, trust=True)} == {"unchanged"}
    assert machine.files() == files
    assert (machine.home / "install.json").read_bytes() == record


@settings(deadline=None, max_examples=40)
@given(json_texts(st.one_of(st.integers(), st.dictionaries(st.just("a"), st.lists(st.integers(), max_size=2)))))
def test_random_json_file_is_restored_exactly(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        for client, name in (("claude-code", "settings.json"), ("openclaw", "openclaw.json"), ("cursor", "hooks.json")):
            (machine.has(client) / name).write_bytes(text.encode())
            _install_and_uninstall(machine, client)


@settings(deadline=None, max_examples=40)
@given(toml_texts())
def test_random_toml_file_is_restored_exactly(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        (machine.has("codex") / "config.toml").write_bytes(text.encode())
        _install_and_uninstall(machine, "codex")


def _install_and_uninstall(machine: Machine, client: str) -> None:
    """Install twice and uninstall. The files must be as before, also if an edit is rejected."""
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


def test_later_changes_by_others_are_kept(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_text(USER_SETTINGS)
    machine.install("claude-code")
    path.write_text(path.read_text().replace('"opus"', '"sonnet"'))
    states = {item.path.name: item.state for item in machine.uninstall("claude-code")}
    assert states["settings.json"] == "taken out"
    assert path.read_text() == USER_SETTINGS.replace('"opus"', '"sonnet"')


def test_created_file_with_later_changes_is_kept(machine: Machine) -> None:
    machine.has("claude-code")
    machine.install("claude-code")
    state = machine.user / ".claude" / ".claude.json"
    state.write_text(json.dumps({"numStartups": 3, **json.loads(state.read_text())}))
    machine.uninstall("claude-code")
    assert json.loads(state.read_text()) == {"numStartups": 3}
    assert not (machine.user / ".claude" / "settings.json").exists()


def test_reinstalling_keeps_changes_by_others(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_text(USER_SETTINGS)
    machine.install("claude-code")
    theirs = path.read_text().replace('"opus"', '"sonnet"').replace('"timeout": 5', '"timeout": 50')
    path.write_text(theirs)
    machine.install("claude-code")
    assert '"timeout": 50' in path.read_text()
    assert machine.uninstall("claude-code")
    assert path.read_text() == USER_SETTINGS.replace('"opus"', '"sonnet"')


def test_uninstall_works_without_manifest_and_backups(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_text(USER_SETTINGS)
    machine.install("claude-code")
    for item in (machine.home / "backups").iterdir():
        item.unlink()
    machine.uninstall("claude-code")
    assert path.read_text() == USER_SETTINGS
    machine.install("claude-code")
    (machine.home / "install.json").unlink()
    machine.uninstall("claude-code")
    assert path.read_text() == USER_SETTINGS


def test_modified_cofio_file_is_left_to_its_owner(machine: Machine) -> None:
    machine.has("claude-code")
    machine.install("claude-code")
    changed = machine.user / ".claude" / "hooks" / "memory" / "memory-query"
    changed.write_text("#!/bin/sh\n# mine now\n")
    states = {item.path.name: item.state for item in machine.uninstall("claude-code")}
    assert states["memory-query"] == "kept"
    assert list(machine.files()) == [".claude/hooks/memory/memory-query"]


def test_non_executable_script_is_repaired(machine: Machine) -> None:
    machine.has("claude-code")
    machine.install("claude-code")
    path = machine.user / ".claude" / "hooks" / "memory" / "memory-query"
    path.chmod(0o644)
    planned = clients.plan_install("claude-code", machine.settings, clients.InstallOptions())
    assert plan.changed_paths(planned, Manifest.load(machine.home)) == [path]
    assert {item.path: item.state for item in machine.install("claude-code")}[path] == "written"
    assert os.access(path, os.X_OK)
    machine.uninstall("claude-code")
    assert machine.files() == {}


@pytest.mark.parametrize("last", ["first", "second"])
@pytest.mark.parametrize("order", [("first", "second"), ("first", "second", "first")])
def test_two_homes_are_uninstalled_completely_in_any_order(machine: Machine, order: tuple[str, ...], last: str) -> None:
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
def test_uninstall_without_manifest_removes_cofio_files(machine: Machine, client: str) -> None:
    machine.has(client)
    machine.install(client)
    (machine.home / "install.json").unlink()
    machine.uninstall(client)
    assert machine.files() == {}
    assert machine.folders() <= {FOLDER[client], f"{FOLDER[client]}/skills"}


def test_wrapped_hook_is_not_duplicated_and_removed_with_the_scripts(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    machine.install("claude-code")
    payload = json.loads(path.read_text())
    for event, start in (("Stop", "bash {}"), ("PreCompact", "{} && say done")):
        hook = payload["hooks"][event][0]["hooks"][0]
        hook["command"] = start.format(hook["command"])
    path.write_text(json.dumps(payload))
    machine.install("claude-code")
    assert json.loads(path.read_text()) == payload
    last = machine.uninstall("claude-code")[-1]
    assert (last.path, last.state) == (path, "kept")
    assert "starts a removed script" in last.detail
    assert list(json.loads(path.read_text())["hooks"]) == ["PreCompact"]


def test_changed_codex_hook_is_approved(machine: Machine) -> None:
    path = machine.has("codex") / "hooks.json"
    machine.install("codex")
    path.write_text(path.read_text().replace('"timeout": 5', '"timeout": 6'))
    machine.install("codex", trust=True)
    assert codex.untrusted_events(machine.settings) == []
    machine.uninstall("codex")
    assert machine.files() == {}


def test_replaced_codex_server_is_restored_in_a_changed_file(machine: Machine) -> None:
    path = machine.has("codex") / "config.toml"
    before = 'model = "x"\n\n[mcp_servers.cofio] # mine\ncommand = "theirs" # really\nargs = ["a"]\n\n[tui]\n'
    path.write_text(before)
    machine.install("codex")
    assert "theirs" not in path.read_text()
    path.write_text(path.read_text().replace('model = "x"', 'model = "y"'))
    machine.uninstall("codex")
    assert path.read_text() == before.replace('model = "x"', 'model = "y"')


@pytest.mark.parametrize("client", ["claude-code", "cursor"])
def test_replaced_server_of_other_clients_is_restored(machine: Machine, client: str) -> None:
    path = machine.has(client) / {"claude-code": ".claude.json", "cursor": "mcp.json"}[client]
    path.write_text('{"mcpServers": {"cofio": {"command": "theirs", "args": ["a"]}}}')
    machine.install(client)
    assert "theirs" not in path.read_text()
    path.write_text(path.read_text().replace("{", '{"x": 1, ', 1))
    machine.uninstall(client)
    assert json.loads(path.read_text())["mcpServers"]["cofio"] == {"command": "theirs", "args": ["a"]}


def test_older_backup_is_replaced_by_a_newer_one(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_text(USER_SETTINGS)
    machine.install("claude-code", mcp=False)
    path.write_text(path.read_text().replace('"opus"', '"sonnet"').replace("memory-recall", "memory-mine"))
    machine.install("claude-code", mcp=False)
    assert len(list((machine.home / "backups").iterdir())) == 1
    machine.uninstall("claude-code")
    assert not (machine.home / "backups").exists()


# ── file handling ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_symbolic_link_and_permissions_are_kept(machine: Machine) -> None:
    dotfiles = machine.user / "dotfiles"
    dotfiles.mkdir()
    real = dotfiles / "settings.json"
    real.write_text(USER_SETTINGS)
    real.chmod(0o640)
    link = machine.has("claude-code") / "settings.json"
    link.symlink_to(real)
    machine.install("claude-code")
    assert link.is_symlink()
    assert "memory-recall" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    machine.uninstall("claude-code")
    assert link.is_symlink()
    assert real.read_text() == USER_SETTINGS


def test_dangling_link_is_restored(machine: Machine) -> None:
    link, real = machine.has("claude-code") / "settings.json", machine.user / "dotfiles" / "settings.json"
    link.symlink_to(real)
    machine.install("claude-code")
    assert "memory-recall" in real.read_text()
    machine.uninstall("claude-code")
    assert link.is_symlink()
    assert not real.parent.exists()


def test_backup_is_private(machine: Machine) -> None:
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
def test_unmergeable_file_stops_before_anything_is_written(machine: Machine, client: str, name: str, text: str) -> None:
    (machine.has(client) / name).write_text(text)
    before = machine.files()
    with pytest.raises(InvalidInput, match="cannot be parsed") as refusal:
        machine.install(client)
    assert str(machine.user / name) in refusal.value.message.replace(f"/{FOLDER[client]}/", "/")
    assert "nothing was changed" in refusal.value.hint
    assert machine.files() == before
    assert not machine.home.exists()


FOLDER = {"claude-code": ".claude", "codex": ".codex", "openclaw": ".openclaw", "cursor": ".cursor"}


def test_file_that_is_not_utf8_is_unchanged(machine: Machine) -> None:
    (machine.has("claude-code") / "settings.json").write_bytes('{"a": "é"}'.encode("latin-1"))
    with pytest.raises(InvalidInput, match="UTF-8"):
        machine.install("claude-code")


def test_byte_order_mark_and_crlf_are_kept(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_bytes(b'\xef\xbb\xbf{\r\n  "a": 1\r\n}\r\n')
    machine.install("claude-code")
    content = path.read_bytes()
    assert content.startswith(b'\xef\xbb\xbf{\r\n  "a": 1,\r\n')
    assert content.count(b"\n") == content.count(b"\r\n")


def test_concurrent_write_by_the_client_is_not_lost(machine: Machine) -> None:
    path = machine.has("claude-code") / "settings.json"
    path.write_text('{"a": 1}')
    planned = clients.plan_install("claude-code", machine.settings, clients.InstallOptions(mcp=False))
    [edit] = planned.edits
    times = []

    def meanwhile(text: str, known: Any) -> str:
        times.append(text)
        if len(times) == 2:  # between plan and write
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


def test_invalid_manifest_is_named(machine: Machine) -> None:
    machine.home.mkdir()
    (machine.home / "install.json").write_text("[]")
    with pytest.raises(Misconfigured, match="record"):
        Manifest.load(machine.home)


def test_malformed_json_is_invalid_input() -> None:
    assert issubclass(MalformedConfig, InvalidInput)
