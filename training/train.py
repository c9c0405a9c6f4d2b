"""Trains the teachers or the students on prepared examples: `python -m training.train --help`.

    teacher (Qwen2.5-Coder-1.5B) ─ labels.npz ─▶ student (MiniLM-L6) ─ training.export ─▶ int8 ONNX

Two teachers are trained, each on the labelled text of half of the authors. Each labels the text of the other half, and
unlabelled combinations of it: labels for text that a teacher was trained on would only repeat the authors' labels.
The weights of several students, which differ by the order of the examples, are averaged.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from cofio.judgement.labels import ABOUT, KINDS, RELATIONS, TAGS
from cofio.judgement.onnx_encoder import PAIRED
from training import network
from training.data import UNKNOWN
from training.dataset import TASKS, Batch, PackedDataset

POSITIVE_WEIGHT = 3.0  # of a needed memory; one in eight is needed
TASK_WEIGHTS = {"words": 1.0, "relation": 1.0, "relevance": 0.7}
SCREENS, SCREEN_WEIGHT = ("first screens", "middle screens"), 0.3  # relative to the heads
HARD_WEIGHT, SOFT_WEIGHT = 0.4, 0.6  # of the authors' labels and of the teacher's
CERTAIN_ADD, CERTAIN_IDLE = 0.93, 0.03  # teacher's probabilities beyond which a pair teaches the student little
CERTAIN_CHANCE = 0.35  # of such a pair to be in an epoch
MASKED, MASK_ID, FIRST_WORD_ID = 0.1, 103, 104  # share of the student's tokens that are masked; ids of its vocabulary
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class TrainingConfig(NamedTuple):
    """Hyperparameters."""

    epochs: float
    batch_size: int
    max_tokens: int  # in a batch, padding included
    learning_rate: float
    head_lr_factor: float
    masked: float  # share of the tokens
    seed: int


class Predictions(NamedTuple):
    """Logits of every word of the turns and of every pair."""

    words: np.ndarray
    pairs: np.ndarray

    def save(self, path: Path) -> None:
        """Save the logits as float16."""
        np.savez_compressed(path, **{name: logits.astype(np.float16) for name, logits in self._asdict().items()})

    @classmethod
    def load(cls, path: Path) -> Predictions:
        """Load the logits that `save` wrote."""
        with np.load(path) as arrays:
            return cls(*(arrays[name].astype(np.float32) for name in cls._fields))


def main() -> None:
    """Parse the arguments and train the teachers or the student."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=("teacher", "student"))
    parser.add_argument("--base", type=Path, required=True, help="folder with the base checkpoints")
    parser.add_argument("--data", type=Path, required=True, help="folder that training.prepare wrote")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for the results; adapters and students found there are not trained again",
    )
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--students", type=int, default=3, help="students whose weights are averaged")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    (train_teachers if args.model == "teacher" else train_students)(args)


def train_teachers(args: argparse.Namespace) -> None:
    """Train a teacher per fold or load its adapter; save the adapters, their mean predictions, and their labels."""
    from training import teacher

    train_set, eval_set = (
        PackedDataset.load(args.data / f"teacher-{name}.npz", DEVICE) for name in ("known", "unseen")
    )
    label, fold, is_unrelated = (train_set.arrays[name] for name in ("label", "fold", "easy"))
    chance = (label >= 0) * np.where(
        is_unrelated | ((train_set.tasks == TASKS.index("relevance")) & (label == 0)), 0.5, 1
    )
    config = TrainingConfig(args.epochs or 1.2, 192, 16_000, args.rate or 2e-4, 1.0, 0.0, args.seed)
    labels, predictions = empty_predictions(train_set), empty_predictions(eval_set)
    for number in (0, 1):
        model = teacher.load(args.base, device=DEVICE)
        compile_layers(model.encoder.layers)
        path = args.out / f"adapter-{number}.safetensors"
        if not path.exists():
            fit(model, train_set, config, chance=chance * (fold != number))
            save_file({name: value.bfloat16() for name, value in model.named_parameters() if value.requires_grad}, path)
        unexpected = model.load_state_dict(load_file(path), strict=False).unexpected_keys
        if unexpected:
            raise ValueError(f"{path} is not an adapter of this teacher: {unexpected[:3]}")
        model.merge()
        predict(model, train_set, labels, include=(fold == number) & ~is_unrelated)
        predict(model, eval_set, predictions, share=0.5)
    labels.pairs[is_unrelated, 0] = np.where(train_set.tasks[is_unrelated] == TASKS.index("relation"), 6, -6)
    predictions.save(args.out / "teacher-predictions.npz")
    labels._replace(words=labels.words[:, : len(TAGS)]).save(args.out / "labels.npz")  # kinds are not distilled


