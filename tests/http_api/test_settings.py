"""Settings and doctor endpoints. Secrets are never returned."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Forbidden
from cofio.install import doctor
from cofio.models.auth import Grant
from cofio.models.diagnostics import Check, Doctor
from cofio.models.memory import Add, Fact
from cofio.server.http.context import RequestContext
from cofio.server.http.handlers.settings import GROUPS, examine, show_settings
from cofio.server.http.requests import DoctorRequest
from cofio.settings import Settings, settable, write
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.cli.conftest import VARIABLES
from tests.http_api.caller import Caller
from tests.http_api.conftest import UnavailableEmbedder, serving

SECRETS = [setting.name for setting in settable() if setting.metadata["secret"]]
URLS = [setting.name for setting in settable() if setting.name.endswith("url")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder isolated from this machine's environment."""
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
    """Yield a function that serves with the given settings and a store in the home folder."""
    with ExitStack() as stack:

        def start_service(loaded_settings: Settings, embedder: Any = None, doctor: Doctor | None = None) -> Caller:
            clock = FixedClock()
            keeper = Keeper(SqliteStore(home / "cofio.db", clock), embedder or HashEmbedder(), clock)
            values = {setting.name: getattr(loaded_settings, setting.name) for setting in settable()}
            origins = {**loaded_settings.origins, "port": "flag"}
            stack.enter_context(keeper)
            url = stack.enter_context(serving(keeper, doctor=doctor, **{**values, "port": 0, "origins": origins}))
            return Caller(url, {"X-API-Key": loaded_settings.api_key} if loaded_settings.api_key else {})

        yield start_service


def settings_by_name(service: Caller) -> dict[str, dict[str, Any]]:
    return {setting["name"]: setting for setting in service.get("/settings").json["settings"]}


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_setting_is_in_exactly_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(setting.name for setting in settable())
    assert len(grouped) == len(set(grouped))


def test_settings_are_listed_with_value_and_origin(home: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, "inbox_days", "7")
    write(home, "maintenance_enabled", "true")
    monkeypatch.setenv("EXTRACT_TIMEOUT", "12.5")
    service = start(Settings.load({"home": home, "recall_min_score": 0.5}))
    body = service.get("/settings").json
    assert (body["file"], body["there"], body["problem"]) == (str(home / "config.toml"), True, "")
    known = settings_by_name(service)
    assert len(known) == len(settable())
    results = {name: (known[name]["value"], known[name]["origin"]) for name in known}
    assert results["inbox_days"] == (7, str(home / "config.toml"))
    assert results["maintenance_enabled"] == (True, str(home / "config.toml"))
    assert results["extract_timeout"] == (12.5, "EXTRACT_TIMEOUT")
    assert results["recall_min_score"] == (0.5, "flag")
    assert results["hook_recall_timeout_ms"] == (800, "default")
    assert known["inbox_days"] | {"says": ""} == {
        "name": "inbox_days", "group": "Learning", "variables": ["COFIO_INBOX_DAYS"], "says": "", "value": 7,
        "default": 30, "origin": str(home / "config.toml"), "secret": False, "line": "inbox_days = 7", "waits": False,
    }  # fmt: skip
    assert known["maintenance_enabled"]["line"] == "maintenance_enabled = true"
    assert known["store"]["line"] == f'store = "sqlite://{home / "cofio.db"}"'
    assert known["home"]["line"] == ""  # the file contains it


def test_displayed_lines_are_valid_in_the_config_file(home: Path, start: Start) -> None:
    lines = [item["line"] for item in settings_by_name(start(Settings.load({"home": home}))).values() if item["line"]]
    (home / "config.toml").write_text("\n".join(lines), encoding="utf-8")
    content = Settings.load({"home": home})
    plain = [setting.name for setting in settable() if not setting.metadata["secret"]]
    before = Settings.load({"home": home}, {})
    assert [getattr(content, name) for name in plain] == [getattr(before, name) for name in plain]


