"""Settings from flags, environment variables and config.toml. The hook process has its own reader.

Flags win over variables, variables over `config.toml` in the home, and that over the defaults. Every setting has a
description, from which the settings page of the docs is generated.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from cofio.errors import Misconfigured
from cofio.models import cron as models_cron
from cofio.stores import urls

#: Minimum values of some settings.
_LEAST = {
    "inbox_limit": 1, "inbox_days": 0, "hook_recall_timeout_ms": 50, "hook_capture_timeout_ms": 50,
    "consolidation_min_cluster": 2,
    "prune_detail_days": 1, "prune_decision_days": 1, "prune_days": 1, "backup_days": 1, "retrieval_days": 1,
    "audit_days": 1, "chat_upstream_timeout": 1, "notes_poll_seconds": 0, "episode_days": 1, "episode_mb": 0,
    "llm_calls_per_day": 0, "llm_tokens_per_day": 0, "llm_text_days": 0,
    "llm_batch_seconds": 0, "llm_batch_turns": 1,
}  # fmt: skip
_OPENAI = re.compile(r"https://(?:[\w-]+\.)?api\.openai\.com(?::443)?(?:/|$)", re.IGNORECASE)
#: Variables that a coding agent started by the service does not inherit: API keys, which would be billed instead of its
#: login, cofio's own settings, and the markers of the session that the service was started from.
_NOT_FOR_AGENTS = re.compile(
    r"(?:COFIO|FAISS|CLAUDE_PLUGIN)_.*|.*_API_KEY|CHAT_UPSTREAM_KEY|ANTHROPIC_AUTH_TOKEN|CLAUDECODE|CLAUDE_PROJECT_DIR"
    r"|CLAUDE_CODE_(?:ENTRYPOINT|SESSION_ID|SSE_PORT|CHILD_SESSION)|CODEX_(?:THREAD_ID|SANDBOX.*)"
)
_MASK = "•" * 8
#: The parts of a URL that may hold keys: the part before the host, the query and the fragment. If an @ follows a ? or
#: a #, they cannot be told apart, and everything after the scheme is masked.
_KEYED = re.compile(r"(?<=://)[^?#]*[?#].*@.*|(?<=://).*(?=@)|(?<=[?#]).+", re.DOTALL)


def _setting(default: Any, variable: str, says: str, *aliases: str, secret: bool = False) -> Any:
    names = (variable, *aliases)
    return field(default=default, metadata={"variables": names, "says": says, "secret": secret})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, with the origin of each value."""

    home: Path = _setting(Path("~/.cofio"), "COFIO_HOME", "Folder for the store, the models and config.toml.")
    store: str = _setting(
        "", "COFIO_STORE",
        "URL of the store: sqlite:///PATH, or postgresql://USER:PASSWORD@HOST/DATABASE, with ?tenant=NAME where "
        "several tenants share it. Default: cofio.db in the home.",
    )  # fmt: skip
    embedder: str = _setting("local", "COFIO_EMBEDDER", "Embedding model: local, openai:MODEL or ollama:MODEL.")
    embedder_url: str = _setting(
        "", "COFIO_EMBEDDER_URL", "Base URL of a remote embedder, or of the files of the local model."
    )
    embedder_key: str = _setting(
        "", "COFIO_EMBEDDER_KEY", "API key of a remote embedder.", "OPENAI_API_KEY", secret=True
    )
    embedder_dimension: int = _setting(
        0, "COFIO_EMBEDDER_DIMENSION", "Dimensions to request from a remote embedder; 0 takes its default."
    )
    rerank: bool = _setting(
        True,
        "COFIO_RERANK",
        "Enable late-interaction (ColBERT) re-ranking. Token embeddings are computed in the background.",
    )
    model_download: bool = _setting(
        True, "COFIO_MODEL_DOWNLOAD", "Download the local embedding model if it is missing."
    )
    host: str = _setting("127.0.0.1", "COFIO_HOST", "Address that the service listens on.")
    port: int = _setting(8900, "COFIO_PORT", "Port that the service listens on.")
    url: str = _setting("", "COFIO_URL", "URL of the service, if it is not the local one.", "FAISS_URL")
    api_key: str = _setting(
        "", "COFIO_API_KEY", "Key that clients send as X-API-Key; in the service it is the key with full access.",
        "FAISS_API_KEY", secret=True,
    )  # fmt: skip
    allowed_hosts: str = _setting(
        "", "COFIO_ALLOWED_HOSTS", "Further host names accepted by the service, separated by commas."
    )
    max_body: int = _setting(8_388_608, "COFIO_MAX_BODY", "Largest accepted request body, in bytes.")
    dedup_threshold: float = _setting(
        0.90, "COFIO_DEDUP_THRESHOLD", "Minimum cosine similarity at which a fact may be a duplicate of a memory."
    )
    novelty_threshold: float = _setting(
        0.88, "COFIO_NOVELTY_THRESHOLD", "Minimum cosine similarity at which the novelty check may call a fact known."
    )
    extract_provider: str = _setting(
        "", "EXTRACT_PROVIDER",
        "Provider of the language model that reads conversations: anthropic, openai or ollama; claude-cli or codex-cli "
        "run your own Claude Code or Codex with its login. Empty: none.",
        "COFIO_EXTRACT_PROVIDER",
    )  # fmt: skip
    extract_model: str = _setting(
        "", "EXTRACT_MODEL", "Language model to use, if not the provider's default.", "COFIO_EXTRACT_MODEL"
    )
    extract_url: str = _setting(
        "", "EXTRACT_URL", "Base URL of the language model's provider, such as an OpenAI-compatible server.",
        "COFIO_EXTRACT_URL",
    )  # fmt: skip
    extract_key: str = _setting(
        "", "COFIO_EXTRACT_KEY",
        "API key of the language model's provider. Default: anthropic_key, or openai_key for OpenAI itself.",
        secret=True,
    )  # fmt: skip
    anthropic_key: str = _setting("", "ANTHROPIC_API_KEY", "API key for Anthropic.", secret=True)
    openai_key: str = _setting("", "OPENAI_API_KEY", "API key for OpenAI.", secret=True)
    ollama_url: str = _setting("", "OLLAMA_URL", "Base URL of Ollama. Default: this machine, port 11434.")
    extract_timeout: float = _setting(
        60.0, "EXTRACT_TIMEOUT", "Seconds to wait for a reply of the language model.", "COFIO_EXTRACT_TIMEOUT"
    )
    llm: bool = _setting(True, "COFIO_LLM", "Call the language model; off makes no call even if a provider is set.")
    llm_calls_per_day: int = _setting(
        300,
        "COFIO_LLM_CALLS_PER_DAY",
        "Maximum calls of the language model per day (UTC); unread turns wait for the next day. 0 is no limit, "
        "which is the default for ollama.",
    )
    llm_tokens_per_day: int = _setting(
        300_000,
        "COFIO_LLM_TOKENS_PER_DAY",
        "Maximum tokens of language model requests and replies per day (UTC); the call that passes the limit is the "
        "last. 0 is no limit, which is the default for ollama.",
    )
    llm_reads: str = _setting(
        "all",
        "COFIO_LLM_READS",
        "Turns that the language model reads: all that may hold a fact, or only the doubtful ones, on which the "
        "judgement model is uncertain.",
    )
    llm_batch_seconds: float = _setting(
        300.0,
        "COFIO_LLM_BATCH_SECONDS",
        "Seconds of inactivity in a session before the language model reads its turns together; 0 reads each turn "
        "by itself, at once. The end of a session and a compaction do not wait.",
    )
    llm_batch_turns: int = _setting(
        8, "COFIO_LLM_BATCH_TURNS", "Maximum turns of a session that the language model reads together."
    )
    llm_text_days: int = _setting(
        7,
        "COFIO_LLM_TEXT_DAYS",
        "Days to keep the redacted texts of language model calls; counts are kept. 0 keeps no text.",
    )
    chat_upstream_url: str = _setting(
        "", "CHAT_UPSTREAM_URL", "Server that the chat proxy forwards to: base URL of an OpenAI-compatible API.",
        "COFIO_CHAT_UPSTREAM_URL",
    )  # fmt: skip
    chat_upstream_key: str = _setting(
        "", "CHAT_UPSTREAM_KEY",
        "API key of the server that the chat proxy forwards to. Default: openai_key, for OpenAI itself.",
        "COFIO_CHAT_UPSTREAM_KEY", secret=True,
    )  # fmt: skip
    chat_upstream_timeout: float = _setting(
        600.0, "CHAT_UPSTREAM_TIMEOUT", "Maximum seconds of silence of the server that the chat proxy forwards to.",
        "COFIO_CHAT_UPSTREAM_TIMEOUT",
    )  # fmt: skip
    judge: bool = _setting(
        True, "COFIO_JUDGE", "Judge facts, changes and relevance with the trained model; off leaves it to the rules."
    )
    recall_min_score: float = _setting(
        0.0, "COFIO_RECALL_MIN_SCORE",
        "Minimum probability, from 0 to 1, that a memory helps with the prompt, for it to be injected; 0 takes the "
        "threshold of the judgement model. With COFIO_JUDGE=false: minimum search score; 0 takes 0.24.",
    )  # fmt: skip
    start_tokens: int = _setting(
        1_200, "COFIO_START_TOKENS", "Maximum tokens of memories at the start of a session, from 200 to 2000."
    )
    project: str = _setting("", "COFIO_PROJECT", "Project name for hooks. Default: the path of the repository.")
    hook_recall_timeout_ms: int = _setting(
        800, "COFIO_HOOK_RECALL_TIMEOUT_MS", "Deadline of a recall hook, in milliseconds."
    )
    hook_capture_timeout_ms: int = _setting(
        300, "COFIO_HOOK_CAPTURE_TIMEOUT_MS", "Deadline of a capture hook, in milliseconds."
    )
    inbox_limit: int = _setting(10_000, "COFIO_INBOX_LIMIT", "Maximum pending captures; further ones are refused.")
    inbox_days: int = _setting(30, "COFIO_INBOX_DAYS", "Days to keep the text of processed captures.")
    episodes: bool = _setting(True, "COFIO_EPISODES", "Index captured turns as searchable episodes.")
    episode_days: int = _setting(180, "COFIO_EPISODE_DAYS", "Days to keep episodes.")
    episode_mb: int = _setting(
        500, "COFIO_EPISODE_MB", "Maximum size of episodes in MB, text and vectors; the oldest are removed first."
    )
    maintenance_enabled: bool = _setting(
        False, "MAINTENANCE_ENABLED", "Consolidate and prune memories automatically, in the service.",
        "COFIO_MAINTENANCE_ENABLED",
    )  # fmt: skip
    consolidation_schedule: str = _setting(
        "0 3 * * *", "CONSOLIDATION_SCHEDULE", "Schedule of consolidation: cron expression in UTC, or off.",
        "COFIO_CONSOLIDATION_SCHEDULE",
    )  # fmt: skip
    consolidation_similarity: float = _setting(
        0.75, "CONSOLIDATION_SIMILARITY", "Minimum cosine similarity at which memories may be merged.",
        "COFIO_CONSOLIDATION_SIMILARITY",
    )  # fmt: skip
    consolidation_min_cluster: int = _setting(
        3, "CONSOLIDATION_MIN_CLUSTER", "Minimum number of related memories for a merge by a model.",
        "COFIO_CONSOLIDATION_MIN_CLUSTER",
    )  # fmt: skip
    prune_schedule: str = _setting(
        "0 4 * * 0", "PRUNE_SCHEDULE", "Schedule of pruning: cron expression in UTC, or off.",
        "COFIO_PRUNE_SCHEDULE",
    )  # fmt: skip
    prune_detail_days: int = _setting(
        60, "PRUNE_DETAIL_DAYS", "Days to keep a detail that is never recalled.", "COFIO_PRUNE_DETAIL_DAYS"
    )
    prune_decision_days: int = _setting(
        120, "PRUNE_DECISION_DAYS", "Days to keep a decision or a learning that is never recalled.",
        "COFIO_PRUNE_DECISION_DAYS",
    )  # fmt: skip
    prune_days: int = _setting(
        90, "PRUNE_DAYS", "Days to keep a memory without a category that is never recalled.",
        "COFIO_PRUNE_DAYS",
    )  # fmt: skip
    backup_schedule: str = _setting(
        "", "BACKUP_SCHEDULE", "Schedule of automatic backups: cron expression in UTC; empty or off for none.",
        "COFIO_BACKUP_SCHEDULE",
    )  # fmt: skip
    backup_days: int = _setting(30, "BACKUP_DAYS", "Days to keep automatic backups.", "COFIO_BACKUP_DAYS")
    retrieval_days: int = _setting(
        180,
        "COFIO_RETRIEVAL_DAYS",
        "Days to keep logged queries and injection sizes. Aggregate counts are kept indefinitely.",
    )
    audit_days: int = _setting(
        365, "COFIO_AUDIT_DAYS", "Days to keep the audit log of key operations and denied requests."
    )
    notes: str = _setting(
        "",
        "COFIO_NOTES",
        "Folder for the summaries that `cofio notes flush` writes. Default: the folder notes in the home.",
    )
    notes_folders: str = _setting(
        "", "COFIO_NOTES_FOLDERS",
        "Folders of Markdown that the service follows, separated by commas: PATH, or NAME=PATH to set the name of the "
        "folder in the sources of its memories.",
    )  # fmt: skip
    notes_poll_seconds: float = _setting(
        5.0, "COFIO_NOTES_POLL_SECONDS", "Seconds between two scans of the followed folders; 0 disables following."
    )
    claude_home: str = _setting(
        "", "COFIO_CLAUDE_HOME", "Configuration folder of Claude Code. Default: ~/.claude.", "CLAUDE_CONFIG_DIR"
    )
    codex_home: str = _setting(
        "", "COFIO_CODEX_HOME", "Configuration folder of Codex. Default: ~/.codex.", "CODEX_HOME"
    )
    cursor_home: str = _setting("", "COFIO_CURSOR_HOME", "Configuration folder of Cursor. Default: ~/.cursor.")
    openclaw_home: str = _setting(
        "", "COFIO_OPENCLAW_HOME", "State folder of OpenClaw. Default: ~/.openclaw.", "OPENCLAW_STATE_DIR",
        "OPENCLAW_HOME",
    )  # fmt: skip
    openclaw_config: str = _setting(
        "", "COFIO_OPENCLAW_CONFIG", "Configuration file of OpenClaw. Default: openclaw.json in its home.",
        "OPENCLAW_CONFIG_PATH",
    )  # fmt: skip
    log_level: str = _setting("info", "COFIO_LOG_LEVEL", "Log level of the service: debug, info, warning or error.")
    origins: Mapping[str, str] = field(default_factory=dict, metadata={})

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
        """Return the settings from flags (None means not given), variables and the config.toml of the home."""
        overrides = {name: value for name, value in (flags or {}).items() if value is not None}
        environment = os.environ if environ is None else environ
        home = _expand_path(overrides.get("home") or environment.get("COFIO_HOME") or "~/.cofio")
        file_values = _read_file(home / "config.toml")
        values: dict[str, Any] = {"home": home}
        origins: dict[str, str] = {"home": _find_home_origin(overrides, environment)}
        for option in settable():
            if option.name == "home":
                continue
            entry = _find_value(option.name, option.metadata["variables"], overrides, environment, file_values, home)
            values[option.name] = _convert(option.name, entry[0], type(option.default)) if entry else option.default
            origins[option.name] = entry[1] if entry else "default"
        values["store"] = values["store"] or f"sqlite://{home / 'cofio.db'}"
        for setting, name in (
            ("extract_key", key_setting(values["extract_provider"], values["extract_url"])),
            ("chat_upstream_key", "openai_key" if _OPENAI.match(values["chat_upstream_url"]) else ""),
        ):
            if name and not values[setting]:
                values[setting], origins[setting] = values[name], origins[name]
        return cls(**values, origins=origins)._check()

    def _check(self) -> Settings:
        for name in ("dedup_threshold", "novelty_threshold", "recall_min_score"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise Misconfigured(f"{name} is {getattr(self, name)}.", "Give a number from 0 to 1.")
        if not 200 <= self.start_tokens <= 2_000:
            raise Misconfigured(f"start_tokens is {self.start_tokens}.", "Give a number from 200 to 2000.")
        if not 0 <= self.port <= 65535:
            raise Misconfigured(f"port is {self.port}.", "Give a number from 0 to 65535.")
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise Misconfigured(f"{name} is {getattr(self, name)}.", f"Give at least {least}.")
        self._check_upkeep()
        if self.max_body < 1_024:
            raise Misconfigured(f"max_body is {self.max_body}.", "Give at least 1024 bytes.")
        if self.llm_reads not in ("all", "doubtful"):
            raise Misconfigured(f"llm_reads is {self.llm_reads!r}.", "Give all or doubtful.")
        if self.log_level.lower() not in ("debug", "info", "warning", "error"):
            raise Misconfigured(f"log_level is {self.log_level!r}.", "Give debug, info, warning or error.")
        return self

    def _check_upkeep(self) -> None:
        if not 0.5 <= self.consolidation_similarity <= 1.0:
            message = f"consolidation_similarity is {self.consolidation_similarity}."
            raise Misconfigured(message, "Give a number from 0.5 to 1.")
        for name in ("consolidation_schedule", "prune_schedule", "backup_schedule"):
            if self.origins.get(name) == "default":
                continue  # avoids loading the cron library in most commands
            try:
                models_cron.check(getattr(self, name))
            except Misconfigured as error:
                raise Misconfigured(f"{name}: {error.message}", error.hint) from error

    @property
    def schedules(self) -> dict[str, str]:
        """Return the cron expression of each scheduled chore; chores that are switched off are left out."""
        upkeep = {"consolidate": self.consolidation_schedule, "prune": self.prune_schedule}
        if models_cron.is_enabled(self.backup_schedule) and self.store_file is None:
            message = f"BACKUP_SCHEDULE is {self.backup_schedule!r}, but {self.store_name} is on a database server."
            raise Misconfigured(
                message, "Leave it empty and make backups with the server's own tools, such as pg_dump."
            )
        expressions = {**(upkeep if self.maintenance_enabled else {}), "backup": self.backup_schedule}
        return {chore: cron for chore, cron in expressions.items() if models_cron.is_enabled(cron)}

    @property
    def store_path(self) -> Path:
        """Path of an embedded store. `sqlite:///PATH`, `sqlite:////PATH` and a plain path are equivalent."""
        scheme, separator, rest = self.store.partition("://")
        if not separator:
            return _expand_path(self.store)
        if urls.is_server(self.store):
            hint = "Use pg_dump and pg_restore, or `cofio export` and `cofio copy`."
            raise Misconfigured(f"{self.store_name} is on a database server, not in a file.", hint)
        if scheme != "sqlite" or not rest.strip("/"):
            message = f"The store {self.shown('store')!r} is not a store URL that cofio supports."
            raise Misconfigured(message, "Give sqlite:///PATH, or postgresql://USER@HOST/DATABASE.")
        if rest.strip("/") == ":memory:":
            raise Misconfigured("A store in memory is lost when the process ends.", "Give sqlite:///PATH.")
        path = re.sub("^/+", "/", rest)
        return _expand_path(path[1:] if path.startswith("/~") else path)

    @property
    def store_file(self) -> Path | None:
        """Path of the store's file; None for a store on a server."""
        return None if urls.is_server(self.store) else self.store_path

    @property
    def store_name(self) -> str:
        """Display name of the store: the path of its file, or its URL without the password."""
        return urls.display_url(self.store) if self.store_file is None else str(self.store_path)

    @property
    def missing_file(self) -> Path | None:
        """Path of an explicitly configured store file that does not exist; None otherwise."""
        is_named = self.origins.get("store", "default") != "default"
        return self.store_file if is_named and self.store_file and not self.store_file.exists() else None

    @property
    def backups(self) -> Path:
        """Folder of the backups: in the home for the home's own store, beside the file for any other."""
        path = self.store_path
        return self.home / "backups" if path.parent == self.home else path.with_name(f"{path.name}.backups")

    @property
    def notes_folder(self) -> Path:
        """Folder that flushed notes are written to."""
        return _expand_path(self.notes) if self.notes else self.home / "notes"

    @property
    def notes_labels(self) -> dict[Path, str]:
        """Labels of the followed Markdown folders by path; "" for a folder without a label."""
        labels = {}
        for entry in filter(None, map(str.strip, self.notes_folders.split(","))):
            label, equals, path = entry.partition("=")
            if not equals or "/" in label:  # the = is part of a path
                labels[_expand_path(entry)] = ""
            elif label.strip() and label.strip() in labels.values():  # their memories would have the same source
                raise Misconfigured(f"notes_folders names {label.strip()!r} twice.", "Give each folder its own name.")
            elif label.strip() and path.strip():
                labels[_expand_path(path.strip())] = label.strip()
            else:
                raise Misconfigured(
                    f"notes_folders contains {entry!r}.", "Give PATH or NAME=PATH, separated by commas."
                )
        return labels

    @property
    def notes_followed(self) -> list[Path]:
        """Followed folders of Markdown."""
        return list(self.notes_labels)

    @property
    def service_url(self) -> str:
        """Base URL of the service for clients."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return (self.url or f"http://{f'[{host}]' if ':' in host else host}:{self.port}").rstrip("/")

    def shown(self, name: str) -> str:
        """Return the value of a setting for display, with secrets masked."""
        value = urls.display_url(self.store) if name == "store" else getattr(self, name)
        secret = self.__dataclass_fields__[name].metadata["secret"]
        if secret:
            return _MASK if value else ""
        return _mask_keys(value) if name.endswith("url") else str(value)


def _mask_keys(address: str) -> str:
    """Return the address with every part masked that may be a key or a password."""
    return _KEYED.sub(_MASK, address)


def agent_environment() -> dict[str, str]:
    """Return the environment of a coding agent that the service starts."""
    return {name: value for name, value in os.environ.items() if not _NOT_FOR_AGENTS.fullmatch(name)}


def line(name: str, value: Any) -> str:
    """Return the line of config.toml that sets this value."""
    return f"{name} = {_format_toml(value)}"


def settable() -> list[Any]:
    """Return the fields that a user can set, in order."""
    return [setting for setting in fields(Settings) if setting.metadata]


def write(home: Path, name: str, value: str) -> Path:
    """Set one value in the home's config.toml, keep every other line, and return the path of the file."""
    options = {option.name: option for option in settable()}
    if name not in options or name == "home":
        raise Misconfigured(f"config.toml has no setting {name!r}.", f"Give one of: {', '.join(options)}.")
    new_line = line(name, _convert(name, value, type(options[name].default)))
    path = home / "config.toml"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    pattern = re.compile(rf"^{name}\s*=.*$", re.MULTILINE)
    text = pattern.sub(lambda _: new_line, text) if pattern.search(text) else _append_line(text, new_line)
    _parse(text, path)  # refuse to write a file that cannot be parsed
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=home, prefix=".config-")  # readable by its owner only: it may hold keys
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError as error:
        raise Misconfigured(
            f"{path} cannot be written: {error.strerror}.", "Check the folder's permissions."
        ) from error
    return path


