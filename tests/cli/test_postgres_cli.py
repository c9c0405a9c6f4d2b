"""The CLI and the service with PostgreSQL; the password must never be visible."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from cofio.client import Client
from cofio.settings import Settings
from tests.cli.conftest import InProcessCli, Shell

PASSWORD = "tops3cret-Zebra"


@pytest.fixture
def address(empty_postgres_url: str) -> Iterator[str]:
    """Yield the URL of a new database whose user has a searchable password. A superuser creates the extension."""
    parts = urlsplit(empty_postgres_url)
    database, role = parts.path[1:], f"role_{parts.path[1:]}"
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute("CREATE EXTENSION vector")
        owner.execute(f"CREATE ROLE \"{role}\" LOGIN PASSWORD '{PASSWORD}'")
        owner.execute(f'ALTER DATABASE "{database}" OWNER TO "{role}"')
    yield parts._replace(netloc=f"{role}:{PASSWORD}@{parts.hostname}:{parts.port}").geturl()
    with psycopg.connect(empty_postgres_url, autocommit=True) as owner:
        owner.execute(f'ALTER DATABASE "{database}" OWNER TO CURRENT_USER')
        owner.execute(f'DROP OWNED BY "{role}" CASCADE')
        owner.execute(f'DROP ROLE "{role}"')


def read_files(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


# ── direct access ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_commands_work_with_postgres(cofio: InProcessCli, address: str, tmp_path: Path) -> None:
    env = {"COFIO_STORE": address}
    assert cofio.json("stats", env=env)["memories"] == 0  # an existing database is an existing store
    assert cofio.json("add", "We deploy to Fly.io, never on a Friday", "Ada likes tea", env=env)["added"] == 2
    assert cofio.json("search", "deploy friday", "-k", "1", env=env)["results"][0]["id"] == 1
    cofio.lines("supersede", "2", "Ada likes coffee", env=env)
    assert [memory["text"] for memory in cofio.json("list", env=env)["memories"]] == [
        "Ada likes coffee",
        "We deploy to Fly.io, never on a Friday",
    ]
    assert len(cofio.json("history", "2", env=env)["changes"]) == 3
    cofio.lines("undo", "--yes", env=env)
    talk = tmp_path / "talk.txt"
    talk.write_text("User: We always use pnpm, never npm.\nAssistant: Noted.\n")
    assert cofio.json("ingest", str(talk), env=env)
    assert "friday" in "".join(cofio.lines("recall", "may I deploy on a friday?", env=env)).lower()
    exported = [json.loads(line) for line in cofio.lines("export", "-", env=env)[1:]]
    assert {memory["text"] for memory in exported} >= {"We deploy to Fly.io, never on a Friday", "Ada likes tea"}
    assert not list(cofio.home.glob("*.db"))  # no data is stored locally


def test_unknown_tenant_is_not_copied(cofio: InProcessCli, address: str, tmp_path: Path) -> None:
    result = cofio("copy", f"{address}?tenant=mistyped", f"sqlite://{tmp_path / 'new.db'}")
    assert result.exit_code == 1
    assert "tenant" in result.output
    assert not (tmp_path / "new.db").exists()


def test_no_command_shows_the_password(cofio: InProcessCli, address: str) -> None:
    env = {"COFIO_STORE": address}
    for words in (("config",), ("config", "--json"), ("status",), ("status", "--json"), ("stats", "--json")):
        result = cofio(*words, env=env)
        assert result.exit_code == 0, result.output
        assert PASSWORD not in result.output
    assert f"{urlsplit(address).username}@127.0.0.1" in cofio("status", env=env).output
    wrong = address.replace(PASSWORD, f"{PASSWORD}-wrong")
    unreachable = address.replace(f":{urlsplit(address).port}/", ":1/")
    for broken in (wrong, unreachable, address.replace("@", "%zz@"), address.replace(PASSWORD, f"{PASSWORD}/#?")):
        result = cofio("list", env={"COFIO_STORE": broken})
        assert result.exit_code == 1
        assert PASSWORD not in result.output
        assert "Traceback" not in result.output
    result = cofio("list", env={"COFIO_STORE": address.replace("postgresql:", "mysql:")})
    assert result.exit_code != 0
    assert PASSWORD not in result.output


def test_backup_commands_report_an_alternative(cofio: InProcessCli, address: str) -> None:
    env = {"COFIO_STORE": address}
    for words in (("backup",), ("backup", "--list"), ("restore", "latest", "--yes")):
        result = cofio(*words, env=env)
        assert result.exit_code == 1
        assert "pg_dump" in result.output
        assert PASSWORD not in result.output
    served = cofio("serve", "--port", "0", env={**env, "BACKUP_SCHEDULE": "0 3 * * *"})
    assert served.exit_code == 1
    assert "pg_dump" in served.output


def test_missing_packages_error_says_what_to_install(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\nfrom cofio.cli import main; sys.argv = ['cofio', 'list']; main()"
    )
    env = {"COFIO_HOME": str(tmp_path), "COFIO_STORE": f"postgresql://ada:{PASSWORD}@127.0.0.1/x", "PATH": os.defpath}
    result = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "pip install 'cofio[postgres]'" in result.stderr
    assert PASSWORD not in result.stderr


# ── through a service ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_service_uses_postgres_without_showing_the_password(shell: Shell, address: str) -> None:
    shell.env["COFIO_STORE"] = address
    output = [json.dumps(up := shell.json("up"))]
    assert up["started"] is True
    assert shell.json("up")["pid"] == up["pid"]
    listing = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"--home {shell.home}" in listing
    assert PASSWORD not in listing
    result = (
        ("add", "We deploy to Fly.io, never on a Friday"),
        ("search", "can I ship this on friday?", "-k", "1"),
        ("supersede", "1", "We deploy to Hetzner, never on a Friday"),
        ("history", "1"),
        ("undo", "--yes"),
        ("status",),
        ("stats",),
    )
    output += [json.dumps(shell.json(*words)) for words in result]
    assert shell.json("list")["memories"][0]["text"] == "We deploy to Fly.io, never on a Friday"
    with Client(up["url"]) as client:
        messages = [{"role": "user", "content": "Please remember: we always use pnpm, never npm."}]
        client.capture(messages, client="claude-code", session="s", turn="t")
        _wait_until(lambda: client.inbox_status().pending == 0)
        assert client.inbox_status().stored == 1
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "h", "prompt": "May I deploy on a friday?"}
    hook = shell.start("hook", "claude-code", stdin=subprocess.PIPE)
    out, _ = hook.communicate(json.dumps({**prompt, "cwd": str(shell.home)}), timeout=60)
    assert "Fly.io" in out
    output += [shell("doctor").stdout, shell("config").stdout]
    exported = shell("export", "-")  # directly on the store although a service is running
    assert "pnpm" in exported.stdout
    assert (shell.home / "hook.at").read_text().splitlines()[3].startswith("postgresql://role_")
    assert PASSWORD not in "".join([*output, exported.stdout, exported.stderr])
    assert [name for name, content in read_files(shell.home).items() if PASSWORD.encode() in content] == []
    assert shell.json("down") == {"stopped": True, "pid": up["pid"]}
    assert not list(shell.home.glob("*.service"))
    assert not (shell.home / "hook.at").exists()


def test_offline_hook_with_postgres_spools_the_event(shell: Shell, address: str) -> None:
    shell.env |= {"COFIO_STORE": address, "COFIO_AUTOSTART": "off"}
    shell.home.mkdir()
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "h", "prompt": "We always use pnpm, never npm."}
    hook = shell.start("hook", "claude-code", stdin=subprocess.PIPE)
    out, _ = hook.communicate(json.dumps({**event, "cwd": str(shell.home)}), timeout=60)
    assert (hook.returncode, out) == (0, "")
    assert not list(shell.home.glob("*.db"))
    assert [name for name, content in read_files(shell.home).items() if PASSWORD.encode() in content] == []


def test_two_homes_can_serve_one_database(tmp_path: Path, address: str) -> None:
    shells = [Shell(tmp_path / name) for name in ("one", "two")]
    serving = []
    try:
        for shell in shells:
            shell.env["COFIO_STORE"] = address
            serving.append(shell.start("serve", "--json"))
        urls = [json.loads(_read_document(item))["url"] for item in serving]
        with Client(urls[0]) as one, Client(urls[1]) as other:
            added = one.add("We deploy to Fly.io, never on a Friday").memory
            assert other.search("deploy on friday")[0].memory.id == added.id
            for number in range(6):
                messages = [{"role": "user", "content": f"Please remember: the port of shop {number} is 80{number}0."}]
                (one, other)[number % 2].capture(messages, client="cc", session=f"s{number}", turn="t")
            _wait_until(lambda: one.inbox_status().pending == 0)
            inbox_status = other.inbox_status()
            assert (inbox_status.captured, inbox_status.pending) == (6, 0)
            texts = [memory.text for memory in one.list(limit=50).memories]
            assert len(texts) == len(set(texts)) >= 6  # nothing was learned twice
    finally:
        for item in serving:
            item.send_signal(signal.SIGINT)
        for item in serving:
            item.communicate(timeout=60)


def _read_document(serving: subprocess.Popen[str]) -> str:
    """Read the JSON document that the process prints when it is ready."""
    assert serving.stdout is not None
    lines = []
    while not lines or not lines[-1].startswith("}"):
        line = serving.stdout.readline()
        assert line, "it ended"
        lines.append(line)
        if line.startswith("{") and line.rstrip().endswith("}"):
            break
    return "".join(lines)


def _wait_until(condition: object) -> None:
    deadline = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.1)


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("store", "name"),
    [
        ("postgresql://ada:pw@db.example/team", "postgresql://ada@db.example/team"),
        ("postgres://ada:pw@db.example:5433/team?tenant=x", "postgresql://ada@db.example:5433/team?tenant=x"),
        ("postgresql://db/team?password=pw", "postgresql://db/team"),
        ("postgresql://db/team?user=ada&password=pw&tenant=x", "postgresql://db/team?user=ada&tenant=x"),
        ("postgresql://db/team?sslpassword=pw&sslmode=require", "postgresql://db/team?sslmode=require"),
        ("postgresql://ada:p/w?#@w@db/team", "postgresql://ada@db/team"),
        ("postgresql://ada:pw@[::1]:5432/team", "postgresql://ada@[::1]:5432/team"),
        ("postgresql:///team", "postgresql:///team"),
    ],
)
def test_store_name_is_the_url_without_password(tmp_path: Path, store: str, name: str) -> None:
    settings = Settings.load({"home": tmp_path, "store": store}, {})
    assert settings.store_name == settings.shown("store") == name
    assert settings.store_file is None
    assert settings.missing_file is None
    assert settings.store == store


def test_store_name_of_a_file_is_its_path(tmp_path: Path) -> None:
    settings = Settings.load({"home": tmp_path, "store": f"sqlite://{tmp_path}/a@b:c.db"}, {})
    assert settings.store_file == settings.missing_file == tmp_path / "a@b:c.db"
    assert settings.store_name == str(tmp_path / "a@b:c.db")
    assert settings.shown("store") == f"sqlite://{tmp_path}/a@b:c.db"
