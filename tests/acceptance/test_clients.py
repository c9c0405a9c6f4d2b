"""Messages when the real clients are not available."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance import clients


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine without node."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COFIO_TEST_CACHE", str(tmp_path / "cache"))


def test_missing_npm_error_says_what_to_install(bare: None) -> None:
    with pytest.raises(clients.Missing, match="apt-get install nodejs npm"):
        clients.installed()


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_missing_npm_fails_in_ci_only(
    bare: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    monkeypatch.setenv("CI", ci)
    assert clients.main() == code
    assert "need node and npm" in capsys.readouterr().err


def test_versions_are_pinned_with_the_hash_of_each_package() -> None:
    assert all(version[0].isdigit() for version in clients.PINNED.values())
    packages = json.loads(clients.MANIFEST.with_name("package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert all(package.get("integrity", "").startswith("sha512-") for name, package in packages.items() if name)