def _append_line(text: str, new_line: str) -> str:
    return f"{text.rstrip()}\n{new_line}\n".lstrip()


def _find_value(
    name: str,
    variables: tuple[str, ...],
    overrides: Mapping[str, Any],
    environment: Mapping[str, str],
    file_values: Mapping[str, Any],
    home: Path,
) -> tuple[Any, str] | None:
    if name in overrides:
        return overrides[name], "flag"
    for variable in variables:
        if environment.get(variable):
            return environment[variable], variable
    return (file_values[name], str(home / "config.toml")) if name in file_values else None


def key_setting(provider: str, url: str) -> str:
    """Return the setting that holds the provider's key. OpenAI's key is not used for other, compatible servers."""
    if provider.lower() == "openai" and url and not _OPENAI.match(url):
        return ""
    return {"anthropic": "anthropic_key", "openai": "openai_key"}.get(provider.lower(), "")


def _find_home_origin(overrides: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    if overrides.get("home"):
        return "flag"
    return "COFIO_HOME" if environment.get("COFIO_HOME") else "default"


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path} cannot be read: {error}.", "Repair the file, or move it away.") from error
    return _parse(text, path)


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{path} cannot be read: {error}.", "Repair the file, or move it away.") from error
    names = {option.name for option in settable()} - {"home"}
    if unknown := sorted(values.keys() - names):
        raise Misconfigured(
            f"{path} has unknown settings: {', '.join(unknown)}.", f"Known settings: {', '.join(sorted(names))}."
        )
    return values


def _convert(name: str, value: Any, kind: type) -> Any:
    try:
        if kind is bool:
            return value if isinstance(value, bool) else _TRUTH[str(value).strip().lower()]
        if isinstance(value, bool) or (kind is str and not isinstance(value, str)):
            raise ValueError(name)
        return kind(value.strip() if isinstance(value, str) else value)
    except (KeyError, ValueError, TypeError) as error:
        expected = {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")
        raise Misconfigured(f"{name} is {value!r}.", f"Give {expected}.") from error


_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _format_toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return json.dumps(str(value)).replace("\x7f", "\\u007f")  # TOML accepts the escapes of JSON


def _expand_path(value: str | Path) -> Path:
    return Path(value).expanduser().absolute()