def test_flag_with_the_effective_value_is_not_the_origin(home: Path, start: Start) -> None:
    write(home, "log_level", "warning")
    flags = {"home": home, "host": "127.0.0.1", "log_level": "warning", "inbox_days": 3}  # as `cofio up` passes them on
    known = settings_by_name(start(Settings.load(flags)))
    assert known["host"]["origin"] == "default"
    assert known["home"]["origin"] == "default"  # it equals ~/.cofio
    assert known["log_level"]["origin"] == str(home / "config.toml")
    assert (known["inbox_days"]["origin"], known["inbox_days"]["waits"]) == ("flag", False)


def test_setting_changed_since_start_is_marked_as_waiting(home: Path, start: Start) -> None:
    service = start(Settings.load({"home": home}))
    assert not any(item["waits"] for item in settings_by_name(service).values())
    write(home, "inbox_days", "3")
    write(home, "anthropic_key", "sk-written-later")
    known = settings_by_name(service)
    assert {name for name in known if known[name]["waits"]} == {"inbox_days", "anthropic_key"}
    assert known["inbox_days"]["value"] == 30  # still in effect
    assert "sk-written-later" not in service.get("/settings").body.decode()


def test_invalid_config_file_is_reported_without_its_content(home: Path, start: Start) -> None:
    service = start(Settings.load({"home": home}))
    (home / "config.toml").write_text(
        "anthropic_key = 4711471147114711", encoding="utf-8"
    )  # a number where text is expected
    response = service.get("/settings")
    assert "would not start" in response.json["problem"]
    assert "4711471147114711" not in response.body.decode()
    assert not any(setting["waits"] for setting in response.json["settings"])


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("origin", ["flag", "file", "variable"])
def test_secret_settings_are_never_returned(
    home: Path, start: Start, monkeypatch: pytest.MonkeyPatch, name: str, origin: str
) -> None:
    secret = f"hush-{name}-7f3a"
    if origin == "file":
        write(home, name, secret)
    if origin == "variable":
        field = next(setting for setting in settable() if setting.name == name)
        monkeypatch.setenv(field.metadata["variables"][0], secret)
    service = start(Settings.load({"home": home, **({name: secret} if origin == "flag" else {})}))
    response = service.get("/settings")
    assert secret not in response.body.decode()
    assert secret[:8] not in json.dumps(response.json)
    [found] = [setting for setting in response.json["settings"] if setting["name"] == name]
    assert (found["value"], found["line"]) == ("set", f'{name} = "..."')
    unset = set(SECRETS) - {name, "extract_key", "chat_upstream_key", "embedder_key", "openai_key"}
    assert {settings_by_name(service)[item]["value"] for item in unset} == {"not set"}


@pytest.mark.parametrize("name", ["store", *URLS])
def test_password_in_url_is_masked(home: Path, name: str) -> None:
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
def test_ambiguous_url_is_masked_completely(home: Path, address: str) -> None:
    output = Settings.load({"home": home, "extract_url": address}).shown("extract_url")
    assert output == f"https://{'•' * 8}"


def test_url_without_password_is_shown(home: Path) -> None:
    known = Settings.load({"home": home, "extract_url": "https://models.example:8443/v1"})
    assert known.shown("extract_url") == "https://models.example:8443/v1"


def test_settings_built_in_code_have_default_origin(tmp_path: Path) -> None:
    desk: Any = type("Desk", (), {"settings": Settings(home=tmp_path, port=1)})
    answer = show_settings(desk, None, None)  # type: ignore[arg-type]
    assert {setting["origin"] for setting in answer["settings"]} == {"default"}
    assert not any(setting["waits"] for setting in answer["settings"])


# ── doctor ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def doctor_for(home: Path) -> Doctor:
    known = Settings.load({"home": home})
    return lambda service, clients: doctor.check_in_process(known, service, clients=clients)


def checks_by_name(service: Caller, **query: str) -> dict[str, dict[str, str]]:
    response = service.get("/doctor", **query)
    assert response.status == 200
    return {check["name"]: check for check in response.json["checks"]}


