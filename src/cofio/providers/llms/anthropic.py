"""Anthropic models: `POST {url}/v1/messages`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from cofio.errors import Misconfigured
from cofio.ports import Completion
from cofio.providers.http import DEFAULT_RETRY, Provider, Rejection, RetryPolicy
from cofio.providers.llms.base import (
    HEALTH_TIMEOUT,
    MAX_REPLY_TOKENS,
    ErrorHints,
    OptionalParam,
    RemoteLLM,
    anthropic_usage,
    value_at,
)

ANTHROPIC = "https://api.anthropic.com"
VERSION = "2023-06-01"


class AnthropicLLM(RemoteLLM):
    """Anthropic model.

    Versions before 4.5 (Opus: 4.1) do not support a schema; from 5 on they think unless disabled.
    """

    provider_name = "anthropic"
    path = "/v1/messages"
    context = 200_000

    def __init__(self, model: str, *, key: str, url: str = ANTHROPIC, retry: RetryPolicy = DEFAULT_RETRY) -> None:
        if not key:
            hint = "Set ANTHROPIC_API_KEY (or COFIO_EXTRACT_KEY), or another EXTRACT_PROVIDER: ollama needs no key."
            raise Misconfigured("Anthropic needs a key, and ANTHROPIC_API_KEY is not set.", hint)
        hints = ErrorHints(
            key="Set ANTHROPIC_API_KEY (or COFIO_EXTRACT_KEY) to a key that may use this model.",
            model="Set EXTRACT_MODEL to a model that Anthropic has today.",
            address=f"Check EXTRACT_URL, {url}.",
            later="Try again later; without a model, only patterns find facts.",
        )
        own = url.rstrip("/").removesuffix("/v1")
        headers = {"anthropic-version": VERSION}
        provider = Provider("Anthropic", own, key, retry, hints.later, {}, key_header="x-api-key", headers=headers)
        super().__init__(model, provider, hints, without=_unknown_to(model))

    def _build_request(self, system: str, user: str) -> dict[str, Any]:
        messages = [{"role": "user", "content": user}]
        cached = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
        return {"model": self.model, "max_tokens": MAX_REPLY_TOKENS, "system": cached, "messages": messages}

    def _list_optional_params(self, schema: Mapping[str, Any] | None) -> Sequence[OptionalParam]:
        thinking = OptionalParam("thinking", {"thinking": {"type": "disabled"}}, r"thinking")
        if schema is None:
            return [thinking]
        shape = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        return [thinking, OptionalParam(self.schema_param, shape, r"output_config|output format|schema|structured")]

    def _parse_reply(self, reply: Any) -> Completion:
        blocks, stopped = value_at(reply, "content"), value_at(reply, "stop_reason")
        if stopped == "refusal":
            raise self._build_refusal()
        if not isinstance(blocks, list):
            raise self._build_malformed(reply)
        text = "".join(str(value_at(block, "text") or "") for block in blocks if value_at(block, "type") == "text")
        truncated = stopped in ("max_tokens", "model_context_window_exceeded")
        return Completion(text.strip(), truncated, anthropic_usage(value_at(reply, "usage")))

    def _find_problem(self) -> str:
        try:
            self._provider.get(f"/v1/models/{quote(self.model, safe='')}", HEALTH_TIMEOUT)
        except Rejection as rejection:
            # A gateway in front of Anthropic may lack this route: any answer counts as healthy.
            if rejection.status != 404 or rejection.code == "not_found_error" or self.base_url == ANTHROPIC:
                raise
        return ""


def _unknown_to(model: str) -> list[str]:
    """Return the optional parameters that a model of this name lacks; an unknown name lacks only thinking."""
    match = re.search(r"claude-(?:([a-z]+)-)?(\d+)(?:[-.](\d{1,2})(?!\d))?", model)
    if not match:
        return ["thinking"]
    version = (int(match[2]), int(match[3] or 0))
    keeps = version >= ((4, 1) if match[1] == "opus" else (4, 5))
    return [*([] if keeps else [AnthropicLLM.schema_param]), *([] if version >= (5, 0) else ["thinking"])]
