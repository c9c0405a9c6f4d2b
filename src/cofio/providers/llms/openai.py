"""OpenAI models, and models of compatible servers: `POST {url}/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from cofio.errors import Misconfigured
from cofio.ports import Completion
from cofio.providers.http import DEFAULT_RETRY, Provider, Rejection, RetryPolicy, check_url
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
from cofio.text import lazy_re

OPENAI = "https://api.openai.com/v1"

_REASONING = lazy_re.compile(r"(?:o\d|gpt-(?:[5-9]|\d\d))(?!.*-chat)")


class OpenAILLM(RemoteLLM):
    """Model of OpenAI or of a compatible server (llama.cpp, vLLM, LM Studio, a gateway), which needs no key.

    The URL decides which of the two it is, unless `compatible` is given.
    """

    provider_name = "openai"
    path = "/chat/completions"
    context = 128_000

    def __init__(
        self,
        model: str,
        *,
        key: str = "",
        url: str = OPENAI,
        retry: RetryPolicy = DEFAULT_RETRY,
        compatible: bool | None = None,
    ) -> None:
        host = urlsplit(check_url(url, "OpenAI")).netloc
        self._compatible = not is_openai(url) if compatible is None else compatible
        if not key and not self._compatible:
            hint = "Set OPENAI_API_KEY (or COFIO_EXTRACT_KEY), or EXTRACT_URL to a compatible server that needs none."
            raise Misconfigured("OpenAI needs a key, and OPENAI_API_KEY is not set.", hint)
        hints = ErrorHints(
            key="Set OPENAI_API_KEY (or COFIO_EXTRACT_KEY) to a key that may use this model.",
            model="Set EXTRACT_MODEL to a model that OpenAI has today and that this key may use.",
            address="Check EXTRACT_URL: leave it empty for OpenAI.",
            later="Try again later; without a model, only patterns find facts.",
        )
        if self._compatible:
            hints = ErrorHints(
                key=f"Set COFIO_EXTRACT_KEY to a key that {host} accepts.",
                model=f"Set EXTRACT_MODEL to a model that {host} serves.",
                address=f"Check EXTRACT_URL, {url} (usually it ends in /v1).",
                later=f"Check that the server at EXTRACT_URL, {url}, runs.",
            )
        provider = Provider(host if self._compatible else "OpenAI", url, key, retry, hints.later, {})
        super().__init__(model, provider, hints)

    def _build_request(self, system: str, user: str) -> dict[str, Any]:
        return {"model": self.model, "messages": chat_messages(system, user)}

    def _list_optional_params(self, schema: Mapping[str, Any] | None) -> Sequence[OptionalParam]:
        params = []
        if self._compatible:
            params.append(OptionalParam("max_tokens", {"max_tokens": MAX_REPLY_TOKENS}, r"max_tokens"))
            params.append(OptionalParam("temperature", {"temperature": 0}, r"temperature"))  # llama.cpp: 0.8
        else:
            limit = {"max_completion_tokens": MAX_REPLY_TOKENS}
            params.append(OptionalParam("max_completion_tokens", limit, r"max_completion_tokens"))
            if _REASONING.match(self.model):  # reasoning would use up the tokens of the reply
                params.append(OptionalParam("reasoning_effort", {"reasoning_effort": "low"}, r"reasoning"))
        if schema is not None:
            shape = {"name": "reply", "strict": True, "schema": schema}
            part = {"response_format": {"type": "json_schema", "json_schema": shape}}
            params.append(OptionalParam(self.schema_param, part, r"response_format|schema|grammar"))
            part = {"response_format": {"type": "json_object"}}
            params.append(OptionalParam("json_object", part, r"response_format|json"))
        return params

    def _parse_reply(self, reply: Any) -> Completion:
        message, stopped = value_at(reply, "choices", 0, "message"), value_at(reply, "choices", 0, "finish_reason")
        if not isinstance(message, Mapping):
            raise self._build_malformed(reply)
        if message.get("refusal") or stopped == "content_filter":
            raise self._build_refusal(str(message.get("refusal") or ""))
        content = message.get("content")
        if isinstance(content, list):  # some servers split the text into parts
            content = "".join(str(value_at(part, "text") or "") for part in content)
        text = content if isinstance(content, str) else ""
        usage = value_at(reply, "usage")
        cached = value_at(usage, "prompt_tokens_details", "cached_tokens")
        tokens = token_usage(value_at(usage, "prompt_tokens"), value_at(usage, "completion_tokens"), cached)
        return Completion(without_thinking(text) if self._compatible else text.strip(), stopped == "length", tokens)

    def _find_problem(self) -> str:
        path = "/models" if self._compatible else f"/models/{quote(self.model, safe='')}"
        try:
            listed = value_at(self._provider.get(path, HEALTH_TIMEOUT), "data")
        except Rejection as rejection:
            if self._compatible and rejection.status in (404, 405, 501):  # any answer counts as healthy
                return ""
            if not self._compatible and "api.model.read" in rejection.text:  # the key may call models, but not list
                return ""
            raise
        return self._check_listed([str(value_at(entry, "id")) for entry in listed]) if isinstance(listed, list) else ""


def is_openai(url: str) -> bool:
    """Return whether the URL is OpenAI's own."""
    parts = urlsplit(url)
    return parts.scheme == "https" and f".{parts.hostname}".endswith(".api.openai.com")
