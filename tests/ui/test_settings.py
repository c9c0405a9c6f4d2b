"""The settings page and the doctor, in a real browser with the real service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from cofio.core import Keeper
from cofio.install import doctor
from cofio.models.auth import Grant
from cofio.models.diagnostics import Check, Doctor
from cofio.settings import Settings, settable, write
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.cli.conftest import VARIABLES
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving
from tests.ui.conftest import PHONE, Visitor, accessibility_violations, overflow, screenshot

CHECKS = [
    Check("versions", "ok", "cofio 0.9.0, Python 3.12.4 at /home/ada/.venv/bin/python"),
    Check("service", "ok", "http://127.0.0.1:8900, cofio 0.9.0"),
    Check("store", "ok", "sqlite:///home/ada/.cofio/cofio.db, 1,204 memories, 12.4 MB"),
    Check("embedder", "ok", "answers in 11 ms"),
    Check("model", "wrong", "The provider refused the key.", "`cofio install` sets and tests another model."),
    Check("inbox", "warning", "3 captures are parked.", "`cofio inbox --state parked` says why."),
    Check("claude-code", "ok", "7 hooks in /home/ada/.claude/settings.json"),
    Check("codex", "wrong", "Hooks are missing in /home/ada/.codex/hooks.json: Stop.",
          "`cofio install codex` installs them."),
]  # fmt: skip
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script> \u202eback'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home isolated from the settings of this machine."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".cofio"
    folder.mkdir()
    return folder


class SettingsService:
    """A service with its settings and its keeper."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.home = home
        self._stack = stack

    def __call__(self, doctor: Doctor | None = None, **flags: Any) -> Caller:
        loaded = Settings.load({"home": self.home, **flags})
        clock = FixedClock()
        self.keeper = self._stack.enter_context(
            Keeper(SqliteStore(self.home / "cofio.db", clock), HashEmbedder(), clock)
        )
        values = {option.name: getattr(loaded, option.name) for option in settable()}
        origins = {**loaded.origins, "port": "flag"}
        url = self._stack.enter_context(
            serving(self.keeper, doctor=doctor, **{**values, "port": 0, "origins": origins})
        )
        return Caller(url)


@pytest.fixture
def settings_service(home: Path) -> Iterator[SettingsService]:
    with ExitStack() as stack:
        yield SettingsService(home, stack)


def setting(page: Page, name: str) -> Locator:
    return page.locator(f"#setting-{name}")


def run_doctor(page: Page) -> Locator:
    page.get_by_role("button", name="Examine").click()
    expect(page.locator(".verdict")).to_be_visible()
    return page.locator(".check")


