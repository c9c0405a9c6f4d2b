"""The page of agents and keys, in a real browser with the real service."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from cofio.models.diagnostics import Check
from tests.http_api.caller import Caller
from tests.ui.conftest import PHONE, Visitor, accessibility_violations, overflow, screenshot

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script> \u202eback'
CLIENTS = [
    Check("claude-code", "ok", "7 hooks in /home/ada/.claude/settings.json"),
    Check("codex", "wrong", "Codex does not run these hooks, since they are not approved: Stop, SessionStart.",
          "Open Codex, type /hooks and approve them; or `cofio install codex --trust-hooks`."),
    Check("cursor", "warning", "The client is installed, but cofio is not set up in it.",
          "`cofio install cursor` sets it up."),
]  # fmt: skip
Serve = Callable[..., Caller]
FACTS = (
    ("claude-code", "We deploy with Fly.io to Frankfurt, never on a Friday."),
    ("claude-code", "Drizzle took the place of Prisma in January."),
    ("codex", "Integration tests need the Docker daemon; unit tests do not."),
    ("openclaw", "Ada reviews every change of the billing module."),
)


def client_checks(_service: object, _clients: bool) -> list[Check]:
    return CLIENTS


@pytest.fixture
def service(serve: Serve) -> Caller:
    """Return an open service on a machine with clients."""
    return serve(doctor=client_checks)


def add_memories(service: Caller) -> None:
    """Add memories of several agents, and recall one."""
    for agent, text in FACTS:
        response = service.post("/memory/add", {"text": text, "source": f"{agent}/web"}, {"X-Cofio-Client": agent})
        assert response.status == 201
    service.post("/recall", {"prompt": "can I deploy with Fly.io today?"}, {"X-Cofio-Client": "claude-code"})


def create_key(service: Caller, name: str = "root", **fields: Any) -> tuple[str, Caller]:
    """Create a key; return its secret and a caller that uses it."""
    response = service.owner.post("/keys", {"name": name, **(fields or {"role": "admin"})})
    assert response.status == 201
    return response.json["secret"], service.with_key(response.json["secret"])


def enter_key(page: Page, secret: str) -> None:
    page.get_by_label("API key").fill(secret)
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#page")).to_be_visible()


def press(scope: Page | Locator, name: str) -> None:
    scope.get_by_role("button", name=name, exact=True).click()


def box(form: Page | Locator, label: str) -> Locator:
    """Return the text box with this label."""
    return form.get_by_role("textbox", name=label)


def key(page: Page, name: str) -> Locator:
    return page.locator(".key", has_text=name)


# ── Agents ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_agents_are_listed_with_their_counts(service: Caller, visit: Visitor) -> None:
    add_memories(service)
    page = visit(service, "/ui/agents")
    expect(page.locator(".agent")).to_have_count(3)
    claude = page.locator(".agent", has_text="claude-code")
    expect(claude).to_contain_text("kept 2")
    expect(claude).to_contain_text(re.compile(r"was given [1-9]"))
    expect(page.locator(".agent", has_text="codex")).to_contain_text("kept 1")
    expect(page.locator(".agent", has_text="codex")).to_contain_text("was given 0")
    expect(page.locator("#status")).to_have_text("3 agents")
    claude.get_by_role("link", name="claude-code").click()
    expect(page).to_have_url(f"{service.url}/ui/memories#/?source=claude-code")
    expect(page.locator("#count")).to_contain_text("2")


def test_hook_checks_are_listed_with_their_fix(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/agents", permissions=["clipboard-read", "clipboard-write"])
    checks = page.locator(".check")
    expect(checks).to_have_count(3)
    expect(checks.nth(0)).to_contain_text("Claude Code fine")
    expect(checks.nth(1)).to_contain_text("to mend")
    expect(checks.nth(2)).to_contain_text("look at this")
    checks.nth(2).get_by_role("button", name="Copy cofio install cursor").click()
    expect(checks.nth(2).get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "cofio install cursor"


def test_service_without_doctor_says_so(serve: Serve, visit: Visitor) -> None:
    visit.expected = {501}
    service = serve()
    add_memories(service)
    page = visit(service, "/ui/agents")
    expect(page.locator(".agent")).to_have_count(3)
    expect(page.locator("#part")).to_contain_text("This service cannot run the doctor.")


def test_empty_store_explains_how_to_connect_an_agent(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/agents")
    expect(page.locator(".empty")).to_contain_text("No agents yet")
    page.locator(".empty").get_by_role("link", name="Connect an agent").click()
    expect(page.locator(".way")).to_have_count(5)
    expect(page.locator(".way").nth(1)).to_contain_text(f"export COFIO_URL={service.url}")
    assert f"--transport http cofio {service.url}/mcp" in page.locator("#part").inner_text()
    expect(page.get_by_role("link", name="Connect", exact=True)).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    expect(page.locator(".way")).to_have_count(5)  # the skip link does not navigate
    page.go_back()
    expect(page.locator(".empty")).to_be_visible()


# ── The first key ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_first_key_closes_an_open_service_and_the_page_continues(service: Caller, visit: Visitor) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    page = visit.as_owner(service, "/ui/agents#/keys", permissions=permissions)
    expect(page.get_by_role("region", name="This service is open")).to_contain_text(
        "read, change and delete everything"
    )
    press(page, "Make the first key")
    form = page.get_by_role("dialog", name="Make the first key")
    expect(form.get_by_role("radio", name="admin")).to_be_checked()
    expect(form).to_contain_text("requires a key from everyone")
    box(form, "Name").fill("ada")
    press(form, "Make the key")
    dialog = page.get_by_role("dialog", name="The key of ada")
    expect(dialog).to_contain_text("shown only once")
    expect(dialog).to_contain_text("Your own commands and hooks on this machine go on as before")
    secret = dialog.locator(".secret").inner_text()
    press(dialog.locator(".copyable.whole"), "Copy the key")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    assert secret not in page.url
    assert secret not in page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, history.state])")
    assert service.get("/memories").status == 401  # the service is closed now
    press(dialog, "Use this key here")
    expect(key(page, "ada")).to_contain_text("this tab’s")
    expect(page.locator("#who")).to_contain_text("key: admin")
    expect(page.locator("#door")).to_be_empty()
    expect(page.get_by_role("button", name="Make a key")).to_be_visible()
    assert secret not in page.content()
    assert secret not in page.url
    assert service.with_key(secret).get("/keys").status == 200


def test_unused_first_key_leaves_the_page_open_to_its_owner_only(service: Caller, visit: Visitor) -> None:
    page = visit.as_owner(service, "/ui/agents#/keys")
    press(page, "Make the first key")
    box(page, "Name").fill("ada")
    press(page, "Make the key")
    dialog = page.get_by_role("dialog", name="The key of ada")
    secret = dialog.locator(".secret").inner_text()
    press(dialog, "Close without using it")
    expect(key(page, "ada")).to_be_visible()
    assert secret not in page.content()
    assert page.evaluate("JSON.stringify({...sessionStorage})") == "{}"
    visit.expected = {401}
    other = visit(service, "/ui/agents#/keys")
    expect(other.get_by_role("heading", name="The service requires a key")).to_be_visible()
    enter_key(other, secret)
    expect(key(other, "ada")).to_be_visible()


def test_first_key_without_admin_role_shows_a_warning(service: Caller, visit: Visitor) -> None:
    page = visit.as_owner(service, "/ui/agents#/keys")
    press(page, "Make the first key")
    form = page.get_by_role("dialog")
    form.get_by_role("radio", name="write").check()
    expect(form.locator(".note.bad")).to_contain_text("Make an admin’s first")
    box(form, "Name").fill("ada's laptop")
    box(form, "User").fill("ada")
    press(form, "Make the key")
    dialog = page.get_by_role("dialog", name="The key of ada's laptop")
    expect(dialog.get_by_role("button", name="Use this key here")).to_have_count(0)
    secret = dialog.locator(".secret").inner_text()
    press(dialog, "Done")
    expect(key(page, "ada's laptop")).to_be_visible()
    other = visit(service, "/ui/agents#/keys")
    enter_key(other, secret)
    expect(other.locator("#door")).to_contain_text("Your key may read and write.")


def test_escape_asks_before_discarding_an_uncopied_key(service: Caller, visit: Visitor) -> None:
    secret, _ = create_key(service)
    page = visit(service, "/ui/agents#/keys")
    enter_key(page, secret)
    press(page, "Make a key")
    box(page, "Name").fill("ci")
    box(page, "Agent").fill("ci")
    press(page, "Make the key")
    dialog = page.get_by_role("dialog", name="The key of ci")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_contain_text("You have not copied it.")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(key(page, "ci")).to_be_visible()


def test_key_cancelled_after_the_request_is_shown(service: Caller, visit: Visitor) -> None:
    secret, root = create_key(service)
    page = visit(service, "/ui/agents#/keys")
    enter_key(page, secret)
    held_routes: list[Route] = []
    page.route(
        "**/keys", lambda route: held_routes.append(route) if route.request.method == "POST" else route.continue_()
    )
    press(page, "Make a key")
    box(page, "Name").fill("ci")
    box(page, "Agent").fill("ci")
    with page.expect_request(lambda request: request.method == "POST"):
        press(page, "Make the key")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    held_routes[0].continue_()
    dialog = page.get_by_role("dialog", name="The key of ci")
    assert service.with_key(dialog.locator(".secret").inner_text()).get("/memories").status == 200
    assert len(root.get("/keys").json["keys"]) == 2


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_key_is_created_with_limits_and_revoked_after_confirmation(service: Caller, visit: Visitor) -> None:
    secret, root = create_key(service)
    page = visit(service, "/ui/agents#/keys")
    enter_key(page, secret)
    press(page, "Make a key")
    form = page.get_by_role("dialog", name="Make a key")
    box(form, "Name").fill("ci")
    form.get_by_role("radio", name="read").check()
    box(form, "Agent").fill("ci")
    box(form, "Team").fill("web")
    box(form, "Only these sources").fill("ci/web, ci/docs")
    expect(form.get_by_label("Ends", exact=True)).to_have_value("")  # never, by default
    form.get_by_label("Ends", exact=True).select_option("90")
    press(form, "Make the key")
    dialog = page.get_by_role("dialog", name="The key of ci")
    key_caller = service.with_key(dialog.locator(".secret").inner_text())
    press(dialog, "Done")
    expect(page.locator(".notice")).to_contain_text("Made: ci.")
    [stored] = [entry for entry in root.get("/keys").json["keys"] if entry["name"] == "ci"]
    assert (stored["role"], stored["agent"], stored["team"]) == ("read", "ci", "web")
    assert stored["prefixes"] == ["ci/web", "ci/docs"]
    assert stored["expires_at"]
    assert stored["created_by"].endswith("page")
    assert key_caller.get("/memories").status == 200
    row = key(page, "ci/docs")
    expect(row).to_contain_text("agent ci, team web")
    expect(row).to_contain_text(stored["hint"])
    expect(row).to_contain_text("in 2 months")
    press(row, "Revoke ci")
    confirmation = page.get_by_role("dialog", name="Revoke “ci”?")
    expect(confirmation).to_contain_text("cannot be undone")
    press(confirmation, "Cancel")
    assert key_caller.get("/memories").status == 200
    press(row, "Revoke ci")
    press(confirmation, "Revoke")
    expect(page.locator(".notice")).to_contain_text("Revoked: ci.")
    assert key_caller.get("/memories").status == 401
    page.get_by_text("1 that opens nothing any more").click()
    expect(row).to_contain_text("revoked")
    expect(row.get_by_role("button")).to_have_count(0)


def test_missing_fields_are_reported_in_the_form(service: Caller, visit: Visitor) -> None:
    visit.expected = {400}
    secret, root = create_key(service)
    page = visit(service, "/ui/agents#/keys")
    enter_key(page, secret)
    press(page, "Make a key")
    form = page.get_by_role("dialog")
    press(form, "Make the key")
    expect(form.get_by_role("alert")).to_contain_text("“Name” is empty.")
    box(form, "Name").fill("nobody")
    press(form, "Make the key")
    expect(form.get_by_role("alert")).to_contain_text("The key has no owner.")
    form.get_by_label("Ends", exact=True).select_option("date")
    press(form, "Make the key")
    expect(form.get_by_role("alert")).to_contain_text("“Ends” has no date.")  # it does not become a key without expiry
    assert len(root.get("/keys").json["keys"]) == 1


def test_revoking_the_current_key_is_announced(service: Caller, visit: Visitor) -> None:
    secret, _ = create_key(service)
    page = visit(service, "/ui/agents#/keys")
    enter_key(page, secret)
    press(key(page, "root"), "Revoke root")
    confirmation = page.get_by_role("dialog")
    expect(confirmation).to_contain_text("This tab uses the key")
    expect(confirmation).to_contain_text("No other is in force")
    press(confirmation, "Revoke")
    expect(page.get_by_role("region", name="This service is open")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


# ── Audit log ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_log_is_paged_and_filtered_by_key(service: Caller, visit: Visitor) -> None:
    secret, root = create_key(service)
    user_secret, ada = create_key(root, "ada's laptop", user="ada")
    for number in range(60):
        assert ada.post("/memory/add", {"text": f"Release {number} went out without a hitch."}).status == 201
    assert ada.get("/keys").status == 403
    wait_for_log(root, 63)
    page = visit(service, "/ui/agents#/log")
    enter_key(page, secret)
    expect(page.locator(".deed")).to_have_count(50)
    expect(page.locator(".deed").first).to_contain_text("refused")
    press(page, "Show more")
    expect(page.locator(".deed")).to_have_count(63)
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    page.get_by_label("Done with").select_option(label="ada's laptop (key 2)")
    expect(page.locator(".deed")).to_have_count(50)
    expect(page).to_have_url(re.compile(r"#/log/2$"))
    page.reload()
    expect(page.get_by_label("Done with")).to_have_value("2")
    expect(page.locator(".deed").first).to_contain_text("ada's laptop (key 2)")
    assert user_secret not in page.content()


def wait_for_log(root: Caller, count: int) -> None:
    """Wait until this many entries are written in the background."""
    for _ in range(1_000):
        if len(root.get("/keys/log", limit=200).json["entries"]) >= count:
            return
    raise AssertionError("the log is not written")


# ── Limited keys, hostile names, layout ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("role", "message"), [("read", "may read."), ("write", "may read and write.")])
def test_limited_key_is_offered_only_what_it_may_do(service: Caller, visit: Visitor, role: str, message: str) -> None:
    _, root = create_key(service)
    secret, _ = create_key(root, "ada", role=role, user="ada")
    page = visit(service, "/ui/agents#/keys")
    enter_key(page, secret)
    expect(page.locator("#door")).to_contain_text(message)
    expect(page.locator(".way")).to_have_count(5)
    expect(page.get_by_role("button", name="Make")).to_have_count(0)
    assert '--header "X-API-Key: $COFIO_API_KEY"' in page.locator("#part").inner_text()
    assert accessibility_violations(page) == []


def test_names_are_shown_as_text(service: Caller, visit: Visitor) -> None:
    secret, root = create_key(service)
    create_key(root, HOSTILE, user=HOSTILE, team="x" * 900)
    root.post("/memory/add", {"text": "We deploy on Fridays.", "source": HOSTILE})
    root.post("/memory/add", {"text": "Ann reviews.", "source": "a" * 900})
    page = visit(service, "/ui/agents#/keys", viewport=PHONE)
    enter_key(page, secret)
    expect(key(page, "onerror")).to_contain_text("<script>alert(2)</script>")
    assert overflow(page) == 0
    press(key(page, "onerror"), f"Revoke {HOSTILE}")
    expect(page.get_by_role("dialog")).to_contain_text("<script>")
    page.keyboard.press("Escape")
    for part in ("work", "log"):
        page.goto(f"{service.url}/ui/agents#/{part}")
        expect(page.locator("#part")).to_contain_text("<img" if part == "work" else "key created")
        assert overflow(page) == 0
    assert page.locator("img[src=x]").count() == 0


def test_page_works_by_keyboard(service: Caller, visit: Visitor) -> None:
    add_memories(service)
    page = visit.as_owner(service, "/ui/agents")
    expect(page.locator(".agent")).to_have_count(3)
    page.get_by_role("button", name="Make the first key").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="At work")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".empty")).to_contain_text("No key is in force")
    expect(page.get_by_role("link", name="Keys", exact=True)).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(box(page, "Name")).to_be_focused()
    page.keyboard.type("ada")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Copy the key")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(key(page, "ada")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(service: Caller, visit: Visitor, scheme: Any) -> None:
    add_memories(service)
    secret, root = create_key(service)
    create_key(root, "ada's laptop", user="ada", team="web")
    create_key(root, "ci", role="read", agent="ci", team="web", prefixes=["ci/web"], expires_at="2031-01-01")
    revoked_id = root.post("/keys", {"name": "an old laptop", "user": "bob"}).json["id"]
    root.delete(f"/keys/{revoked_id}")
    suffix = "" if scheme == "light" else "-dark"
    page = visit(service, "/ui/agents", color_scheme=scheme)
    enter_key(page, secret)
    expect(page.locator(".agent")).to_have_count(3)
    for part, selector in (("work", ".check"), ("keys", ".key"), ("log", ".deed"), ("connect", ".way")):
        page.goto(f"{service.url}/ui/agents#/{part}")
        expect(page.locator(selector).first).to_be_visible()
        if part == "keys":
            page.locator("summary").click()
        assert accessibility_violations(page) == []
        screenshot(page, f"agents-{part}{suffix}")
    page.goto(f"{service.url}/ui/agents#/keys")
    press(page, "Make a key")
    assert accessibility_violations(page) == []
    screenshot(page, f"agents-make{suffix}")
    box(page, "Name").fill("bob's laptop")
    box(page, "User").fill("bob")
    press(page, "Make the key")
    expect(page.locator(".secret")).to_be_visible()
    assert accessibility_violations(page) == []
    screenshot(page, f"agents-made{suffix}")


def test_page_fits_a_phone(service: Caller, visit: Visitor) -> None:
    add_memories(service)
    secret, root = create_key(service)
    create_key(root, "ada's laptop", user="ada", team="web")
    page = visit(service, "/ui/agents", viewport=PHONE)
    enter_key(page, secret)
    expect(page.locator(".agent")).to_have_count(3)
    for part, selector in (("work", ".check"), ("keys", ".key"), ("log", ".deed"), ("connect", ".way")):
        page.goto(f"{service.url}/ui/agents#/{part}")
        expect(page.locator(selector).first).to_be_visible()
        assert overflow(page) == 0
        screenshot(page, f"agents-{part}-phone")
    page.goto(f"{service.url}/ui/agents#/keys")
    press(page, "Make a key")
    screenshot(page, "agents-make-phone")
    assert accessibility_violations(page) == []
