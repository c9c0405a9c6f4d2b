"""The files of the pages: whole, served with the right headers, and with nothing in them that a policy would stop."""

from __future__ import annotations

import re

import pytest

from cofio.server.ui import PAGES, POLICY, pages, static_files
from tests.http_api.caller import Caller

SCRIPTS = [name for name in static_files() if name.endswith(".js")]


def text_of(name: str) -> str:
    return static_files()[name].content.decode()


def test_the_way_leads_to_the_first_page(shared_service: Caller) -> None:
    answer = shared_service.get("/ui")
    assert (answer.status, answer.headers["location"]) == (307, "ui/overview")


@pytest.mark.parametrize("name", PAGES)
def test_every_page_comes_whole_and_names_all_others(shared_service: Caller, name: str) -> None:
    page = shared_service.get(f"/ui/{name}")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"] == POLICY
    assert page.body == pages()[name].content
    html = page.body.decode()
    assert re.findall(r'<a href="(\w+)"(?: aria-current="page")?>', html) == list(PAGES)
    assert html.count("aria-current") == 1
    assert f'<a href="{name}" aria-current="page">' in html
    assert "$" not in html


@pytest.mark.parametrize("name", static_files())
def test_every_file_comes_with_its_type_and_the_policy(shared_service: Caller, name: str) -> None:
    answer = shared_service.get(f"/ui/{name}")
    media = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}[name.rpartition(".")[2]]
    assert (answer.status, answer.headers["content-type"]) == (200, f"{media}; charset=utf-8")
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.body == static_files()[name].content


def test_the_policy_lets_in_what_is_ours_and_nothing_else() -> None:
    told = dict(each.strip().split(" ", 1) for each in POLICY.split(";"))
    ours = {"script-src", "style-src", "connect-src"}
    assert {name for name, value in told.items() if value == "'self'"} == ours
    assert {name for name, value in told.items() if value == "'none'"} == {
        "default-src", "base-uri", "form-action", "frame-ancestors",
    }  # fmt: skip
    assert told["img-src"] == "'self' data:"
    assert "unsafe" not in POLICY


@pytest.mark.parametrize(
    "name",
    ["", "nope.js", "__init__.py", "knowledge.html", "..%2Fapi%2Fdocs.css", "%2e%2e", "style.css/", "style.css%00"],
)
def test_nothing_else_is_served(shared_service: Caller, name: str) -> None:
    assert shared_service.get(f"/ui/{name}").status == 404


@pytest.mark.parametrize("name", PAGES)
def test_no_script_and_no_style_stands_within_a_page(name: str) -> None:
    page = pages()[name].content.decode()
    assert re.findall(r"<script[^>]*>(.+?)</script>", page) == []
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)


@pytest.mark.parametrize("name", list(static_files()))
def test_nothing_names_another_host(name: str) -> None:
    told = text_of(name).replace("http://www.w3.org/2000/svg", "")  # a name, that nobody asks
    assert not re.search(r"https?:|[\"'(]//\w", told)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_of_text(name: str) -> None:
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|localStorage|\.cookie"
    assert not re.search(ways, text_of(name))


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_handler_keeps_keys_from_working_by_what_it_gives(name: str) -> None:
    assert not re.search(r"\.on\w+ = \([^)]*\) => [^{\n]*&&", text_of(name))  # false would prevent the default


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_that_is_loaded_is_there(name: str) -> None:
    assert set(re.findall(r'from "\./([^"]+)"', text_of(name))) <= static_files().keys()


@pytest.mark.parametrize("name", PAGES)
def test_everything_that_a_page_loads_is_there(name: str) -> None:
    loaded = re.findall(r'(?:href|src)="([a-z_]+\.[a-z]+)"', pages()[name].content.decode())
    assert f"{name}.js" in loaded
    assert set(loaded) <= static_files().keys()
