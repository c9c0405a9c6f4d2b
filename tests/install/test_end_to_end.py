"""All of it once, in processes of their own with the real embedder: install, read along, prove, uninstall."""

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
    """`cofio ARGUMENTS` as a program, on a machine."""

    def __init__(self, machine: Machine, **around: str) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        self.env = {**kept, "HOME": str(machine.user), "COFIO_PORT": "0", **around}

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cofio", *arguments]
        return subprocess.run(
            command, env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False
        )

    def told(self, *arguments: str) -> Any:
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def cofio(machine: Machine, provider: str) -> Iterator[Cofio]:
    machine.has("claude-code")
    cofio = Cofio(machine, EXTRACT_URL=provider)
    yield cofio
    cofio("down", "--force")


def test_a_setup_that_is_given_up_says_that_the_service_was_started(cofio: Cofio, machine: Machine) -> None:
    done = cofio("install", "--yes", "--provider", "anthropic", "--provider-key", "wrong")
    assert done.returncode == 1
    assert "Nothing was written. The service was started;" in done.stderr
    assert machine.files().keys() - {file for file in machine.files() if file.startswith(".cache/")} == set()


def test_it_is_installed_proven_and_gone_again(cofio: Cofio, machine: Machine) -> None:
    told = cofio.told("install", "--yes")
    assert told["service"]["started"]
    assert list(told["clients"]) == ["claude-code"]
    first = cofio.told("status")

    told = cofio.told("install", "--yes", "--provider", "anthropic", "--provider-key", KEY)
    assert not told["service"]["started"]
    again = cofio.told("status")
    assert again["url"] == first["url"]
    assert again["pid"] != first["pid"], "a new key is read by a service that starts anew"

    told = cofio.told("doctor")
    found = {each["name"]: each for each in told["checks"]}
    assert found["model"]["says"] == f"anthropic, {MODEL}"
    assert found["claude-code, recall"]["says"].startswith("a memory reached the prompt (service, ")
    assert found["claude-code, capture"]["says"] == "the turn was captured, and the model found no fact in it"
    assert cofio.told("status")["memories"] == 0

    cofio.told("uninstall")
    assert machine.files().keys() - {file for file in machine.files() if file.startswith(".cache/")} == set()
    assert machine.home.exists()
