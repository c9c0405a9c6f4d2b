"""The teacher: Qwen2.5-Coder-1.5B with the heads of the student, fine-tuned with LoRA.

The model is causal. A pair is classified by the state of its last token. A turn is given twice, and the words of the
second copy are tagged, because their states have seen the whole turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from gguf import GGMLQuantizationType, dequantize
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional
from transformers import Qwen2Config, Qwen2Model

from cofio.judgement.model_inputs import Encoder, Window
from cofio.providers.embedders.wordpiece_tokenizer import WordPiece
from training.network import Network

_PAIR = "A note in memory: {memory}\nSaid later: {text}\nWhat becomes of the note (stays, repeated, replaced, ended)?"
_RELEVANCE = "A note in memory: {memory}\nThe next task: {text}\nDoes the note help with the task?"
_TURN = "{other} said: {before}\n{speaker} says: {said}\nThe parts of it to remember for months:"
RANK = 16  # of the LoRA updates
_LONGEST = 600  # characters of a text; of a longer one its beginning and its end
_NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class TeacherEncoder(Encoder):
    """Encodes pairs, prompts and turns as prompts for the teacher, in the windows of the student's encoder."""

    def __init__(self, words: WordPiece, tokenizer: Tokenizer) -> None:
        super().__init__(words)
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, base: Path) -> TeacherEncoder:
        """Load the vocabularies of student and teacher from a folder."""
        return cls(WordPiece.read(base / "vocab.txt"), Tokenizer.from_file(str(base / "qwen-tokenizer.json")))

    def pair(self, memory: str, said: str) -> tuple[list[int], list[int]]:
        """Return (ids, types) of a memory and a later statement."""
        return self._encode(_PAIR.format(memory=_shorten(memory), text=_shorten(said)))

    def relevance(self, memory: str, prompt: str) -> tuple[list[int], list[int]]:
        """Return (ids, types) of a memory and a prompt."""
        return self._encode(_RELEVANCE.format(memory=_shorten(memory), text=_shorten(prompt)))

    def windows(self, said: str, before: str = "", role: str = "user") -> Iterator[Window]:
        """Yield the windows of the student's encoder; the token of a word is its last one in the second copy."""
        speaker, other = ("The agent", "The user") if role == "assistant" else ("The user", "The agent")
        for window in super().windows(said, before, role):
            first, last = window.places[0][1][0], window.places[-1][1][1]
            ids, _ = self._encode(
                _TURN.format(other=other, before=before[-_LONGEST // 2 :], speaker=speaker, said=said[first:last])
            )
            places = []
            for _, (start, end) in window.places:
                ids += self._tokenizer.encode(" " + said[start:end]).ids
                places.append((len(ids) - 1, (start, end)))
            yield Window(ids, [0] * len(ids), places)

    def _encode(self, text: str) -> tuple[list[int], list[int]]:
        ids = self._tokenizer.encode(text).ids
        return ids, [0] * len(ids)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


class LoRALinear(nn.Module):
    """A frozen linear layer with a trained low-rank update (LoRA)."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.merged = False
        self.layer = layer.requires_grad_(requires_grad=False)
        place = {"device": layer.weight.device, "dtype": torch.float32}
        self.lora_a = nn.Parameter(torch.randn(rank, layer.in_features, **place) / layer.in_features**0.5)
        self.lora_b = nn.Parameter(torch.zeros(layer.out_features, rank, **place))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return the output of the layer plus that of the update."""
        output = self.layer(states)
        if self.merged:
            return output
        low_rank = functional.linear(states, self.lora_a)
        return torch.addmm(output.flatten(0, -2), low_rank.flatten(0, -2), 2 * self.lora_b.t()).view_as(output)

    @torch.no_grad()
    def merge(self) -> None:
        """Add the update to the layer's weights, which makes prediction faster."""
        self.layer.weight += (2 * self.lora_b @ self.lora_a).to(self.layer.weight.dtype)
        self.merged = True


class Teacher(Network):
    """The heads of the student on the states of a language model; only the heads and LoRA weights are trained."""

    def merge(self) -> None:
        """Merge the LoRA updates into the weights, after training."""
        for module in self.modules():
            if isinstance(module, LoRALinear):
                module.merge()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor,  # noqa: ARG002 - a language model has no types
    ) -> dict[str, torch.Tensor]:
        """Return the logits of every head. The text is padded on the right, so causal attention ignores the padding."""
        states = self.encoder(input_ids=input_ids, use_cache=False).last_hidden_state
        last = states[torch.arange(len(states)), attention_mask.sum(1) - 1]
        mean = (states.float() * attention_mask.unsqueeze(-1)).sum(1) / attention_mask.sum(1, keepdim=True)
        pooled = torch.cat([last, mean.to(last.dtype)], dim=-1)
        return {
            "words": self.words(states),
            "relation": self.relation(pooled),
            "relevance": self.relevance(pooled),
        }


def load(base: Path, *, device: str = "cpu") -> Teacher:
    """Load the checkpoint, dequantise it and add LoRA layers."""
    config = Qwen2Config(
        vocab_size=151936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
    )
    with torch.device(device):
        encoder = Qwen2Model(config).requires_grad_(requires_grad=False)
    for value in encoder.parameters():  # not its buffers: positions need their precision
        value.data = value.data.bfloat16()
    own = dict(encoder.named_parameters())
    with safe_open(str(base / "qwen.safetensors"), "numpy") as stored, torch.no_grad():
        types = stored.metadata()
        for name in stored.keys():  # noqa: SIM118 - not a mapping
            at = _name(name)
            if at in own:
                values = dequantize(stored.get_tensor(name), GGMLQuantizationType[types[name]])
                own.pop(at).copy_(torch.from_numpy(values))
    if own:
        raise ValueError(f"the teacher's checkpoint lacks {sorted(own)[:3]}")
    for block in encoder.layers:
        for part in (block.self_attn, block.mlp):
            for name, layer in list(part.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(part, name, LoRALinear(layer, RANK))
    return Teacher(encoder, config.hidden_size).to(device)


def _name(name: str) -> str:
    """Return the transformers name of a GGUF tensor."""
    parts = name.split(".")
    if parts[0] == "blk":
        return f"layers.{parts[1]}.{_NAMES[parts[2]]}.{parts[3]}"
    return f"{_NAMES[parts[0]]}.{parts[1]}"
