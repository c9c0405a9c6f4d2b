"""`cofio audit`: what it shows, to a person, to a program and to a build."""

from __future__ import annotations

import pytest

from cofio.cli.store_audit import NEXT
from cofio.client import Client
from cofio.settings import Settings
from tests.cli.conftest import Cofio, Shell, hashing_keeper, served
from tests.cli.test_terminal import COLOURS, on_terminal

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def filled(cofio: Cofio) -> Cofio:
    cofio.json("add", "The API listens on port 8080", "The API listens on port 9090", f"The token is {KEY}")
    return cofio


def test_a_program_gets_a_line_a_finding_and_a_line_a_memory_of_each_example(filled: Cofio) -> None:
    lines = [line.split("\t") for line in filled.lines("audit")]
    counts = {name: count for name, count, _says in lines[: len(NEXT)]}
    assert counts == {**dict.fromkeys(NEXT, "0"), "secrets": "1", "contradictions": "1"}
    assert [line[:3] for line in lines[len(NEXT) :]] == [
        ["secrets", "3", "The token is [redacted:github-token]"],
        ["contradictions", "2", "The API listens on port 9090"],
        ["contradictions", "1", "The API listens on port 8080"],
    ]


def test_as_json_it_is_one_document(filled: Cofio) -> None:
    told = filled.json("audit", "--examples", "1")
    assert told["memories"] == 3
    assert {each["name"]: each["count"] for each in told["findings"]}["contradictions"] == 1
    assert KEY not in str(told)


def test_no_examples_where_none_are_wanted(filled: Cofio) -> None:
    assert len(filled.lines("audit", "--examples", "0")) == len(NEXT)


def test_a_person_is_told_what_to_do_next_only_about_what_was_found(shell: Shell) -> None:
    Cofio(shell.home).json("add", "The API listens on port 8080", "The API listens on port 9090")
    shown = COLOURS.sub("", on_terminal(shell, "audit", width=120))
    assert "contradictions: 1 of 1" in shown
    assert "exact duplicates: " not in shown
    assert shown.index("port 9090") < shown.index("port 8080")


def test_there_is_no_colour_where_none_is_wanted(shell: Shell) -> None:
    Cofio(shell.home).json("add", "The API listens on port 8080", "The API listens on port 9090")
    plain = on_terminal(shell, "audit", env={"NO_COLOR": "1"})
    assert "\x1b[3" not in plain
    assert "\x1b[3" in on_terminal(shell, "audit")


def test_it_never_fails_unless_asked_to(filled: Cofio) -> None:
    assert filled("audit").exit_code == 0
    assert filled("audit", "--strict").exit_code == 1
    assert filled("audit", "--strict", "--json").exit_code == 1


def test_strict_lets_pass_what_is_only_untidy(cofio: Cofio) -> None:
    cofio.json("add", "word " * 500)
    done = cofio("audit", "--strict")
    assert done.exit_code == 0
    assert "oversized\t1" in done.stdout


def test_a_clean_store_is_called_so(cofio: Cofio) -> None:
    cofio.json("add", "We deploy with Fly.io")
    assert "1 memory checked; nothing was found." in cofio("audit").stderr


def test_a_service_tells_the_same(filled: Cofio) -> None:
    settings = Settings.load({"home": filled.home, "port": 0})
    with hashing_keeper(settings) as keeper:
        direct = keeper.audit(examples=3)
        with served(keeper, settings) as url, Client(url) as client:
            assert client.audit(examples=3).as_dict() == direct.as_dict()
            assert filled.lines("audit", "--url", url) == filled.lines("audit")
