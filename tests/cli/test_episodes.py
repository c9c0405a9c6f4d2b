"""Episode commands."""

from __future__ import annotations

import json

import pytest

from cofio.settings import Settings
from tests.cli.conftest import InProcessCli, hashing_keeper


@pytest.fixture
def cli_with_episodes(cofio: InProcessCli) -> InProcessCli:
    """Return a CLI whose store has two captured turns; a memory was learned from one of them."""
    with hashing_keeper(Settings.load({"home": cofio.home}, environ={})) as keeper:
        for turn, text in enumerate(("Shall we meet at the harbour?", "I prefer tabs over spaces.")):
            keeper.capture(text, wait=True, client="claude", session="s1", turn=str(turn), source="claude/web")
    return cofio


def test_search_finds_episodes_on_request(cli_with_episodes: InProcessCli) -> None:
    (row,) = cli_with_episodes.lines("search", "harbour", "--episodes")
    episode, score, text, session, at = row.split("\t")
    assert (episode, text, session) == ("1", "User: Shall we meet at the harbour?", "s1")
    assert 0 < float(score) < 1
    assert at.endswith("+00:00")
    output = cli_with_episodes.json("search", "harbour", "--episodes", "--source-prefix", "claude", "-k", "3")
    assert (output["query"], output["count"]) == ("harbour", 1)
    assert output["episodes"][0]["episode"] == 1
    assert cli_with_episodes.json("search", "harbour", "--episodes", "--session", "s2")["episodes"] == []
    assert "No matching episodes." in cli_with_episodes("search", "lighthouse", "--episodes").stderr


def test_unsupported_options_for_episodes_are_rejected(cli_with_episodes: InProcessCli) -> None:
    result = cli_with_episodes("search", "harbour", "--episodes", "--kind", "policy", "--explain")
    assert result.exit_code == 2
    assert "--explain, --kind" in result.stderr


def test_show_names_the_episode_of_a_memory(cli_with_episodes: InProcessCli) -> None:
    assert cli_with_episodes.json("show", "1")["episode"] == 2
    assert "episode\t2" in cli_with_episodes.lines("show", "1")
    assert cli_with_episodes.json("episodes", "show", "2")["text"] == "User: I prefer tabs over spaces."
    assert "session\ts1" in cli_with_episodes.lines("episodes", "show", "2")
    cli_with_episodes.lines("add", "We deploy with Fly.io")
    assert cli_with_episodes.json("show", "2")["episode"] is None


def test_purge_asks_for_confirmation(cli_with_episodes: InProcessCli) -> None:
    assert "Nothing was changed" in cli_with_episodes("episodes", "purge", "1", input_text="n\n").stderr
    assert cli_with_episodes.json("episodes", "purge", "1", "--yes") == {"id": 1, "action": "purge"}
    result = cli_with_episodes("episodes", "show", "1", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stderr)["error"]["code"] == "not_found"
    assert cli_with_episodes.json("search", "harbour", "--episodes")["episodes"] == []


def test_reembed_indexes_and_embeds_missing_episodes(cofio: InProcessCli) -> None:
    with hashing_keeper(Settings.load({"home": cofio.home}, environ={"COFIO_EPISODES": "off"})) as keeper:
        keeper.capture("Shall we meet at the harbour?", wait=True)
    assert cofio.json("search", "harbour", "--episodes")["count"] == 0
    cofio.json("reembed", "--missing")
    (hit,) = cofio.json("search", "harbour", "--episodes")["episodes"]
    assert hit["match_type"] == "hybrid"
