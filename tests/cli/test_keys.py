"""Key commands: create, list, revoke and log, on the store and through a service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cofio import bootstrap
from cofio.client import Client
from cofio.core import Keeper
from cofio.errors import Forbidden, MissingKey, TooManyTries, WrongKey
from cofio.models.auth import Grant, digest
from cofio.settings import Settings
from cofio.testing import HashEmbedder
from tests.cli.conftest import InProcessCli, running_service


def test_create_prints_the_key_once_with_instructions(cofio: InProcessCli) -> None:
    result = cofio("keys", "create", "ada's laptop", "--user", "ada", "--team", "web")
    assert result.exit_code == 0, result.output
    outcome = dict(line.split("\t") for line in result.stdout.splitlines())
    assert outcome["key"].startswith("cofio_")
    assert (outcome["name"], outcome["role"], outcome["for"]) == ("ada's laptop", "write", "user ada, team web")
    assert f"export COFIO_API_KEY={outcome['key']}" in result.stderr
    assert "shown only this once" in result.stderr
    assert "from now on the service requires a key from everyone" in result.stderr
    for again in (("list",), ("log",), ("list", "--json"), ("log", "--json")):
        assert outcome["key"] not in cofio("keys", *again).output
    assert "from now on" not in cofio("keys", "create", "root", "--role", "admin").stderr  # not the first key


def test_create_json_contains_key_and_grant(cofio: InProcessCli) -> None:
    output = cofio.json(
        *("keys", "create", "ci", "--role", "read", "--agent", "ci", "--team", "web"),
        *("--prefix", "ci/web/", "--prefix", "ci/api", "--expires", "90d"),
    )
    secret = output.pop("secret")
    assert secret.startswith(output["hint"])
    [listed] = cofio.json("keys", "list")["keys"]
    assert listed == output
    assert (output["role"], output["agent"], output["team"], output["prefixes"]) == (
        "read",
        "ci",
        "web",
        ["ci/web", "ci/api"],
    )
    in_90_days = datetime.now(UTC) + timedelta(days=90)
    assert abs(datetime.fromisoformat(output["expires_at"]) - in_90_days) < timedelta(minutes=5)
    assert output["created_by"] == "cli"
    with bootstrap.keeper(Settings.load({"home": cofio.home}, {}), embedder=HashEmbedder()) as keeper:
        results = keeper.services.keys.find(digest(secret))
    assert results is not None
    assert results.as_dict() == output


@pytest.mark.parametrize(
    "arguments",
    [("x",), ("",), ("x", "--user", "a", "--role", "owner"), ("x", "--role", "admin", "--prefix", "acme"),
     ("x", "--user", "a", "--prefix", ""), ("x", "--user", "a", "--expires", "soon"),
     ("x", "--user", "a", "--expires", "2020-01-01"), ("x", "--user", "a", "--expires", "0d"), ()],
)  # fmt: skip
def test_invalid_key_is_not_created(cofio: InProcessCli, arguments: tuple[str, ...]) -> None:
    result = cofio("keys", "create", *arguments)
    assert result.exit_code in (1, 2)
    assert result.stderr
    assert cofio.json("keys", "list") == {"keys": []}


def test_key_names_are_unique(cofio: InProcessCli) -> None:
    cofio("keys", "create", "ci", "--agent", "ci")
    result = cofio("keys", "create", "ci", "--agent", "ci")
    assert result.exit_code == 1
    assert "already" in result.stderr


def test_key_is_revoked_by_id_or_name_and_stays_listed(cofio: InProcessCli) -> None:
    for name in ("one", "two", "three"):
        cofio("keys", "create", name, "--user", "ada")
    assert cofio.json("keys", "revoke", "1")["name"] == "one"
    result = cofio("keys", "revoke", "two")
    assert "Key 2 (two) is revoked." in result.stderr
    assert "open to your programs on this machine again" not in result.stderr
    assert "open to your programs on this machine again" in cofio("keys", "revoke", "three").stderr
    assert cofio("keys", "revoke", "two").exit_code == 1  # revoked before
    assert "no key 'four'" in cofio("keys", "revoke", "four").stderr
    states = [line.split("\t")[5].split()[0] for line in cofio.lines("keys", "list")]
    assert states == ["revoked"] * 3


def test_reused_name_refers_to_the_key_in_force(cofio: InProcessCli) -> None:
    cofio("keys", "create", "ci", "--agent", "ci")
    cofio("keys", "revoke", "ci")
    cofio("keys", "create", "ci", "--agent", "ci")
    assert cofio.json("keys", "revoke", "ci")["id"] == 2


def test_list_shows_access_and_state(cofio: InProcessCli) -> None:
    assert "There are no keys" in cofio("keys", "list").stderr
    cofio("keys", "create", "root", "--role", "admin")
    cofio("keys", "create", "ci", "--agent", "ci", "--prefix", "ci/web", "--expires", "2999-01-31")
    ci, root = (line.split("\t") for line in cofio.lines("keys", "list"))
    assert ci[:7] == ["2", "ci", "write", "agent ci", "ci/web", "until 2999-01-31", "never"]
    assert root[:7] == ["1", "root", "admin", "everything", "", "active", "never"]


def test_log_lists_audit_entries(cofio: InProcessCli) -> None:
    assert "audit log is empty" in cofio("keys", "log").stderr
    cofio("keys", "create", "ci", "--agent", "ci")
    cofio("keys", "revoke", "ci")
    lines = [line.split("\t")[1:] for line in cofio.lines("keys", "log")]
    assert lines == [
        ["done", "", "cli", "key revoked", "key 1 (ci)", ""],
        ["done", "", "cli", "key created", "key 1 (ci), write", ""],
    ]
    assert [deed["act"] for deed in cofio.json("keys", "log", "--limit", "1")["entries"]] == ["key revoked"]
    assert cofio.json("keys", "log", "--key", "ci")["entries"] == []  # nothing was done with this key
    assert cofio("keys", "log", "--key", "nobody").exit_code == 1


def test_missing_store_is_an_error(cofio: InProcessCli, tmp_path: Path) -> None:
    result = cofio("keys", "list", "--store", str(tmp_path / "typo.db"))
    assert result.exit_code == 1
    assert "There is no store" in result.stderr


def test_help_has_examples(cofio: InProcessCli) -> None:
    for words in ((), ("create",), ("list",), ("revoke",), ("log",)):
        result = cofio("keys", *words, "--help")
        assert result.exit_code == 0
        assert "Examples:" in result.stdout
    assert "keys" in cofio("--help").stdout


# ── through a service ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def keeper(new_keeper: Callable[[str], Keeper]) -> Keeper:
    return new_keeper("served")


@pytest.fixture
def url(keeper: Keeper) -> Iterator[str]:
    with running_service(keeper, Settings.load({"port": 0, "api_key": "the owner's"}, environ={})) as url:
        yield url


def test_keys_are_created_and_revoked_through_the_named_service(cofio: InProcessCli, url: str) -> None:
    there = {"COFIO_URL": url, "COFIO_API_KEY": "the owner's"}
    output = cofio.json("keys", "create", "ada", "--user", "ada", env=there)
    theirs = {"COFIO_URL": url, "COFIO_API_KEY": output["secret"]}
    assert cofio("add", "Ada likes tea", env=theirs).exit_code == 0
    [line] = cofio.json("keys", "log", "--key", "ada", env=there)["entries"]
    assert (line["act"], line["name"], line["address"]) == ("POST /memory/add-batch", "ada", "127.0.0.1")
    assert [key["name"] for key in cofio.json("keys", "list", env=there)["keys"]] == ["ada"]
    assert cofio.json("keys", "revoke", "ada", env=there)["revoked_at"] is not None
    result = cofio("search", "tea", env=theirs)
    assert result.exit_code == 1
    assert "was revoked on" in result.stderr
    assert "cofio keys create" in result.stderr
    assert not (cofio.home / "cofio.db").exists()


def test_key_errors_are_reported_with_hints(cofio: InProcessCli, url: str, keeper: Keeper) -> None:
    _, secret = keeper.create_key(Grant(name="ci", agent="ci", role="read"))
    for key, code, word in (
        ("", "missing_key", "COFIO_API_KEY"),
        ("guess", "wrong_key", "COFIO_API_KEY"),
        (secret, "forbidden", "--role write"),
    ):
        result = cofio("add", "x", "--json", env={"COFIO_URL": url, "COFIO_API_KEY": key})
        payload = json.loads(result.stderr)["error"]
        assert (result.exit_code, payload["code"]) == (1, code)
        assert word in payload["hint"]
    admin = cofio("keys", "list", env={"COFIO_URL": url, "COFIO_API_KEY": secret})
    assert "role admin" in admin.stderr


def test_status_shows_the_role_or_the_key_problem(cofio: InProcessCli, url: str, keeper: Keeper) -> None:
    key, secret = keeper.create_key(Grant(name="ci", agent="ci", role="read"))
    theirs = {"COFIO_URL": url, "COFIO_API_KEY": secret}
    state = cofio.json("status", env=theirs)
    assert (state["running"], state["key"], state["role"], state["memories"]) == (True, "ok", "read", 0)
    keeper.revoke_key(key.id)
    state = cofio.json("status", env=theirs)
    assert (state["running"], state["key"]) == (True, "wrong")
    assert "revoked" in state["problem"]


def test_client_purges_own_memory_although_history_is_gone(url: str, keeper: Keeper) -> None:
    _, secret = keeper.create_key(Grant(name="ada", user="ada"))
    with Client(url, secret) as ada:
        memory_id = ada.add("A secret of Ada's").memory_id
        deleted = ada.purge(memory_id, by="tester", why="a secret")
    assert (deleted.action, deleted.memory_id, deleted.why, deleted.before) == ("purge", memory_id, "a secret", None)
    assert keeper.list(include_archived=True).memories == ()


def test_client_raises_forbidden(url: str, keeper: Keeper) -> None:
    _, secret = keeper.create_key(Grant(name="ci", agent="ci", role="read"))
    with Client(url, secret) as reader, pytest.raises(Forbidden):
        reader.add("x")
    with Client(url) as nobody, pytest.raises(MissingKey):
        nobody.add("x")
    with Client(url, "guess") as guesser:
        for _ in range(10):
            with pytest.raises(WrongKey):
                guesser.add("x")
        with pytest.raises(TooManyTries):
            guesser.add("x")


def test_local_owner_needs_no_key_for_key_commands(cofio: InProcessCli) -> None:
    settings = Settings.load({"home": cofio.home, "port": 0}, environ={})
    keeper = bootstrap.keeper(settings, embedder=HashEmbedder())
    with keeper, running_service(keeper, settings) as url:
        output = cofio.json("keys", "create", "root", "--role", "admin")
        with Client(url, output["secret"]) as client:
            assert client.health()["auth"] == "ok"
        cofio.json("keys", "revoke", "root")
        assert [deed["act"] for deed in cofio.json("keys", "log")["entries"]] == ["key revoked", "key created"]
