"""Models behind the user's own coding agent: `claude -p` and `codex exec`, with the agent's existing login.

Each call is one child process that can only answer: no tools, hooks, plugins, project instructions or session file, and
an empty temporary folder to work in. Its prompt is wrapped in a tag that capture rejects. The child is the unmodified
program and finds its login by itself: no token is read, stored or refreshed here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from cofio.errors import CofioError, Misconfigured, NoReply, RefusedError, TooLarge, Unavailable
from cofio.models.exchange import OWN_REQUEST
from cofio.ports import Completion, Health, Profile
from cofio.providers.llms.base import anthropic_usage, check_model, replace_surrogates, token_usage, value_at
from cofio.text import lazy_re

_HEALTH_TIMEOUT = 10.0  # seconds for a login check
_LATER = "It is retried later; without a model, only patterns find facts."
_MAX_QUOTE = 300  # characters quoted from a program's output

_STATUS = lazy_re.compile(r"\bstatus:? (\d{3})\b")
_LOGGED_OUT = lazy_re.compile(r"not logged in|run /login|please log ?in|login has expired", re.IGNORECASE)
_TOO_LONG = lazy_re.compile(r"prompt is too long|context[ _](?:length|window)|input is too long", re.IGNORECASE)
_UNKNOWN_OPTION = lazy_re.compile(
    r"unknown (?:option|feature|argument)|unexpected argument|unrecognized", re.IGNORECASE
)

#: At most one child runs at a time: each is a whole program, and all of them share the limits of one plan.
_one_child = threading.Lock()


def _kill(groups: Iterable[int]) -> None:
    for group in list(groups):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


class ChildResult(NamedTuple):
    """Finished child process with its output."""

    code: int
    out: str
    err: str

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Yield the JSON objects in its output, one per line or several in a list."""
        for line in self.out.splitlines():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict))


