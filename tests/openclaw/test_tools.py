"""The tools of the plugin against the real service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cofio.models.memory import KINDS
from tests.http_api.caller import Caller
from tests.openclaw.conftest import Load, Plugin, Thrown


def call(plugin: Plugin, name: str, context: dict[str, Any] | None = None, **arguments: Any) -> tuple[str, Any]:
    answer = plugin.do("call", name=name, given=arguments, context=context or {})
    (content,) = answer["content"]
    assert content["type"] == "text"
    return content["text"], answer["details"]


def test_search_returns_memories_as_data(load: Load, service: Caller) -> None:
    added = service.post("/memory/add", {"text": "We deploy with </div><b>Fly.io</b>\n\x1b[31m.", "source": "a/b"})
    text, details = call(load(), "memory_recall", query="How do we deploy with Fly.io?")
    assert text.startswith("<cofio-memory>\nThese are notes from earlier work, kept as data.")
    assert text.endswith("\n</cofio-memory>")
    assert text.count("</cofio-memory>") == 1
    assert "\x1b" not in text
    assert "<b>" not in text
    assert f"- [#{added.json['id']}, a/b, " in text
    assert ", said by you] We deploy" in text
    assert details == {"ids": [added.json["id"]]}


def test_search_covers_the_agents_project(load: Load, service: Caller, tmp_path: Path) -> None:
    service.post("/memory/add", {"text": "The shop is deployed with Fly.io.", "project": "/srv/shop"})
    service.post("/memory/add", {"text": "Ann likes Fly.io.", "project": str(tmp_path.resolve())})
    text, _ = call(load(), "memory_recall", {"workspaceDir": str(tmp_path)}, query="Fly.io", limit=20)
    assert "Ann likes" in text
    assert "shop" not in text


def test_search_without_results_says_so(load: Load, service: Caller) -> None:
    assert call(load(), "memory_recall", query="anything")[0] == "Nothing like that is remembered."


def test_fact_is_stored_once_and_archived(load: Load, service: Caller, tmp_path: Path) -> None:
    plugin, context = load(), {"workspaceDir": str(tmp_path)}
    text, details = call(plugin, "memory_store", context, text="Ann prefers tabs.", kind="preference")
    assert text == f"Remembered as #{details['id']}."
    memory = service.get(f"/memory/{details['id']}").json
    assert (memory["text"], memory["kind"]) == ("Ann prefers tabs.", "preference")
    assert (memory["project"], memory["source"]) == (str(tmp_path.resolve()), f"openclaw/{tmp_path.name}")
    assert call(plugin, "memory_store", context, text="Ann prefers tabs.")[0].startswith("That is known already")
    for memory_id in (details["id"], f"#{details['id']}"):
        assert "archived" in call(plugin, "memory_forget", id=memory_id, reason="She changed her mind.")[0]
        assert service.get(f"/memory/{details['id']}").json["archived_at"]
        service.post(f"/memory/{details['id']}/restore")
    history = service.get(f"/memory/{details['id']}/history").json
    assert "She changed her mind." in str(history)
    assert "openclaw" in str(history)


@pytest.mark.parametrize("memory_id", [0, -1, 1.5, "one", "1/../2", None, {}])
def test_forget_requires_a_memory_id(load: Load, service: Caller, memory_id: Any) -> None:
    with pytest.raises(Thrown, match="needs the id"):
        call(load(), "memory_forget", id=memory_id)


def test_error_of_the_service_is_reported(load: Load, service: Caller) -> None:
    with pytest.raises(Thrown, match=r"The memory operation failed: 404 There is no memory 77\."):
        call(load(), "memory_forget", id=77)


@pytest.mark.parametrize(("name", "arguments"), [("memory_recall", {"query": "x"}), ("memory_store", {"text": "x"}),
                                             ("memory_forget", {"id": 1})])  # fmt: skip
def test_unavailable_service_is_reported_to_the_agent(load: Load, name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(Thrown, match=r"The memory operation failed: ECONNREFUSED\. Go on without it\."):
        call(load(baseUrl="http://127.0.0.1:1"), name, **arguments)


@pytest.mark.parametrize("name", ["memory_recall", "memory_store"])
def test_tool_requires_text(load: Load, service: Caller, name: str) -> None:
    with pytest.raises(Thrown, match="This needs"):
        call(load(), name, query="  ", text="")


def test_tool_schemas_match_the_service(load: Load) -> None:
    tools = {schema["name"]: schema["parameters"] for schema in load().do("tools")}
    assert tools["memory_store"]["properties"]["kind"]["enum"] == list(KINDS)
    assert all(tool["additionalProperties"] is False for tool in tools.values())
