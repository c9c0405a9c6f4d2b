"""Settings: the module that reads the environment and the configuration file, for all but the hook's own process.

Flags win over variables, variables over `config.toml` in the home, and that over the defaults. Every setting says what
it is for; the settings page of the docs is made from here.
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

from cofio import addresses, schedule
from cofio.errors import Misconfigured

#: The least that some settings may be.
_LEAST = {
    "inbox_limit": 1, "inbox_days": 0, "hook_recall_ms": 50, "hook_capture_ms": 50, "consolidation_min_cluster": 2,
    "prune_detail_days": 1, "prune_decision_days": 1, "prune_days": 1, "backup_days": 1, "retrieval_days": 1,
    "audit_days": 1, "chat_upstream_timeout": 1, "notes_every": 0, "episode_days": 1, "episode_mb": 0,
    "llm_calls_per_day": 0, "llm_tokens_per_day": 0, "llm_text_days": 0,
    "llm_batch_seconds": 0, "llm_batch_turns": 1,
}  # fmt: skip
_OPENAI = re.compile(r"https://(?:[\w-]+\.)?api\.openai\.com(?::443)?(?:/|$)", re.IGNORECASE)
#: What a coding agent that the service starts does not get: keys, which would be billed in place of its login, our own
#: settings, and what it would take for the session that the service was started from.
_NOT_FOR_AGENTS = re.compile(
    r"(?:COFIO|FAISS|CLAUDE_PLUGIN)_.*|.*_API_KEY|CHAT_UPSTREAM_KEY|ANTHROPIC_AUTH_TOKEN|CLAUDECODE|CLAUDE_PROJECT_DIR"
    r"|CLAUDE_CODE_(?:ENTRYPOINT|SESSION_ID|SSE_PORT|CHILD_SESSION)|CODEX_(?:THREAD_ID|SANDBOX.*)"
)
_MASK = "•" * 8
#: Where keys stand in an address: before its host, and in what follows its path. Where nobody can tell which it is, for
#: an @ comes after a ? or #, that is all of it.
_KEYED = re.compile(r"(?<=://)[^?#]*[?#].*@.*|(?<=://).*(?=@)|(?<=[?#]).+", re.DOTALL)


def _setting(default: Any, variable: str, says: str, *aliases: str, secret: bool = False) -> Any:
    names = (variable, *aliases)
    return field(default=default, metadata={"variables": names, "says": says, "secret": secret})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, with where each value came from."""

    home: Path = _setting(Path("~/.cofio"), "COFIO_HOME", "The folder for the store, the model and config.toml.")
    store: str = _setting(
        "", "COFIO_STORE",
        "Where memories are kept: sqlite:///PATH, or postgresql://USER:PASSWORD@HOST/DATABASE, with ?tenant=NAME where "
        "several share it. By default cofio.db in the home.",
    )  # fmt: skip
    embedder: str = _setting("local", "COFIO_EMBEDDER", "What makes vectors: local, openai:MODEL or ollama:MODEL.")
    embedder_url: str = _setting(
        "", "COFIO_EMBEDDER_URL", "Another address for a remote embedder, or for the local model's files."
    )
    embedder_key: str = _setting(
        "", "COFIO_EMBEDDER_KEY", "The key of a remote embedder.", "OPENAI_API_KEY", secret=True
    )
    embedder_dimension: int = _setting(
        0, "COFIO_EMBEDDER_DIMENSION", "Ask a remote embedder for this many dimensions; 0 takes what it gives."
    )
    close_reading: bool = _setting(
        True,
        "COFIO_CLOSE_READING",
        "Whether memories are read word by word in the background, so that search can look closer.",
    )
    model_download: bool = _setting(
        True, "COFIO_MODEL_DOWNLOAD", "Whether the local model may be downloaded when it is not on this machine."
    )
    host: str = _setting("127.0.0.1", "COFIO_HOST", "The address that the service listens on.")
    port: int = _setting(8900, "COFIO_PORT", "The port that the service listens on.")
    url: str = _setting("", "COFIO_URL", "The service that clients talk to, when it is not the local one.", "FAISS_URL")
    api_key: str = _setting(
        "", "COFIO_API_KEY", "The key that clients send as X-API-Key; in the service it opens everything.",
        "FAISS_API_KEY", secret=True,
    )  # fmt: skip
    allowed_hosts: str = _setting(
        "", "COFIO_ALLOWED_HOSTS", "Further names under which the service may be called, with commas between them."
    )
    max_body: int = _setting(8_388_608, "COFIO_MAX_BODY", "The largest request body that is taken, in bytes.")
    dedup_threshold: float = _setting(
        0.90, "COFIO_DEDUP_THRESHOLD", "The cosine from which a fact may be a duplicate of a memory."
    )
    novelty_threshold: float = _setting(
        0.88, "COFIO_NOVELTY_THRESHOLD", "The cosine from which a fact may be known already, for is-novel."
    )
    extract_provider: str = _setting(
        "", "EXTRACT_PROVIDER",
        "Whose model reads what was said: anthropic, openai or ollama; claude-cli or codex-cli run your own Claude "
        "Code or Codex with its login; none when empty.",
        "COFIO_EXTRACT_PROVIDER",
    )  # fmt: skip
    extract_model: str = _setting(
        "", "EXTRACT_MODEL", "Which of its models, when it is not the provider's usual one.", "COFIO_EXTRACT_MODEL"
    )
    extract_url: str = _setting(
        "", "EXTRACT_URL", "Another base address for the provider, such as that of an OpenAI-compatible server.",
        "COFIO_EXTRACT_URL",
    )  # fmt: skip
    extract_key: str = _setting(
        "", "COFIO_EXTRACT_KEY", "The model provider's key. By default anthropic_key, or openai_key for OpenAI itself.",
        secret=True,
    )  # fmt: skip
    anthropic_key: str = _setting("", "ANTHROPIC_API_KEY", "The key for Anthropic's models.", secret=True)
    openai_key: str = _setting("", "OPENAI_API_KEY", "The key for OpenAI's models.", secret=True)
    ollama_url: str = _setting("", "OLLAMA_URL", "Where Ollama runs; by default on this machine, at port 11434.")
    extract_timeout: float = _setting(
        60.0, "EXTRACT_TIMEOUT", "How long to wait for a model's reply, in seconds.", "COFIO_EXTRACT_TIMEOUT"
    )
    llm: bool = _setting(
        True, "COFIO_LLM", "Call the language model of the provider; off makes no call, although a provider is set."
    )
    llm_calls_per_day: int = _setting(
        300,
        "COFIO_LLM_CALLS_PER_DAY",
        "Most calls of the language model in a day, in UTC; what is left to read waits for the next day. 0 is no "
        "limit, which is the default for ollama.",
    )
    llm_tokens_per_day: int = _setting(
        300_000,
        "COFIO_LLM_TOKENS_PER_DAY",
        "Most tokens of requests and replies in a day, in UTC; the call that passes the limit is the last. 0 is no "
        "limit, which is the default for ollama.",
    )
    llm_reads: str = _setting(
        "all",
        "COFIO_LLM_READS",
        "Which turns the language model reads: all that may hold a fact, or only the doubtful ones, of which the "
        "judgement model is not certain.",
    )
    llm_batch_seconds: float = _setting(
        300.0,
        "COFIO_LLM_BATCH_SECONDS",
        "For how many seconds a session must pause before the language model reads its turns together; 0 reads each "
        "turn by itself, at once. The end of a session and a compaction do not wait.",
    )
    llm_batch_turns: int = _setting(
        8, "COFIO_LLM_BATCH_TURNS", "How many turns of a session the language model reads together at most."
    )
    llm_text_days: int = _setting(
        7, "COFIO_LLM_TEXT_DAYS", "Days to keep the redacted texts of calls; the counts stay. 0 keeps no text."
    )
    chat_upstream_url: str = _setting(
        "", "CHAT_UPSTREAM_URL", "Where a chat goes on to: the base address of an OpenAI-compatible server.",
        "COFIO_CHAT_UPSTREAM_URL",
    )  # fmt: skip
    chat_upstream_key: str = _setting(
        "", "CHAT_UPSTREAM_KEY", "The key of that server. By default openai_key, for OpenAI itself.",
        "COFIO_CHAT_UPSTREAM_KEY", secret=True,
    )  # fmt: skip
    chat_upstream_timeout: float = _setting(
        600.0, "CHAT_UPSTREAM_TIMEOUT", "How long that server may be silent, in seconds.",
        "COFIO_CHAT_UPSTREAM_TIMEOUT",
    )  # fmt: skip
    judge: bool = _setting(
        True, "COFIO_JUDGE", "Judge facts, changes and relevance with the trained model; off leaves it to the rules."
    )
    recall_min_score: float = _setting(
        0.0, "COFIO_RECALL_MIN_SCORE",
        "The least probability, from 0 to 1, that a memory helps with the prompt it is injected with; 0 takes the "
        "threshold of the judgement model. With COFIO_JUDGE=false it is the least score of the search; 0 takes 0.24.",
    )  # fmt: skip
    start_tokens: int = _setting(
        1_200, "COFIO_START_TOKENS", "Tokens of memories at the start of a session, from 200 to 2000."
    )
    project: str = _setting(
        "", "COFIO_PROJECT", "The name of the project at hand, for hooks; by default the path of its repository."
    )
    hook_recall_ms: int = _setting(
        800, "COFIO_HOOK_RECALL_MS", "How long a hook may take that recalls, in milliseconds."
    )
    hook_capture_ms: int = _setting(
        300, "COFIO_HOOK_CAPTURE_MS", "How long a hook may take that only hands over what was said, in milliseconds."
    )
    inbox_limit: int = _setting(10_000, "COFIO_INBOX_LIMIT", "How many captures may wait before new ones are refused.")
    inbox_days: int = _setting(30, "COFIO_INBOX_DAYS", "For how many days the words of settled captures are kept.")
    episodes: bool = _setting(True, "COFIO_EPISODES", "Index captured turns, so that what was said can be searched.")
    episode_days: int = _setting(180, "COFIO_EPISODE_DAYS", "Days to keep episodes.")
    episode_mb: int = _setting(
        500, "COFIO_EPISODE_MB", "Megabytes of episodes to keep, text and vectors; the oldest beyond it are removed."
    )
    maintenance_enabled: bool = _setting(
        False, "MAINTENANCE_ENABLED", "Whether the service merges what repeats and prunes what is dead, by itself.",
        "COFIO_MAINTENANCE_ENABLED",
    )  # fmt: skip
    consolidation_schedule: str = _setting(
        "0 3 * * *", "CONSOLIDATION_SCHEDULE", "When it merges: minute, hour, day, month, weekday in UTC; or off.",
        "COFIO_CONSOLIDATION_SCHEDULE",
    )  # fmt: skip
    consolidation_similarity: float = _setting(
        0.75, "CONSOLIDATION_SIMILARITY", "The cosine from which memories may be merged into one.",
        "COFIO_CONSOLIDATION_SIMILARITY",
    )  # fmt: skip
    consolidation_min_cluster: int = _setting(
        3, "CONSOLIDATION_MIN_CLUSTER", "How many memories must belong together to be merged by a model.",
        "COFIO_CONSOLIDATION_MIN_CLUSTER",
    )  # fmt: skip
    prune_schedule: str = _setting(
        "0 4 * * 0", "PRUNE_SCHEDULE", "When it prunes: minute, hour, day, month, weekday in UTC; or off.",
        "COFIO_PRUNE_SCHEDULE",
    )  # fmt: skip
    prune_detail_days: int = _setting(
        60, "PRUNE_DETAIL_DAYS", "For how many days a detail that nobody recalls is kept.", "COFIO_PRUNE_DETAIL_DAYS"
    )
    prune_decision_days: int = _setting(
        120, "PRUNE_DECISION_DAYS", "For how many days a decision or a learning that nobody recalls is kept.",
        "COFIO_PRUNE_DECISION_DAYS",
    )  # fmt: skip
    prune_days: int = _setting(
        90, "PRUNE_DAYS", "For how many days a memory without a category that nobody recalls is kept.",
        "COFIO_PRUNE_DAYS",
    )  # fmt: skip
    backup_schedule: str = _setting(
        "", "BACKUP_SCHEDULE", "When the service backs the store up: cron text in UTC; never when empty or off.",
        "COFIO_BACKUP_SCHEDULE",
    )  # fmt: skip
    backup_days: int = _setting(
        30, "BACKUP_DAYS", "For how many days the backups that the service made are kept.", "COFIO_BACKUP_DAYS"
    )
    retrieval_days: int = _setting(
        180,
        "COFIO_RETRIEVAL_DAYS",
        "For how many days it is kept what was asked, and how much agents were given; the counts stay for ever.",
    )
    audit_days: int = _setting(
        365, "COFIO_AUDIT_DAYS", "For how many days the audit log keeps what was done with keys, and what was refused."
    )
    notes: str = _setting(
        "", "COFIO_NOTES", "The folder that flushed notes are written to; by default the folder notes in the home."
    )
    notes_folders: str = _setting(
        "", "COFIO_NOTES_FOLDERS",
        "Folders of Markdown that the service follows, with commas between them: PATH, or NAME=PATH to say what it is "
        "called in the sources of its memories.",
    )  # fmt: skip
    notes_every: float = _setting(
        5.0, "COFIO_NOTES_EVERY", "How many seconds pass between two looks at followed folders; 0 switches them off."
    )
    claude_home: str = _setting(
        "", "COFIO_CLAUDE_HOME", "Where Claude Code keeps its settings; by default ~/.claude.", "CLAUDE_CONFIG_DIR"
    )
    codex_home: str = _setting(
        "", "COFIO_CODEX_HOME", "Where Codex keeps its settings; by default ~/.codex.", "CODEX_HOME"
    )
    cursor_home: str = _setting("", "COFIO_CURSOR_HOME", "Where Cursor keeps its settings; by default ~/.cursor.")
    openclaw_home: str = _setting(
        "", "COFIO_OPENCLAW_HOME", "Where OpenClaw keeps its state; by default ~/.openclaw.", "OPENCLAW_STATE_DIR",
        "OPENCLAW_HOME",
    )  # fmt: skip
    openclaw_config: str = _setting(
        "", "COFIO_OPENCLAW_CONFIG", "OpenClaw's configuration file; by default openclaw.json in its home.",
        "OPENCLAW_CONFIG_PATH",
    )  # fmt: skip
    log_level: str = _setting("info", "COFIO_LOG_LEVEL", "How much the service logs: debug, info, warning or error.")
    origins: Mapping[str, str] = field(default_factory=dict, metadata={})

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
        """The settings in force, from flags (None means not given), variables and the file in the home."""
        given = {name: value for name, value in (flags or {}).items() if value is not None}
        around = os.environ if environ is None else environ
        home = _path(given.get("home") or around.get("COFIO_HOME") or "~/.cofio")
        written = _read(home / "config.toml")
        values: dict[str, Any] = {"home": home}
        origins: dict[str, str] = {"home": _origin_of_home(given, around)}
        for each in settable():
            if each.name == "home":
                continue
            found = _found(each.name, each.metadata["variables"], given, around, written, home)
            values[each.name] = _typed(each.name, found[0], type(each.default)) if found else each.default
            origins[each.name] = found[1] if found else "default"
        values["store"] = values["store"] or f"sqlite://{home / 'cofio.db'}"
        for setting, name in (
            ("extract_key", key_setting(values["extract_provider"], values["extract_url"])),
            ("chat_upstream_key", "openai_key" if _OPENAI.match(values["chat_upstream_url"]) else ""),
        ):
            if name and not values[setting]:
                values[setting], origins[setting] = values[name], origins[name]
        return cls(**values, origins=origins)._checked()

    def _checked(self) -> Settings:
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
            said = f"consolidation_similarity is {self.consolidation_similarity}."
            raise Misconfigured(said, "Give a number from 0.5 to 1: what is less alike has nothing in common.")
        for name in ("consolidation_schedule", "prune_schedule", "backup_schedule"):
            if self.origins.get(name) == "default":
                continue  # most commands come without, and need no library to read it
            try:
                schedule.check(getattr(self, name))
            except Misconfigured as error:
                raise Misconfigured(f"{name}: {error.message}", error.hint) from error

    @property
    def schedules(self) -> dict[str, str]:
        """When the service does which chore by itself; a chore that is switched off is not among them."""
        upkeep = {"consolidate": self.consolidation_schedule, "prune": self.prune_schedule}
        if schedule.is_on(self.backup_schedule) and self.store_file is None:
            said = f"BACKUP_SCHEDULE is {self.backup_schedule!r}, but {self.store_name} is kept by a server."
            raise Misconfigured(said, "Leave it empty, and have the server's own tools make backups: pg_dump.")
        wanted = {**(upkeep if self.maintenance_enabled else {}), "backup": self.backup_schedule}
        return {chore: cron for chore, cron in wanted.items() if schedule.is_on(cron)}

    @property
    def store_path(self) -> Path:
        """The file of an embedded store. `sqlite:///PATH`, `sqlite:////PATH` and a plain path mean the same."""
        scheme, found, rest = self.store.partition("://")
        if not found:
            return _path(self.store)
        if addresses.is_server(self.store):
            hint = "pg_dump and pg_restore back it up and restore it; `cofio export` and `cofio copy` work with it too."
            raise Misconfigured(f"A server keeps {self.store_name}: it is not a file.", hint)
        if scheme != "sqlite" or not rest.strip("/"):
            said = f"The store {self.shown('store')!r} is not one that this cofio knows."
            raise Misconfigured(said, "Give sqlite:///PATH, or postgresql://USER@HOST/DATABASE.")
        if rest.strip("/") == ":memory:":
            raise Misconfigured("A store in memory forgets everything.", "Give sqlite:///PATH.")
        path = re.sub("^/+", "/", rest)
        return _path(path[1:] if path.startswith("/~") else path)

    @property
    def store_file(self) -> Path | None:
        """The file of the store; None where a server keeps it."""
        return None if addresses.is_server(self.store) else self.store_path

    @property
    def store_name(self) -> str:
        """What the store is known by: the path of its file, or its address without the password."""
        return addresses.shown(self.store) if self.store_file is None else str(self.store_path)

    @property
    def missing_file(self) -> Path | None:
        """The file that somebody named for the store, and that is not there."""
        named = self.origins.get("store", "default") != "default"
        return self.store_file if named and self.store_file and not self.store_file.exists() else None

    @property
    def backups(self) -> Path:
        """Where the store's backups are: in the home for the store of the home, beside it for any other."""
        path = self.store_path
        return self.home / "backups" if path.parent == self.home else path.with_name(f"{path.name}.backups")

    @property
    def notes_folder(self) -> Path:
        """Where flushed notes are written."""
        return _path(self.notes) if self.notes else self.home / "notes"

    @property
    def notes_labels(self) -> dict[Path, str]:
        """What the further folders of Markdown are called; "" where nobody said."""
        found = {}
        for each in filter(None, map(str.strip, self.notes_folders.split(","))):
            label, named, path = each.partition("=")
            if not named or "/" in label:  # it is part of a path
                found[_path(each)] = ""
            elif label.strip() and label.strip() in found.values():  # their sources would be alike, and mixed
                raise Misconfigured(f"notes_folders names {label.strip()!r} twice.", "Give each folder its own name.")
            elif label.strip() and path.strip():
                found[_path(path.strip())] = label.strip()
            else:
                raise Misconfigured(f"notes_folders names {each!r}.", "Give PATH or NAME=PATH, with commas between.")
        return found

    @property
    def notes_followed(self) -> list[Path]:
        """The folders of Markdown that the service follows."""
        return list(self.notes_labels)

    @property
    def service_url(self) -> str:
        """Where clients find the service."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return (self.url or f"http://{f'[{host}]' if ':' in host else host}:{self.port}").rstrip("/")

    def shown(self, name: str) -> str:
        """The value as it may be shown: secrets are masked."""
        value = addresses.shown(self.store) if name == "store" else getattr(self, name)
        secret = self.__dataclass_fields__[name].metadata["secret"]
        if secret:
            return _MASK if value else ""
        return _unkeyed(value) if name.endswith("url") else str(value)


def _unkeyed(address: str) -> str:
    """The address with whatever may be a key or a password masked: who can tell them from the rest?"""
    return _KEYED.sub(_MASK, address)


def agent_environment() -> dict[str, str]:
    """Return the environment of a coding agent that the service starts."""
    return {name: value for name, value in os.environ.items() if not _NOT_FOR_AGENTS.fullmatch(name)}


def line(name: str, value: Any) -> str:
    """The line of config.toml that sets it."""
    return f"{name} = {_toml(value)}"


def settable() -> list[Any]:
    """The fields that a person can set, in order."""
    return [each for each in fields(Settings) if each.metadata]


def write(home: Path, name: str, value: str) -> Path:
    """Put one setting into the home's config.toml and leave every other line as it is; the file's path."""
    known = {each.name: each for each in settable()}
    if name not in known or name == "home":
        raise Misconfigured(f"There is no setting {name!r} for the file.", f"There are: {', '.join(known)}.")
    written = line(name, _typed(name, value, type(known[name].default)))
    path = home / "config.toml"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    pattern = re.compile(rf"^{name}\s*=.*$", re.MULTILINE)
    text = pattern.sub(lambda _: written, text) if pattern.search(text) else _with_line(text, written)
    _parsed(text, path)  # nothing is written that could not be read again
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=home, prefix=".config-")  # for its owner alone: keys may stand in it
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError as error:
        raise Misconfigured(
            f"{path} cannot be written: {error.strerror}.", "Check the folder's permissions."
        ) from error
    return path


def _with_line(text: str, further: str) -> str:
    return f"{text.rstrip()}\n{further}\n".lstrip()


def _found(
    name: str,
    variables: tuple[str, ...],
    given: Mapping[str, Any],
    around: Mapping[str, str],
    written: Mapping[str, Any],
    home: Path,
) -> tuple[Any, str] | None:
    if name in given:
        return given[name], "flag"
    for variable in variables:
        if around.get(variable):
            return around[variable], variable
    return (written[name], str(home / "config.toml")) if name in written else None


def key_setting(provider: str, url: str) -> str:
    """The setting with the key of the model's provider. OpenAI's is for OpenAI, not for whatever speaks like it."""
    if provider.lower() == "openai" and url and not _OPENAI.match(url):
        return ""
    return {"anthropic": "anthropic_key", "openai": "openai_key"}.get(provider.lower(), "")


def _origin_of_home(given: Mapping[str, Any], around: Mapping[str, str]) -> str:
    if given.get("home"):
        return "flag"
    return "COFIO_HOME" if around.get("COFIO_HOME") else "default"


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path} cannot be read: {error}.", "Mend the file, or move it away.") from error
    return _parsed(text, path)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        written = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{path} cannot be read: {error}.", "Mend the file, or move it away.") from error
    known = {each.name for each in settable()} - {"home"}
    if unknown := sorted(written.keys() - known):
        raise Misconfigured(f"{path} sets {', '.join(unknown)}.", f"It may set: {', '.join(sorted(known))}.")
    return written


def _typed(name: str, value: Any, kind: type) -> Any:
    try:
        if kind is bool:
            return value if isinstance(value, bool) else _TRUTH[str(value).strip().lower()]
        if isinstance(value, bool) or (kind is str and not isinstance(value, str)):
            raise ValueError(name)
        return kind(value.strip() if isinstance(value, str) else value)
    except (KeyError, ValueError, TypeError) as error:
        wanted = {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "text")
        raise Misconfigured(f"{name} is {value!r}.", f"Give {wanted}.") from error


_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return json.dumps(str(value)).replace("\x7f", "\\u007f")  # TOML takes JSON's escapes


def _path(value: str | Path) -> Path:
    return Path(value).expanduser().absolute()
