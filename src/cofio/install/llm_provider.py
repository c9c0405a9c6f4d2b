"""The extraction provider: the choice, a live test of it, and its settings in config.toml."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cofio import settings as setting
from cofio.errors import Misconfigured
from cofio.providers import llms
from cofio.settings import Settings

SKIP = "skip"
#: The choices in order, with their labels in the installer.
CHOICES: Mapping[str, str] = {
    "anthropic": "Anthropic (recommended, ~$0.001 per processed turn)",
    "openai": "OpenAI (~$0.001 per processed turn)",
    "ollama": "Ollama (free, local; it finds facts, rules decide about them)",
    SKIP: "Skip (no model: patterns find facts, rules decide about them)",
}
#: Further choices, offered if that client is logged in.
AGENTS: Mapping[str, str] = {
    "claude-cli": "Claude Code (your login, no key; each processed turn counts against your plan's limits)",
    "codex-cli": "Codex (your login, no key; each processed turn counts against your plan's limits)",
}
CALLED: Mapping[str, str] = {name: label.partition(" (")[0] for name, label in {**CHOICES, **AGENTS}.items()}
_CLIENTS = {"claude-cli": "claude-code", "codex-cli": "codex"}
_VARIABLES = {"anthropic_key": "ANTHROPIC_API_KEY", "openai_key": "OPENAI_API_KEY", "extract_key": "COFIO_EXTRACT_KEY"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A provider ("" for none) with its key and model; `model` "" is the provider's default."""

    provider: str
    key: str = field(default="", repr=False)
    model: str = ""
    key_name: str = ""  # the setting for the key; "" if none is needed

    @property
    def uses(self) -> str:
        """Return the name of the model."""
        return self.model or llms.MODELS.get(self.provider, "")

    def variables(self) -> dict[str, str]:
        """Return the choice as environment variables."""
        values = {"EXTRACT_PROVIDER": self.provider, "EXTRACT_MODEL": self.model}
        if self.key_name:
            values[_VARIABLES[self.key_name]] = self.key
        return {name: value for name, value in values.items() if value}


def known_choice(settings: Settings, provider: str, model: str = "") -> Choice:
    """Return the choice of this provider with the key and model from the settings."""
    is_current = settings.extract_provider.lower() == provider
    model = model or (settings.extract_model if is_current else "")
    if provider in AGENTS:
        return Choice(provider=provider, model=model)
    own = setting.key_setting(provider, settings.extract_url)
    key_fits = is_current or not settings.extract_provider  # the key is not another provider's
    key = (settings.extract_key if key_fits else "") or getattr(settings, own, "")
    key_name = "" if provider == "ollama" else own or "extract_key"
    return Choice(provider=provider, key=key, model=model, key_name=key_name)


def test_choice(settings: Settings, choice: Choice) -> str:
    """Return the problem with the choice, tested with the provider itself; "" if key and model work."""
    try:
        llm = llms.make(
            choice.provider,
            model=choice.model,
            key=choice.key,
            url=settings.extract_url,
            ollama_url=settings.ollama_url,
            timeout=settings.extract_timeout,
            environ=setting.agent_environment(),
        )
    except Misconfigured as error:
        return str(error)
    return llm.health_check().problem if llm else ""


def offered_agents(settings: Settings) -> dict[str, str]:
    """Return the labels of the coding agents that are installed and logged in."""
    return {name: label for name, label in AGENTS.items() if not test_choice(settings, known_choice(settings, name))}


def end_agent(settings: Settings, clients: Collection[str]) -> str:
    """Clear the provider that runs one of these clients; return its name, "" if config.toml names none of them."""
    name = in_file(settings).extract_provider.lower()
    if _CLIENTS.get(name) not in clients:
        return ""
    keep(settings, "extract_provider", "")
    keep(settings, "extract_model", "")
    return name


def write(settings: Settings, choice: Choice) -> Path:
    """Write the choice and the URL into config.toml, for a service started without these variables; return its path."""
    values = {"extract_provider": choice.provider, "extract_model": choice.model}
    if choice.key_name:
        values[choice.key_name] = choice.key
    if choice.provider:
        values["extract_url"] = settings.extract_url
    if choice.provider == "ollama":
        values["ollama_url"] = settings.ollama_url
    for name, value in values.items():
        keep(settings, name, value)
    if choice.key and in_file(settings).extract_key != choice.key:  # an existing extract_key would win
        setting.write(settings.home, "extract_key", choice.key)
    return settings.home / "config.toml"


def keep(settings: Settings, name: str, value: str) -> None:
    """Write a setting into config.toml unless it already has this value."""
    if value != getattr(in_file(settings), name):
        setting.write(settings.home, name, value)


def is_written(settings: Settings, choice: Choice) -> bool:
    """Return whether config.toml already contains this choice."""
    stored = in_file(settings)
    same_key = choice.provider in AGENTS or stored.extract_key == choice.key
    return same_key and (stored.extract_provider, stored.extract_model) == (choice.provider, choice.model)


def in_file(settings: Settings) -> Settings:
    """Return the settings from config.toml only."""
    return Settings.load({"home": settings.home}, {})
