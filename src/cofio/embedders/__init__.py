"""Embedders, by name: `local`, `openai:MODEL` (and whatever speaks its wire format), `ollama:MODEL`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cofio.errors import Misconfigured

if TYPE_CHECKING:
    from cofio.ports import Embedder

CHOICES = "Choose `local`, `openai:MODEL` or `ollama:MODEL`."


def make(
    spec: str,
    *,
    home: Path,
    url: str = "",
    key: str = "",
    dimension: int | None = None,
    download: bool = True,
) -> Embedder:
    """The embedder that the spec names. Misconfigured when there is none of that name."""
    provider, _, model = spec.strip().partition(":")
    if provider not in _ADAPTERS:
        raise Misconfigured(f"There is no embedder {spec!r}.", CHOICES)
    settings = {"home": home, "url": url, "key": key, "dimension": dimension, "download": download}
    return _ADAPTERS[provider](model, settings)


def _local(model: str, settings: Mapping[str, Any]) -> Embedder:
    from cofio.embedders.local import DIMENSION, LocalEmbedder

    if model:
        raise Misconfigured(f"The local embedder has one model, not {model!r}.", CHOICES)
    if settings["dimension"] not in (None, DIMENSION):
        raise Misconfigured(f"The local model has {DIMENSION} dimensions.", "Leave the dimension unset.")
    return LocalEmbedder(settings["home"], download=settings["download"], url=settings["url"])


def _openai(model: str, settings: Mapping[str, Any]) -> Embedder:
    from cofio.embedders.remote import OPENAI, OpenAIEmbedder

    model, url = model or "text-embedding-3-small", settings["url"] or OPENAI
    return OpenAIEmbedder(model, url=url, key=settings["key"], dimension=settings["dimension"])


def _ollama(model: str, settings: Mapping[str, Any]) -> Embedder:
    from cofio.embedders.remote import OLLAMA, OllamaEmbedder

    if not model:
        raise Misconfigured("The Ollama embedder needs a model.", "Give one, for example `ollama:nomic-embed-text`.")
    return OllamaEmbedder(model, url=settings["url"] or OLLAMA, dimension=settings["dimension"])


_ADAPTERS: Mapping[str, Callable[[str, Mapping[str, Any]], Embedder]] = {
    "local": _local,
    "openai": _openai,
    "ollama": _ollama,
}
