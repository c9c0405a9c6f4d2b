"""The encoder with its heads, in PyTorch.

    text ─ first layers ─▶ middle layers ─▶ last layers ─▶ relation, relevance
              └─ screens          ├─ screens
                                  └─ words

The screens ask whether the two texts of a pair can be related, or whether a memory can help. At run time most pairs end
at a screen, and turns are never read by the last layers.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import BertConfig, BertModel

from cofio.judgement.labels import ABOUT, KINDS, RELATIONS, TAGS
from cofio.judgement.onnx_encoder import PAIRED

PER_WORD = len(TAGS) + len(KINDS) + len(ABOUT)
LAYERS = 10
FIRST, MIDDLE = 2, 6  # layers before the first screens, and before the second screens and the words


class Network(nn.Module):
    """An encoder with a head per task."""

    def __init__(self, encoder: nn.Module, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.words = nn.Linear(width, PER_WORD)
        self.relation = nn.Linear(2 * width, len(RELATIONS))
        self.relevance = nn.Linear(2 * width, 1)


class Student(Network):
    """A small BERT. Two screens on earlier layers have a number for each kind of pair."""

    def __init__(self, encoder: nn.Module, width: int) -> None:
        super().__init__(encoder, width)
        self.dropout = nn.Dropout(0.1)
        self.first_screens = nn.Linear(2 * width, len(PAIRED))
        self.middle_screens = nn.Linear(2 * width, len(PAIRED))

    def load(self, weights: Path) -> None:
        """Load trained weights."""
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
        return {
            "first screens": self.first_screens(self.pool(states[FIRST], mask)),
            "middle screens": self.middle_screens(self.pool(states[MIDDLE], mask)),
            "words": self.words(self.dropout(states[MIDDLE])),
            **self.pair_heads(states[-1], mask),
        }

    def pair_heads(self, states: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the logits of the relation and of the relevance."""
        pooled = self.pool(states, mask)
        return {"relation": self.relation(pooled), "relevance": self.relevance(pooled)}

    def pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the first state, concatenated with the mean of all."""
        return self.dropout(torch.cat([states[:, 0], (states * mask).sum(1) / mask.sum(1)], dim=-1))


def student(weights: Path) -> Student:
    """Return the student: the embeddings and first layers of a BERT of width 384, with untrained heads."""
    state = {name: value.float() for name, value in load_file(str(weights)).items()}
    config = BertConfig(
        vocab_size=len(state["embeddings.word_embeddings.weight"]),
        max_position_embeddings=len(state["embeddings.position_embeddings.weight"]),
        hidden_size=384,
        num_hidden_layers=LAYERS,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    encoder = BertModel(config, add_pooling_layer=False)
    missing = encoder.load_state_dict(state, strict=False).missing_keys  # it has more layers than we take
    if missing:
        raise ValueError(f"{weights} lacks {missing[:3]}")
    return Student(encoder, config.hidden_size)
