"""Making embedders by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from cofio.errors import Misconfigured
from cofio.providers.embedders import make
from cofio.providers.embedders.local import LocalEmbedder
from cofio.providers.embedders.remote import OllamaEmbedder, OpenAIEmbedder

from .wire import Wire


def test_local_selects_the_local_model(tmp_path: Path) -> None:
    assert isinstance(make("local", home=tmp_path), LocalEmbedder)


def test_openai_defaults_to_its_small_model(tmp_path: Path, wire: Wire) -> None:
    embedder = make("openai", home=tmp_path, url=wire.url, key="k", dimension=48)
    assert isinstance(embedder, OpenAIEmbedder)
    assert embedder.signature == "openai:text-embedding-3-small:48:q=:d="


def test_openai_with_a_model_uses_that_model(tmp_path: Path, wire: Wire) -> None:
    make("openai:text-embedding-3-large", home=tmp_path, url=wire.url, key="k").embed(["x"], "document")
    assert wire.seen[0].body["model"] == "text-embedding-3-large"


def test_ollama_model_keeps_its_tag(tmp_path: Path, wire: Wire) -> None:
    embedder = make("ollama:nomic-embed-text:latest", home=tmp_path, url=wire.url)
    assert isinstance(embedder, OllamaEmbedder)
    assert embedder.model == "nomic-embed-text:latest"


def test_ollama_needs_no_url(tmp_path: Path) -> None:
    assert isinstance(make("ollama:nomic-embed-text", home=tmp_path), OllamaEmbedder)


@pytest.mark.parametrize("spec", ["", "cohere", "Local", "hash", ":x"])
def test_unknown_name_lists_valid_names(tmp_path: Path, spec: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        make(spec, home=tmp_path)
    assert all(name in caught.value.hint for name in ("local", "openai:MODEL", "ollama:MODEL"))


def test_ollama_without_a_model_is_misconfigured(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="needs a model"):
        make("ollama", home=tmp_path)


def test_openai_without_a_key_is_misconfigured(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="needs an API key"):
        make("openai", home=tmp_path)


def test_local_rejects_other_models_and_dimensions(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no model"):
        make("local:minilm", home=tmp_path)
    with pytest.raises(Misconfigured, match="384"):
        make("local", home=tmp_path, dimension=768)
    assert make("local", home=tmp_path, dimension=384).dimension == 384