def train_students(args: argparse.Namespace) -> None:
    """Train students that differ by their seed on the authors' labels and on the teachers'; save their mean weights."""
    train_set, eval_set = (
        PackedDataset.load(args.data / f"student-{name}.npz", DEVICE) for name in ("known", "unseen")
    )
    labels = Predictions.load(args.out / "labels.npz")
    soft = SoftLabels.from_predictions(labels, train_set)
    chance = np.where(is_certain(labels, train_set), CERTAIN_CHANCE, 1.0)
    torch.manual_seed(args.seed)
    model = network.student(args.base / "student.safetensors").to(DEVICE)
    compile_layers(model.encoder.encoder.layer)
    base = {name: value.clone() for name, value in model.state_dict().items()}
    students = []
    for seed in range(args.seed, args.seed + args.students):
        path = args.out / f"student-{seed}.safetensors"
        if not path.exists():
            model.load_state_dict(base)
            config = TrainingConfig(args.epochs or 12, 512, 60_000, args.rate or 2e-4, 5.0, MASKED, seed)
            fit(model, train_set, config, chance=chance, soft=soft)
            save_file({name: value.half().contiguous() for name, value in model.state_dict().items()}, path)
        students.append(load_file(path))
    mean = {name: torch.stack([own[name].float() for own in students]).mean(0) for name in base}
    save_file({name: value.half() for name, value in mean.items()}, args.out / "student.safetensors")
    model.load_state_dict(mean)
    predictions = empty_predictions(eval_set)
    predict(model, eval_set, predictions)
    predictions.save(args.out / "student-predictions.npz")


def compile_layers(layers: Iterable[torch.nn.Module]) -> None:
    """Compile the layers of an encoder, one by one: they share the compiled code."""
    if DEVICE == "cuda":
        torch._dynamo.config.recompile_limit = 64  # shapes, training and prediction differ
        for layer in layers:
            layer.compile(dynamic=True)


def is_certain(labels: Predictions, examples: PackedDataset) -> np.ndarray:
    """Return which pairs are unrelated, or a memory that does not help, beyond doubt."""
    task, label = examples.tasks, examples.arrays["label"]
    odds = torch.from_numpy(labels.pairs)
    add, needed = odds.softmax(-1)[:, 0].numpy(), odds[:, 0].sigmoid().numpy()
    unrelated = (task == TASKS.index("relation")) & (add > CERTAIN_ADD)
    idle = (task == TASKS.index("relevance")) & (needed < CERTAIN_IDLE)
    return (label <= 0) & (unrelated | idle)


class SoftLabels(NamedTuple):
    """The teacher's logits on the device: of a word by its row, of a pair by its index."""

    words: torch.Tensor
    pairs: torch.Tensor

    @classmethod
    def from_predictions(cls, predictions: Predictions, examples: PackedDataset) -> SoftLabels:
        """Move the labels to the device. Raise ValueError if they belong to another dataset."""
        if len(predictions.pairs) != len(examples) or len(predictions.words) != np.sum(examples.arrays["words"] >= 0):
            raise ValueError("labels.npz does not match the dataset: run training.prepare once for teacher and student")
        return cls(torch.from_numpy(predictions.words).to(DEVICE), torch.from_numpy(predictions.pairs).to(DEVICE))


def fit(
    model: network.Network,
    examples: PackedDataset,
    config: TrainingConfig,
    *,
    chance: np.ndarray,
    soft: SoftLabels | None = None,
) -> None:
    """Train all heads jointly; each batch has one task. `chance` is that of each example to be in an epoch."""
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    model.train()
    plan: list[np.ndarray] = []
    for _ in range(int(np.ceil(config.epochs))):
        plan += examples.batches(rng, config.batch_size, config.max_tokens, chance)
    plan = plan[: int(len(plan) * config.epochs / np.ceil(config.epochs))]
    encoder, heads = (
        [
            value
            for name, value in model.named_parameters()
            if value.requires_grad and name.startswith("encoder.") == own
        ]
        for own in (True, False)
    )
    optimizer = torch.optim.AdamW(
        [
            {"params": encoder, "lr": config.learning_rate},
            {"params": heads, "lr": config.head_lr_factor * config.learning_rate},
        ],
        weight_decay=0.01,
        fused=DEVICE == "cuda",
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, step / (0.1 * len(plan))) * max(0.0, (len(plan) - step) / (0.9 * len(plan)))
    )
    started = time.monotonic()
    for step, indices in enumerate(plan, 1):
        batch = examples.batch(indices)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            outputs = model(_mask_words(batch.ids, config.masked), batch.mask, batch.types)
        loss = TASK_WEIGHTS[batch.task] * loss_of(batch, outputs, soft)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(encoder + heads, 1.0)
        optimizer.step()
        schedule.step()
        if step % 250 == 0 or step == len(plan):
            print(f"step {step} of {len(plan)}, {time.monotonic() - started:.0f} s, loss {loss.item():.3f}", flush=True)
    model.eval()


