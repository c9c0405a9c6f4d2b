"""Two processes that write to one store at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.writing_process import open_keeper, run_writers

TAGS = 100  # of each process
TOOLS = {
    "Kafka": "the billing queue",
    "Grafana": "dashboards",
    "Terraform": "cloud infrastructure",
    "Playwright": "browser tests",
    "Redis": "login sessions",
    "Stripe": "payments",
    "Sentry": "error reports",
    "Figma": "page designs",
    "Postmark": "password mails",
    "Elasticsearch": "product search",
    "Airflow": "nightly imports",
    "Storybook": "component previews",
    "Vault": "certificates",
    "Pandoc": "the printed manual",
    "Blender": "the title animation",
}


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "cofio.db")
    url: str = request.getfixturevalue("tenant_url")
    return url


def test_concurrent_tag_edits_lose_no_tag(address: str) -> None:
    with open_keeper(address) as keeper:
        memory_id = keeper.add("We deploy with Fly.io").memory_id
        with run_writers(address, 2) as writers:
            for number, writer in enumerate(writers):
                writer.request("tag", memory_id, [f"tag-{number}-{tag}" for tag in range(TAGS)])
            for writer in writers:
                writer.answer()
        memory = keeper.get(memory_id)
    assert set(memory.tags) == {f"tag-{number}-{tag}" for number in range(2) for tag in range(TAGS)}


@pytest.mark.parametrize("operation", ["add", "learn"])
def test_near_duplicates_of_the_same_moment_are_stored_once(address: str, operation: str) -> None:
    with open_keeper(address) as keeper, run_writers(address, 2) as writers:
        for tool, purpose in TOOLS.items():
            writers[0].request(operation, f"We use {tool} for {purpose}.")
            writers[1].request(operation, f"For {purpose} we use {tool}.")
            assert all(writer.answer() for writer in writers)
            assert len([memory for memory in keeper if tool in memory.text]) == 1
