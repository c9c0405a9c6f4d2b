"""Embedders by name: `local`, `openai:MODEL` (and compatible servers), `ollama:MODEL`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    match provider:
        case "local":
            from cofio.providers.embedders.local import DIMENSION, LocalEmbedder

            if model:
                raise Misconfigured(f"The local embedder has no model {model!r}.", CHOICES)
            if dimension not in (None, DIMENSION):
                message = f"The local embedding model has {DIMENSION} dimensions only."
                raise Misconfigured(message, "Do not set COFIO_EMBEDDER_DIMENSION.")
            return LocalEmbedder(home, download=download, url=url, recent=recent)
        case "openai":
            from cofio.providers.embedders.remote import OPENAI, OpenAIEmbedder

            model = model or "text-embedding-3-small"
            return OpenAIEmbedder(model, url=url or OPENAI, key=key, dimension=dimension, recent=recent)
        case "ollama":
            from cofio.providers.embedders.remote import OLLAMA, OllamaEmbedder

            if not model:
                hint = "Set COFIO_EMBEDDER, for example to `ollama:nomic-embed-text`."
                raise Misconfigured("The Ollama embedder needs a model.", hint)
            return OllamaEmbedder(model, url=url or OLLAMA, dimension=dimension, recent=recent)
    raise Misconfigured(f"There is no embedder {spec!r}.", CHOICES)


def make_reader(home: Path) -> LateInteractionModel | None:
    """Return the re-ranking model, or None if its files are not on this machine."""
    from cofio.providers.embedders import model_files

    place = model_files.find_present(home, model_files.READER)
    if place is None:
        return None
    from cofio.providers.embedders.colbert import ColbertModel

    return ColbertModel(place)
