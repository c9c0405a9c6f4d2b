"""The static files of the pages: complete, with the right headers, and compatible with the content security policy."""

from __future__ import annotations

import re

import pytest

from cofio.server.ui import PAGES, POLICY, pages, static_files
from tests.http_api.caller import Caller

SCRIPTS = [name for name in static_files() if name.endswith(".js")]


def text_of(name: str) -> str:
    return static_files()[name].content.decode()


def test_ui_redirects_to_the_first_page(shared_service: Caller) -> None:
    response = shared_service.get("/ui")
    assert (response.status, response.headers["location"]) == (307, "ui/overview")


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_complete_and_links_to_all_others(shared_service: Caller, name: str) -> None:
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
def test_every_file_has_its_type_and_the_policy(shared_service: Caller, name: str) -> None:
    response = shared_service.get(f"/ui/{name}")
    media_type = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}[name.rpartition(".")[2]]
    assert (response.status, response.headers["content-type"]) == (200, f"{media_type}; charset=utf-8")
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert response.body == static_files()[name].content


def test_policy_allows_only_own_resources() -> None:
    directives = dict(directive.strip().split(" ", 1) for directive in POLICY.split(";"))
    self_directives = {"script-src", "style-src", "connect-src"}
    assert {name for name, value in directives.items() if value == "'self'"} == self_directives
    assert {name for name, value in directives.items() if value == "'none'"} == {
        "default-src", "base-uri", "form-action", "frame-ancestors",
    }  # fmt: skip
    assert directives["img-src"] == "'self' data:"
    assert "unsafe" not in POLICY


@pytest.mark.parametrize(
    "name",
    ["", "nope.js", "__init__.py", "knowledge.html", "..%2Fapi%2Fdocs.css", "%2e%2e", "style.css/", "style.css%00"],
)
def test_unknown_files_are_not_served(shared_service: Caller, name: str) -> None:
    assert shared_service.get(f"/ui/{name}").status == 404


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_no_inline_scripts_or_styles(name: str) -> None:
    page = pages()[name].content.decode()
    assert re.findall(r"<script[^>]*>(.+?)</script>", page) == []
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)


@pytest.mark.parametrize("name", list(static_files()))
def test_files_name_no_other_host(name: str) -> None:
    text = text_of(name).replace("http://www.w3.org/2000/svg", "")  # a namespace, not requested
    assert not re.search(r"https?:|[\"'(]//\w", text)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_do_not_create_markup_from_text(name: str) -> None:
    pattern = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|localStorage|\.cookie"
    assert not re.search(pattern, text_of(name))


@pytest.mark.parametrize("name", SCRIPTS)
def test_handlers_do_not_prevent_default_by_accident(name: str) -> None:
    assert not re.search(r"\.on\w+ = \([^)]*\) => [^{\n]*&&", text_of(name))  # returning false prevents the default


@pytest.mark.parametrize("name", SCRIPTS)
def test_imported_scripts_exist(name: str) -> None:
    assert set(re.findall(r'from "\./([^"]+)"', text_of(name))) <= static_files().keys()


@pytest.mark.parametrize("name", PAGES)
def test_files_loaded_by_a_page_exist(name: str) -> None:
    loaded = re.findall(r'(?:href|src)="([a-z_]+\.[a-z]+)"', pages()[name].content.decode())
    assert f"{name}.js" in loaded
    assert set(loaded) <= static_files().keys()
