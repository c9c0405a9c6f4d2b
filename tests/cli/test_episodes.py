"""Episodes on the command line."""

from __future__ import annotations

import json

import pytest

from cofio.settings import Settings
from tests.cli.conftest import Cofio, hashing_keeper


@pytest.fixture
def spoken(cofio: Cofio) -> Cofio:
    """A store that two turns were captured in, one of which a memory was made of."""
    with hashing_keeper(Settings.load({"home": cofio.home}, environ={})) as keeper:
        for turn, text in enumerate(("Shall we meet at the harbour?", "I prefer tabs over spaces.")):
            keeper.capture(text, wait=True, client="claude", session="s1", turn=str(turn), source="claude/web")
    return cofio


def test_search_finds_episodes_when_asked(spoken: Cofio) -> None:
    (row,) = spoken.lines("search", "harbour", "--episodes")
    episode, score, text, session, at = row.split("\t")
    assert (episode, text, session) == ("1", "User: Shall we meet at the harbour?", "s1")
    assert 0 < float(score) < 1
    assert at.endswith("+00:00")
    told = spoken.json("search", "harbour", "--episodes", "--source-prefix", "claude", "-k", "3")
    assert (told["query"], told["count"]) == ("harbour", 1)
    assert told["episodes"][0]["episode"] == 1
    assert spoken.json("search", "harbour", "--episodes", "--session", "s2")["episodes"] == []
    assert "No matching episodes." in spoken("search", "lighthouse", "--episodes").stderr


def test_options_that_episodes_do_not_have_are_refused(spoken: Cofio) -> None:
    done = spoken("search", "harbour", "--episodes", "--kind", "policy", "--explain")
    assert done.exit_code == 2
    assert "explain, kind" in done.stderr


def test_show_names_the_episode_of_a_memory(spoken: Cofio) -> None:
    assert spoken.json("show", "1")["episode"] == 2
    assert "episode\t2" in spoken.lines("show", "1")
    assert spoken.json("episodes", "show", "2")["text"] == "User: I prefer tabs over spaces."
    assert "session\ts1" in spoken.lines("episodes", "show", "2")
    spoken.lines("add", "We deploy with Fly.io")
    assert spoken.json("show", "2")["episode"] is None


def test_purge_asks_and_erases(spoken: Cofio) -> None:
    assert "Nothing was changed" in spoken("episodes", "purge", "1", says="n\n").stderr
    assert spoken.json("episodes", "purge", "1", "--yes") == {"id": 1, "action": "purge"}
    done = spoken("episodes", "show", "1", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stderr)["error"]["code"] == "not_found"
    assert spoken.json("search", "harbour", "--episodes")["episodes"] == []


def test_reembed_indexes_and_embeds_what_is_missing(cofio: Cofio) -> None:
    with hashing_keeper(Settings.load({"home": cofio.home}, environ={"COFIO_EPISODES": "off"})) as keeper:
        keeper.capture("Shall we meet at the harbour?", wait=True)
    assert cofio.json("search", "harbour", "--episodes")["count"] == 0
    cofio.json("reembed", "--missing")
    (hit,) = cofio.json("search", "harbour", "--episodes")["episodes"]
    assert hit["match_type"] == "hybrid"
