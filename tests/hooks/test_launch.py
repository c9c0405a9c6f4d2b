"""The launcher script, the five named hooks and `cofio hook`: all exit with 0."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cofio.hooks import launcher
from tests.hooks.conftest import CONTEXT, PROMPT, STOP, Hook, Listener, http, reply_with, reply_with_context

Listening = Callable[..., Listener]
EVENT = json.dumps(PROMPT).encode()


def test_launcher_runs_the_hook_of_its_home(hook: Hook, listen: Listening) -> None:
    service = listen(reply_with_context())
    path = launcher.write(hook.home)
    assert path
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert hook.run([str(path), "claude-code", "query"], EVENT, env={}).reply == CONTEXT
    assert service.requests[0][1] == EVENT
    assert hook.rung == "service"


def test_launcher_is_rewritten_only_when_changed(hook: Hook) -> None:
    path = launcher.write(hook.home)
    assert path
    before = path.stat().st_ino
    assert launcher.write(hook.home) == path
    assert path.stat().st_ino == before
    path.write_text("something else")
    assert launcher.write(hook.home) == path
    assert path.read_text() == launcher.launcher(sys.executable, launcher.ENTRY, hook.home)
    path.chmod(0o600)
    launcher.write(hook.home)
    assert os.access(path, os.X_OK)


def test_unwritable_home_has_no_launcher(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    assert launcher.write(tmp_path / "home") is None


def test_special_characters_in_paths_are_quoted(tmp_path: Path, listen: Listening) -> None:
    home = tmp_path / 'it\'s "my" $HOME; `x` \\ ü'
    home.mkdir()
    hook = Hook(home)
    path = launcher.write(home)
    hook.run([str(path), "claude-code"], json.dumps(STOP).encode(), env={})
    assert hook.spooled == [STOP]


@pytest.mark.parametrize("missing", ["python", "entry"])
def test_launcher_without_python_or_script_exits_with_zero(hook: Hook, tmp_path: Path, missing: str) -> None:
    places = {"python": sys.executable, "entry": str(launcher.ENTRY), missing: str(tmp_path / "gone")}
    path = tmp_path / "hook"
    path.write_text(launcher.launcher(places["python"], places["entry"], hook.home))
    path.chmod(0o755)
    assert hook.run([str(path), "claude-code"], EVENT, env={}).out == b""


def test_python_that_fails_to_start_is_not_a_failure(hook: Hook, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho broken >&2\nexit 127\n")
    broken.chmod(0o755)
    path = tmp_path / "hook"
    path.write_text(launcher.launcher(broken, launcher.ENTRY, hook.home))
    path.chmod(0o755)
    assert hook.run([str(path), "claude-code"], EVENT, env={}).out == b""


@pytest.mark.parametrize("missing", ["python", "entry", "start"])
def test_launcher_falls_back_to_cofio_on_the_path(hook: Hook, tmp_path: Path, missing: str) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    python = {"python": "/nowhere/python", "start": str(broken)}.get(missing, sys.executable)
    path = tmp_path / "hook"
    path.write_text(launcher.launcher(python, tmp_path / "gone" if missing == "entry" else launcher.ENTRY, hook.home))
    path.chmod(0o755)
    hook.run(
        [str(path), "claude-code", "query"], EVENT, env={"PATH": path_with_cofio(tmp_path), "COFIO_AUTOSTART": "off"}
    )
    assert hook.spooled == [PROMPT]


def test_shell_that_cannot_fork_exits_with_zero() -> None:
    """Otherwise dash exits with 2, which makes some clients discard the prompt."""
    scripts = [(launcher.SHIMS / name).read_text() for name in launcher.NAMES]
    scripts.append(launcher.launcher("/bin/true", "/etc/passwd", "/nowhere"))
    for script in scripts:
        result = subprocess.run(
            ["/bin/sh", "-c", f"cofio() {{ /bin/true; }}\n{script}"],
            input=EVENT,
            capture_output=True,
            preexec_fn=without_processes,
            env={"COFIO_HOME": "/nowhere", "PATH": "/usr/bin:/bin"},
            check=False,
        )
        assert result.returncode == 0
        assert result.stdout == b""
    unguarded = ["/bin/sh", "-c", "/bin/true; exit 0"]
    if subprocess.run(unguarded, capture_output=True, preexec_fn=without_processes, check=False).returncode == 0:
        pytest.skip("this shell gets on without")


def without_processes() -> None:
    """Prevent this process from starting others. For use as `preexec_fn`."""
    if os.getuid() == 0:
        os.setgid(65_534)
        os.setuid(65_534)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


# ── named hooks ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", launcher.NAMES)
def test_named_hook_finds_the_launcher(hook: Hook, listen: Listening, name: str) -> None:
    service = listen(reply_with_context())
    launcher.write(hook.home)
    shim = launcher.SHIMS / name
    assert hook.run([str(shim)], EVENT, env={"COFIO_HOME": str(hook.home)}).reply == CONTEXT
    (hook.home.parent / ".cofio").symlink_to(hook.home)
    assert hook.run([str(shim), "codex"], EVENT, env={"HOME": str(hook.home.parent)}).reply == CONTEXT
    assert [head.split(" ")[1] for head, _ in service.requests] == ["/hooks/claude-code", "/hooks/codex"]


@pytest.mark.parametrize("name", launcher.NAMES)
@pytest.mark.parametrize(
    "env", [{}, {"PATH": ""}, {"HOME": "/nowhere", "PATH": "/nowhere"}, {"COFIO_HOME": "/dev/null"}]
)
def test_named_hook_without_cofio_exits_with_zero(hook: Hook, name: str, env: dict[str, str]) -> None:
    assert hook.run(["/bin/sh", str(launcher.SHIMS / name)], EVENT, env={"PATH": "/nowhere", **env}).out == b""


@pytest.mark.parametrize("name", launcher.NAMES)
def test_named_hook_finds_cofio_on_the_path(hook: Hook, tmp_path: Path, name: str) -> None:
    env = {"PATH": path_with_cofio(tmp_path), "COFIO_HOME": str(hook.home), "COFIO_AUTOSTART": "off"}
    hook.run([str(launcher.SHIMS / name)], EVENT, env=env)
    assert hook.spooled == [PROMPT]


def path_with_cofio(folder: Path) -> str:
    """Return a PATH with a `cofio` program."""
    cofio = folder / "bin" / "cofio"
    cofio.parent.mkdir()
    cofio.write_text(f'#!/bin/sh\nexec {sys.executable} -m cofio "$@"\n')
    cofio.chmod(0o755)
    return f"{cofio.parent}:/usr/bin:/bin"


def test_named_hooks_exist_and_are_executable() -> None:
    assert {path.name for path in launcher.SHIMS.iterdir()} == set(launcher.NAMES)
    assert all(os.access(launcher.SHIMS / name, os.X_OK) for name in launcher.NAMES)


@pytest.mark.skipif(not shutil.which("dash"), reason="there is no dash here")
def test_scripts_are_posix_shell() -> None:
    for name in launcher.NAMES:
        subprocess.run(["dash", "-n", str(launcher.SHIMS / name)], check=True)


# ── cofio hook ────────────────────────────────────────────────────────────────────────────────────────────────────────


def cofio(hook: Hook, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "cofio", *arguments]


def test_cofio_hook_equals_the_launcher(hook: Hook, listen: Listening) -> None:
    listen(reply_with_context())
    env = hook.environment({"COFIO_HOME": str(hook.home)})
    assert hook.run(cofio(hook, "hook", "claude-code"), EVENT, env=env).reply == CONTEXT
    assert hook.run(cofio(hook, "--home", str(hook.home), "hook", "claude-code"), EVENT, env={}).reply == CONTEXT


def test_cofio_hook_accepts_codex_notifications(hook: Hook, listen: Listening) -> None:
    service = listen(reply_with(http("204 No Content")))
    text = json.dumps({"type": "agent-turn-complete", "thread-id": "t"})
    hook.run(cofio(hook, "hook", "codex", "notify", text), b"", env=hook.environment({"COFIO_HOME": str(hook.home)}))
    assert service.requests[0][1] == text.encode()


@pytest.mark.parametrize("arguments", [(), ("nobody",), ("claude-code", "--nonsense"), ("claude-code", "nothing", "x")])
def test_cofio_hook_exits_with_zero_for_any_arguments(hook: Hook, arguments: tuple[str, ...]) -> None:
    hook.run(cofio(hook, "hook", *arguments), EVENT, env=hook.environment({"COFIO_HOME": str(hook.home)}))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--nosuch", "hook", "claude-code"),
        ("--json", "hook", "claude-code", "query"),
        ("hook", "--nosuch", "claude-code"),
        ("hook", "claude-code", "bogus"),
        ("hook", "claude-code", "query", "--whatever"),
        ("--store", "nonsense://x", "hook", "claude-code"),
    ],
)
@pytest.mark.parametrize("config", ["", "x = ["])
def test_invalid_options_and_config_do_not_stop_cofio_hook(hook: Hook, arguments: tuple[str, ...], config: str) -> None:
    (hook.home / "config.toml").write_text(config)
    hook.run(cofio(hook, *arguments), EVENT, env=hook.environment({"COFIO_HOME": str(hook.home)}))
    assert hook.spooled == [PROMPT]


@pytest.mark.parametrize("before", [True, False])
def test_cofio_hook_options_select_home_and_service(hook: Hook, listen: Listening, before: bool) -> None:
    ours, other = listen(reply_with_context()), listen(reply_with_context())
    hook.set_endpoint(ours.url, key="secret")
    options = (f"--home={hook.home}", "--url", other.url, "--api-key", "theirs")
    arguments = (*options, "hook", "claude-code") if before else ("hook", *options, "claude-code")
    assert hook.run(cofio(hook, *arguments), EVENT, env={}).reply == CONTEXT
    assert ours.requests == []
    assert "X-API-Key: theirs" in other.requests[0][0]


def test_hook_command_accepts_any_arguments_through_click(hook: Hook) -> None:
    """Covers callers that enter through the click command group."""
    (hook.home / "config.toml").write_text("x = [")
    script = "from cofio.cli import main; main()"
    for arguments in (("claude-code", "--nosuch"), ("claude-code", "bogus"), ("nobody",), ()):
        command = [sys.executable, "-c", script, "--home", str(hook.home), "hook", *arguments]
        result = subprocess.run(command, input=EVENT, capture_output=True, env=hook.environment(), check=False)
        assert (result.returncode, result.stderr) == (0, b"")
    assert hook.spooled == [PROMPT, PROMPT]


def test_cofio_hook_does_not_import_the_command_line(hook: Hook, tmp_path: Path) -> None:
    script = tmp_path / "driven.py"
    script.write_text(
        "import posix, runpy, sys\n"
        "def told(code):\n"
        f"    open({str(tmp_path / 'loaded')!r}, 'w').write(' '.join(sys.modules))\n"
        "    end(code)\n"
        "end, posix._exit = posix._exit, told\n"
        "sys.argv = ['cofio', 'hook', 'claude-code']\n"
        "runpy.run_module('cofio', run_name='__main__')\n"
    )
    hook.run(
        [sys.executable, str(script)], json.dumps(STOP).encode(), env=hook.environment({"COFIO_HOME": str(hook.home)})
    )
    modules = set((tmp_path / "loaded").read_text().split())
    assert "cofio.hooks.runner" in modules
    assert not modules & {"click", "cofio.cli", "cofio.core", "cofio.settings", "sqlite3", "json", "http"}


def test_help_mentions_the_hook_command() -> None:
    for arguments in (("--help",), ("hook", "--help"), ("hook", "-h")):
        result = subprocess.run(
            [sys.executable, "-m", "cofio", *arguments],
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        assert "Pass a client's event to the service" in result.stdout
