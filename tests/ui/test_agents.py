"""The page about agents and keys, as a person uses it: a real browser, the real service, real keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from cofio.models.diagnostics import Check
from tests.http_api.caller import Caller
from tests.ui.conftest import PHONE, Visitor, hindrances, overflow, picture

WEIRD = '<img src=x onerror="alert(1)"><script>alert(2)</script> \u202eback'
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


def looked_at(_service: object, _clients: bool) -> list[Check]:
    return CLIENTS


@pytest.fixture
def service(serve: Serve) -> Caller:
    """An open service on a machine with clients."""
    return serve(doctor=looked_at)


def learned(service: Caller) -> None:
    """Memories of some agents, and what they were given."""
    for agent, text in FACTS:
        added = service.post("/memory/add", {"text": text, "source": f"{agent}/web"}, {"X-Cofio-Client": agent})
        assert added.status == 201
    service.post("/recall", {"prompt": "can I deploy with Fly.io today?"}, {"X-Cofio-Client": "claude-code"})


def keyed(service: Caller, name: str = "root", **about: Any) -> tuple[str, Caller]:
    """A key of this name, and a caller with an admin's."""
    made = service.post("/keys", {"name": name, **(about or {"role": "admin"})})
    assert made.status == 201
    return made.json["secret"], service.having(made.json["secret"])


def enter(page: Page, secret: str) -> None:
    page.get_by_label("API key").fill(secret)
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#page")).to_be_visible()


def press(where: Page | Locator, name: str) -> None:
    where.get_by_role("button", name=name, exact=True).click()


def box(form: Page | Locator, label: str) -> Locator:
    """The field of this label that text is typed into."""
    return form.get_by_role("textbox", name=label)


def key(page: Page, name: str) -> Locator:
    return page.locator(".key", has_text=name)


# ── who is at work ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_is_at_work_stands_there_with_what_it_kept_and_was_given(service: Caller, visit: Visitor) -> None:
    learned(service)
    page = visit(service, "/ui/agents")
    expect(page.locator(".agent")).to_have_count(3)
    claude = page.locator(".agent", has_text="claude-code")
    expect(claude).to_contain_text("kept 2")
    expect(claude).to_contain_text(re.compile(r"was given [1-9]"))
    expect(page.locator(".agent", has_text="codex")).to_contain_text("kept 1")
    expect(page.locator(".agent", has_text="codex")).to_contain_text("was given 0")
    expect(page.locator("#told")).to_have_text("3 agents")
    claude.get_by_role("link", name="claude-code").click()
    expect(page).to_have_url(f"{service.url}/ui/memories#/?source=claude-code")
    expect(page.locator("#count")).to_contain_text("2")


def test_the_hooks_of_every_client_are_told_with_what_to_do(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/agents", permissions=["clipboard-read", "clipboard-write"])
    checks = page.locator(".check")
    expect(checks).to_have_count(3)
    expect(checks.nth(0)).to_contain_text("Claude Code fine")
    expect(checks.nth(1)).to_contain_text("to mend")
    expect(checks.nth(2)).to_contain_text("look at this")
    checks.nth(2).get_by_role("button", name="Copy cofio install cursor").click()
    expect(checks.nth(2).get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "cofio install cursor"


def test_a_service_without_a_doctor_says_so_and_the_rest_is_there(serve: Serve, visit: Visitor) -> None:
    visit.expected = {501}
    service = serve()
    learned(service)
    page = visit(service, "/ui/agents")
    expect(page.locator(".agent")).to_have_count(3)
    expect(page.locator("#part")).to_contain_text("This service cannot run the doctor.")


def test_an_empty_store_says_how_an_agent_comes_here(service: Caller, visit: Visitor) -> None:
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
    expect(page.locator(".way")).to_have_count(5)  # that leads nowhere else
    page.go_back()
    expect(page.locator(".empty")).to_be_visible()


# ── the first key ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_open_service_says_so_and_the_first_key_closes_it_while_the_page_goes_on(
    service: Caller, visit: Visitor
) -> None:
    page = visit(service, "/ui/agents#/keys", permissions=["clipboard-read", "clipboard-write"])
    expect(page.get_by_role("region", name="This service is open")).to_contain_text(
        "read, change and delete everything"
    )
    press(page, "Make the first key")
    form = page.get_by_role("dialog", name="Make the first key")
    expect(form.get_by_role("radio", name="admin")).to_be_checked()
    expect(form).to_contain_text("requires a key from everyone")
    box(form, "Name").fill("ada")
    press(form, "Make the key")
    made = page.get_by_role("dialog", name="The key of ada")
    expect(made).to_contain_text("shown only once")
    expect(made).to_contain_text("cofio config set api_key")
    secret = made.locator(".secret").inner_text()
    press(made.locator(".copyable.whole"), "Copy the key")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    assert secret not in page.url
    assert secret not in page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, history.state])")
    assert service.get("/memories").status == 401  # it is closed by now
    press(made, "Use this key here")
    expect(key(page, "ada")).to_contain_text("this tab’s")
    expect(page.locator("#who")).to_contain_text("key: admin")
    expect(page.locator("#door")).to_be_empty()
    expect(page.get_by_role("button", name="Make a key")).to_be_visible()
    assert secret not in page.content()
    assert secret not in page.url
    assert service.having(secret).get("/keys").status == 200


