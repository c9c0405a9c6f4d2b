"""Install, doctor and uninstall in real processes with the real embedder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ..cli.conftest import VARIABLES
from .conftest import Machine
from .test_command import KEY, MODEL, provider

__all__ = ["provider"]


class Cofio:
    """Run `cofio ARGUMENTS` as a program on a machine."""

    def __init__(self, machine: Machine, **around: str) -> None:
        stored = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        self.env = {**stored, "HOME": str(machine.user), "COFIO_PORT": "0", **around}

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cofio", *arguments]
        return subprocess.run(
            command, env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False
        )

    def told(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert result.returncode == 0, result.stdout + result.stderr
        return json.loads(result.stdout)


@pytest.fixture
def cofio(machine: Machine, provider: str) -> Iterator[Cofio]:
    machine.has("claude-code")
    cofio = Cofio(machine, EXTRACT_URL=provider)
    yield cofio
    cofio("down", "--force")


def test_aborted_setup_reports_the_started_service(cofio: Cofio, machine: Machine) -> None:
    result = cofio("install", "--yes", "--provider", "anthropic", "--provider-key", "wrong")
    assert result.returncode == 1
    assert "Nothing was written. The service was started;" in result.stderr
    assert machine.files().keys() - {file for file in machine.files() if file.startswith(".cache/")} == set()


def test_install_doctor_and_uninstall_with_real_processes(cofio: Cofio, machine: Machine) -> None:
    result = cofio.told("install", "--yes")
    assert result["service"]["started"]
    assert list(result["clients"]) == ["claude-code"]
    first = cofio.told("status")

    result = cofio.told("install", "--yes", "--provider", "anthropic", "--provider-key", KEY)
    assert not result["service"]["started"]
    repeated = cofio.told("status")
    assert repeated["url"] == first["url"]
    assert repeated["pid"] != first["pid"], "a new key is read by a service that starts anew"

    result = cofio.told("doctor")
    results = {check["name"]: check for check in result["checks"]}
    assert results["model"]["says"] == f"anthropic, {MODEL}"
    assert results["claude-code, recall"]["says"].startswith("a memory reached the prompt (service, ")
    assert results["claude-code, capture"]["says"] == "the turn was captured, and the model found no fact in it"
    assert cofio.told("status")["memories"] == 0

    cofio.told("uninstall")
    assert machine.files().keys() - {file for file in machine.files() if file.startswith(".cache/")} == set()
    assert machine.home.exists()
