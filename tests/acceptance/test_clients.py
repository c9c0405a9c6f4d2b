"""Where the real clients cannot be had, that is said, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance import clients


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without node."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COFIO_TEST_CACHE", str(tmp_path / "cache"))


def test_without_npm_the_clients_are_missing_and_it_is_said_what_to_install(bare: None) -> None:
    with pytest.raises(clients.Missing, match="apt-get install nodejs npm"):
        clients.installed()


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_without_npm_only_ci_fails(
    bare: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    monkeypatch.setenv("CI", ci)
    assert clients.main() == code
    assert "need node and npm" in capsys.readouterr().err


def test_versions_are_exact_and_no_lock_file_names_where_they_come_from() -> None:
    assert all(version[0].isdigit() for version in clients.PINNED.values())
    assert not clients.MANIFEST.with_name("package-lock.json").exists()
