"""Model wrapper that tests once whether the model can reconcile facts with memories.

Small models often cannot follow the schema of the reconcile question, or decide at random. One question with a known
answer tests that: a memory, a fact that changes it, and an unrelated fact. The worker asks it before the first capture
that needs the model; hooks and requests never do.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cofio.errors import CofioError, RefusedError
from cofio.hooks.atomic_write import write_atomic
from cofio.models.llm_calls import occasion
from cofio.ports import LLM, Completion, Profile
from cofio.providers import prompts
from cofio.providers.llms.wrapper import Wrapper

_AGAIN, _LONGEST = 60.0, 600.0  # seconds until the next try after a failure; doubled each time
_FILE = "probed.json"
_MEMORY = {"memory": "m1", "text": "The staging database listens on port 5432", "category": "decision",
           "kind": "technology"}  # fmt: skip
_FACTS = (
    {"fact": "f1", "text": "The staging database now listens on port 6543 in place of 5432", "category": "decision",
     "kind": "technology", "similar": [{"memory": "m1", "similarity": 0.912}]},
    {"fact": "f2", "text": "Release notes are written in British English", "category": "decision",
     "kind": "policy", "similar": [{"memory": "m1", "similarity": 0.431}]},
)  # fmt: skip
_KEYS = {"fact", "action", "memory", "text"}

_log = logging.getLogger(__name__)


class SchemaProbe(Wrapper):
    """LLM whose `supports_audn` is the result of a probe of the wrapped model.

    `digest` identifies the weights behind the model's name, `schema` is that of the reconcile question. Results are
    kept in `folder`, so that the same weights are not probed again after a restart; None keeps them in memory only.
    """

    def __init__(
        self,
        llm: LLM,
        digest: Callable[[], str],
        schema: Mapping[str, Any],
        folder: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(llm)
        self._digest, self._schema, self._folder, self._clock = digest, schema, folder, clock
        self._found: bool | None = None
        self._is_looked_up = False
        self._not_before, self._pause = 0.0, _AGAIN

    @property
    def profile(self) -> Profile:
        return self._llm.profile._replace(reconciles=bool(self._found), reconciles_known=self._found is not None)

    @property
    def supports_audn(self) -> bool:
        return bool(self._found)

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        return self._llm.complete(system, user, schema=schema)

    def probe(self, *, ask: bool) -> None:
        """Find out whether the model reconciles, from the stored result for its weights, or else by asking it.

        Without `ask` the model is not called. A failed probe is retried later and is not reported as an error.
        """
        if self._found is not None or self._clock() < self._not_before or (self._is_looked_up and not ask):
            return
        self._is_looked_up = True
        self._not_before, self._pause = self._clock() + self._pause, min(2 * self._pause, _LONGEST)
        question = json.dumps([prompts.read("reconcile"), _question(), self._schema])
        try:
            name = f"{self.model} {self._digest()} {hashlib.sha256(question.encode()).hexdigest()[:12]}"
            follows = _read(self._folder).get(name)
            if follows is None and ask:
                with occasion("probe"):
                    follows = self._follows()
                _store_result(self._folder, name, follows)
                _log.info("%s %s decide about similar memories", self.model, "can" if follows else "cannot")
            elif follows is None:
                self._not_before, self._pause = 0.0, _AGAIN  # this was not a failure
        except CofioError as error:
            _log.info("could not test if %s can decide about similar memories: %s", self.model, error)
            return
        self._found = follows

    def _follows(self) -> bool:
        try:
            reply = self._llm.complete(prompts.read("reconcile"), _question(), schema=self._schema)
        except RefusedError:
            return False
        return not reply.truncated and is_right(reply.text)


def is_right(text: str) -> bool:
    """Return whether a reply follows the schema and gives the known answer."""
    try:
        decisions = json.loads(text)["decisions"]
        if any(decision.keys() != _KEYS for decision in decisions):
            return False
        (first, second) = sorted(decisions, key=lambda decision: str(decision["fact"]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
    changed = (first["fact"], first["action"], first["memory"]) == ("f1", "UPDATE", "m1")
    says = first["text"] is None or (isinstance(first["text"], str) and "6543" in first["text"])
    return changed and says and (second["fact"], second["action"]) == ("f2", "ADD")


def _question() -> str:
    return f"{prompts.block('memories', [_MEMORY])}\n\n{prompts.block('facts', _FACTS)}\n\nDecide about: f1, f2"


def _read(folder: Path | None) -> dict[str, Any]:
    try:
        results = json.loads((folder / _FILE).read_text(encoding="utf-8")) if folder else {}
    except (OSError, ValueError):
        return {}
    return results if isinstance(results, dict) else {}


def _store_result(folder: Path | None, name: str, follows: bool) -> None:
    """Store the result. If the home is not writable, each start costs one question."""
    if folder is None:
        return
    try:
        write_atomic(folder / _FILE, json.dumps({**_read(folder), name: follows}, indent=1).encode())
    except OSError as error:
        _log.debug("could not store the test result: %s", error)
