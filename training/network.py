"""The encoder with its three heads, in PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

from cofio.judgement.labels import ABOUT, KINDS, RELATIONS, TAGS

PER_WORD = len(TAGS) + len(KINDS) + len(ABOUT)


class Network(nn.Module):
    """One encoder; a head per word, and two on the pooled text."""

    def __init__(self, encoder: nn.Module, width: int, *, with_types: bool) -> None:
        super().__init__()
        self.encoder, self.with_types = encoder, with_types
        self.dropout = nn.Dropout(0.1)
        self.words = nn.Linear(width, PER_WORD)
        self.relation = nn.Linear(2 * width, len(RELATIONS))
        self.relevance = nn.Linear(2 * width, 1)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the logits per word, of the relation and of the relevance."""
        types = {"token_type_ids": token_type_ids} if self.with_types else {}
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1)
        pooled = self.dropout(torch.cat([states[:, 0], mean], dim=-1))
        return self.words(self.dropout(states)), self.relation(pooled), self.relevance(pooled)


def minilm(weights: Path) -> Network:
    """Return the student: MiniLM-L6-H384, 22 million parameters."""
    config = BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    return _loaded(BertModel(config, add_pooling_layer=False), 384, weights, with_types=True)


def mpnet(weights: Path) -> Network:
    """Return the teacher: MPNet-base, 110 million parameters."""
    return _loaded(
        MPNetModel(MPNetConfig(vocab_size=30527, max_position_embeddings=514), add_pooling_layer=False),
        768,
        weights,
        with_types=False,
    )


def _loaded(encoder: Any, width: int, weights: Path, *, with_types: bool) -> Network:
    state = {name.split("0.auto_model.")[-1]: value.float() for name, value in load_file(str(weights)).items()}
    state = {
        name: value for name, value in state.items() if not name.startswith("pooler.") and "position_ids" not in name
    }
    missing = encoder.load_state_dict(state, strict=False)
    if missing.missing_keys or missing.unexpected_keys:
        raise ValueError(f"{weights} does not fit: {missing}")
    return Network(encoder, width, with_types=with_types)