# ── Settings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_setting_is_listed_with_value_origin_and_instructions(
    settings_service: SettingsService, visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(settings_service.home, "inbox_days", "7")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    page = visit(
        settings_service(recall_min_score=0.5), "/ui/settings", permissions=["clipboard-read", "clipboard-write"]
    )
    expect(page.locator(".setting")).to_have_count(len(settable()))
    expect(page.get_by_role("heading", level=2, name="Upkeep")).to_be_visible()
    expect(setting(page, "inbox_days")).to_contain_text("7")
    expect(setting(page, "inbox_days").locator(".origin")).to_have_text("config.toml")
    expect(setting(page, "recall_min_score").locator(".origin")).to_have_text("given as a flag")
    expect(setting(page, "anthropic_key").locator(".value")).to_have_text("set")
    expect(setting(page, "anthropic_key").locator(".origin")).to_have_text("ANTHROPIC_API_KEY")
    expect(setting(page, "openai_key").locator(".value")).to_have_text("not set")
    expect(setting(page, "max_body").locator(".value")).to_have_text("8,388,608")
    setting(page, "inbox_days").locator("summary").click()
    detail = setting(page, "inbox_days").locator(".detail")
    expect(detail).to_contain_text("COFIO_INBOX_DAYS")
    expect(detail).to_contain_text("30")  # by default
    detail.get_by_role("button", name="Copy inbox_days = 7").click()
    expect(detail.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "inbox_days = 7"
    expect(page).to_have_url(re.compile("#/settings/inbox_days$"))
    page.reload()
    expect(detail).to_be_visible()
    expect(setting(page, "inbox_days").locator("summary")).to_be_focused()
    assert "very-secret" not in page.content()


def test_settings_are_filtered_by_text_and_by_change(settings_service: SettingsService, visit: Visitor) -> None:
    write(settings_service.home, "inbox_days", "7")
    page = visit(settings_service(), "/ui/settings")
    text = page.get_by_role("search").get_by_label("Find")
    text.fill("cofio_max_body")
    expect(page.locator(".setting")).to_have_count(1)
    expect(page.locator("#status")).to_have_text("1 setting")
    text.fill("days processed captures")
    expect(page.locator(".setting")).to_have_count(1)
    expect(setting(page, "inbox_days")).to_be_visible()
    text.fill("nothing of that kind")
    expect(page.locator(".empty")).to_contain_text("No setting matches.")
    text.fill("")
    page.get_by_label("About").select_option("Notes")
    expect(page.locator(".setting")).to_have_count(3)
    page.get_by_label("About").select_option("everything")
    page.get_by_label("Only changed settings").check()
    expect(setting(page, "hook_recall_timeout_ms")).to_have_count(0)
    expect(setting(page, "inbox_days")).to_be_visible()
    assert page.locator(".setting").count() < 5


def test_changes_that_need_a_restart_or_prevent_one_are_shown(
    settings_service: SettingsService, visit: Visitor
) -> None:
    page = visit(settings_service(), "/ui/settings")
    expect(page.locator(".setting").first).to_be_visible()
    expect(page.locator(".note")).to_have_count(0)
    write(settings_service.home, "inbox_days", "7")
    page.reload()
    expect(page.locator(".note")).to_contain_text("1 setting was changed since the service started")
    expect(setting(page, "inbox_days").locator(".origin")).to_contain_text("waits")
    (settings_service.home / "config.toml").write_text("nonsense", encoding="utf-8")
    page.reload()
    expect(page.locator(".trouble")).to_contain_text("would not start")


def test_settings_are_read_only_and_instructions_are_shown(settings_service: SettingsService, visit: Visitor) -> None:
    page = visit(settings_service(), "/ui/settings")
    box = page.get_by_role("region", name="To change one")
    expect(box).to_contain_text(str(settings_service.home / "config.toml"))
    expect(box).to_contain_text("cofio up")
    assert page.locator("#part :is(input, select, textarea)").count() == 3  # the filter fields


# ── Doctor ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_doctor_runs_on_request_and_lists_problems_first(settings_service: SettingsService, visit: Visitor) -> None:
    requests = []

    def check(_service: object, clients: bool) -> list[Check]:
        requests.append(clients)
        return CHECKS

    page = visit(settings_service(check), "/ui/settings#/doctor", permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator(".empty")).to_contain_text("No checks yet")
    assert requests == []
    checks = run_doctor(page)
    assert requests == [False]
    expect(page.locator(".verdict")).to_contain_text("2 things to mend, 1 thing to look at.")
    expect(page.locator("#status")).to_have_text("2 things to mend, 1 thing to look at.")
    expect(checks).to_have_count(len(CHECKS))
    expect(checks.nth(0)).to_contain_text("model to mend")
    expect(checks.nth(2)).to_contain_text("inbox look at this")
    expect(checks.nth(3)).to_contain_text("versions fine")
    checks.nth(0).get_by_role("button", name="Copy cofio install").click()
    expect(checks.nth(0).get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "cofio install"
    page.get_by_role("link", name="Settings", exact=True).last.click()
    expect(page.locator(".setting").first).to_be_visible()
    page.go_back()
    expect(page.locator(".check")).to_have_count(len(CHECKS))  # the results remain
    assert requests == [False]


def test_doctor_runs_inside_the_service(settings_service: SettingsService, visit: Visitor) -> None:
    (settings_service.home.parent / ".claude").mkdir()
    loaded = Settings.load({"home": settings_service.home})
    service = settings_service(lambda service, clients: doctor.check_in_process(loaded, service, clients=clients))
    service.post("/memory/add", {"text": "We deploy with Fly.io."})
    page = visit(service, "/ui/settings#/doctor")
    checks = run_doctor(page)
    expect(checks.filter(has_text="store fine")).to_contain_text("1 memory")
    expect(checks.filter(has_text="Claude Code")).to_contain_text("cofio install claude-code")


def test_service_without_doctor_says_so(settings_service: SettingsService, visit: Visitor) -> None:
    visit.expected = {501}
    page = visit(settings_service(), "/ui/settings#/doctor")
    page.get_by_role("button", name="Examine").click()
    expect(page.locator(".trouble")).to_contain_text("This service cannot run the doctor.")


# ── Limited keys, hostile values, layout ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("role", "message"), [("read", "may read."), ("write", "may read and write.")])
def test_limited_key_gets_an_explanation(
    settings_service: SettingsService, visit: Visitor, role: Any, message: str
) -> None:
    service = settings_service()
    settings_service.keeper.create_key(Grant(name="root", role="admin"))
    _, secret = settings_service.keeper.create_key(Grant(name="ada", role=role, user="ada"))
    page = visit(service, "/ui/settings#/doctor")
    page.get_by_label("API key").fill(secret)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("region", name="Settings are for admins")).to_contain_text(message)
    expect(page.get_by_role("button", name="Examine")).to_have_count(0)
    assert accessibility_violations(page) == []


def test_values_are_shown_as_text(settings_service: SettingsService, visit: Visitor) -> None:
    write(settings_service.home, "project", HOSTILE)
    write(settings_service.home, "allowed_hosts", "x" * 5_000)
    checks = [Check("model", "wrong", HOSTILE, f"`{HOSTILE}`"), Check("spool", "warning", "y" * 5_000, "z" * 500)]
    page = visit(settings_service(lambda _service, _clients: checks), "/ui/settings#/settings/project", viewport=PHONE)
    expect(setting(page, "project").locator(".value")).to_contain_text("<script>alert(2)</script>")
    expect(setting(page, "project").locator(".detail")).to_contain_text("onerror")
    assert overflow(page) == 0
    page.goto(page.url.partition("#")[0] + "#/doctor")
    run_doctor(page)
    expect(page.locator(".check").first).to_contain_text("<img src=x")
    assert overflow(page) == 0
    assert page.locator("img[src=x]").count() == 0


def test_page_works_by_keyboard(settings_service: SettingsService, visit: Visitor) -> None:
    page = visit(settings_service(lambda _service, _clients: CHECKS), "/ui/settings")
    expect(page.locator(".setting").first).to_be_visible()
    page.get_by_role("search").get_by_label("Find").focus()
    page.keyboard.type("COFIO_PORT")
    expect(page.locator(".setting")).to_have_count(1)
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(setting(page, "port").locator("summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Copy port = 0")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Copy port = 0")).to_be_focused()
    page.get_by_role("link", name="Doctor").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Examine")).to_be_visible()  # there is no focus target before
    expect(page.get_by_role("link", name="Doctor")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Examine")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".check")).to_have_count(len(CHECKS))


def test_open_setting_and_focus_are_kept_while_filtering(settings_service: SettingsService, visit: Visitor) -> None:
    page = visit(settings_service(), "/ui/settings")
    text = page.get_by_role("search").get_by_label("Find")
    text.fill("COFIO_POR")
    expect(page.locator(".setting")).to_have_count(1)
    text.fill("COFIO_PORT")  # filters after a delay
    setting(page, "port").locator("summary").press("Enter")
    page.wait_for_timeout(300)
    expect(setting(page, "port").locator("summary")).to_be_focused()
    expect(page.get_by_role("button", name="Copy port = 0")).to_be_visible()


def configured_service(settings_service: SettingsService) -> Caller:
    """Return a service with changed settings."""
    for name, value in (("extract_provider", "anthropic"), ("maintenance_enabled", "true"), ("inbox_days", "14")):
        write(settings_service.home, name, value)
    service = settings_service(lambda _service, _clients: CHECKS, anthropic_key="sk-secret")
    write(settings_service.home, "prune_days", "120")
    return service


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(settings_service: SettingsService, visit: Visitor, scheme: Any) -> None:
    suffix = "" if scheme == "light" else "-dark"
    page = visit(configured_service(settings_service), "/ui/settings#/settings/extract_provider", color_scheme=scheme)
    expect(setting(page, "extract_provider").locator(".detail")).to_be_visible()
    assert accessibility_violations(page) == []
    screenshot(page, f"settings{suffix}")
    page.goto(page.url.partition("#")[0] + "#/doctor")
    expect(page.locator(".empty")).to_be_visible()
    assert accessibility_violations(page) == []
    run_doctor(page)
    assert accessibility_violations(page) == []
    screenshot(page, f"settings-doctor{suffix}")


def test_page_fits_a_phone(settings_service: SettingsService, visit: Visitor) -> None:
    page = visit(configured_service(settings_service), "/ui/settings#/settings/extract_provider", viewport=PHONE)
    expect(setting(page, "extract_provider").locator(".detail")).to_be_visible()
    assert overflow(page) == 0
    assert accessibility_violations(page) == []
    screenshot(page, "settings-phone")
    page.goto(page.url.partition("#")[0] + "#/doctor")
    run_doctor(page)
    assert overflow(page) == 0
    screenshot(page, "settings-doctor-phone")
