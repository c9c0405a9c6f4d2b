"""The service about itself: its settings with where each comes from, and the doctor. No secret leaves it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Forbidden, Unavailable
from cofio.install import doctor
from cofio.models.auth import Grant
from cofio.models.diagnostics import Check, Doctor
from cofio.server.http.context import RequestContext
from cofio.server.http.handlers.settings import GROUPS, examine, show_settings
from cofio.server.http.requests import DoctorRequest
from cofio.settings import Settings, settable, write
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.cli.conftest import VARIABLES
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving


class Silent(HashEmbedder):
    """An embedder whose provider is down."""

    def embed(self, texts: Sequence[str], role: Any) -> Any:
        raise Unavailable("The provider does not answer.", "Try again in a moment.")


SECRETS = [each.name for each in settable() if each.metadata["secret"]]
URLS = [each.name for each in settable() if each.name.endswith("url")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that nothing of this machine tells of."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    folder = tmp_path / ".cofio"
    folder.mkdir()
    return folder


Start = Callable[..., Caller]


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Serves with these settings; the store is in the home."""
    with ExitStack() as stack:

        def started(known: Settings, embedder: Any = None, doctor: Doctor | None = None) -> Caller:
            clock = FixedClock()
            keeper = Keeper(SqliteStore(home / "cofio.db", clock), embedder or HashEmbedder(), clock)
            given = {each.name: getattr(known, each.name) for each in settable()}
            origins = {**known.origins, "port": "flag"}
            stack.enter_context(keeper)
            url = stack.enter_context(serving(keeper, doctor=doctor, **{**given, "port": 0, "origins": origins}))
            return Caller(url, {"X-API-Key": known.api_key} if known.api_key else {})

        yield started


def told(service: Caller) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in service.get("/settings").json["settings"]}


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_setting_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(each.name for each in settable())
    assert len(grouped) == len(set(grouped))


def test_every_setting_is_told_with_its_value_and_where_that_comes_from(
    home: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "inbox_days", "7")
    write(home, "maintenance_enabled", "true")
    monkeypatch.setenv("EXTRACT_TIMEOUT", "12.5")
    service = start(Settings.load({"home": home, "recall_min_score": 0.5}))
    answer = service.get("/settings").json
    assert (answer["file"], answer["there"], answer["problem"]) == (str(home / "config.toml"), True, "")
    known = told(service)
    assert len(known) == len(settable())
    found = {name: (known[name]["value"], known[name]["origin"]) for name in known}
    assert found["inbox_days"] == (7, str(home / "config.toml"))
    assert found["maintenance_enabled"] == (True, str(home / "config.toml"))
    assert found["extract_timeout"] == (12.5, "EXTRACT_TIMEOUT")
    assert found["recall_min_score"] == (0.5, "flag")
    assert found["hook_recall_timeout_ms"] == (800, "default")
    assert known["inbox_days"] | {"says": ""} == {
        "name": "inbox_days", "group": "Learning", "variables": ["COFIO_INBOX_DAYS"], "says": "", "value": 7,
        "default": 30, "origin": str(home / "config.toml"), "secret": False, "line": "inbox_days = 7", "waits": False,
    }  # fmt: skip
    assert known["maintenance_enabled"]["line"] == "maintenance_enabled = true"
    assert known["store"]["line"] == f'store = "sqlite://{home / "cofio.db"}"'
    assert known["home"]["line"] == ""  # the file is in it


def test_every_line_can_stand_in_the_file(home: Path, start: Start) -> None:
    lines = [each["line"] for each in told(start(Settings.load({"home": home}))).values() if each["line"]]
    (home / "config.toml").write_text("\n".join(lines), encoding="utf-8")
    written = Settings.load({"home": home})
    plain = [each.name for each in settable() if not each.metadata["secret"]]
    before = Settings.load({"home": home}, {})
    assert [getattr(written, name) for name in plain] == [getattr(before, name) for name in plain]


def test_a_flag_that_says_what_holds_anyway_is_not_where_it_comes_from(home: Path, start: Start) -> None:
    write(home, "log_level", "warning")
    flags = {"home": home, "host": "127.0.0.1", "log_level": "warning", "inbox_days": 3}  # as `cofio up` passes them on
    known = told(start(Settings.load(flags)))
    assert known["host"]["origin"] == "default"
    assert known["home"]["origin"] == "default"  # it is ~/.cofio
    assert known["log_level"]["origin"] == str(home / "config.toml")
    assert (known["inbox_days"]["origin"], known["inbox_days"]["waits"]) == ("flag", False)


