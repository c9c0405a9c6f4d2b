"""Keys on the command line: made, shown once, listed, revoked; on the store itself and through a service."""

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
from tests.cli.conftest import Cofio, served


def test_a_key_is_shown_once_with_how_to_use_it(cofio: Cofio) -> None:
    done = cofio("keys", "create", "ada's laptop", "--user", "ada", "--team", "web")
    assert done.exit_code == 0, done.output
    told = dict(line.split("\t") for line in done.stdout.splitlines())
    assert told["key"].startswith("cofio_")
    assert (told["name"], told["role"], told["for"]) == ("ada's laptop", "write", "user ada, team web")
    assert f"export COFIO_API_KEY={told['key']}" in done.stderr
    assert "shown only this once" in done.stderr
    assert "from now on the service requires a key from everyone" in done.stderr
    for again in (("list",), ("log",), ("list", "--json"), ("log", "--json")):
        assert told["key"] not in cofio("keys", *again).output
    assert "from now on" not in cofio("keys", "create", "root", "--role", "admin").stderr  # not the first


def test_json_has_the_key_too_and_all_that_it_allows(cofio: Cofio) -> None:
    told = cofio.json(
        *("keys", "create", "ci", "--role", "read", "--agent", "ci", "--team", "web"),
        *("--prefix", "ci/web/", "--prefix", "ci/api", "--expires", "90d"),
    )
    secret = told.pop("secret")
    assert secret.startswith(told["hint"])
    [listed] = cofio.json("keys", "list")["keys"]
    assert listed == told
    assert (told["role"], told["agent"], told["team"], told["prefixes"]) == ("read", "ci", "web", ["ci/web", "ci/api"])
    in_90_days = datetime.now(UTC) + timedelta(days=90)
    assert abs(datetime.fromisoformat(told["expires_at"]) - in_90_days) < timedelta(minutes=5)
    assert told["created_by"] == "cli"
    with bootstrap.keeper(Settings.load({"home": cofio.home}, {}), embedder=HashEmbedder()) as keeper:
        found = keeper.services.keys.find(digest(secret))
    assert found is not None
    assert found.as_dict() == told


@pytest.mark.parametrize(
    "arguments",
    [("x",), ("",), ("x", "--user", "a", "--role", "owner"), ("x", "--role", "admin", "--prefix", "acme"),
     ("x", "--user", "a", "--prefix", ""), ("x", "--user", "a", "--expires", "soon"),
     ("x", "--user", "a", "--expires", "2020-01-01"), ("x", "--user", "a", "--expires", "0d"), ()],
)  # fmt: skip
def test_a_key_that_cannot_be_is_not_made(cofio: Cofio, arguments: tuple[str, ...]) -> None:
    done = cofio("keys", "create", *arguments)
    assert done.exit_code in (1, 2)
    assert done.stderr
    assert cofio.json("keys", "list") == {"keys": []}


def test_a_name_is_had_once(cofio: Cofio) -> None:
    cofio("keys", "create", "ci", "--agent", "ci")
    done = cofio("keys", "create", "ci", "--agent", "ci")
    assert done.exit_code == 1
    assert "already" in done.stderr


def test_a_key_is_revoked_by_id_or_by_name_and_stays_in_the_list(cofio: Cofio) -> None:
    for name in ("one", "two", "three"):
        cofio("keys", "create", name, "--user", "ada")
    assert cofio.json("keys", "revoke", "1")["name"] == "one"
    done = cofio("keys", "revoke", "two")
    assert "Key 2 (two) is revoked." in done.stderr
    assert "open to this machine again" not in done.stderr
    assert "open to this machine again" in cofio("keys", "revoke", "three").stderr
    assert cofio("keys", "revoke", "two").exit_code == 1  # revoked before
    assert "no key 'four'" in cofio("keys", "revoke", "four").stderr
    states = [line.split("\t")[5].split()[0] for line in cofio.lines("keys", "list")]
    assert states == ["revoked"] * 3


def test_a_name_that_was_had_before_means_the_key_in_force(cofio: Cofio) -> None:
    cofio("keys", "create", "ci", "--agent", "ci")
    cofio("keys", "revoke", "ci")
    cofio("keys", "create", "ci", "--agent", "ci")
    assert cofio.json("keys", "revoke", "ci")["id"] == 2


def test_the_list_tells_what_each_key_may_and_how_it_stands(cofio: Cofio) -> None:
    assert "There are no keys" in cofio("keys", "list").stderr
    cofio("keys", "create", "root", "--role", "admin")
    cofio("keys", "create", "ci", "--agent", "ci", "--prefix", "ci/web", "--expires", "2999-01-31")
    ci, root = (line.split("\t") for line in cofio.lines("keys", "list"))
    assert ci[:7] == ["2", "ci", "write", "agent ci", "ci/web", "until 2999-01-31", "never"]
    assert root[:7] == ["1", "root", "admin", "everything", "", "active", "never"]


