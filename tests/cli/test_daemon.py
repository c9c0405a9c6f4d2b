"""The background service: one per store, identified by its lock file."""

from __future__ import annotations

import contextlib
import fcntl
import http.server
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cofio.client import Client
from cofio.errors import CofioError, Denied, Misconfigured, Unavailable
from cofio.server import daemon
from cofio.settings import Settings
from tests.cli.conftest import InProcessCli, Shell

# ── real service with the real model ──────────────────────────────────────────────────────────────────────────────────


def test_up_status_and_down(shell: Shell) -> None:
    assert shell.json("status")["running"] is False
    up = shell.json("up")
    assert up["started"] is True
    state = shell.json("status")
    assert (state["running"], state["answering"], state["key"]) == (True, True, "not needed")
    assert (state["pid"], state["url"], state["memories"]) == (up["pid"], up["url"], 0)
    repeated = shell.json("up")
    assert (repeated["started"], repeated["pid"]) == (False, up["pid"])
    assert "already running" in shell("up").stderr
    assert shell.json("down") == {"stopped": True, "pid": up["pid"]}
    _wait_until(lambda: not _is_alive(up["pid"]))
    assert not (shell.home / "cofio.db.service").exists()
    assert shell.json("down") == {"stopped": False, "pid": None}
    assert shell.json("status")["running"] is False


