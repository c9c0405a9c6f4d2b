"""The service is down, or hangs, or the client dies: the work goes on as if there were no memory. Nothing is lost."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.laptop import CLIENTS, PATIENCE, Laptop, wait_for
from tests.acceptance.models import Models, Say

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def laptop(new_laptop: Callable[[], Laptop]) -> Laptop:
    """With cofio in both clients, whose hooks do not start the service by themselves."""
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
def test_with_the_service_down_the_client_answers_as_ever_and_the_turn_is_learned_later(
    laptop: Laptop, web: Path, client: str
) -> None:
    laptop.down()
    ran = laptop.prompt(client, "We switched from Prisma to Drizzle for the web app.", at=web)
    assert (ran.code, ran.out.strip()) == (0, "Noted.")
    assert "cofio" not in ran.err.lower()
    assert any(b"Drizzle" in path.read_bytes() for path in laptop.spooled())
    assert not laptop.is_up()

    laptop.up()
    laptop.settled()
    (memory,) = laptop.of(web)
    assert "Drizzle" in memory["text"]
    assert laptop.inbox_status()["balanced"]


def test_with_the_service_down_memories_still_come_from_the_file(laptop: Laptop, web: Path) -> None:
    laptop.up()
    laptop.remember("We render invoices with Typst.", web, category="decision")
    laptop.down()
    for client in CLIENTS:
        ran = laptop.prompt(client, "Continue.", at=web)
        assert ran.code == 0
        assert "We render invoices with Typst." in ran.read
    assert [line for line in laptop.rungs() if " file " in line]


@pytest.mark.parametrize("client", CLIENTS)
def test_with_a_service_that_hangs_the_client_answers_and_the_turn_is_learned_later(
    laptop: Laptop, web: Path, client: str, up: None
) -> None:
    usual = laptop.prompt(client, "Hello.", at=web).seconds
    with laptop.hung():
        ran = laptop.prompt(client, "We keep sessions in Redis.", at=web)
    assert (ran.code, ran.out.strip()) == (0, "Noted.")
    assert ran.seconds < usual + 30  # two recalls and the captures at their deadlines, on a slow machine
    laptop.settled()
    assert ["Redis" in memory["text"] for memory in laptop.of(web)] == [True]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda how: how.name)
def test_a_client_that_is_stopped_in_the_middle_has_handed_over_the_prompt(
    laptop: Laptop, models: Models, web: Path, up: None, how: signal.Signals
) -> None:
    models.when("We use Vitest for tests of signal", Say("Too late.", after=PATIENCE))
    client = laptop.start("claude", "-p", f"We use Vitest for tests of signal {how.value}.", at=web)
    wait_for(lambda: bool(models.about(f"of signal {how.value}.")), "the model is asked")
    client.send_signal(how)
    client.communicate(timeout=PATIENCE)
    laptop.settled()
    assert ["Vitest" in memory["text"] for memory in laptop.of(web)] == [True]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_is_killed_in_the_middle_has_handed_over_the_prompt(
    laptop: Laptop, models: Models, web: Path, up: None, client: str
) -> None:
    said = f"We log with Pino in {client}."
    models.when(said, Say("Too late.", after=PATIENCE))
    command = ("claude", "-p", said) if client == "claude-code" else ("codex", "exec", said)
    running = laptop.start(*command, at=web)
    wait_for(lambda: bool(models.about(said)), "the model is asked")
    laptop.kill(running)

    def told() -> list[object]:
        held = [item for item in laptop.ask("GET", "/inbox?limit=200")["items"] if item["state"] == "pending"]
        return [item["exchange"]["messages"] for item in held if item["exchange"]["project"] == str(web)]

    wait_for(lambda: bool(told()), "the prompt is in the inbox")  # a busy machine spools it: the worker brings it in
    assert told() == [[{"role": "user", "text": said}]]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_session_starts_the_service_when_it_is_down_and_it_outlives_the_client(
    new_laptop: Callable[[], Laptop], client: str
) -> None:
    laptop = new_laptop()
    laptop.install("--no-start", "--no-mcp")
    web = laptop.project("web")
    assert not laptop.is_up()
    ran = laptop.prompt(client, "We use Terraform for the cloud.", at=web)
    assert (ran.code, ran.out.strip()) == (0, "Noted.")
    wait_for(laptop.is_up, "the service is up")
    laptop.settled()
    assert ["Terraform" in memory["text"] for memory in laptop.of(web)] == [True]
