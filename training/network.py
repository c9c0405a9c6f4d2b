"""The encoder with its heads, in PyTorch.

    text ─ first layers ─▶ states ─ other layers ─▶ words, relation, relevance
                             └─ screens: may the two be related, may the memory help?

At run time many pairs end at the screens; only what passes them is read by the other layers.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import BertConfig, BertModel

from cofio.judgement.labels import ABOUT, KINDS, RELATIONS, TAGS

PER_WORD = len(TAGS) + len(KINDS) + len(ABOUT)
SCREENED = 2  # layers before the screens


class Network(nn.Module):
    """One encoder; per task a head on its last layer; for pairs also a screen of one number on an early one."""

    def __init__(self, encoder: nn.Module, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(0.1)
        self.words = nn.Linear(width, PER_WORD)
        self.relation = nn.Linear(2 * width, len(RELATIONS))
        self.relevance = nn.Linear(2 * width, 1)
        self.screen_relation = nn.Linear(2 * width, 1)
        self.screen_relevance = nn.Linear(2 * width, 1)

    def load(self, weights: Path) -> None:
        """Take over trained weights."""
        self.load_state_dict({name: value.float() for name, value in load_file(str(weights)).items()})

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Return the logits of every head and screen."""
        states = self.encoder(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            output_hidden_states=True,
        ).hidden_states
        mask = attention_mask.unsqueeze(-1).to(states[-1].dtype)
        return self.screens(states[SCREENED], mask) | self.heads(states[-1], mask)

    def heads(self, states: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return, from the last layer, the logits per word, of the relation and of the relevance."""
        pooled = self.dropout(_pooled(states, mask))
        return {
            "words": self.words(self.dropout(states)),
            "relation": self.relation(pooled),
            "relevance": self.relevance(pooled),
        }

    def screens(self, states: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return, from an early layer, the logits that two texts are related and that a memory helps."""
        pooled = self.dropout(_pooled(states, mask))
        return {
            "screen relation": self.screen_relation(pooled),
            "screen relevance": self.screen_relevance(pooled),
        }


def _pooled(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.cat([states[:, 0], (states * mask).sum(1) / mask.sum(1)], dim=-1)


def minilm(weights: Path) -> Network:
    """Return the student: MiniLM-L6-H384, 22 million parameters."""
    config = BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    encoder = BertModel(config, add_pooling_layer=False)
    state = {name.split("0.auto_model.")[-1]: value.float() for name, value in load_file(str(weights)).items()}
    state = {
        name: value for name, value in state.items() if not name.startswith("pooler.") and "position_ids" not in name
    }
    missing = encoder.load_state_dict(state, strict=False)
    if missing.missing_keys or missing.unexpected_keys:
        raise ValueError(f"{weights} does not fit: {missing}")
    return Network(encoder, config.hidden_size)
