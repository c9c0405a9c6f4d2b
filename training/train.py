"""Trains a teacher or the student on prepared examples: `python -m training.train --help`.

    teacher (Qwen2.5-Coder-1.5B) ─ labels.npz ─▶ student (MiniLM-L6) ─ training.export ─▶ int8 ONNX

The teacher learns from labelled text, and labels it and further combinations of it; the student learns from both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from cofio.judgement.labels import ABOUT, KINDS, RELATIONS, TAGS
from training import network
from training.data import UNKNOWN
from training.packed import Batch, Packed

POSITIVE = 3.0  # weight of a needed memory; seven of eight are not
WEIGHTS = {"words": 1.0, "relation": 1.0, "relevance": 0.7}
SCREEN = 0.3  # weight of the screens beside the heads
HARD, SOFT = 0.4, 0.6  # weights of people's labels and of the teacher's
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Recipe(NamedTuple):
    """How to train."""

    epochs: float
    batch: int
    tokens: int  # most tokens in a batch
    rate: float
    heads: float  # rate of the heads, as a multiple
    seed: int


class Answers(NamedTuple):
    """What a model says: logits of every labelled token of the turns, of every pair, and of every pair's screen."""

    words: np.ndarray
    pairs: np.ndarray
    screens: np.ndarray

    def write(self, path: Path) -> None:
        """Write the answers as float16."""
        np.savez_compressed(path, **{name: each.astype(np.float16) for name, each in self._asdict().items()})

    @classmethod
    def read(cls, path: Path) -> Answers:
        """Return what `write` wrote."""
        with np.load(path) as stored:
            return cls(*(stored[name].astype(np.float32) for name in cls._fields))


def main() -> None:
    """Read the options, train, write weights and answers."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", choices=("teacher", "student"))
    options.add_argument("--base", type=Path, required=True, help="folder with the base checkpoints")
    options.add_argument("--data", type=Path, required=True, help="folder that training.prepare wrote")
    options.add_argument("--out", type=Path, required=True, help="folder for weights, labels.npz and NAME-answers.npz")
    options.add_argument("--adapter", type=Path, help="do not train the teacher: take what it learned from this file")
    options.add_argument("--epochs", type=float)
    options.add_argument("--rate", type=float)
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    (teach if given.model == "teacher" else learn)(given)


def teach(given: argparse.Namespace) -> None:
    """Train a teacher, or take one that is trained; write what it learned, and its labels."""
    from training import teacher

    known, unseen = (Packed.read(given.data / f"teacher-{name}.npz", DEVICE) for name in ("known", "unseen"))
    model = teacher.load(given.base, device=DEVICE)
    if given.adapter:
        model.load_state_dict(load_file(given.adapter), strict=False)
    else:
        labelled = (known.arrays["label"] >= 0) & ~(known.arrays["easy"] & (np.arange(len(known)) % 2 == 0))
        recipe = Recipe(given.epochs or 2, 192, 16_000, given.rate or 2e-4, 1.0, given.seed)
        fit(model, known, recipe, chosen=labelled)
        learned = {name: value.bfloat16() for name, value in model.named_parameters() if value.requires_grad}
        save_file(learned, str(given.out / "adapter.safetensors"))
    answers(model, unseen).write(given.out / "teacher-answers.npz")
    answers(model, known).write(given.out / "labels.npz")


def learn(given: argparse.Namespace) -> None:
    """Train the student on people's labels and those of `labels.npz` in the output folder."""
    known, unseen = (Packed.read(given.data / f"student-{name}.npz", DEVICE) for name in ("known", "unseen"))
    model = network.minilm(given.base / "minilm.safetensors").to(DEVICE)
    recipe = Recipe(given.epochs or 8, 256, 60_000, given.rate or 1.7e-4, 5.0, given.seed)
    fit(model, known, recipe, soft=Soft.of(Answers.read(given.out / "labels.npz"), known))
    save_file(
        {name: value.half().contiguous() for name, value in model.state_dict().items()},
        str(given.out / "student.safetensors"),
    )
    answers(model, unseen).write(given.out / "student-answers.npz")


class Soft(NamedTuple):
    """The teacher's logits, on the device: of a labelled token by its number, of a pair by its place."""

    words: torch.Tensor
    pairs: torch.Tensor

    @classmethod
    def of(cls, answers: Answers, examples: Packed) -> Soft:
        """Return the labels; refuse those of other examples."""
        if len(answers.pairs) != len(examples) or len(answers.words) != np.sum(examples.arrays["words"] >= 0):
            raise ValueError("labels.npz labels other examples: prepare the data once for both")
        return cls(torch.from_numpy(answers.words).to(DEVICE), torch.from_numpy(answers.pairs).to(DEVICE))


