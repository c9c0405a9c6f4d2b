"""The command line and the service on a real PostgreSQL; and the password, which is nowhere to be seen."""

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
from tests.cli.conftest import Cofio, Shell

PASSWORD = "tops3cret-Zebra"


@pytest.fixture
def address(empty_postgres_url: str) -> Iterator[str]:
    """A new database of a user with a password that is easy to find; a superuser has made the extension."""
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


def said_by_files(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


# ── directly ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_commands_work_on_the_database_itself(cofio: Cofio, address: str, tmp_path: Path) -> None:
    env = {"COFIO_STORE": address}
    assert cofio.json("stats", env=env)["memories"] == 0  # a database that is there is a store that is there
    assert cofio.json("add", "We deploy to Fly.io, never on a Friday", "Ada likes tea", env=env)["added"] == 2
    assert cofio.json("search", "deploy friday", "-k", "1", env=env)["results"][0]["id"] == 1
    cofio.lines("supersede", "2", "Ada likes coffee", env=env)
    assert [each["text"] for each in cofio.json("list", env=env)["memories"]] == [
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
    assert {each["text"] for each in exported} >= {"We deploy to Fly.io, never on a Friday", "Ada likes tea"}
    assert not list(cofio.home.glob("*.db"))  # nothing is kept here


def test_a_tenant_that_is_not_there_is_not_copied_from(cofio: Cofio, address: str, tmp_path: Path) -> None:
    done = cofio("copy", f"{address}?tenant=mistyped", f"sqlite://{tmp_path / 'new.db'}")
    assert done.exit_code == 1
    assert "tenant" in done.output
    assert not (tmp_path / "new.db").exists()


def test_no_command_shows_the_password(cofio: Cofio, address: str) -> None:
    env = {"COFIO_STORE": address}
    for words in (("config",), ("config", "--json"), ("status",), ("status", "--json"), ("stats", "--json")):
        done = cofio(*words, env=env)
        assert done.exit_code == 0, done.output
        assert PASSWORD not in done.output
    assert f"{urlsplit(address).username}@127.0.0.1" in cofio("status", env=env).output
    wrong = address.replace(PASSWORD, f"{PASSWORD}-wrong")
    unreachable = address.replace(f":{urlsplit(address).port}/", ":1/")
    for broken in (wrong, unreachable, address.replace("@", "%zz@"), address.replace(PASSWORD, f"{PASSWORD}/#?")):
        done = cofio("list", env={"COFIO_STORE": broken})
        assert done.exit_code == 1
        assert PASSWORD not in done.output
        assert "Traceback" not in done.output
    done = cofio("list", env={"COFIO_STORE": address.replace("postgresql:", "mysql:")})
    assert done.exit_code != 0
    assert PASSWORD not in done.output


def test_what_needs_a_file_says_what_to_do_instead(cofio: Cofio, address: str) -> None:
    env = {"COFIO_STORE": address}
    for words in (("backup",), ("backup", "--list"), ("restore", "latest", "--yes")):
        done = cofio(*words, env=env)
        assert done.exit_code == 1
        assert "pg_dump" in done.output
        assert PASSWORD not in done.output
    served = cofio("serve", "--port", "0", env={**env, "BACKUP_SCHEDULE": "0 3 * * *"})
    assert served.exit_code == 1
    assert "pg_dump" in served.output


def test_without_the_packages_it_says_what_to_install(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\nfrom cofio.cli import main; sys.argv = ['cofio', 'list']; main()"
    )
    env = {"COFIO_HOME": str(tmp_path), "COFIO_STORE": f"postgresql://ada:{PASSWORD}@127.0.0.1/x", "PATH": os.defpath}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'cofio[postgres]'" in done.stderr
    assert PASSWORD not in done.stderr


# ── through a service ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_service_serves_the_database_and_nobody_reads_the_password(shell: Shell, address: str) -> None:
    shell.env["COFIO_STORE"] = address
    told = [json.dumps(up := shell.json("up"))]
    assert up["started"] is True
    assert shell.json("up")["pid"] == up["pid"]
    listed = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"--home {shell.home}" in listed
    assert PASSWORD not in listed
    done = (
        ("add", "We deploy to Fly.io, never on a Friday"),
        ("search", "can I ship this on friday?", "-k", "1"),
        ("supersede", "1", "We deploy to Hetzner, never on a Friday"),
        ("history", "1"),
        ("undo", "--yes"),
        ("status",),
        ("stats",),
    )
    told += [json.dumps(shell.json(*words)) for words in done]
    assert shell.json("list")["memories"][0]["text"] == "We deploy to Fly.io, never on a Friday"
    with Client(up["url"]) as client:
        messages = [{"role": "user", "content": "Please remember: we always use pnpm, never npm."}]
        client.capture(messages, client="claude-code", session="s", turn="t")
        _until(lambda: client.inbox_status().pending == 0)
        assert client.inbox_status().stored == 1
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "h", "prompt": "May I deploy on a friday?"}
    hook = shell.start("hook", "claude-code", stdin=subprocess.PIPE)
    out, _ = hook.communicate(json.dumps({**prompt, "cwd": str(shell.home)}), timeout=60)
    assert "Fly.io" in out
    told += [shell("doctor").stdout, shell("config").stdout]
    exported = shell("export", "-")  # on the store itself, though a service serves it
    assert "pnpm" in exported.stdout
    assert (shell.home / "hook.at").read_text().splitlines()[3].startswith("postgresql://role_")
    assert PASSWORD not in "".join([*told, exported.stdout, exported.stderr])
    assert [name for name, content in said_by_files(shell.home).items() if PASSWORD.encode() in content] == []
    assert shell.json("down") == {"stopped": True, "pid": up["pid"]}
    assert not list(shell.home.glob("*.service"))
    assert not (shell.home / "hook.at").exists()


def test_a_hook_without_its_service_reads_no_file_and_keeps_what_was_said(shell: Shell, address: str) -> None:
    shell.env |= {"COFIO_STORE": address, "COFIO_AUTOSTART": "off"}
    shell.home.mkdir()
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "h", "prompt": "We always use pnpm, never npm."}
    hook = shell.start("hook", "claude-code", stdin=subprocess.PIPE)
    out, _ = hook.communicate(json.dumps({**event, "cwd": str(shell.home)}), timeout=60)
    assert (hook.returncode, out) == (0, "")
    assert not list(shell.home.glob("*.db"))
    assert [name for name, content in said_by_files(shell.home).items() if PASSWORD.encode() in content] == []