class AgentCLI(ABC):
    """Coding agent used as a model. `environ` is the child's environment, `options` are added to its arguments."""

    provider_name: ClassVar[str]
    program: ClassVar[str]
    product: ClassVar[str]
    login: ClassVar[str]  # how a person logs in
    status_arguments: ClassVar[Sequence[str]]  # arguments that show the login
    tested: ClassVar[str]  # the version that the arguments were tested with
    context: ClassVar[int]

    def __init__(
        self, model: str, *, environ: Mapping[str, str], timeout: float = 60.0, options: Sequence[str] = ()
    ) -> None:
        self.model = check_model(model, is_argument=True)
        self._environ = {**environ, "COFIO_HOOKS": "off"}
        self._timeout = timeout
        self._options = tuple(options)
        self._children: set[int] = set()  # process groups
        weakref.finalize(self, _kill, self._children)  # at exit: no call may outlive this process
        self._stopping = False
        self._starting = threading.Lock()

    @property
    def profile(self) -> Profile:
        return Profile(json_schema=True, reconciles=True, context=self.context)

    @property
    def supports_audn(self) -> bool:
        return self.profile.reconciles

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        """Return the reply of one child process.

        Raise Unavailable if none arrives in time or the plan's limit is reached, Misconfigured if the program is
        missing, logged out or too old, and TooLarge or Refused for this text alone.
        """
        with _one_child, tempfile.TemporaryDirectory(prefix="cofio-", ignore_cleanup_errors=True) as folder:
            work = Path(folder, "work")
            work.mkdir()
            arguments = [*self._build_arguments(Path(folder), replace_surrogates(system), schema), *self._options]
            text = replace_surrogates(user).replace(f"</{OWN_REQUEST}", f"< /{OWN_REQUEST}")
            prompt = f"<{OWN_REQUEST}>\n{text}\n</{OWN_REQUEST}>"  # capture rejects this tag
            return self._parse_reply(self._run(arguments, work, prompt, self._timeout))

    def stop(self) -> None:
        """Kill the running children and start no more, so that the service can stop without waiting for them."""
        with self._starting:
            self._stopping = True
        _kill(self._children)

    def health_check(self) -> Health:
        """Return whether the program is installed and logged in; no model is called."""
        try:
            with tempfile.TemporaryDirectory(prefix="cofio-", ignore_cleanup_errors=True) as folder:
                result = self._run(self.status_arguments, Path(folder), "", _HEALTH_TIMEOUT)
        except CofioError as error:
            return Health(healthy=False, problem=str(error))
        return Health(True) if self._is_logged_in(result) else Health(False, str(self._build_logged_out()))

    @abstractmethod
    def _build_arguments(self, folder: Path, system: str, schema: Mapping[str, Any] | None) -> list[str]:
        """Return the arguments of a call, and write its files to the folder. The prompt is its input."""

    @abstractmethod
    def _parse_reply(self, result: ChildResult) -> Completion:
        """Return the reply of the child."""

    @abstractmethod
    def _is_logged_in(self, result: ChildResult) -> bool: ...

    def _run(self, arguments: Iterable[str], folder: Path, text: str, timeout: float) -> ChildResult:
        """Run the program to its end, or kill it with its process group."""
        path = shutil.which(self.program, path=self._environ.get("PATH", ""))
        if path is None:
            hint = f"Install {self.product}, or start the service where `{self.program}` is on the PATH."
            raise Misconfigured(f"{self.product} is not installed: there is no `{self.program}` on the PATH.", hint)
        with self._starting:
            if self._stopping:
                raise Unavailable(f"{self.product} is not called: the service is stopping.", _LATER)
            try:
                child = subprocess.Popen(  # noqa: S603
                    [path, *arguments], cwd=folder, env=self._environ, start_new_session=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )  # fmt: skip
            except OSError as error:
                message = f"{path} cannot be started: {error.strerror}."
                raise Misconfigured(message, f"Reinstall {self.product}.") from error
            self._children.add(child.pid)
        with child:
            try:
                out, err = child.communicate(text.encode(), timeout)
            except subprocess.TimeoutExpired as error:
                message = f"{self.product} did not answer within {timeout:g} seconds and was stopped."
                raise NoReply(message, "Raise EXTRACT_TIMEOUT if this happens often.") from error
            finally:
                self._children.discard(child.pid)
                _kill([child.pid])
        if self._stopping and child.returncode < 0:
            raise NoReply(f"{self.product} was stopped with the service.", _LATER)
        return ChildResult(child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def _map_failure(self, result: ChildResult, reported: str, status: int = 0) -> CofioError:
        """Return the error for a child without a reply; `reported` is the child's own message, if any."""
        detail = reported or result.err.strip() or f"it exited with {result.code} and no reply"
        detail = " ".join(detail.split())[-_MAX_QUOTE:]
        message = f"{self.product}: {detail}"
        if _TOO_LONG.search(detail):
            return TooLarge(message, f"{self.model} has a context of about {self.context:,} tokens: send less.")
        if status in (401, 403) or _LOGGED_OUT.search(detail):
            return self._build_logged_out(detail)
        if status == 429:
            return Unavailable(message, "The plan's limit is reached. Captures wait and are processed later.")
        if not reported and _UNKNOWN_OPTION.search(detail):
            return Misconfigured(message, f"Update {self.product}; {self.tested} is known to work.")
        if 400 <= status < 500 and status not in (408, 409, 425):
            return Misconfigured(message, f"Set EXTRACT_MODEL to a model that {self.product} offers you.")
        return (NoReply if result.code < 0 else Unavailable)(message, _LATER)  # a killed call may have been answered

    def _build_logged_out(self, detail: str = "") -> Misconfigured:
        return Misconfigured(f"{self.product} is not logged in{f': {detail}' if detail else '.'}", f"Run {self.login}.")


class ClaudeCLI(AgentCLI):
    """Model behind `claude -p`. The schema is in the system prompt: `--json-schema` adds a tool and may call twice."""

    provider_name = "claude-cli"
    program = "claude"
    product = "Claude Code"
    login = "`claude` and type /login"
    status_arguments = ("auth", "status", "--json")
    tested = "2.1.325"
    context = 200_000

    def _build_arguments(self, folder: Path, system: str, schema: Mapping[str, Any] | None) -> list[str]:
        if schema is not None:
            shape = json.dumps(schema, separators=(",", ":"))
            system += f"\n\nReply with JSON that fits this schema, and with nothing else:\n{shape}"
        path = folder / "system.md"
        path.write_text(system, encoding="utf-8")
        return [
            "-p", "--safe-mode", "--tools", "", "--no-session-persistence", "--strict-mcp-config",
            "--settings", '{"disableAllHooks":true}', "--system-prompt-file", str(path),
            "--output-format", "json", "--model", self.model,
        ]  # fmt: skip

    def _parse_reply(self, result: ChildResult) -> Completion:
        reply = next((event for event in result.events() if event.get("type") == "result"), {})
        text, stopped, status = reply.get("result"), reply.get("stop_reason"), reply.get("api_error_status")
        if stopped == "refusal":
            hint = "Asking again does not help; another model may answer."
            raise RefusedError(f"{self.model} refused to answer.", hint)
        if reply.get("is_error") or not isinstance(text, str):
            raise self._map_failure(result, str(text or ""), status if isinstance(status, int) else 0)
        usage = anthropic_usage(value_at(reply, "usage"))
        return Completion(text.strip(), stopped == "max_tokens", usage)

    def _is_logged_in(self, result: ChildResult) -> bool:
        try:
            return value_at(json.loads(result.out), "loggedIn") is True
        except ValueError:
            return False


class CodexCLI(AgentCLI):
    """Model behind `codex exec`.

    Codex has no switch for all its tools: each is disabled, and the model is described as having none. A reply without
    enough room is a failure there, so none is ever truncated. AGENTS.md in Codex's own home is included: no setting
    excludes it, and another home would lack the login.
    """

    provider_name = "codex-cli"
    program = "codex"
    product = "Codex"
    login = "`codex login`"
    status_arguments = ("login", "status")
    tested = "0.166.0"
    context = 272_000

    _DISABLED = (
        "hooks", "plugins", "apps", "shell_tool", "unified_exec", "multi_agent", "view_image", "image_generation",
        "goals", "daemon_auto_start", "unbounded_connection_retries",
    )  # fmt: skip
    _SETTINGS = (
        "include_permissions_instructions=false", "include_apps_instructions=false",
        "include_environment_context=false", "include_collaboration_mode_instructions=false",
        "skills.bundled.enabled=false", "tools.experimental_request_user_input.enabled=false",
        "tools.update_plan.enabled=false", 'web_search="disabled"', "analytics.enabled=false",
        "check_for_update_on_startup=false",
    )  # fmt: skip

    def _build_arguments(self, folder: Path, system: str, schema: Mapping[str, Any] | None) -> list[str]:
        instructions, catalog, shape = folder / "system.md", folder / "models.json", folder / "schema.json"
        instructions.write_text(system, encoding="utf-8")
        catalog.write_text(json.dumps({"models": [self._describe_model()]}), encoding="utf-8")
        files = (f"model_instructions_file={json.dumps(str(instructions))}",
                 f"model_catalog_json={json.dumps(str(catalog))}")  # fmt: skip
        arguments = ["exec", "--ephemeral", "--ignore-user-config", "--ignore-rules", "--skip-git-repo-check",
                     "--sandbox", "read-only", "--json", "--model", self.model]  # fmt: skip
        for feature in self._DISABLED:
            arguments += ["--disable", feature]
        for setting in (*self._SETTINGS, *files):
            arguments += ["-c", setting]
        if schema is not None:
            shape.write_text(json.dumps(schema), encoding="utf-8")
            arguments += ["--output-schema", str(shape)]
        return arguments

    def _describe_model(self) -> dict[str, Any]:
        """Return an entry of Codex's model catalog for this model, without the tools of its own entry."""
        return {
            "slug": self.model, "display_name": self.model, "description": "", "visibility": "list", "priority": 1,
            "supported_in_api": True, "base_instructions": "", "shell_type": "disabled",
            "supported_reasoning_levels": [{"effort": "low", "description": ""}], "default_reasoning_level": "low",
            "supports_reasoning_summaries": True, "supports_parallel_tool_calls": False, "support_verbosity": False,
            "truncation_policy": {"mode": "tokens", "limit": 10_000}, "experimental_supported_tools": [],
            "context_window": self.context,
        }  # fmt: skip

    def _parse_reply(self, result: ChildResult) -> Completion:
        text, usage, problem = "", None, ""
        for event in result.events():
            kind = event.get("type")
            if kind == "item.completed" and value_at(event, "item", "type") == "agent_message":
                text = str(value_at(event, "item", "text") or "")
            elif kind == "turn.completed":
                names = ("input_tokens", "output_tokens", "cached_input_tokens")
                usage = token_usage(*(value_at(event, "usage", name) for name in names))
            elif kind in ("turn.failed", "error"):
                problem = str(value_at(event, "error", "message") or event.get("message") or problem)
        if usage is None:
            status = _STATUS.search(problem)
            raise self._map_failure(result, problem, int(status[1]) if status else 0)
        return Completion(text.strip(), usage=usage)

    def _is_logged_in(self, result: ChildResult) -> bool:
        return result.code == 0
