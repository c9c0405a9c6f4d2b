"""Common parts of models behind HTTP: a request and its reply, optional request fields, and errors.

The class of an error says who can resolve it. Unavailable may pass by itself: silence, a busy server, an account
without credit. Misconfigured needs the owner: the key, the model's name, the URL, a request that the server does not
accept. TooLarge and Refused concern one text, and another may succeed. An empty reply is a valid reply:
`Completion("")`.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from cofio.errors import CofioError, Misconfigured, RefusedError, TooLarge, Unavailable
from cofio.models.exchange import TokenUsage
from cofio.ports import Completion, Health, Profile
from cofio.providers.http import UNPAID, Provider, Rejection, TimedOut
from cofio.text import lazy_re

MAX_REPLY_TOKENS = 4_096  # with 1,024, lists of facts were truncated
HEALTH_TIMEOUT = 5.0  # seconds

_TOO_LONG = lazy_re.compile(
    r"context[ _](?:length|size|window)|prompt is too long|input is too long|string_above_max_length", re.IGNORECASE
)
#: Context size that a server reports, which may be smaller than the model's own.
_CONTEXT_SIZE = lazy_re.compile(r"context (?:length|size)\D{0,16}(\d+)", re.IGNORECASE)
_FILTERED = lazy_re.compile(r"content_policy_violation|content_filter|ResponsibleAIPolicy", re.IGNORECASE)
_NO_MODEL = lazy_re.compile(r"model_not_found|invalid model id", re.IGNORECASE)
_MAY_PASS = (408, 409, 425)
_OMITTED = "%s does not accept the parameter %s with %s; it is omitted from now on"

_log = logging.getLogger(__name__)


class OptionalParam(NamedTuple):
    """Optional part of a request, and the error of a server without it. Of two for one field, the first is sent."""

    name: str
    part: Mapping[str, Any]
    complaint: str  # a regular expression of that error


class ErrorHints(NamedTuple):
    """Hints for a rejected key, a missing model, a wrong URL, and other failures."""

    key: str
    model: str
    address: str
    later: str


class RemoteLLM(ABC):
    """Model behind HTTP. The optional parameters `without` are never sent."""

    provider_name: ClassVar[str]
    path: ClassVar[str]
    context: ClassVar[int]
    reconciles: ClassVar[bool] = True  # may decide about memories
    #: Name of the optional parameter by which replies follow a schema.
    schema_param: ClassVar[str] = "json_schema"

    def __init__(self, model: str, provider: Provider, hints: ErrorHints, *, without: Iterable[str] = ()) -> None:
        self.model = check_model(model)
        self._provider, self._hints = provider, hints
        self._without = frozenset(without)
        self._context = self.context

    @property
    def base_url(self) -> str:
        """Return the URL of the provider."""
        return self._provider.url

    @property
    def profile(self) -> Profile:
        """Return the capabilities of the model, minus the optional parameters that its server has rejected."""
        return Profile(self.schema_param not in self._without, self.reconciles, self._context)

    @property
    def supports_audn(self) -> bool:
        return self.profile.reconciles

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        """Return the model's reply, with the schema enforced if the server supports that; the text may be ""."""
        request = self._build_request(replace_surrogates(system), replace_surrogates(user))
        without = self._without
        while True:
            body, included = dict(request), []
            for param in self._list_optional_params(schema):
                if param.name not in without and not param.part.keys() & body.keys():
                    body.update(param.part)
                    included.append(param)
            try:
                reply = self._provider.request(self.path, body)
            except Rejection as rejection:
                unknown = next((param.name for param in included if _names_param(rejection, param)), None)
                if unknown is None or self._map_plain_failure(rejection):
                    raise self._map_rejection(rejection) from rejection
                without |= {unknown}
            except TimedOut as error:
                hint = f"{error.hint} Raise EXTRACT_TIMEOUT if this happens often."
                raise TimedOut(error.message, hint) from error
            else:
                for name in sorted(without - self._without):
                    _log.warning(_OMITTED, self._provider.name, name, self.model)
                self._without |= without
                return self._parse_reply(reply)

    def health_check(self) -> Health:
        """Return whether the provider answers and has the model, from one short request that is free of charge."""
        try:
            problem = self._find_problem()
        except CofioError as error:
            problem = str(error)
        except Rejection as rejection:
            problem = str(self._map_rejection(rejection))
        return Health(not problem, problem)

    @abstractmethod
    def _build_request(self, system: str, user: str) -> dict[str, Any]:
        """Return the body of a request, without optional parameters."""

    @abstractmethod
    def _list_optional_params(self, schema: Mapping[str, Any] | None) -> Sequence[OptionalParam]:
        """Return the optional parameters of a request; of alternatives, the better one comes first."""

    @abstractmethod
    def _parse_reply(self, reply: Any) -> Completion:
        """Return the content of the reply. Raise Unavailable if it is malformed, Refused if it is a refusal."""

    @abstractmethod
    def _find_problem(self) -> str:
        """Return the problem of the provider, or "". Raises the errors of `Provider.get`."""

    def _map_rejection(self, rejection: Rejection) -> CofioError:
        status, message = rejection.status, rejection.message
        if plain := self._map_plain_failure(rejection):
            return plain
        if status == 404 or rejection.matches(_NO_MODEL):
            if "model" in f"{rejection.code} {rejection.text}".lower():
                return self._build_no_model(message)
            hint = f"{self._hints.address} {self._hints.model}"
            return Misconfigured(f"Nothing answers for {self.model} at {self.base_url}: {message}", hint)
        if status in (401, 403):
            return Misconfigured(f"The key is refused: {message}", self._hints.key)
        if status >= 500 or status in _MAY_PASS:
            return Unavailable(message, self._hints.later)
        if status < 400:
            return Misconfigured(f"{message} Redirects are not followed.", self._hints.address)
        hint = f"The provider does not accept such requests for {self.model}. {self._hints.model}"
        return Misconfigured(message, hint)

    def _map_plain_failure(self, rejection: Rejection) -> CofioError | None:
        """Return the error for a failure that does not depend on the form of the request, if it is one."""
        message = rejection.message
        if rejection.status == 402 or rejection.matches(UNPAID):
            return Unavailable(message, f"The account at {self._provider.name} has no credit left: top it up.")
        if rejection.status == 413 or rejection.matches(_TOO_LONG):
            if match := _CONTEXT_SIZE.search(rejection.text):  # the next text shall fit
                self._context = min(self._context, max(1, int(match[1])))
            return TooLarge(message, f"{self.model} has a context of about {self._context:,} tokens: send less.")
        if rejection.matches(_FILTERED):
            return self._build_refusal(message)
        return None

    def _build_no_model(self, detail: str) -> Misconfigured:
        return Misconfigured(f"{self._provider.name} has no model {self.model}: {detail}", self._hints.model)

    def _build_refusal(self, detail: str = "") -> RefusedError:
        message = f"{self.model} refused to answer" + (f": {self._provider.quote(detail)}" if detail else ".")
        return RefusedError(message, "Asking again does not help; another model may answer (EXTRACT_MODEL).")

    def _build_malformed(self, reply: Any) -> Unavailable:
        detail = value_at(reply, "error", "message") or value_at(reply, "error")
        suffix = f": {self._provider.quote(str(detail))}" if detail else "."
        return Unavailable(f"{self._provider.name} answered with an invalid reply{suffix}", self._hints.address)

    def _check_listed(self, names: Sequence[str]) -> str:
        """Return the problem if the model is not among the names, with or without the tag ":latest"; else ""."""
        if {self.model, f"{self.model}:latest"} & {*names}:
            return ""
        listed = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
        return str(self._build_no_model(f"it has {listed or 'none'}."))


