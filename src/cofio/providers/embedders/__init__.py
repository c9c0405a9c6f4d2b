"""Embedders by name: `local`, `openai:MODEL` (and compatible servers), `ollama:MODEL`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cofio.errors import Misconfigured

if TYPE_CHECKING:
    from cofio.ports import Embedder, LateInteractionModel

CHOICES = "Choose `local`, `openai:MODEL` or `ollama:MODEL`."


def make(
    spec: str,
    *,
    home: Path,
    url: str = "",
    key: str = "",
    dimension: int | None = None,
    download: bool = True,
    recent: int = 512,
) -> Embedder:
    """Return the embedder named by the spec, with a cache of `recent` query vectors. Raise Misconfigured if unknown."""
    provider, _, model = spec.strip().partition(":")
    if provider not in _ADAPTERS:
        raise Misconfigured(f"There is no embedder {spec!r}.", CHOICES)
    settings = {"home": home, "url": url, "key": key, "dimension": dimension, "download": download, "recent": recent}
    return _ADAPTERS[provider](model, settings)


def make_reader(home: Path) -> LateInteractionModel | None:
    """Return the re-ranking model, or None if its files are not on this machine."""
    from cofio.providers.embedders import model_files

    place = model_files.find_extra(home, model_files.READER)
    if place is None:
        return None
    from cofio.providers.embedders.colbert import ColbertModel

    return ColbertModel(place)


def _local(model: str, settings: Mapping[str, Any]) -> Embedder:
    from cofio.providers.embedders.local import DIMENSION, LocalEmbedder

    if model:
        raise Misconfigured(f"The local embedder has no model {model!r}.", CHOICES)
    if settings["dimension"] not in (None, DIMENSION):
        raise Misconfigured(f"The local model has {DIMENSION} dimensions.", "Leave the dimension unset.")
    about = {name: settings[name] for name in ("download", "url", "recent")}
    return LocalEmbedder(settings["home"], **about)


def _openai(model: str, settings: Mapping[str, Any]) -> Embedder:
    from cofio.providers.embedders.remote import OPENAI, OpenAIEmbedder

    model, url = model or "text-embedding-3-small", settings["url"] or OPENAI
    about = {name: settings[name] for name in ("key", "dimension", "recent")}
    return OpenAIEmbedder(model, url=url, **about)


def _ollama(model: str, settings: Mapping[str, Any]) -> Embedder:
    from cofio.providers.embedders.remote import OLLAMA, OllamaEmbedder

    if not model:
        raise Misconfigured("The Ollama embedder needs a model.", "Give one, for example `ollama:nomic-embed-text`.")
    about = {name: settings[name] for name in ("dimension", "recent")}
    return OllamaEmbedder(model, url=settings["url"] or OLLAMA, **about)


_ADAPTERS: Mapping[str, Callable[[str, Mapping[str, Any]], Embedder]] = {
    "local": _local,
    "openai": _openai,
    "ollama": _ollama,
}
