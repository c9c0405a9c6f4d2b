"""The files of the pages: whole, served with the right headers, and with nothing in them that a policy would stop."""

from __future__ import annotations

import re

import pytest

from cofio.page import POLICY, shipped
from tests.api.caller import Caller

SCRIPTS = [name for name in shipped() if name.endswith(".js")]


def text_of(name: str) -> str:
    return shipped()[name].content.decode()


def test_the_way_leads_to_the_page(served: Caller) -> None:
    answer = served.get("/ui")
    assert (answer.status, answer.headers["location"]) == (307, "ui/knowledge")
    page = served.get("/ui/knowledge")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.body == shipped()["knowledge.html"].content


@pytest.mark.parametrize("name", [name for name in shipped() if not name.endswith(".html")])
def test_every_file_comes_with_its_type_and_the_policy(served: Caller, name: str) -> None:
    answer = served.get(f"/ui/{name}")
    media = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}[name.rpartition(".")[2]]
    assert (answer.status, answer.headers["content-type"]) == (200, f"{media}; charset=utf-8")
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.body == shipped()[name].content


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
def test_nothing_else_is_served(served: Caller, name: str) -> None:
    assert served.get(f"/ui/{name}").status == 404


def test_no_script_and_no_style_stands_within_a_page() -> None:
    page = text_of("knowledge.html")
    assert re.findall(r"<script[^>]*>(.+?)</script>", page) == []
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)


@pytest.mark.parametrize("name", list(shipped()))
def test_nothing_names_another_host(name: str) -> None:
    told = text_of(name).replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|[\"'(]//\w", told)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_of_text(name: str) -> None:
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|localStorage|\.cookie"
    assert not re.search(ways, text_of(name))


@pytest.mark.parametrize("name", [*SCRIPTS, "knowledge.html"])
def test_everything_that_is_loaded_is_there(name: str) -> None:
    loaded = re.findall(r'from "\./([^"]+)"|(?:href|src)="([a-z.]+\.[a-z]+)"', text_of(name))
    assert {each for pair in loaded for each in pair if each} <= shipped().keys()
