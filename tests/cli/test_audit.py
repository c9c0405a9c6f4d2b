"""The `cofio audit` command."""

from __future__ import annotations

import pytest

from cofio.cli.maintenance import NEXT
from cofio.client import Client
from cofio.settings import Settings
from tests.cli.conftest import InProcessCli, Shell, hashing_keeper, running_service
from tests.cli.test_terminal import COLOR_CODES, on_terminal

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def filled(cofio: InProcessCli) -> InProcessCli:
    cofio.json(
        "add", "The API listens on port 8080", "The API listens on port 9090", f"The token is {KEY}", "--keep-secret"
    )
    return cofio


def test_piped_output_has_a_line_per_finding_and_example(filled: InProcessCli) -> None:
    lines = [line.split("\t") for line in filled.lines("audit")]
    counts = {name: count for name, count, _says in lines[: len(NEXT)]}
    assert counts == {**dict.fromkeys(NEXT, "0"), "secrets": "1", "contradictions": "1"}
    assert [line[:3] for line in lines[len(NEXT) :]] == [
        ["secrets", "3", "The token is [redacted:github-token]"],
        ["contradictions", "2", "The API listens on port 9090"],
        ["contradictions", "1", "The API listens on port 8080"],
    ]


def test_json_output_is_one_document(filled: InProcessCli) -> None:
    output = filled.json("audit", "--examples", "1")
    assert output["memories"] == 3
    assert {finding["name"]: finding["count"] for finding in output["findings"]}["contradictions"] == 1
    assert KEY not in str(output)


def test_examples_zero_prints_counts_only(filled: InProcessCli) -> None:
    assert len(filled.lines("audit", "--examples", "0")) == len(NEXT)


def test_terminal_output_has_hints_for_findings_only(shell: Shell) -> None:
    InProcessCli(shell.home).json("add", "The API listens on port 8080", "The API listens on port 9090")
    output = COLOR_CODES.sub("", on_terminal(shell, "audit", width=120))
    assert "contradictions: 1 of 1" in output
    assert "exact duplicates: " not in output
    assert output.index("port 9090") < output.index("port 8080")


def test_no_color_disables_colors(shell: Shell) -> None:
    InProcessCli(shell.home).json("add", "The API listens on port 8080", "The API listens on port 9090")
    plain = on_terminal(shell, "audit", env={"NO_COLOR": "1"})
    assert "\x1b[3" not in plain
    assert "\x1b[3" in on_terminal(shell, "audit")


def test_exit_code_is_zero_unless_strict(filled: InProcessCli) -> None:
    assert filled("audit").exit_code == 0
    assert filled("audit", "--strict").exit_code == 1
    assert filled("audit", "--strict", "--json").exit_code == 1


def test_strict_ignores_minor_findings(cofio: InProcessCli) -> None:
    cofio.json("add", "word " * 500)
    result = cofio("audit", "--strict")
    assert result.exit_code == 0
    assert "oversized\t1" in result.stdout


def test_clean_store_is_reported(cofio: InProcessCli) -> None:
    cofio.json("add", "We deploy with Fly.io")
    assert "1 memory checked; nothing was found." in cofio("audit").stderr


def test_client_audit_equals_library_audit(filled: InProcessCli) -> None:
    settings = Settings.load({"home": filled.home, "port": 0})
    with hashing_keeper(settings) as keeper:
        direct = keeper.audit(examples=3)
        with running_service(keeper, settings) as url, Client(url) as client:
            assert client.audit(examples=3).as_dict() == direct.as_dict()
            assert filled.lines("audit", "--url", url) == filled.lines("audit")


def test_findings_are_archived_on_request(filled: InProcessCli) -> None:
    filled.json("add", "The registry is Quay", "--source", "system")
    rows = [line.split("\t")[:2] for line in filled.lines("audit", "--archive", "imitating_sources", "--yes")]
    assert rows == [["4", "The registry is Quay"]]
    assert len(filled.lines("list")) == 3
    assert filled("audit", "--archive", "oversized").exit_code == 2
    assert filled.json("audit", "--archive", "future_dates", "--yes") == {
        "dry_run": True, "decisions": [], "changeset": None
    }  # fmt: skip
