"""The domain knowledge page, in a real browser with the real service and a real store."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import MAX_SAID, as_quantity
from tests.http_api.caller import Caller
from tests.ui.conftest import Visitor

VOLUME = {"source": "AAPL", "metric": "volume", "value": 5_000_000, "direction": "above"}
REF = "thresholds/aapl.volume.above"
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}} "quoted" & \'so\' \u202eback'
ACCESSIBILITY_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PHONE = {"width": 360, "height": 740}


def put_row(service: Caller, table: str, **fields: Any) -> dict[str, Any]:
    """Store a row and return it."""
    response = service.post(f"/knowledge/{table}", fields)
    assert response.status in (200, 201), response.json
    row: dict[str, Any] = response.json["after"]
    return row


def rows(page: Page) -> Locator:
    return page.locator(".row")


def row(page: Page, text: str) -> Locator:
    """Return the button that expands the row."""
    return page.locator(".row .head", has_text=text)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def open_row(page: Page, text: str) -> Locator:
    """Expand a row and return its detail."""
    row(page, text).click()
    detail = page.locator(".row", has_text=text).locator(".detail")
    expect(detail.locator(".history")).to_be_visible()
    return detail


def box(form: Page | Locator, label: str) -> Locator:
    """Return the text box with this label."""
    return form.get_by_role("textbox", name=label, exact=True)


def notice(page: Page) -> Locator:
    return page.locator(".notice")


# ── Storing and listing ───────────────────────────────────────────────────────────────────────────────────────────────


def test_threshold_is_added_from_an_empty_table(service: Caller, visit: Visitor) -> None:
    page = visit(service)
    expect(page.locator(".empty")).to_contain_text("No thresholds yet")
    expect(page.locator(".empty code")).to_have_text("cofio knowledge threshold AAPL volume above 5M")
    page.locator(".empty").get_by_role("button").click()
    form = page.get_by_role("dialog", name="Keep a threshold")
    box(form, "Source").fill("AAPL")
    box(form, "Metric").fill("volume")
    box(form, "Value").fill("5M")
    press(page, "Keep")
    expect(row(page, "AAPL volume above 5,000,000")).to_contain_text("0.50")
    expect(page.get_by_role("link", name="Thresholds 1")).to_have_attribute("aria-current", "page")
    expect(notice(page)).to_contain_text("Kept: AAPL volume above 5,000,000.")
    stored = service.get(f"/knowledge/{REF}").json
    assert (stored["value"], stored["unit"], stored["confidence"]) == (5_000_000, "", 0.5)
    assert service.get(f"/knowledge/{REF}/history").json["changes"][0]["by"] == "page"
    notice(page).get_by_role("button", name="Undo").click()
    expect(page.locator(".empty")).to_be_visible()
    assert service.get(f"/knowledge/{REF}").status == 404


@pytest.mark.parametrize(
    ("table", "values", "row_text", "expected"),
    [
        ("patterns", {"What tends to happen": "volume spikes before earnings", "Source": "AAPL"},
         "volume spikes before earnings", {"source": "AAPL", "prior": 0.5}),
        ("correlations", {"The one": "BTC", "The other": "COIN", "In words": "BTC leads by an hour"},
         "BTC leads by an hour", {"id": "btc.leads.coin", "relation": "leads", "inverse": False}),
        ("seasonal", {"What happens": "low volume", "When": "fri 12:00-16:00", "Timezone": "America/New_York"},
         "low volume", {"period": "weekly", "during": "fri 12:00-16:00", "timezone": "America/New_York"}),
    ],
)  # fmt: skip
def test_every_table_has_a_form(
    service: Caller, visit: Visitor, table: str, values: dict[str, str], row_text: str, expected: dict[str, Any]
) -> None:
    page = visit(service, f"/ui/knowledge#/{table}")
    page.locator("#acts .primary").click()
    form = page.get_by_role("dialog")
    for label, text in values.items():
        box(form, label).fill(text)
    if table == "seasonal":
        form.get_by_label("Comes round").select_option("weekly")
        expect(form).to_contain_text("mon-fri 09:30-16:00")  # the hint follows the period
    press(page, "Keep")
    expect(row(page, row_text)).to_be_visible()
    [stored] = service.get(f"/knowledge/{table}").json["rows"]
    assert {name: stored[name] for name in expected} == expected


def test_row_is_changed_and_a_field_is_cleared(service: Caller, visit: Visitor) -> None:
    put_row(service, "thresholds", **VOLUME, unit="shares", confidence=0.8)
    service.post("/knowledge/feedback", {"anomaly": "monday", "verdict": "confirmed", "about": [REF]})
    page = visit(service)
    open_row(page, "AAPL volume").get_by_role("button", name="Change", exact=True).click()
    form = page.get_by_role("dialog", name="Change this threshold")
    expect(box(form, "Value")).to_have_value("5000000")
    form.get_by_text("More").click()
    expect(box(form, "Unit")).to_have_value("shares")
    box(form, "Unit").fill("")
    box(form, "Why").fill("was a typo")
    form.get_by_label("The value itself counts too").check()
    form.get_by_role("button", name="Change").click()
    expect(row(page, "AAPL volume at or above 5,000,000")).to_contain_text("0.84")  # computed from the verdict
    changed = service.get(f"/knowledge/{REF}").json
    assert (changed["unit"], changed["inclusive"], changed["value"]) == ("", True, 5_000_000)
    expect(page.locator(".history > li").first).to_contain_text("was a typo")


def test_rows_are_filtered_by_text_source_and_confidence(service: Caller, visit: Visitor) -> None:
    for number, source in enumerate(("AAPL", "MSFT", "checkout")):
        put_row(service, "thresholds", **{**VOLUME, "source": source, "confidence": 0.9 - number * 0.3})
    page = visit(service)
    expect(rows(page)).to_have_count(3)
    assert [text.split()[0] for text in rows(page).all_inner_texts()] == ["AAPL", "MSFT", "checkout"]
    tools = page.get_by_role("search")
    tools.get_by_label("Find").fill("VOLUME mSf")
    expect(rows(page)).to_have_count(1)
    expect(row(page, "MSFT volume")).to_be_visible()
    tools.get_by_label("Find").fill("")
    tools.get_by_label("Source").fill("check")
    expect(rows(page)).to_have_count(1)
    tools.get_by_label("Source").fill("nobody")
    expect(page.locator(".empty")).to_contain_text("None of the thresholds fits.")
    press(page, "Show all")
    expect(rows(page)).to_have_count(3)
    tools.get_by_label("Least confidence").fill("0.6")
    expect(rows(page)).to_have_count(2)


def test_rows_are_paged_and_found_beyond_the_first_page(service: Caller, visit: Visitor) -> None:
    for number in range(210):
        put_row(service, "patterns", pattern=f"pattern number {number}", confidence=1 - number / 1_000)
    page = visit(service, "/ui/knowledge#/patterns")
    expect(rows(page)).to_have_count(100)
    press(page, "Show more")
    expect(rows(page)).to_have_count(200)
    page.get_by_role("search").get_by_label("Find").fill("number 209")
    expect(rows(page)).to_have_count(1)
    expect(row(page, "pattern number 209")).to_be_visible()


def test_quantities_are_parsed_like_on_the_command_line(service: Caller, visit: Visitor) -> None:
    inputs = ["5M", "5000000", "1,000", "-18", "−2.5", "90%", "250ms", "$1.2B", "€ 3k", "1e3", "2.5e-3 V", ".5", "7.",
               "3 million", "4 Billion", "2bn", "+6", "5m", "5b", "1,00", "", "many", "1.2.3", "5 6", "constructor",
               "5constructor", "1e4000", "12 °C", "0", "5mn", "3 Mio", "4MM", "4 mm", "500 B", "$5 B", "500B",
               "20 Percent", "5Constructor"]  # fmt: skip

    def read(text: str) -> list[Any] | None:
        try:
            return list(as_quantity(text))
        except InvalidInput:
            return None

    script = """async (written) => {
        const { quantity } = await import("/ui/knowledge-labels.js");
        const read = (text) => { const { value, unit } = quantity(text); return [value, unit]; };
        return written.map((text) => { try { return read(text) } catch { return null } });
    }"""
    parsed = visit(service).evaluate(script, inputs)
    assert dict(zip(inputs, parsed, strict=True)) == {text: read(text) for text in inputs}


# ── Checking values ───────────────────────────────────────────────────────────────────────────────────────────────────


def ask(page: Page, source: str, metric: str, value: str) -> Locator:
    region = page.get_by_role("region", name="Does this trigger?")
    for label, text in (("Source", source), ("Metric", metric), ("Value", value)):
        box(region, label).fill(text)
    region.get_by_role("button", name="Check").click()
    return region


def test_firing_threshold_is_judged_and_its_confidence_changes(service: Caller, visit: Visitor) -> None:
    put_row(service, "thresholds", **VOLUME)
    page = visit(service)
    expect(ask(page, "AAPL", "volume", "5M")).to_contain_text("No threshold triggers.")
    region = ask(page, "aapl", "volume", "6.2M")
    expect(region).to_contain_text("crossed by 1,200,000")
    region.get_by_role("button", name="Judge it").click()
    form = page.get_by_role("dialog", name="Judge an anomaly")
    expect(box(form, "What was judged")).to_have_value("aapl volume 6,200,000")
    expect(form.get_by_role("checkbox", name=re.compile("AAPL volume"))).to_be_checked()
    form.get_by_label("False alarm").check()
    box(form, "What was found out").fill("index rebalancing")
    press(page, "Judge")
    expect(notice(page)).to_contain_text("0.50 → 0.40")
    expect(row(page, "AAPL volume").locator(".number")).to_contain_text("0.40")
    expect(row(page, "AAPL volume").locator(".verdicts")).to_contain_text("+0 −1")
    width = row(page, "AAPL volume").locator(".level").evaluate("(level) => level.style.inlineSize")
    assert width == "40%"
    assert service.get(f"/knowledge/{REF}").json["refuted"] == 1
    page.get_by_role("link", name="Verdicts").click()
    expect(row(page, "aapl volume 6,200,000")).to_contain_text("False alarm · index rebalancing")


def test_history_shows_every_change_and_undoes_it(service: Caller, visit: Visitor) -> None:
    put_row(service, "thresholds", **VOLUME, why="said so")
    service.post(
        "/knowledge/feedback", {"anomaly": "monday", "verdict": "confirmed", "about": [REF]}, {"X-Cofio-Client": "ada"}
    )
    page = visit(service, f"/ui/knowledge#/{REF}")
    steps = page.locator(".history > li")
    expect(steps).to_have_count(2)
    expect(steps.nth(0)).to_contain_text("Changed with 1 more by ada")
    expect(steps.nth(0).locator(".difference")).to_contain_text("confidence 0.5became → 0.6")
    expect(steps.nth(0).locator("time")).to_have_attribute("datetime", re.compile("^2026-01-01"))
    expect(steps.nth(1)).to_contain_text("said so")
    steps.nth(0).get_by_role("button", name="Undo").click()
    expect(steps).to_have_count(3)
    expect(steps.nth(1)).to_contain_text("undone")
    expect(steps.nth(1).get_by_role("button")).to_have_count(0)
    expect(row(page, "AAPL volume").locator(".number")).to_contain_text("0.50")
    assert service.get("/knowledge").json["feedback"] == 0
    notice(page).get_by_role("button", name="Undo").click()  # an undo can be undone
    expect(row(page, "AAPL volume").locator(".number")).to_contain_text("0.60")
    visit.expected.add(409)
    steps.last.get_by_role("button", name="Undo").click()
    expect(notice(page).locator(".trouble .hint")).to_be_visible()  # it was changed since
    assert service.get(f"/knowledge/{REF}").json["confidence"] == 0.6


def test_deleted_row_is_restored_by_undo(service: Caller, visit: Visitor) -> None:
    put_row(service, "thresholds", **VOLUME, confidence=0.7)
    page = visit(service)
    open_row(page, "AAPL volume").get_by_role("button", name="Forget").click()
    expect(page.locator(".empty")).to_be_visible()
    expect(notice(page)).to_contain_text("Forgotten: AAPL volume above 5,000,000.")
    assert service.get(f"/knowledge/{REF}").status == 404
    notice(page).get_by_role("button", name="Undo").click()
    expect(row(page, "AAPL volume")).to_contain_text("0.70")
    assert service.get(f"/knowledge/{REF}").status == 200


def test_parse_preview_shows_rows_and_stores_on_request(service: Caller, visit: Visitor) -> None:
    page = visit(service, "/ui/knowledge#/patterns")
    region = page.get_by_role("region", name="What would be read from this?")
    box(region, "What an agent says").fill("Flag AAPL if volume exceeds 5M. The weather is nice.")
    region.get_by_role("button", name="Read").click()
    expect(region.locator(".found li")).to_have_count(1)
    expect(region).to_contain_text("AAPL volume above 5,000,000would be kept in thresholds")
    assert service.get("/knowledge").json["thresholds"] == 0
    region.get_by_role("button", name="Keep it").click()
    press(page, "Keep")
    expect(row(page, "AAPL volume above 5,000,000")).to_be_visible()  # the page shows its table now
    expect(page).to_have_url(re.compile("#/thresholds$"))
    box(region, "What an agent says").fill("Do not flag AAPL volume any more.")
    region.get_by_role("button", name="Read").click()
    expect(region).to_contain_text("would be taken away from thresholds")
    box(region, "What an agent says").fill("Good morning.")
    region.get_by_role("button", name="Read").click()
    expect(region).to_contain_text("Nothing would be read from it.")


def test_active_seasons_are_shown(service: Caller, visit: Visitor) -> None:
    put_row(service, "seasonal", pattern="it goes on", period="daily")
    put_row(service, "seasonal", pattern="it is long over", period="yearly", during="06-01..06-02")
    page = visit(service, "/ui/knowledge#/seasonal")
    expect(page.get_by_role("region", name="On now")).to_contain_text("it goes on")
    expect(page.get_by_role("region", name="On now")).not_to_contain_text("over")
    expect(row(page, "it goes on").locator(".tag")).to_have_text("on now")
    expect(row(page, "it is long over").locator(".tag")).to_have_count(0)


def test_pending_verdicts_are_applied(service: Caller, visit: Visitor) -> None:
    put_row(service, "thresholds", **VOLUME)
    service.post("/knowledge/feedback", {"anomaly": "monday", "verdict": "confirmed", "about": [REF], "process": False})
    page = visit(service, "/ui/knowledge#/feedback")
    expect(row(page, "monday")).to_contain_text("waits")
    press(page, "Apply them")
    expect(row(page, "monday")).to_contain_text("counts")
    assert service.get(f"/knowledge/{REF}").json["confirmed"] == 1


# ── Errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_service_error_is_shown_with_its_hint(service: Caller, visit: Visitor) -> None:
    invalid = {"pattern": "x", "period": "weekly", "during": "someday", "timezone": "UTC"}
    error = service.post("/knowledge/seasonal", invalid).error
    visit.expected.add(400)
    page = visit(service, "/ui/knowledge#/seasonal")
    page.locator("#acts .primary").click()
    form = page.get_by_role("dialog")
    press(page, "Keep")
    expect(form.get_by_role("alert")).to_contain_text("“What happens” is empty.")
    box(form, "What happens").fill("x")
    form.get_by_label("Comes round").select_option("weekly")
    box(form, "When").fill("someday")
    press(page, "Keep")
    expect(form.get_by_role("alert")).to_contain_text(error["message"])
    expect(form.get_by_role("alert").locator(".hint")).to_have_text(error["hint"])
    assert service.get("/knowledge").json["seasonal"] == 0
    box(form, "When").fill("fri")
    press(page, "Keep")
    expect(form).to_have_count(0)
    expect(ask(page, "AAPL", "volume", "5m").get_by_role("status")).to_contain_text(
        "Write M right behind the number for the scale"
    )


def test_unreachable_service_is_reported(service: Caller, visit: Visitor) -> None:
    page = visit(service)
    expect(page.locator(".empty")).to_be_visible()
    page.context.set_offline(True)
    expect(ask(page, "AAPL", "volume", "5M").get_by_role("status")).to_contain_text("The service does not answer.")
    assert all("ERR_INTERNET_DISCONNECTED" in error for error in visit.errors)
    visit.errors.clear()


def test_unknown_row_in_the_url_is_ignored(service: Caller, visit: Visitor) -> None:
    put_row(service, "thresholds", **VOLUME)
    visit.expected.add(404)
    page = visit(service, "/ui/knowledge#/thresholds/gone")
    expect(page).to_have_url(re.compile("#/thresholds$"))
    expect(rows(page)).to_have_count(1)
    page.goto(f"{service.url}/ui/knowledge#/nothing/%E0%A4%A/x")
    expect(rows(page)).to_have_count(1)


def test_hostile_and_long_texts_are_shown_as_text(service: Caller, visit: Visitor) -> None:
    put_row(service, "patterns", pattern=HOSTILE, source=HOSTILE, why=HOSTILE)
    put_row(service, "patterns", pattern="W" * MAX_SAID, id="long")
    put_row(service, "correlations", source_a=HOSTILE, source_b="b", rule=HOSTILE)
    put_row(service, "thresholds", source=HOSTILE, metric=HOSTILE, value=1, direction="above", unit=HOSTILE)
    put_row(service, "seasonal", pattern=HOSTILE, period="daily", source=HOSTILE)
    service.post("/knowledge/feedback", {"anomaly": HOSTILE, "verdict": "note", "note": HOSTILE})
    page = visit(service)
    for table in ("thresholds", "patterns", "correlations", "seasonal", "feedback"):
        page.get_by_role("link", name=re.compile(f"^{'verdicts' if table == 'feedback' else table}", re.I)).click()
        open_row(page, "onerror")
        expect(row(page, "onerror").locator(".says")).to_contain_text(HOSTILE[:60])
        page.get_by_role("button", name=re.compile("Judge an anomaly")).click()
        expect(page.get_by_role("dialog").locator(".claims li")).to_have_count(5)
        page.keyboard.press("Escape")
        assert page.locator("#page img, #page script, dialog img, dialog script").count() == 0
    ask(page, HOSTILE, HOSTILE, "2")
    page.get_by_role("link", name="Patterns").click()
    expect(open_row(page, "WWW").locator(".long").first).to_have_text("W" * MAX_SAID)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#acts .primary").click()
    box(page, "What tends to happen").fill("<b>" * 3_333)
    visit.expected.add(413)
    press(page, "Keep")
    expect(page.get_by_role("alert").locator(".hint")).to_contain_text("4,096")
    assert page.locator("dialog b").count() == 0
    assert service.get("/knowledge").json["patterns"] == 2


# ── Accessibility ─────────────────────────────────────────────────────────────────────────────────────────────────────


def tab_to(page: Page, is_reached: Callable[[], bool], max_steps: int = 60) -> None:
    for _ in range(max_steps):
        if is_reached():
            return
        page.keyboard.press("Tab")
    pytest.fail("The keyboard does not lead there.")


def test_page_works_by_keyboard(service: Caller, visit: Visitor) -> None:
    def is_focused(selector: str) -> Callable[[], bool]:
        return lambda: bool(page.evaluate("(it) => document.activeElement.matches(it)", selector))

    put_row(service, "patterns", pattern="it goes up")
    page = visit(service)
    expect(page.locator(".empty")).to_be_visible()
    page.keyboard.press("Tab")
    assert is_focused(".skip")()  # the first tab stop
    tab_to(page, is_focused("#acts .primary"))
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(box(page.get_by_role("dialog"), "Source")).to_be_focused()
    for text in ("AAPL", "volume"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")  # selects "below"
    page.keyboard.press("Tab")
    page.keyboard.type("5M")
    page.keyboard.press("Enter")
    expect(row(page, "AAPL volume below 5,000,000")).to_be_visible()
    expect(page.locator("#acts .primary")).to_be_focused()  # focus returns to the opener
    tab_to(page, is_focused(".row .head"))
    page.keyboard.press("Enter")
    expect(page.locator(".history")).to_be_visible()
    expect(row(page, "AAPL volume")).to_have_attribute("aria-expanded", "true")
    expect(row(page, "AAPL volume")).to_be_focused()
    tab_to(page, is_focused(".detail .actions button"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Judge an anomaly")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert is_focused(".detail .actions button")()
    tab_to(page, is_focused(".detail .danger"))
    page.keyboard.press("Space")
    expect(page.locator(".empty")).to_be_visible()
    tab_to(page, is_focused(".notice .link"))
    page.keyboard.press("Enter")
    expect(row(page, "AAPL volume")).to_be_visible()
    page.locator(".skip").focus()
    tab_to(page, is_focused("#tables a[href='#/patterns']"))
    page.keyboard.press("Enter")
    expect(row(page, "it goes up")).to_be_visible()
    assert is_focused("#tables a[aria-current]")()


def test_key_is_requested_and_kept_in_this_tab_only(serve: Callable[..., Caller], visit: Visitor) -> None:
    service = serve(api_key="sécret key")
    page = visit(service)
    gate = page.get_by_role("region", name="The service requires a key")
    expect(gate.get_by_label("API key")).to_be_focused()
    expect(page.locator("#page")).to_be_hidden()
    visit.expected.add(401)
    page.keyboard.type("guess")
    page.keyboard.press("Enter")
    expect(gate.locator(".trouble")).to_contain_text("The API key is not valid.")
    gate.get_by_label("API key").fill("sécret key")
    press(page, "Open")
    expect(page.locator(".empty")).to_be_visible()
    stored = page.evaluate("[Object.values(sessionStorage), localStorage.length, document.cookie]")
    assert stored == [["sécret key"], 0, ""]
    assert "s%C3%A9cret" not in page.url
    page.reload()
    expect(page.locator(".empty")).to_be_visible()
    expect(page.locator("#who")).to_contain_text("key: admin")
    press(page, "Forget key")
    expect(gate).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_read_key_is_offered_nothing_else(serve: Callable[..., Caller], visit: Visitor) -> None:
    service = serve(api_key="owner")
    owner = service.with_key("owner")
    put_row(owner, "thresholds", **VOLUME, visibility="global")
    secret = owner.post("/keys", {"name": "ann", "user": "ann", "role": "read"}).json["secret"]
    page = visit(service)
    page.get_by_label("API key").fill(secret)
    press(page, "Open")
    detail = open_row(page, "AAPL volume")
    expect(detail.get_by_role("button")).to_have_count(0)
    expect(page.locator("#acts button")).to_have_count(0)
    expect(ask(page, "AAPL", "volume", "6M")).to_contain_text("crossed by 1,000,000")
    expect(page.get_by_role("button", name="Judge it")).to_have_count(0)
    [key] = [entry for entry in owner.get("/keys").json["keys"] if entry["name"] == "ann"]
    owner.delete(f"/keys/{key['id']}")
    visit.expected.add(401)
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#gate .trouble")).to_contain_text("was revoked")
    expect(page.locator("body")).not_to_contain_text("AAPL")  # no data remains


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(service: Caller, visit: Visitor, scheme: str) -> None:
    put_row(service, "thresholds", **VOLUME)
    put_row(service, "seasonal", pattern="it goes on", period="daily")
    service.post("/knowledge/feedback", {"anomaly": "monday", "verdict": "false_alarm", "about": [REF]})
    page = visit(service, color_scheme=scheme, reduced_motion="reduce")
    options = {"runOnly": ACCESSIBILITY_RULES}

    def violations() -> list[str]:
        results = Axe().run(page, options=options).response["violations"]
        return [f"{violation['id']}: {node['html'][:200]}" for violation in results for node in violation["nodes"]]

    expect(row(page, "AAPL volume")).to_be_visible()
    ask(page, "AAPL", "volume", "6M")
    open_row(page, "AAPL volume")
    page.locator(".history button").first.click()
    expect(notice(page)).to_be_visible()
    assert notice(page).evaluate("(it) => getComputedStyle(it).animationName") == "none"
    assert violations() == []
    page.get_by_role("button", name="Judge an anomaly").click()
    expect(page.locator(".claims li")).to_have_count(2)
    press(page, "Judge")
    expect(page.get_by_role("alert")).to_contain_text("is empty")
    assert violations() == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", background)[0]) < 128) == (scheme == "dark")


def test_page_fits_a_phone(service: Caller, visit: Visitor) -> None:
    put_row(service, "thresholds", source="S" * 200, metric="m" * 200, value=-1.5e300, direction="below", unit="u" * 50)
    put_row(service, "patterns", pattern="p" * 500, source="s" * 200)
    put_row(service, "correlations", source_a="a" * 200, source_b="b" * 200, rule="r" * 500)
    put_row(service, "seasonal", pattern="t" * 500, period="daily", source="s" * 200)
    service.post("/knowledge/feedback", {"anomaly": "x" * 200, "verdict": "note", "note": "n" * 500})
    page = visit(service, viewport=PHONE, has_touch=True, is_mobile=True)
    for table in ("thresholds", "patterns", "correlations", "seasonal", "feedback"):
        page.goto(f"{service.url}/ui/knowledge#/{table}")
        expect(page.locator(f".rows.{table} .row")).to_have_count(1)
        page.locator(".head").click()
        expect(page.locator(".history")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], table
        page.locator("#acts .primary").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert page.get_by_role("dialog").evaluate("(it) => it.scrollWidth <= it.clientWidth"), table
        press(page, "Cancel")