def _mask_words(ids: torch.Tensor, share: float) -> torch.Tensor:
    if not share:
        return ids
    return torch.where((torch.rand(ids.shape, device=ids.device) < share) & (ids >= FIRST_WORD_ID), MASK_ID, ids)


def empty_predictions(examples: PackedDataset) -> Predictions:
    """Return zeros for every word and pair."""
    return Predictions(
        np.zeros((int(np.sum(examples.arrays["words"] >= 0)), len(TAGS) + len(KINDS) + len(ABOUT)), np.float32),
        np.zeros((len(examples), len(RELATIONS)), np.float32),
    )


def predict(
    model: network.Network,
    examples: PackedDataset,
    into: Predictions,
    *,
    include: np.ndarray | None = None,
    share: float = 1.0,
) -> None:
    """Add a share of the logits of a model to `into`."""
    model.eval()
    with torch.inference_mode(), torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
        for indices in examples.iterate(60_000, include):
            batch = examples.batch(indices)
            outputs = model(batch.ids, batch.mask, batch.types)
            head = share * outputs[batch.task].float()
            if batch.task == "words":
                labelled = batch.words >= 0
                into.words[batch.word_rows[labelled].cpu()] += head[labelled].cpu().numpy()
            else:
                into.pairs[indices, : head.shape[1]] += head.cpu().numpy()


def loss_of(batch: Batch, outputs: Mapping[str, torch.Tensor], soft: SoftLabels | None) -> torch.Tensor:
    """Return the loss of a head and its screen against the authors' labels and, if given, the teacher's."""
    head = outputs[batch.task].float()
    if batch.task == "words":
        return _loss_of_words(batch, head, soft)
    teacher_logits = soft.pairs[batch.indices] if soft else None
    if batch.task == "relation":
        loss = _loss_of_relation(head, batch.label, teacher_logits)
        target = (batch.label > 0).float() if teacher_logits is None else 1 - teacher_logits.softmax(-1)[:, 0]
    else:
        loss = _loss_of_relevance(head[:, 0], batch.label.float(), teacher_logits)
        target = batch.label.float() if teacher_logits is None else teacher_logits[:, 0].sigmoid()
    for screens in (outputs[name] for name in SCREENS if name in outputs):
        logits = screens[:, PAIRED.index(batch.task)].float()
        loss = loss + SCREEN_WEIGHT * functional.binary_cross_entropy_with_logits(logits, target)
    return loss


def _loss_of_relation(head: torch.Tensor, labels: torch.Tensor, teacher_logits: torch.Tensor | None) -> torch.Tensor:
    losses = functional.cross_entropy(head, labels, ignore_index=-1, label_smoothing=0.05, reduction="sum")
    hard = losses / (labels >= 0).sum().clamp(min=1)
    if teacher_logits is None:
        return hard
    return HARD_WEIGHT * hard + SOFT_WEIGHT * 2 * functional.kl_div(
        head.log_softmax(-1), teacher_logits.softmax(-1), reduction="batchmean"
    )


def _loss_of_relevance(head: torch.Tensor, labels: torch.Tensor, teacher_logits: torch.Tensor | None) -> torch.Tensor:
    is_labelled = (labels >= 0).float()
    positive = torch.tensor(POSITIVE_WEIGHT, device=head.device)
    losses = functional.binary_cross_entropy_with_logits(
        head, labels.clamp(min=0), pos_weight=positive, reduction="none"
    )
    hard = (losses * is_labelled).sum() / is_labelled.sum().clamp(min=1)
    if teacher_logits is None:
        return hard
    return HARD_WEIGHT * hard + SOFT_WEIGHT * functional.binary_cross_entropy_with_logits(
        head, teacher_logits[:, 0].sigmoid(), pos_weight=positive
    )


def _loss_of_words(batch: Batch, words: torch.Tensor, soft: SoftLabels | None) -> torch.Tensor:
    tags, kinds, about = words.split([len(TAGS), len(KINDS), len(ABOUT)], dim=-1)
    word, labelled = batch.words >= 0, (batch.words >= 0) & (batch.words < UNKNOWN)
    losses = functional.cross_entropy(tags[labelled], batch.words[labelled], reduction="sum")
    loss = losses / labelled.sum().clamp(min=1)
    if soft:
        teacher_tags = soft.words[batch.word_rows[word]][:, : len(TAGS)].softmax(-1)
        kl = functional.kl_div(tags[word].log_softmax(-1), teacher_tags, reduction="batchmean")
        loss = HARD_WEIGHT * loss + SOFT_WEIGHT * 2 * kl
    for logits, labels, weight in ((kinds, batch.kinds, 0.25), (about, batch.about, 0.15)):
        losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1, reduction="sum")
        loss = loss + weight * losses / (labels >= 0).sum().clamp(min=1)
    return loss


if __name__ == "__main__":
    main()
