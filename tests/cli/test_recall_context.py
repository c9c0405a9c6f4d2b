"""The `cofio recall --context` command."""

from __future__ import annotations

from cofio.text.briefing import NOTICE
from tests.cli.conftest import InProcessCli


def test_recall_context_is_printed(cofio: InProcessCli) -> None:
    cofio("add", "AAPL reports its earnings on thursday")
    request = ("recall", "--context", "when does AAPL report its earnings?")
    lines = cofio.lines(*request)
    assert lines[:3] == ["<relevant-context>", NOTICE, "## Relevant Memories"]
    assert lines[3].endswith("] AAPL reports its earnings on thursday (said by you)")
    assert cofio.json(*request)["context"] == "\n".join(lines)
    assert cofio.lines("recall", "--context", "what is for lunch?", "-k", "1")[1] == "No prior context found."


def test_context_and_project_are_a_usage_error(cofio: InProcessCli) -> None:
    result = cofio("recall", "--context", "AAPL", "--project", "web")
    assert result.exit_code == 2
    assert "cannot be combined with --project" in result.output