def test_what_was_written_since_the_start_waits_for_the_next(home: Path, start: Start) -> None:
    service = start(Settings.load({"home": home}))
    assert not any(each["waits"] for each in told(service).values())
    write(home, "inbox_days", "3")
    write(home, "anthropic_key", "sk-written-later")
    known = told(service)
    assert {name for name in known if known[name]["waits"]} == {"inbox_days", "anthropic_key"}
    assert known["inbox_days"]["value"] == 30  # in force still
    assert "sk-written-later" not in service.get("/settings").body.decode()


def test_a_file_that_cannot_be_read_any_more_is_told_without_its_words(home: Path, start: Start) -> None:
    service = start(Settings.load({"home": home}))
    (home / "config.toml").write_text("anthropic_key = 4711471147114711", encoding="utf-8")  # a number is no text
    answer = service.get("/settings")
    assert "would not start" in answer.json["problem"]
    assert "4711471147114711" not in answer.body.decode()
    assert not any(each["waits"] for each in answer.json["settings"])


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("way", ["flag", "file", "variable"])
def test_no_secret_of_any_setting_is_ever_told(
    home: Path, start: Start, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    secret = f"hush-{name}-7f3a"
    if way == "file":
        write(home, name, secret)
    if way == "variable":
        field = next(each for each in settable() if each.name == name)
        monkeypatch.setenv(field.metadata["variables"][0], secret)
    service = start(Settings.load({"home": home, **({name: secret} if way == "flag" else {})}))
    answer = service.get("/settings")
    assert secret not in answer.body.decode()
    assert secret[:8] not in json.dumps(answer.json)
    [found] = [each for each in answer.json["settings"] if each["name"] == name]
    assert (found["value"], found["line"]) == ("set", f'{name} = "..."')
    unset = set(SECRETS) - {name, "extract_key", "chat_upstream_key", "embedder_key", "openai_key"}
    assert {told(service)[each]["value"] for each in unset} == {"not set"}


@pytest.mark.parametrize("name", ["store", *URLS])
def test_a_password_in_an_address_is_not_told(home: Path, name: str) -> None:
    scheme = "postgresql" if name == "store" else "https"
    for address in (
        f"{scheme}://ada:hush-7f3a@db.example/cofio",
        f"{scheme}://ada:hush/7f3a:hush-7f3a@db.example/cofio?sslpassword=hush-7f3a",
        f"{scheme}://db.example/v1?password=hush-7f3a&x=1",
    ):
        known = replace(Settings.load({"home": home}), **{name: address})
        desk: Any = type("Desk", (), {"settings": known})
        answer = json.dumps(show_settings(desk, None, None))  # type: ignore[arg-type]
        assert "7f3a" not in answer
        assert "db.example" in answer


@pytest.mark.parametrize("address", ["https://db.example/v1?key=hush@7f3a", "https://ada:hush?7f3a@db.example/v1"])
def test_where_nobody_can_tell_a_key_from_a_host_neither_is_told(home: Path, address: str) -> None:
    shown = Settings.load({"home": home, "extract_url": address}).shown("extract_url")
    assert shown == f"https://{'•' * 8}"


def test_an_address_without_a_password_is_told_as_it_is(home: Path) -> None:
    known = Settings.load({"home": home, "extract_url": "https://models.example:8443/v1"})
    assert known.shown("extract_url") == "https://models.example:8443/v1"


def test_settings_that_a_program_made_are_told_as_they_are(tmp_path: Path) -> None:
    desk: Any = type("Desk", (), {"settings": Settings(home=tmp_path, port=1)})
    answer = show_settings(desk, None, None)  # type: ignore[arg-type]
    assert {each["origin"] for each in answer["settings"]} == {"default"}
    assert not any(each["waits"] for each in answer["settings"])


# ── the doctor ────────────────────────────────────────────────────────────────────────────────────────────────────────


def looking(home: Path) -> Doctor:
    known = Settings.load({"home": home})
    return lambda service, clients: doctor.check_in_process(known, service, clients=clients)


def checked(service: Caller, **query: str) -> dict[str, dict[str, str]]:
    answer = service.get("/doctor", **query)
    assert answer.status == 200
    return {each["name"]: each for each in answer.json["checks"]}


def test_the_doctor_looks_at_the_service_from_within(home: Path, start: Start) -> None:
    (Path.home() / ".claude").mkdir()
    service = start(Settings.load({"home": home}), doctor=looking(home))
    service.post("/memory/add", {"text": "We deploy on Fridays, after lunch."})
    found = checked(service)
    assert list(found) == [
        "versions", "home", "config", "launcher", "service", "store", "embedder", "judge", "model", "inbox",
        "claude-code",
    ]  # fmt: skip
    states = {name: each["state"] for name, each in found.items()}
    assert states.pop("launcher") == "wrong"  # nobody has written it here
    assert states.pop("claude-code") == "warning"
    assert set(states.values()) == {"ok"}
    assert "1 memory" in found["store"]["says"]
    service.delete("/memory/1")
    assert checked(service)["store"]["state"] == "ok"  # what is archived is no trouble
    service.post("/memory/1/restore")
    assert "`cofio install claude-code`" in found["claude-code"]["hint"]
    assert {each["hint"] for each in found.values() if each["state"] == "ok"} == {""}
    assert service.get("/memories").json["total"] == 1  # no proof has left its words
    assert service.get("/changes").json["changesets"][0]["id"] == 3


def test_the_doctor_looks_at_the_clients_alone(home: Path, start: Start) -> None:
    (Path.home() / ".cursor").mkdir()
    service = start(Settings.load({"home": home}), embedder=Silent(), doctor=looking(home))
    assert list(checked(service, about="clients")) == ["cursor"]
    assert service.get("/doctor", about="everybody").status == 400


def test_memories_without_a_vector_are_told(home: Path, start: Start) -> None:
    service = start(Settings.load({"home": home}), doctor=looking(home))
    service.post("/memory/add", {"text": "We deploy on Fridays, after lunch."})
    with sqlite3.connect(home / "cofio.db") as store:
        store.execute("DELETE FROM vectors")
    store.close()
    found = checked(service)["store"]
    assert (found["state"], found["says"]) == (
        "warning", "1 memory has no vector and can be found by words only."
    )  # fmt: skip
    assert "cofio reembed --missing" in found["hint"]


def test_an_embedder_that_fails_is_told(home: Path, start: Start) -> None:
    found = checked(start(Settings.load({"home": home}), embedder=Silent(), doctor=looking(home)))
    assert (found["embedder"]["state"], bool(found["embedder"]["hint"])) == ("wrong", True)


def test_a_service_without_a_doctor_says_so(home: Path, start: Start) -> None:
    answer = start(Settings.load({"home": home})).get("/doctor")
    assert (answer.status, answer.error["code"]) == (501, "not_configured")


def test_the_doctor_is_for_admins_of_this_machine_alone(home: Path) -> None:
    clock = FixedClock()
    asked = []

    def look(_service: object, _clients: bool) -> list[Check]:
        asked.append(1)
        return []

    with Keeper(SqliteStore(home / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        _, root = keeper.create_key(Grant(name="root", role="admin"))
        _, ada = keeper.create_key(Grant(name="ada", user="ada"))
        with serving(keeper, doctor=look, host="0.0.0.0", allowed_hosts="elsewhere") as url:
            for path in ("/doctor", "/settings"):
                assert Caller(url).having(ada).get(path).status == 403
                assert Caller(url).get(path).status == 401
            assert asked == []
            assert Caller(url).having(root).get("/doctor").json == {"checks": []}
            proxied = Caller(url).having(root).get("/doctor", {"X-Forwarded-For": "203.0.113.9"})
            assert proxied.status == 403  # a proxy beside us asks for somebody elsewhere
            assert Caller(url).having(root).get("/settings").status == 200
    desk: Any = type("Desk", (), {"doctor": staticmethod(look)})
    with pytest.raises(Forbidden, match="own machine only") as refusal:
        examine(desk, DoctorRequest(), RequestContext(by="page", auth="ok"))
    assert "cofio doctor" in refusal.value.hint
    assert asked == [1]