def test_done_without_it_leads_to_the_door(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/agents#/keys")
    press(page, "Make the first key")
    box(page, "Name").fill("ada")
    press(page, "Make the key")
    made = page.get_by_role("dialog", name="The key of ada")
    secret = made.locator(".secret").inner_text()
    press(made, "Close without using it")
    expect(page.get_by_role("heading", name="The service requires a key")).to_be_visible()
    assert secret not in page.content()
    assert page.evaluate("JSON.stringify({...sessionStorage})") == "{}"
    enter(page, secret)
    expect(key(page, "ada")).to_be_visible()


def test_a_first_key_that_is_no_admins_is_warned_of(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/agents#/keys")
    press(page, "Make the first key")
    form = page.get_by_role("dialog")
    form.get_by_role("radio", name="write").check()
    expect(form.locator(".note.bad")).to_contain_text("Make an admin’s first")
    box(form, "Name").fill("ada's laptop")
    box(form, "User").fill("ada")
    press(form, "Make the key")
    made = page.get_by_role("dialog", name="The key of ada's laptop")
    expect(made.get_by_role("button", name="Use this key here")).to_have_count(0)
    secret = made.locator(".secret").inner_text()
    press(made, "Done")
    enter(page, secret)
    expect(page.locator("#door")).to_contain_text("Your key may read and write.")


def test_one_press_of_escape_does_not_lose_a_key_that_nobody_copied(service: Caller, visit: Visitor) -> None:
    secret, _ = keyed(service)
    page = visit(service, "/ui/agents#/keys")
    enter(page, secret)
    press(page, "Make a key")
    box(page, "Name").fill("ci")
    box(page, "Agent").fill("ci")
    press(page, "Make the key")
    made = page.get_by_role("dialog", name="The key of ci")
    expect(made).to_be_visible()
    page.keyboard.press("Escape")
    expect(made).to_contain_text("You have not copied it.")
    page.keyboard.press("Escape")
    expect(made).to_have_count(0)
    expect(key(page, "ci")).to_be_visible()


def test_a_key_that_was_cancelled_too_late_is_shown_all_the_same(service: Caller, visit: Visitor) -> None:
    secret, root = keyed(service)
    page = visit(service, "/ui/agents#/keys")
    enter(page, secret)
    held: list[Route] = []
    page.route("**/keys", lambda route: held.append(route) if route.request.method == "POST" else route.continue_())
    press(page, "Make a key")
    box(page, "Name").fill("ci")
    box(page, "Agent").fill("ci")
    with page.expect_request(lambda each: each.method == "POST"):
        press(page, "Make the key")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    held[0].continue_()
    made = page.get_by_role("dialog", name="The key of ci")
    assert service.having(made.locator(".secret").inner_text()).get("/memories").status == 200
    assert len(root.get("/keys").json["keys"]) == 2


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_made_with_its_bounds_and_revoked_behind_a_question(service: Caller, visit: Visitor) -> None:
    secret, root = keyed(service)
    page = visit(service, "/ui/agents#/keys")
    enter(page, secret)
    press(page, "Make a key")
    form = page.get_by_role("dialog", name="Make a key")
    box(form, "Name").fill("ci")
    form.get_by_role("radio", name="read").check()
    box(form, "Agent").fill("ci")
    box(form, "Team").fill("web")
    box(form, "Only these sources").fill("ci/web, ci/docs")
    expect(form.get_by_label("Ends", exact=True)).to_have_value("")  # never, unless somebody says so
    form.get_by_label("Ends", exact=True).select_option("90")
    press(form, "Make the key")
    made = page.get_by_role("dialog", name="The key of ci")
    theirs = service.having(made.locator(".secret").inner_text())
    press(made, "Done")
    expect(page.locator(".notice")).to_contain_text("Made: ci.")
    [known] = [each for each in root.get("/keys").json["keys"] if each["name"] == "ci"]
    assert (known["role"], known["agent"], known["team"]) == ("read", "ci", "web")
    assert known["prefixes"] == ["ci/web", "ci/docs"]
    assert known["expires_at"]
    assert known["created_by"].endswith("page")
    assert theirs.get("/memories").status == 200
    row = key(page, "ci/docs")
    expect(row).to_contain_text("agent ci, team web")
    expect(row).to_contain_text(known["hint"])
    expect(row).to_contain_text("in 2 months")
    press(row, "Revoke ci")
    asked = page.get_by_role("dialog", name="Revoke “ci”?")
    expect(asked).to_contain_text("cannot be undone")
    press(asked, "Cancel")
    assert theirs.get("/memories").status == 200
    press(row, "Revoke ci")
    press(asked, "Revoke")
    expect(page.locator(".notice")).to_contain_text("Revoked: ci.")
    assert theirs.get("/memories").status == 401
    page.get_by_text("1 that opens nothing any more").click()
    expect(row).to_contain_text("revoked")
    expect(row.get_by_role("button")).to_have_count(0)


def test_what_is_missing_is_told_in_the_form_and_nothing_is_made(service: Caller, visit: Visitor) -> None:
    visit.expected = {400}
    secret, root = keyed(service)
    page = visit(service, "/ui/agents#/keys")
    enter(page, secret)
    press(page, "Make a key")
    form = page.get_by_role("dialog")
    press(form, "Make the key")
    expect(form.get_by_role("alert")).to_contain_text("“Name” is empty.")
    box(form, "Name").fill("nobody")
    press(form, "Make the key")
    expect(form.get_by_role("alert")).to_contain_text("The key has no owner.")
    form.get_by_label("Ends", exact=True).select_option("date")
    press(form, "Make the key")
    expect(form.get_by_role("alert")).to_contain_text("“Ends” has no date.")  # and it is not one that never ends
    assert len(root.get("/keys").json["keys"]) == 1


def test_the_key_of_the_tab_is_named_before_it_is_revoked_and_the_page_says_what_then(
    service: Caller, visit: Visitor
) -> None:
    secret, _ = keyed(service)
    page = visit(service, "/ui/agents#/keys")
    enter(page, secret)
    press(key(page, "root"), "Revoke root")
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("This tab uses the key")
    expect(asked).to_contain_text("No other is in force")
    press(asked, "Revoke")
    expect(page.get_by_role("region", name="This service is open")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


# ── the log ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_log_is_shown_page_by_page_and_of_one_key(service: Caller, visit: Visitor) -> None:
    secret, root = keyed(service)
    theirs, ada = keyed(root, "ada's laptop", user="ada")
    for number in range(60):
        assert ada.post("/memory/add", {"text": f"Release {number} went out without a hitch."}).status == 201
    assert ada.get("/keys").status == 403
    settled(root, 63)
    page = visit(service, "/ui/agents#/log")
    enter(page, secret)
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
    assert theirs not in page.content()


def settled(root: Caller, count: int) -> None:
    """Wait until so many lines are written: that happens in the background."""
    for _ in range(1_000):
        if len(root.get("/keys/log", limit=200).json["entries"]) >= count:
            return
    raise AssertionError("the log is not written")


# ── lesser keys, hostile names, and how it looks ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("role", "may"), [("read", "may read."), ("write", "may read and write.")])
def test_a_lesser_key_is_told_what_it_may_and_offered_nothing_else(
    service: Caller, visit: Visitor, role: str, may: str
) -> None:
    _, root = keyed(service)
    secret, _ = keyed(root, "ada", role=role, user="ada")
    page = visit(service, "/ui/agents#/keys")
    enter(page, secret)
    expect(page.locator("#door")).to_contain_text(may)
    expect(page.locator(".way")).to_have_count(5)
    expect(page.get_by_role("button", name="Make")).to_have_count(0)
    assert '--header "X-API-Key: $COFIO_API_KEY"' in page.locator("#part").inner_text()
    assert hindrances(page) == []


def test_names_are_shown_and_never_markup(service: Caller, visit: Visitor) -> None:
    secret, root = keyed(service)
    keyed(root, WEIRD, user=WEIRD, team="x" * 900)
    root.post("/memory/add", {"text": "We deploy on Fridays.", "source": WEIRD})
    root.post("/memory/add", {"text": "Ann reviews.", "source": "a" * 900})
    page = visit(service, "/ui/agents#/keys", viewport=PHONE)
    enter(page, secret)
    expect(key(page, "onerror")).to_contain_text("<script>alert(2)</script>")
    assert overflow(page) == 0
    press(key(page, "onerror"), f"Revoke {WEIRD}")
    expect(page.get_by_role("dialog")).to_contain_text("<script>")
    page.keyboard.press("Escape")
    for part in ("work", "log"):
        page.goto(f"{service.url}/ui/agents#/{part}")
        expect(page.locator("#part")).to_contain_text("<img" if part == "work" else "key created")
        assert overflow(page) == 0
    assert page.locator("img[src=x]").count() == 0


def test_it_works_by_keyboard_alone(service: Caller, visit: Visitor) -> None:
    learned(service)
    page = visit(service, "/ui/agents")
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
    expect(page.get_by_label("API key")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_people_out(service: Caller, visit: Visitor, scheme: Any) -> None:
    learned(service)
    secret, root = keyed(service)
    keyed(root, "ada's laptop", user="ada", team="web")
    keyed(root, "ci", role="read", agent="ci", team="web", prefixes=["ci/web"], expires_at="2031-01-01")
    gone = root.post("/keys", {"name": "an old laptop", "user": "bob"}).json["id"]
    root.delete(f"/keys/{gone}")
    suffix = "" if scheme == "light" else "-dark"
    page = visit(service, "/ui/agents", color_scheme=scheme)
    enter(page, secret)
    expect(page.locator(".agent")).to_have_count(3)
    for part, there in (("work", ".check"), ("keys", ".key"), ("log", ".deed"), ("connect", ".way")):
        page.goto(f"{service.url}/ui/agents#/{part}")
        expect(page.locator(there).first).to_be_visible()
        if part == "keys":
            page.locator("summary").click()
        assert hindrances(page) == []
        picture(page, f"agents-{part}{suffix}")
    page.goto(f"{service.url}/ui/agents#/keys")
    press(page, "Make a key")
    assert hindrances(page) == []
    picture(page, f"agents-make{suffix}")
    box(page, "Name").fill("bob's laptop")
    box(page, "User").fill("bob")
    press(page, "Make the key")
    expect(page.locator(".secret")).to_be_visible()
    assert hindrances(page) == []
    picture(page, f"agents-made{suffix}")


def test_it_fits_a_phone(service: Caller, visit: Visitor) -> None:
    learned(service)
    secret, root = keyed(service)
    keyed(root, "ada's laptop", user="ada", team="web")
    page = visit(service, "/ui/agents", viewport=PHONE)
    enter(page, secret)
    expect(page.locator(".agent")).to_have_count(3)
    for part, there in (("work", ".check"), ("keys", ".key"), ("log", ".deed"), ("connect", ".way")):
        page.goto(f"{service.url}/ui/agents#/{part}")
        expect(page.locator(there).first).to_be_visible()
        assert overflow(page) == 0
        picture(page, f"agents-{part}-phone")
    page.goto(f"{service.url}/ui/agents#/keys")
    press(page, "Make a key")
    picture(page, "agents-make-phone")
    assert hindrances(page) == []