def fit(
    model: network.Network,
    examples: Packed,
    recipe: Recipe,
    *,
    chosen: np.ndarray | None = None,
    soft: Soft | None = None,
) -> None:
    """Train all heads together on batches of one task each."""
    torch.manual_seed(recipe.seed)
    chance = np.random.default_rng(recipe.seed)
    model.train()
    chosen = np.ones(len(examples), bool) if chosen is None else chosen
    plan: list[np.ndarray] = []
    for _ in range(int(np.ceil(recipe.epochs))):
        plan += examples.batches(chance, recipe.batch, recipe.tokens, chosen)
    plan = plan[: int(len(plan) * recipe.epochs / np.ceil(recipe.epochs))]
    body, heads = (
        [
            value
            for name, value in model.named_parameters()
            if value.requires_grad and name.startswith("encoder.") == own
        ]
        for own in (True, False)
    )
    optimizer = torch.optim.AdamW(
        [{"params": body, "lr": recipe.rate}, {"params": heads, "lr": recipe.heads * recipe.rate}],
        weight_decay=0.01,
        fused=DEVICE == "cuda",
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, step / (0.1 * len(plan))) * max(0.0, (len(plan) - step) / (0.9 * len(plan)))
    )
    began = time.monotonic()
    for step, places in enumerate(plan, 1):
        batch = examples.batch(places)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            outputs = model(batch.ids, batch.mask, batch.types)
        loss = WEIGHTS[batch.task] * loss_of(batch, outputs, soft)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(body + heads, 1.0)
        optimizer.step()
        schedule.step()
        if step % 250 == 0 or step == len(plan):
            print(f"step {step} of {len(plan)}, {time.monotonic() - began:.0f} s, loss {loss.item():.3f}", flush=True)
    model.eval()


def answers(model: network.Network, examples: Packed) -> Answers:
    """Return what a model says to the examples."""
    per_word, tokens = len(TAGS) + len(KINDS) + len(ABOUT), int(np.sum(examples.arrays["words"] >= 0))
    said = Answers(
        np.zeros((tokens, per_word), np.float32),
        np.zeros((len(examples), len(RELATIONS)), np.float32),
        np.zeros(len(examples), np.float32),
    )
    model.eval()
    with torch.inference_mode(), torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
        for places in examples.in_order(60_000):
            batch = examples.batch(places)
            outputs = model(batch.ids, batch.mask, batch.types)
            head = outputs[batch.task].float()
            if batch.task == "words":
                labelled = batch.words >= 0
                said.words[batch.rows[labelled].cpu()] = head[labelled].cpu()
            else:
                said.pairs[places, : head.shape[1]] = head.cpu()
                said.screens[places] = outputs[f"screen {batch.task}"].float()[:, 0].cpu()
    return said


def loss_of(batch: Batch, outputs: Mapping[str, torch.Tensor], soft: Soft | None) -> torch.Tensor:
    """Return the loss of one task's head and screen: part people's labels, part the teacher's, where there is one."""
    head = outputs[batch.task].float()
    if batch.task == "words":
        return _loss_of_words(batch, head, soft)
    screen = outputs[f"screen {batch.task}"].float()[:, 0]
    taught = soft.pairs[batch.places] if soft else None
    if batch.task == "relation":
        loss = _loss_of_relation(head, batch.label, taught)
        wanted = (batch.label > 0).float() if taught is None else 1 - taught.softmax(-1)[:, 0]
    else:
        loss = _loss_of_relevance(head[:, 0], batch.label.float(), taught)
        wanted = batch.label.float() if taught is None else taught[:, 0].sigmoid()
    return loss + SCREEN * functional.binary_cross_entropy_with_logits(screen, wanted)


def _loss_of_relation(head: torch.Tensor, gold: torch.Tensor, taught: torch.Tensor | None) -> torch.Tensor:
    losses = functional.cross_entropy(head, gold, ignore_index=-1, label_smoothing=0.05, reduction="sum")
    hard = losses / (gold >= 0).sum().clamp(min=1)
    if taught is None:
        return hard
    return HARD * hard + SOFT * 2 * functional.kl_div(head.log_softmax(-1), taught.softmax(-1), reduction="batchmean")


def _loss_of_relevance(head: torch.Tensor, gold: torch.Tensor, taught: torch.Tensor | None) -> torch.Tensor:
    known = (gold >= 0).float()
    positive = torch.tensor(POSITIVE, device=head.device)
    each = functional.binary_cross_entropy_with_logits(head, gold.clamp(min=0), pos_weight=positive, reduction="none")
    hard = (each * known).sum() / known.sum().clamp(min=1)
    if taught is None:
        return hard
    return HARD * hard + SOFT * functional.binary_cross_entropy_with_logits(
        head, taught[:, 0].sigmoid(), pos_weight=positive
    )


def _loss_of_words(batch: Batch, words: torch.Tensor, soft: Soft | None) -> torch.Tensor:
    tags, kinds, about = words.split([len(TAGS), len(KINDS), len(ABOUT)], dim=-1)
    word, labelled = batch.words >= 0, (batch.words >= 0) & (batch.words < UNKNOWN)
    losses = functional.cross_entropy(tags[labelled], batch.words[labelled], reduction="sum")
    loss = losses / labelled.sum().clamp(min=1)
    if soft:
        theirs = soft.words[batch.rows[word]][:, : len(TAGS)].softmax(-1)
        kl = functional.kl_div(tags[word].log_softmax(-1), theirs, reduction="batchmean")
        loss = HARD * loss + SOFT * 2 * kl
    for logits, gold, weight in ((kinds, batch.kinds, 0.25), (about, batch.about, 0.15)):
        losses = functional.cross_entropy(logits.flatten(0, 1), gold.flatten(), ignore_index=-1, reduction="sum")
        loss = loss + weight * losses / (gold >= 0).sum().clamp(min=1)
    return loss


if __name__ == "__main__":
    main()