@pytest.fixture
def permissive_umask() -> Iterator[None]:
    """Set a umask that makes new files readable by everybody."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def file_modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


@pytest.mark.usefixtures("permissive_umask")
def test_files_of_the_service_are_private(shell: Shell) -> None:
    shell.json("up")
    shell.json("add", "We deploy with Fly.io")
    results = file_modes(shell.home)
    assert {"home", "cofio.db", "cofio.db.service", "models"} <= results.keys()
    assert results.pop("hook") == 0o755  # clients execute these
    assert {name: oct(mode) for name, mode in results.items() if mode & 0o077} == {}


@pytest.mark.usefixtures("permissive_umask")
def test_existing_home_keeps_its_mode(shell: Shell) -> None:
    shell.home.mkdir(mode=0o755)
    shell.json("up")
    assert stat.S_IMODE(shell.home.stat().st_mode) == 0o755
    assert stat.S_IMODE((shell.home / "cofio.db.service").stat().st_mode) == 0o600


def test_commands_use_the_running_service_without_heavy_imports(shell: Shell) -> None:
    shell.json("up")
    assert shell.json("add", "We deploy with Fly.io", "Ada likes tea")["added"] == 2
    output = shell.json("search", "hosting platform", "-k", "1")["results"][0]
    assert output["text"] == "We deploy with Fly.io"
    assert shell.json("history", "1")["changes"][0]["by"] == "cli"
    with urllib.request.urlopen(shell.json("status")["url"] + "/metrics") as metrics:
        assert 'method="POST",route="/search"' in metrics.read().decode()
    assert _heavy_imports(shell, "search", "hosting", "--json") == set()
    assert _heavy_imports(shell, "search", "hosting") == set()
    refused = shell("reembed")
    assert (refused.returncode, "cofio down" in refused.stderr) == (1, True)


def test_first_search_after_start_finds_the_model_loaded(shell: Shell) -> None:
    shell.json("add", "We deploy with Fly.io")
    with Client(shell.json("up")["url"]) as client:
        deadline = time.monotonic() + 60
        while "onnx" not in _loaded_files(shell.json("status")["pid"]):
            assert time.monotonic() < deadline, "nothing loads the model before the first search"
            time.sleep(0.1)
        assert client.stats()["retrievals"] == 0


def test_concurrent_ups_start_one_service(shell: Shell) -> None:
    starting = [shell.start("up", "--json") for _ in range(3)]
    result = []
    for item in starting:
        output, errors = item.communicate(timeout=120)
        assert item.returncode == 0, errors
        result.append(json.loads(output))
    assert len({item["pid"] for item in result}) == 1
    assert sum(item["started"] for item in result) == 1
    shell.json("down")
    time.sleep(1.5)  # longer than a late one would wait for the lock
    assert shell.json("status")["running"] is False


def test_two_stores_have_two_services(shell: Shell, tmp_path: Path) -> None:
    other = ("--store", str(tmp_path / "other.db"))
    first, second = shell.json("up"), shell.json(*other, "up")
    try:
        assert first["pid"] != second["pid"]
        shell.json(*other, "add", "only here")
        assert (shell.json("stats")["memories"], shell.json(*other, "stats")["memories"]) == (0, 1)
        assert shell.json("down")["pid"] == first["pid"]
        assert shell.json(*other, "status")["running"] is True
    finally:
        shell(*other, "down", "--force")


def test_up_reports_a_port_in_use(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = shell("up", "--port", str(port))
    assert result.returncode == 1
    assert str(port) in result.stderr
    assert "in use" in result.stderr
    assert "service.log" in result.stderr
    assert "Traceback" not in result.stderr
    assert shell.json("status")["running"] is False
    assert shell.json("up")["started"] is True


def test_service_can_be_restarted_after_a_kill(shell: Shell) -> None:
    first = shell.json("up")["pid"]
    os.kill(first, signal.SIGKILL)
    assert (shell.home / "cofio.db.service").exists()
    _wait_until(lambda: shell.json("status")["running"] is False)
    assert shell.json("down")["stopped"] is False
    second = shell.json("up")
    assert (second["started"], second["pid"] != first) == (True, True)


def test_second_serve_is_rejected_with_url_of_the_first(shell: Shell) -> None:
    up = shell.json("up")
    result = shell("serve")
    assert result.returncode == 1
    assert up["url"] in result.stderr
    assert str(up["pid"]) in result.stderr
    assert shell.json("status")["pid"] == up["pid"]


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_serve_stops_cleanly_on_signal(shell: Shell, signal_number: signal.Signals) -> None:
    serving = shell.start("serve", "--json")
    assert serving.stdout is not None
    payload = json.loads(serving.stdout.readline())
    assert payload["pid"] == serving.pid
    assert shell.json("status")["url"] == payload["url"]
    serving.send_signal(signal_number)
    _, errors = serving.communicate(timeout=60)
    assert (serving.returncode, "Traceback" in errors) == (0, False)
    assert not (shell.home / "cofio.db.service").exists()


def test_api_key_is_not_on_the_command_line(shell: Shell) -> None:
    up = shell.json("--api-key", "right-key", "up")
    listing = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(up["pid"])], capture_output=True, text=True, check=True
    )
    assert "serve" in listing.stdout
    assert "right-key" not in listing.stdout
    assert shell.json("--api-key", "right-key", "status")["key"] == "ok"
    assert shell.json("--api-key", "wrong-key", "status")["key"] == "wrong"
    by_home_key = shell.json("status")
    assert (by_home_key["key"], by_home_key["role"], by_home_key["memories"]) == ("ok", "admin", 0)
    (shell.home / "service.key").unlink()
    missing = shell.json("status")
    assert (missing["key"], missing["running"], missing["memories"]) == ("missing", True, None)
    refused = shell("list", "--json")
    assert (refused.returncode, json.loads(refused.stderr)["error"]["code"]) == (1, "missing_key")
    by_url = shell.json("--url", up["url"], "--api-key", "right-key", "status")
    assert (by_url["running"], by_url["key"], by_url["pid"]) == (True, "ok", None)


# ── locks held by other processes ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"home": tmp_path}, environ={})


@contextmanager
def _hold_lock(settings: Settings, **about: object) -> Iterator[None]:
    """Hold the lock in this process with the given content."""
    with daemon.lock_path(settings).open("w") as file:
        json.dump(about, file)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_process_without_the_lock_is_never_signalled(settings: Settings) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        daemon.lock_path(settings).write_text(json.dumps({"pid": bystander.pid, "url": "http://127.0.0.1:1"}))
        assert daemon.find(settings) is None
        assert daemon.down(settings, force=True) is None
        assert bystander.poll() is None
        bystander.kill()


def test_service_of_another_host_is_not_signalled(settings: Settings) -> None:
    with _hold_lock(settings, pid=os.getpid(), url="http://127.0.0.1:1", host="elsewhere"):
        with pytest.raises(Denied, match="elsewhere"):
            daemon.down(settings)
        assert daemon.status(settings)["running"] is True


def test_lock_holder_without_pid_is_not_signalled(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_STOP_SECONDS", 0.3)
    with _hold_lock(settings), pytest.raises(Unavailable, match="locked by an unknown process"):
        daemon.down(settings)


def test_unresponsive_service_is_killed_only_with_force(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_STOP_SECONDS", 0.5)
    program = (
        "import sys, time, signal; from cofio.server import daemon; from cofio.settings import Settings\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "with daemon._hold_lock(Settings.load({'home': sys.argv[1]}, environ={})) as hold:\n"
        "    hold('http://127.0.0.1:1'); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(settings.home)], stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        assert stubborn.stdout.readline() == b"held\n"
        with pytest.raises(Unavailable, match="has not stopped"):
            daemon.down(settings)
        assert stubborn.poll() is None
        stopped = daemon.down(settings, force=True)
        assert stopped is not None
        assert stubborn.wait(10) == -signal.SIGKILL
    assert daemon.find(settings) is None


def test_reading_the_lock_does_not_block_acquiring_it(settings: Settings) -> None:
    path = daemon.lock_path(settings)
    path.touch()
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        deleted = threading.Timer(0.05, fcntl.flock, (looking, fcntl.LOCK_UN))
        deleted.start()
        with daemon._hold_lock(settings) as hold:
            assert hold("http://127.0.0.1:1").pid == os.getpid()
            assert daemon.find(settings) is not None
        deleted.join()
    assert daemon.find(settings) is None


def test_symbolic_link_to_the_store_is_the_same_store(settings: Settings, tmp_path: Path) -> None:
    settings.store_path.touch()
    (tmp_path / "link.db").symlink_to(settings.store_path)
    linked = Settings.load({"home": tmp_path, "store": str(tmp_path / "link.db")}, environ={})
    assert daemon.lock_path(linked) == daemon.lock_path(settings)


def test_unresponsive_service_is_reported(settings: Settings) -> None:
    with _hold_lock(
        settings, pid=os.getpid(), url="http://127.0.0.1:1", version="0.1", started_at="2026-01-01T00:00:00Z"
    ):
        state = daemon.status(settings)
    assert (state["running"], state["answering"]) == (True, False)
    assert "http://127.0.0.1:1" in state["problem"]


def test_starting_service_is_not_used(cofio: InProcessCli) -> None:
    cofio.lines("add", "We deploy with Fly.io")
    with _hold_lock(Settings.load({"home": cofio.home}, environ={}), pid=os.getpid(), url=""):
        assert cofio.json("list")["total"] == 1


def test_full_log_is_rotated(settings: Settings) -> None:
    log = daemon.log_path(settings)
    log.write_bytes(b"x" * (5 * 1024 * 1024 + 1))
    assert daemon._open_log(log) == 0
    assert log.with_name("service.log.1").stat().st_size > 5 * 1024 * 1024
    assert log.stat().st_mode & 0o077 == 0


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _is_alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def _loaded_files(pid: int) -> str:
    maps = Path(f"/proc/{pid}/maps")
    if not maps.exists():
        pytest.skip("needs /proc to look into another process")
    return maps.read_text()


def _heavy_imports(shell: Shell, *arguments: str) -> set[str]:
    """Return the heavy packages that a command loads."""
    command = [sys.executable, "-X", "importtime", "-m", "cofio", *arguments]
    result = subprocess.run(command, env=shell.env, capture_output=True, text=True, check=True)
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    return names & {"numpy", "onnxruntime", "rich", "uvicorn", "starlette", "msgspec"}


class _SilentProvider(http.server.BaseHTTPRequestHandler):
    """A provider that accepts a request and does not respond."""

    requested = threading.Event()

    def do_POST(self) -> None:
        self.requested.set()
        time.sleep(90)

    def log_message(self, *_: object) -> None: ...


def test_service_stops_during_an_llm_call(shell: Shell) -> None:
    provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _SilentProvider)
    provider.daemon_threads = True
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{provider.server_port}/v1"
    shell.env |= {"EXTRACT_PROVIDER": "openai", "EXTRACT_URL": url, "EXTRACT_MODEL": "silent"}
    service = shell.start("serve", "--json")
    try:
        assert service.stdout
        client = Client(json.loads(service.stdout.readline())["url"], timeout=60)
        text = "Our team decided to adopt microservices for scalability"
        threading.Thread(target=lambda: capture_ignoring_errors(client, text), daemon=True).start()
        assert _SilentProvider.requested.wait(30)
        service.terminate()
        service.communicate(timeout=45)  # the provider would take 90 seconds
        assert service.returncode == 0
    finally:
        service.kill()
        provider.shutdown()
        provider.server_close()
    assert shell.json("inbox")["pending"] == 1


def capture_ignoring_errors(client: Client, text: str) -> None:
    with contextlib.suppress(CofioError):
        client.capture(text, wait=True)


def test_up_does_not_start_a_service_when_a_remote_one_is_configured(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as error_info:
        daemon.up(Settings.load({"home": str(tmp_path), "url": "http://memory.example:8900"}, {}))
    assert "memory.example" in error_info.value.message
    assert not list(tmp_path.iterdir())
