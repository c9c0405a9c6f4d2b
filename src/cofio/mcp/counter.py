"""Where clients ask: every question of theirs is answered here, in our own words, over whatever transport it came."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cofio.mcp import questions, resources, tools
from cofio.mcp.acts import Caller
from cofio.mcp.answers import Answer
from cofio.mcp.questions import Names, Question
from cofio.mcp.tools import Reach


class Counter:
    """The counter. Whatever is wrong with a question, or with the memories, is a CofioError."""

    def __init__(self, reach: Reach, caller: Callable[[str], Caller]) -> None:
        """`reach` opens the memories; `caller` is who asks, by the name that the client gives itself."""
        self._reach, self._caller = reach, caller

    def call(self, name: str, arguments: Mapping[str, Any], client: str) -> Answer:
        """Do what a tool does."""
        return tools.answer(name, arguments, self._caller(client), self._reach)

    def read(self, uri: str, client: str) -> Answer:
        """What is at an address."""
        with self._reach(new=False) as memories:
            return resources.read(uri, self._caller(client), memories)

    def listed(self, cursor: str) -> dict[str, Any]:
        """A page of the addresses at which something is."""
        with self._reach(new=False) as memories:
            return resources.listed(cursor, memories)

    def asked(self, name: str, arguments: Mapping[str, Any], client: str) -> Question:
        """A question, with the memories that answer it."""
        with self._reach(new=False) as memories:
            return questions.asked(name, arguments, self._caller(client), memories)

    def completed(self, name: str, argument: str, begun: str) -> Names:
        """What may be meant by what was typed so far."""
        with self._reach(new=False) as memories:
            return questions.completed(name, argument, begun, memories)
