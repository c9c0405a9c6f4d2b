"""Models served by Ollama: `POST {url}/api/chat`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cofio.ports import Completion
from cofio.providers.http import DEFAULT_RETRY, Provider, Rejection, RetryPolicy
from cofio.providers.llms.base import (
    HEALTH_TIMEOUT,
    MAX_REPLY_TOKENS,
    ErrorHints,
    OptionalParam,
    RemoteLLM,
    chat_messages,
    token_usage,
    value_at,
    without_thinking,
)

OLLAMA = "http://127.0.0.1:11434"


class OllamaLLM(RemoteLLM):
    """Model served by Ollama. Most are small: they find facts, and `SchemaProbe` finds out which may decide too.

    Without `num_ctx`, Ollama silently drops the beginning of texts longer than 4,096 tokens.
    """

    provider_name = "ollama"
    path = "/api/chat"
    context = 16_384
    reconciles = False

    def __init__(self, model: str, *, key: str = "", url: str = OLLAMA, retry: RetryPolicy = DEFAULT_RETRY) -> None:
        hints = ErrorHints(
            key=f"Ollama itself needs no key: check OLLAMA_URL, {url}, or set COFIO_EXTRACT_KEY to the server's key.",
            model=f"Run `ollama pull {model}`, or set EXTRACT_MODEL to a model that `ollama list` shows.",
            address=f"Check OLLAMA_URL, {url}.",
            later=f"Check that Ollama runs at {url}: `ollama serve` starts it.",
        )
        provider = Provider("Ollama", url, key, retry, hints.later, {})
        super().__init__(model, provider, hints)

    def digest(self) -> str:
        """Return the digest of the weights behind the model's name; "" if the server has no such model."""
        try:
            listed = self._list_models()
        except Rejection as rejection:
            raise self._map_rejection(rejection) from rejection
        names = (self.model, f"{self.model}:latest")
        return next((str(value_at(entry, "digest") or "") for entry in listed if value_at(entry, "name") in names), "")

    def _build_request(self, system: str, user: str) -> dict[str, Any]:
        options = {"num_ctx": self.context, "temperature": 0, "num_predict": MAX_REPLY_TOKENS}
        messages = chat_messages(system, user)
        return {"model": self.model, "stream": False, "options": options, "messages": messages}

    def _list_optional_params(self, schema: Mapping[str, Any] | None) -> Sequence[OptionalParam]:
        params = [OptionalParam("think", {"think": False}, r"\bthink")]
        if schema is not None:
            params.append(OptionalParam(self.schema_param, {"format": schema}, r"format|schema|grammar"))
            params.append(OptionalParam("json", {"format": "json"}, r"format|json"))
        return params

    def _parse_reply(self, reply: Any) -> Completion:
        text = value_at(reply, "message", "content")
        if not isinstance(text, str):
            raise self._build_malformed(reply)
        usage = token_usage(value_at(reply, "prompt_eval_count"), value_at(reply, "eval_count"))
        return Completion(without_thinking(text), value_at(reply, "done_reason") == "length", usage)

    def _find_problem(self) -> str:
        return self._check_listed([str(value_at(entry, "name")) for entry in self._list_models()])

    def _list_models(self) -> list[Any]:
        reply = self._provider.get("/api/tags", HEALTH_TIMEOUT)
        listed = value_at(reply, "models")
        if not isinstance(listed, list):
            raise self._build_malformed(reply)
        return listed