def test_two_homes_may_serve_one_database(tmp_path: Path, address: str) -> None:
    shells = [Shell(tmp_path / name) for name in ("one", "two")]
    serving = []
    try:
        for shell in shells:
            shell.env["COFIO_STORE"] = address
            serving.append(shell.start("serve", "--json"))
        urls = [json.loads(_document(each))["url"] for each in serving]
        with Client(urls[0]) as one, Client(urls[1]) as other:
            added = one.add("We deploy to Fly.io, never on a Friday").memory
            assert other.search("deploy on friday")[0].memory.id == added.id
            for number in range(6):
                messages = [{"role": "user", "content": f"Please remember: the port of shop {number} is 80{number}0."}]
                (one, other)[number % 2].capture(messages, client="cc", session=f"s{number}", turn="t")
            _until(lambda: one.inbox_status().pending == 0)
            inbox_status = other.inbox_status()
            assert (inbox_status.captured, inbox_status.pending) == (6, 0)
            texts = [memory.text for memory in one.list(limit=50).memories]
            assert len(texts) == len(set(texts)) >= 6  # nothing was learned twice
    finally:
        for each in serving:
            each.send_signal(signal.SIGINT)
        for each in serving:
            each.communicate(timeout=60)


def _document(serving: subprocess.Popen[str]) -> str:
    """The JSON document that it says once it is there."""
    assert serving.stdout is not None
    lines = []
    while not lines or not lines[-1].startswith("}"):
        line = serving.stdout.readline()
        assert line, "it ended"
        lines.append(line)
        if line.startswith("{") and line.rstrip().endswith("}"):
            break
    return "".join(lines)


def _until(true: object) -> None:
    deadline = time.monotonic() + 60
    while not true():  # type: ignore[operator]
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
def test_a_server_is_known_by_its_address_without_the_password(tmp_path: Path, store: str, name: str) -> None:
    settings = Settings.load({"home": tmp_path, "store": store}, {})
    assert settings.store_name == settings.shown("store") == name
    assert settings.store_file is None
    assert settings.missing_file is None
    assert settings.store == store


def test_a_file_is_known_by_its_path(tmp_path: Path) -> None:
    settings = Settings.load({"home": tmp_path, "store": f"sqlite://{tmp_path}/a@b:c.db"}, {})
    assert settings.store_file == settings.missing_file == tmp_path / "a@b:c.db"
    assert settings.store_name == str(tmp_path / "a@b:c.db")
    assert settings.shown("store") == f"sqlite://{tmp_path}/a@b:c.db"