def test_doctor_checks_the_service_in_process(home: Path, start: Start) -> None:
    (Path.home() / ".claude").mkdir()
    service = start(Settings.load({"home": home}), doctor=doctor_for(home))
    service.post("/memory/add", {"text": "We deploy on Fridays, after lunch."})
    results = checks_by_name(service)
    assert list(results) == [
        "versions", "home", "config", "launcher", "service", "store", "embedder", "judge", "model", "inbox",
        "claude-code",
    ]  # fmt: skip
    states = {name: each["state"] for name, each in results.items()}
    assert states.pop("launcher") == "wrong"  # nobody has written it here
    assert states.pop("claude-code") == "warning"
    assert set(states.values()) == {"ok"}
    assert "1 memory" in results["store"]["says"]
    service.delete("/memory/1")
    assert checks_by_name(service)["store"]["state"] == "ok"  # what is archived is no trouble
    service.post("/memory/1/restore")
    assert "`cofio install claude-code`" in results["claude-code"]["hint"]
    assert {item["hint"] for item in results.values() if item["state"] == "ok"} == {""}
    assert service.get("/memories").json["total"] == 1  # no proof has left its words
    assert service.get("/changes").json["changesets"][0]["id"] == 3


def test_doctor_checks_clients_only_on_request(home: Path, start: Start) -> None:
    (Path.home() / ".cursor").mkdir()
    service = start(Settings.load({"home": home}), embedder=UnavailableEmbedder(), doctor=doctor_for(home))
    assert list(checks_by_name(service, about="clients")) == ["cursor"]
    assert service.get("/doctor", about="everybody").status == 400


def test_doctor_reports_memories_without_vectors(home: Path, start: Start) -> None:
    with closing(SqliteStore(home / "cofio.db", FixedClock())) as store:
        store.apply([Add(Fact(text="We deploy on Fridays, after lunch."))], {}, by="test", why="import")
    # With a working embedder the service would compute the vector before the question.
    service = start(Settings.load({"home": home}), embedder=UnavailableEmbedder(), doctor=doctor_for(home))
    results = checks_by_name(service)["store"]
    assert (results["state"], results["says"]) == (
        "warning", "1 memory has no vector and can be found by words only."
    )  # fmt: skip
    assert "The service computes it" in results["hint"]


def test_doctor_reports_failing_embedder(home: Path, start: Start) -> None:
    results = checks_by_name(
        start(Settings.load({"home": home}), embedder=UnavailableEmbedder(), doctor=doctor_for(home))
    )
    assert (results["embedder"]["state"], bool(results["embedder"]["hint"])) == ("wrong", True)


def test_service_without_doctor_returns_501(home: Path, start: Start) -> None:
    answer = start(Settings.load({"home": home})).get("/doctor")
    assert (answer.status, answer.error["code"]) == (501, "not_configured")


def test_doctor_requires_a_local_admin(home: Path) -> None:
    clock = FixedClock()
    requests = []

    def look(_service: object, _clients: bool) -> list[Check]:
        requests.append(1)
        return []

    with Keeper(SqliteStore(home / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        _, root = keeper.create_key(Grant(name="root", role="admin"))
        _, ada = keeper.create_key(Grant(name="ada", user="ada"))
        with serving(keeper, doctor=look, host="0.0.0.0", allowed_hosts="elsewhere") as url:
            for path in ("/doctor", "/settings"):
                assert Caller(url).with_key(ada).get(path).status == 403
                assert Caller(url).get(path).status == 401
            assert requests == []
            assert Caller(url).with_key(root).get("/doctor").json == {"checks": []}
            proxied = Caller(url).with_key(root).get("/doctor", {"X-Forwarded-For": "203.0.113.9"})
            assert proxied.status == 403  # a proxy beside us asks for somebody elsewhere
            assert Caller(url).with_key(root).get("/settings").status == 200
    desk: Any = type("Desk", (), {"doctor": staticmethod(look)})
    with pytest.raises(Forbidden, match="own machine only") as refusal:
        examine(desk, DoctorRequest(), RequestContext(by="page", auth="ok"))
    assert "cofio doctor" in refusal.value.hint
    assert requests == [1]
