"""The service in the background: one a store, told by its lock, however it ends."""

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
from tests.cli.conftest import Cofio, Shell

# ── a real service with the real model ────────────────────────────────────────────────────────────────────────────────


def test_a_service_goes_up_tells_its_state_and_goes_down(shell: Shell) -> None:
    assert shell.json("status")["running"] is False
    up = shell.json("up")
    assert up["started"] is True
    state = shell.json("status")
    assert (state["running"], state["answering"], state["key"]) == (True, True, "not needed")
    assert (state["pid"], state["url"], state["memories"]) == (up["pid"], up["url"], 0)
    again = shell.json("up")
    assert (again["started"], again["pid"]) == (False, up["pid"])
    assert "up already" in shell("up").stderr
    assert shell.json("down") == {"stopped": True, "pid": up["pid"]}
    _until(lambda: not _alive(up["pid"]))
    assert not (shell.home / "cofio.db.service").exists()
    assert shell.json("down") == {"stopped": False, "pid": None}
    assert shell.json("status")["running"] is False


@pytest.fixture
def generous() -> Iterator[None]:
    """A mask that lets everybody read whatever is made without a word."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


@pytest.mark.usefixtures("generous")
def test_what_the_service_makes_in_its_home_is_for_its_owner_alone(shell: Shell) -> None:
    shell.json("up")
    shell.json("add", "We deploy with Fly.io")
    found = modes(shell.home)
    assert {"home", "cofio.db", "cofio.db.service", "models"} <= found.keys()
    assert found.pop("hook") == 0o755  # what clients run
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


@pytest.mark.usefixtures("generous")
def test_a_home_that_is_there_keeps_its_mode(shell: Shell) -> None:
    shell.home.mkdir(mode=0o755)
    shell.json("up")
    assert stat.S_IMODE(shell.home.stat().st_mode) == 0o755
    assert stat.S_IMODE((shell.home / "cofio.db.service").stat().st_mode) == 0o600


def test_commands_use_the_service_where_one_runs_and_load_nothing_heavy(shell: Shell) -> None:
    shell.json("up")
    assert shell.json("add", "We deploy with Fly.io", "Ada likes tea")["added"] == 2
    found = shell.json("search", "hosting platform", "-k", "1")["results"][0]
    assert found["text"] == "We deploy with Fly.io"
    assert shell.json("history", "1")["changes"][0]["by"] == "cli"
    with urllib.request.urlopen(shell.json("status")["url"] + "/metrics") as metrics:
        assert 'method="POST",route="/search"' in metrics.read().decode()
    assert _heavy(shell, "search", "hosting", "--json") == set()
    assert _heavy(shell, "search", "hosting") == set()
    refused = shell("reembed")
    assert (refused.returncode, "cofio down" in refused.stderr) == (1, True)


def test_the_first_search_after_the_start_finds_the_model_warm(shell: Shell) -> None:
    shell.json("add", "We deploy with Fly.io")
    with Client(shell.json("up")["url"]) as client:
        deadline = time.monotonic() + 60
        while "onnx" not in _loaded_files(shell.json("status")["pid"]):
            assert time.monotonic() < deadline, "nothing loads the model before the first search"
            time.sleep(0.1)
        assert client.stats()["retrievals"] == 0


def test_two_ups_at_once_end_with_one_instance(shell: Shell) -> None:
    starting = [shell.start("up", "--json") for _ in range(3)]
    told = []
    for each in starting:
        output, errors = each.communicate(timeout=120)
        assert each.returncode == 0, errors
        told.append(json.loads(output))
    assert len({each["pid"] for each in told}) == 1
    assert sum(each["started"] for each in told) == 1
    shell.json("down")
    time.sleep(1.5)  # longer than a late one would wait for the lock
    assert shell.json("status")["running"] is False


def test_two_stores_have_two_services(shell: Shell, tmp_path: Path) -> None:
    other = ("--store", str(tmp_path / "other.db"))
    one, two = shell.json("up"), shell.json(*other, "up")
    try:
        assert one["pid"] != two["pid"]
        shell.json(*other, "add", "only here")
        assert (shell.json("stats")["memories"], shell.json(*other, "stats")["memories"]) == (0, 1)
        assert shell.json("down")["pid"] == one["pid"]
        assert shell.json(*other, "status")["running"] is True
    finally:
        shell(*other, "down", "--force")


def test_a_port_that_is_taken_is_told_by_up(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = shell("up", "--port", str(port))
    assert done.returncode == 1
    assert str(port) in done.stderr
    assert "in use" in done.stderr
    assert "service.log" in done.stderr
    assert "Traceback" not in done.stderr
    assert shell.json("status")["running"] is False
    assert shell.json("up")["started"] is True


def test_after_a_kill_nothing_runs_and_it_can_go_up_again(shell: Shell) -> None:
    first = shell.json("up")["pid"]
    os.kill(first, signal.SIGKILL)
    assert (shell.home / "cofio.db.service").exists()
    _until(lambda: shell.json("status")["running"] is False)
    assert shell.json("down")["stopped"] is False
    second = shell.json("up")
    assert (second["started"], second["pid"] != first) == (True, True)


def test_a_second_serve_is_refused_with_the_first_ones_address(shell: Shell) -> None:
    up = shell.json("up")
    done = shell("serve")
    assert done.returncode == 1
    assert up["url"] in done.stderr
    assert str(up["pid"]) in done.stderr
    assert shell.json("status")["pid"] == up["pid"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_in_order_when_it_is_told_to(shell: Shell, number: signal.Signals) -> None:
    serving = shell.start("serve", "--json")
    assert serving.stdout is not None
    told = json.loads(serving.stdout.readline())
    assert told["pid"] == serving.pid
    assert shell.json("status")["url"] == told["url"]
    serving.send_signal(number)
    _, errors = serving.communicate(timeout=60)
    assert (serving.returncode, "Traceback" in errors) == (0, False)
    assert not (shell.home / "cofio.db.service").exists()


def test_the_key_is_kept_off_the_command_line_and_its_state_is_told(shell: Shell) -> None:
    up = shell.json("--api-key", "right-key", "up")
    listed = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(up["pid"])], capture_output=True, text=True, check=True
    )
    assert "serve" in listed.stdout
    assert "right-key" not in listed.stdout
    assert shell.json("--api-key", "right-key", "status")["key"] == "ok"
    assert shell.json("--api-key", "wrong-key", "status")["key"] == "wrong"
    missing = shell.json("status")
    assert (missing["key"], missing["running"], missing["memories"]) == ("missing", True, None)
    refused = shell("list", "--json")
    assert (refused.returncode, json.loads(refused.stderr)["error"]["code"]) == (1, "missing_key")
    by_url = shell.json("--url", up["url"], "--api-key", "right-key", "status")
    assert (by_url["running"], by_url["key"], by_url["pid"]) == (True, "ok", None)


# ── locks that something else holds ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"home": tmp_path}, environ={})


@contextmanager
def _held(settings: Settings, **about: object) -> Iterator[None]:
    """The lock, held by this process, with something written into it."""
    with daemon.lock_path(settings).open("w") as file:
        json.dump(about, file)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_a_pid_whose_lock_is_not_held_is_never_signalled(settings: Settings) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        daemon.lock_path(settings).write_text(json.dumps({"pid": bystander.pid, "url": "http://127.0.0.1:1"}))
        assert daemon.find(settings) is None
        assert daemon.down(settings, force=True) is None
        assert bystander.poll() is None
        bystander.kill()


def test_a_service_of_another_machine_is_not_signalled(settings: Settings) -> None:
    with _held(settings, pid=os.getpid(), url="http://127.0.0.1:1", host="elsewhere"):
        with pytest.raises(Denied, match="elsewhere"):
            daemon.down(settings)
        assert daemon.status(settings)["running"] is True


def test_a_holder_that_has_not_said_who_it_is_is_not_signalled(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "_STOP_SECONDS", 0.3)
    with _held(settings), pytest.raises(Unavailable, match="locked by an unknown process"):
        daemon.down(settings)


def test_a_service_that_does_not_stop_is_killed_only_when_forced(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_looking_at_the_lock_is_not_in_the_way_of_taking_it(settings: Settings) -> None:
    path = daemon.lock_path(settings)
    path.touch()
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        gone = threading.Timer(0.05, fcntl.flock, (looking, fcntl.LOCK_UN))
        gone.start()
        with daemon._hold_lock(settings) as hold:
            assert hold("http://127.0.0.1:1").pid == os.getpid()
            assert daemon.find(settings) is not None
        gone.join()
    assert daemon.find(settings) is None


def test_a_store_reached_by_a_link_is_the_same_store(settings: Settings, tmp_path: Path) -> None:
    settings.store_path.touch()
    (tmp_path / "link.db").symlink_to(settings.store_path)
    linked = Settings.load({"home": tmp_path, "store": str(tmp_path / "link.db")}, environ={})
    assert daemon.lock_path(linked) == daemon.lock_path(settings)


def test_a_service_that_runs_but_does_not_answer_is_told(settings: Settings) -> None:
    with _held(settings, pid=os.getpid(), url="http://127.0.0.1:1", version="0.1", started_at="2026-01-01T00:00:00Z"):
        state = daemon.status(settings)
    assert (state["running"], state["answering"]) == (True, False)
    assert "http://127.0.0.1:1" in state["problem"]


def test_a_service_that_is_still_starting_is_not_asked(cofio: Cofio) -> None:
    cofio.lines("add", "We deploy with Fly.io")
    with _held(Settings.load({"home": cofio.home}, environ={}), pid=os.getpid(), url=""):
        assert cofio.json("list")["total"] == 1


def test_a_full_log_is_put_aside(settings: Settings) -> None:
    log = daemon.log_path(settings)
    log.write_bytes(b"x" * (5 * 1024 * 1024 + 1))
    assert daemon._open_log(log) == 0
    assert log.with_name("service.log.1").stat().st_size > 5 * 1024 * 1024
    assert log.stat().st_mode & 0o077 == 0


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def _loaded_files(pid: int) -> str:
    maps = Path(f"/proc/{pid}/maps")
    if not maps.exists():
        pytest.skip("needs /proc to look into another process")
    return maps.read_text()


def _heavy(shell: Shell, *arguments: str) -> set[str]:
    """Which of the heavy packages a command loads."""
    command = [sys.executable, "-X", "importtime", "-m", "cofio", *arguments]
    done = subprocess.run(command, env=shell.env, capture_output=True, text=True, check=True)
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    return names & {"numpy", "onnxruntime", "rich", "uvicorn", "starlette", "msgspec"}


class _Silent(http.server.BaseHTTPRequestHandler):
    """A provider that takes a question and does not answer it."""

    asked = threading.Event()

    def do_POST(self) -> None:
        self.asked.set()
        time.sleep(90)

    def log_message(self, *_: object) -> None: ...


def test_the_process_ends_although_somebody_waits_for_a_model(shell: Shell) -> None:
    provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Silent)
    provider.daemon_threads = True
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{provider.server_port}/v1"
    shell.env |= {"EXTRACT_PROVIDER": "openai", "EXTRACT_URL": url, "EXTRACT_MODEL": "silent"}
    service = shell.start("serve", "--json")
    try:
        assert service.stdout
        client = Client(json.loads(service.stdout.readline())["url"], timeout=60)
        said = "Our team decided to adopt microservices for scalability"
        threading.Thread(target=lambda: suppressed(client, said), daemon=True).start()
        assert _Silent.asked.wait(30)
        service.terminate()
        service.communicate(timeout=45)  # the provider would keep it for 90 seconds
        assert service.returncode == 0
    finally:
        service.kill()
        provider.shutdown()
        provider.server_close()
    assert shell.json("inbox")["pending"] == 1


def suppressed(client: Client, said: str) -> None:
    with contextlib.suppress(CofioError):
        client.capture(said, wait=True)


def test_up_starts_nothing_beside_a_service_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        daemon.up(Settings.load({"home": str(tmp_path), "url": "http://memory.example:8900"}, {}))
    assert "memory.example" in caught.value.message
    assert not list(tmp_path.iterdir())
