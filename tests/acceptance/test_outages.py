"""The service is down or hangs, or the client is killed: the client works normally and no turn is lost."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.laptop import CLIENTS, TIMEOUT_S, Laptop, wait_for
from tests.acceptance.models import Models, TextReply

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def laptop(new_laptop: Callable[[], Laptop]) -> Laptop:
    """Return a laptop with cofio in both clients and without autostart."""
    laptop = new_laptop()
    laptop.env["COFIO_AUTOSTART"] = "off"
    laptop.install("--no-start", "--no-mcp")
    return laptop


@pytest.fixture
def web(laptop: Laptop) -> Path:
    return laptop.project(f"work-{next(_numbers)}/web")


@pytest.fixture
def up(laptop: Laptop) -> None:
    laptop.up()


@pytest.mark.parametrize("client", CLIENTS)
def test_client_works_without_service_and_the_turn_is_learned_later(laptop: Laptop, web: Path, client: str) -> None:
    laptop.down()
    run = laptop.prompt(client, "We switched from Prisma to Drizzle for the web app.", at=web)
    assert (run.code, run.out.strip()) == (0, "Noted.")
    assert "cofio" not in run.err.lower()
    assert any(b"Drizzle" in path.read_bytes() for path in laptop.spooled())
    assert not laptop.is_up()

    laptop.up()
    laptop.settled()
    (memory,) = laptop.of(web)
    assert "Drizzle" in memory["text"]
    assert laptop.inbox_status()["balanced"]


def test_memories_are_read_from_the_store_file_without_service(laptop: Laptop, web: Path) -> None:
    laptop.up()
    laptop.remember("We render invoices with Typst.", web, category="decision")
    laptop.down()
    for client in CLIENTS:
        run = laptop.prompt(client, "Continue.", at=web)
        assert run.code == 0
        assert "We render invoices with Typst." in run.read
    assert [line for line in laptop.rungs() if " file " in line]


@pytest.mark.parametrize("client", CLIENTS)
def test_client_works_with_hanging_service_and_the_turn_is_learned_later(
    laptop: Laptop, web: Path, client: str, up: None
) -> None:
    default = laptop.prompt(client, "Hello.", at=web).seconds
    with laptop.hung():
        run = laptop.prompt(client, "We keep sessions in Redis.", at=web)
    assert (run.code, run.out.strip()) == (0, "Noted.")
    assert run.seconds < default + 30  # two recalls and the captures at their deadlines, on a slow machine
    laptop.settled()
    assert ["Redis" in memory["text"] for memory in laptop.of(web)] == [True]


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda how: how.name)
def test_interrupted_client_has_delivered_the_prompt(
    laptop: Laptop, models: Models, web: Path, up: None, signal_number: signal.Signals
) -> None:
    models.when("We use Vitest for tests of signal", TextReply("Too late.", after=TIMEOUT_S))
    client = laptop.start("claude", "-p", f"We use Vitest for tests of signal {signal_number.value}.", at=web)
    wait_for(lambda: bool(models.about(f"of signal {signal_number.value}.")), "the model is asked")
    client.send_signal(signal_number)
    client.communicate(timeout=TIMEOUT_S)
    laptop.settled()
    assert ["Vitest" in memory["text"] for memory in laptop.of(web)] == [True]


@pytest.mark.parametrize("client", CLIENTS)
def test_killed_client_has_delivered_the_prompt(
    laptop: Laptop, models: Models, web: Path, up: None, client: str
) -> None:
    text = f"We log with Pino in {client}."
    models.when(text, TextReply("Too late.", after=TIMEOUT_S))
    command = ("claude", "-p", text) if client == "claude-code" else ("codex", "exec", text)
    running = laptop.start(*command, at=web)
    wait_for(lambda: bool(models.about(text)), "the model is asked")
    laptop.kill(running)

    def told() -> list[object]:
        held = [item for item in laptop.ask("GET", "/inbox?limit=200")["items"] if item["state"] == "pending"]
        return [item["exchange"]["messages"] for item in held if item["exchange"]["project"] == str(web)]

    wait_for(
        lambda: bool(told()), "the prompt is in the inbox"
    )  # a loaded machine spools it, and the worker captures it
    assert told() == [[{"role": "user", "text": text}]]


@pytest.mark.parametrize("client", CLIENTS)
def test_session_starts_the_service_which_outlives_the_client(new_laptop: Callable[[], Laptop], client: str) -> None:
    laptop = new_laptop()
    laptop.install("--no-start", "--no-mcp")
    web = laptop.project("web")
    assert not laptop.is_up()
    run = laptop.prompt(client, "We use Terraform for the cloud.", at=web)
    assert (run.code, run.out.strip()) == (0, "Noted.")
    wait_for(laptop.is_up, "the service is up")
    laptop.settled()
    assert ["Terraform" in memory["text"] for memory in laptop.of(web)] == [True]