def test_the_log_tells_who_did_what(cofio: Cofio) -> None:
    assert "audit log is empty" in cofio("keys", "log").stderr
    cofio("keys", "create", "ci", "--agent", "ci")
    cofio("keys", "revoke", "ci")
    lines = [line.split("\t")[1:] for line in cofio.lines("keys", "log")]
    assert lines == [
        ["done", "", "cli", "key revoked", "key 1 (ci)", ""],
        ["done", "", "cli", "key created", "key 1 (ci), write", ""],
    ]
    assert [each["act"] for each in cofio.json("keys", "log", "--limit", "1")["entries"]] == ["key revoked"]
    assert cofio.json("keys", "log", "--key", "ci")["entries"] == []  # nothing was done with it
    assert cofio("keys", "log", "--key", "nobody").exit_code == 1


def test_a_store_that_was_named_and_is_not_there_has_no_keys(cofio: Cofio, tmp_path: Path) -> None:
    done = cofio("keys", "list", "--store", str(tmp_path / "typo.db"))
    assert done.exit_code == 1
    assert "There is no store" in done.stderr


def test_help_shows_how(cofio: Cofio) -> None:
    for words in ((), ("create",), ("list",), ("revoke",), ("log",)):
        done = cofio("keys", *words, "--help")
        assert done.exit_code == 0
        assert "Examples:" in done.stdout
    assert "keys" in cofio("--help").stdout


# ── through a service ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def keeper(new_keeper: Callable[[str], Keeper]) -> Keeper:
    return new_keeper("served")


@pytest.fixture
def url(keeper: Keeper) -> Iterator[str]:
    with served(keeper, Settings.load({"port": 0, "api_key": "the owner's"}, environ={})) as url:
        yield url


def test_keys_are_made_and_revoked_through_the_service_that_is_named(cofio: Cofio, url: str) -> None:
    there = {"COFIO_URL": url, "COFIO_API_KEY": "the owner's"}
    made = cofio.json("keys", "create", "ada", "--user", "ada", env=there)
    theirs = {"COFIO_URL": url, "COFIO_API_KEY": made["secret"]}
    assert cofio("add", "Ada likes tea", env=theirs).exit_code == 0
    [line] = cofio.json("keys", "log", "--key", "ada", env=there)["entries"]
    assert (line["act"], line["name"], line["address"]) == ("POST /memory/add-batch", "ada", "127.0.0.1")
    assert [each["name"] for each in cofio.json("keys", "list", env=there)["keys"]] == ["ada"]
    assert cofio.json("keys", "revoke", "ada", env=there)["revoked_at"] is not None
    done = cofio("search", "tea", env=theirs)
    assert done.exit_code == 1
    assert "was revoked on" in done.stderr
    assert "cofio keys create" in done.stderr
    assert not (cofio.home / "cofio.db").exists()


def test_what_is_wrong_with_a_key_is_told_with_what_to_do(cofio: Cofio, url: str, keeper: Keeper) -> None:
    _, secret = keeper.create_key(Grant(name="ci", agent="ci", role="read"))
    for key, code, word in (
        ("", "missing_key", "COFIO_API_KEY"),
        ("guess", "wrong_key", "COFIO_API_KEY"),
        (secret, "forbidden", "--role write"),
    ):
        done = cofio("add", "x", "--json", env={"COFIO_URL": url, "COFIO_API_KEY": key})
        told = json.loads(done.stderr)["error"]
        assert (done.exit_code, told["code"]) == (1, code)
        assert word in told["hint"]
    admin = cofio("keys", "list", env={"COFIO_URL": url, "COFIO_API_KEY": secret})
    assert "role admin" in admin.stderr


def test_status_tells_the_role_of_the_key_and_why_one_is_wrong(cofio: Cofio, url: str, keeper: Keeper) -> None:
    key, secret = keeper.create_key(Grant(name="ci", agent="ci", role="read"))
    theirs = {"COFIO_URL": url, "COFIO_API_KEY": secret}
    state = cofio.json("status", env=theirs)
    assert (state["running"], state["key"], state["role"], state["memories"]) == (True, "ok", "read", 0)
    keeper.revoke_key(key.id)
    state = cofio.json("status", env=theirs)
    assert (state["running"], state["key"]) == (True, "wrong")
    assert "revoked" in state["problem"]


def test_what_is_ones_own_is_purged_with_a_key_though_the_journal_shows_it_no_more(url: str, keeper: Keeper) -> None:
    _, secret = keeper.create_key(Grant(name="ada", user="ada"))
    with Client(url, secret) as ada:
        memory_id = ada.add("A secret of Ada's").memory_id
        gone = ada.purge(memory_id, by="tester", why="a secret")
    assert (gone.action, gone.memory_id, gone.why, gone.before) == ("purge", memory_id, "a secret", None)
    assert keeper.list(include_archived=True).memories == ()


def test_the_client_raises_what_the_service_refuses(url: str, keeper: Keeper) -> None:
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


def test_the_owner_of_a_store_needs_no_key_for_its_keys_though_a_service_runs_beside(cofio: Cofio) -> None:
    settings = Settings.load({"home": cofio.home, "port": 0}, environ={})
    keeper = bootstrap.keeper(settings, embedder=HashEmbedder())
    with keeper, served(keeper, settings) as url:
        made = cofio.json("keys", "create", "root", "--role", "admin")
        with Client(url, made["secret"]) as client:
            assert client.health()["auth"] == "ok"
        cofio.json("keys", "revoke", "root")
        assert [each["act"] for each in cofio.json("keys", "log")["entries"]] == ["key revoked", "key created"]
