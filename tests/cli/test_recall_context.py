"""The context of an agent's own loop as a person types it."""

from __future__ import annotations

from tests.cli.conftest import Cofio


def test_the_command_prints_the_context(cofio: Cofio) -> None:
    cofio("add", "AAPL reports its earnings on thursday")
    asked = ("recall", "--context", "when does AAPL report its earnings?")
    lines = cofio.lines(*asked)
    assert lines[:2] == ["<relevant-context>", "## Relevant Memories"]
    assert lines[2].endswith("] AAPL reports its earnings on thursday")
    assert cofio.json(*asked)["context"] == "\n".join(lines)
    assert cofio.lines("recall", "--context", "what is for lunch?", "-k", "1")[1] == "No prior context found."


def test_a_context_is_of_no_project(cofio: Cofio) -> None:
    done = cofio("recall", "--context", "AAPL", "--project", "web")
    assert done.exit_code == 2
    assert "Omit --project" in done.output