def check_model(model: str, *, is_argument: bool = False) -> str:
    """Return the name of the model. Raise Misconfigured if it cannot be one, or would be read as an option."""
    if not model or not model.isprintable() or (is_argument and model.startswith("-")):
        hint = "Set EXTRACT_MODEL to a model name of the provider."
        raise Misconfigured(f"{model!r} is not the name of a model.", hint)
    return model


def value_at(value: Any, *path: str | int) -> Any:
    """Return the element at a path in a JSON value, or None."""
    for step in path:
        try:
            value = value[step]
        except (TypeError, LookupError):
            return None
    return value


def token_usage(read: Any, written: Any = 0, cache_read: Any = 0, cache_written: Any = 0) -> TokenUsage:
    """Return the usage of one billed call; invalid counts become 0."""
    counts = (read, written, cache_read, cache_written)
    return TokenUsage(1, *(count if isinstance(count, int) and count > 0 else 0 for count in counts))


def anthropic_usage(usage: Any) -> TokenUsage:
    """Return the usage in Anthropic's format, which counts cache reads and writes separately from the other input."""
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    fresh, cache_written, cache_read = (token_usage(value_at(usage, name)).input_tokens for name in names)
    read = fresh + cache_written + cache_read
    return token_usage(read, value_at(usage, "output_tokens"), cache_read, cache_written)


def chat_messages(system: str, user: str) -> list[dict[str, str]]:
    """Return the messages of a chat completion."""
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def without_thinking(text: str) -> str:
    """Return the reply without leading thoughts, which some servers leave in it, closed or unclosed."""
    text = text.strip()
    if text.startswith("<think>"):
        return text.partition("</think>")[2].strip()
    if text.startswith(("{", "[", "`")):
        return text
    before, closed, after = text.partition("</think>")  # opened by the server's template
    return (after if closed else before).strip()


def _names_param(rejection: Rejection, param: OptionalParam) -> bool:
    return rejection.status in (400, 422) and rejection.matches(re.compile(param.complaint, re.IGNORECASE))


def replace_surrogates(text: str) -> str:
    """Return the text without unpaired surrogates, which would invalidate the whole request."""
    return text.encode("utf-8", "replace").decode()
