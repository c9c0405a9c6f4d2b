"""Trains the judgement model: `python -m training.train --help`.

    labelled text ─▶ teacher (Qwen2.5-Coder-1.5B) ─ soft labels ─▶ student (MiniLM-L6) ─ training.export ─▶ int8 ONNX

A teacher is optional. It labels the training text and further combinations of it (`--teach`); the student learns from
both (`--taught`).
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional

from cofio.embedders.wordpiece import WordPiece
from cofio.judgement.encoding import Encoder
from cofio.judgement.labels import ABOUT, KINDS, TAGS
from cofio.judgement.spans import Tagged, decode
from training import data, metrics, network
from training.data import IGNORED, Example

EPOCHS, BATCH, RATE = 5, 192, 1.5e-4
POSITIVE = 3.0  # weight of a needed memory; seven of eight are not
WEIGHTS = {"words": 1.0, "relation": 1.0, "relevance": 0.7}
SCREEN = 0.3  # weight of the screens beside the heads
REPEATS = {"words": 2, "relation": 1, "relevance": 1}  # turns are few, and each word of them is labelled
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def main() -> None:
    """Read the options, train, measure, write the weights."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--base",
        type=Path,
        required=True,
        help="folder with minilm.safetensors, vocab.txt and, for a teacher, qwen.safetensors, qwen-tokenizer.json",
    )
    options.add_argument("--out", type=Path, required=True, help="folder for the trained weights and their figures")
    options.add_argument(
        "--held-out", nargs="*", default=[], help="authors to measure and calibrate on, not to learn from"
    )
    options.add_argument("--teach", type=Path, help="train a teacher, write its labels into this file, and stop")
    options.add_argument("--taught", type=Path, nargs="*", default=[], help="labels of teachers to learn from")
    options.add_argument("--epochs", type=int, default=EPOCHS)
    options.add_argument("--batch", type=int, default=BATCH)
    options.add_argument("--rate", type=float, default=RATE)
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    encoder = Encoder(WordPiece.read(given.base / "vocab.txt"))
    known, held_out, test = examples_of(encoder, given)
    print(
        f"{len(known)} examples for training, {len(held_out)} held out, {len(test)} for the test, on {DEVICE}",
        flush=True,
    )
    if given.teach:
        teach(known, given, encoder)
        return
    model = learned(known, given, encoder)
    report: dict[str, object] = {}
    for name, unseen in (("test", test), ("held-out", held_out)):
        answers = predicted(model, unseen)
        report[name] = figures(unseen, answers)
        print(name, json.dumps(report[name]), flush=True)
    (given.out / "figures.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    keep_answers(given.out / "held-out.json", held_out, answers)
    weights = {name: value.half().contiguous().cpu() for name, value in model.state_dict().items()}
    save_file(weights, str(given.out / "student.safetensors"))


def keep_answers(path: Path, examples: Sequence[Example], answers: Sequence[Answer]) -> None:
    """Write what a model says to examples that it never saw: thresholds and calibration are chosen on it."""
    kept = []
    for each, answer in zip(examples, answers, strict=True):
        about = {"task": each.task, "author": each.author, "row": each.row, "screen": answer.screen}
        if each.task == "words":
            spans = [tuple(one) for one in decode(each.row["said"], Tagged(each.places, answer.logits))]
            kept.append({**about, "spans": spans})
        else:
            kept.append({**about, "group": each.group, "label": each.label, "logits": answer.logits.tolist()})
    path.write_text(json.dumps(kept), encoding="utf-8")


def examples_of(encoder: Encoder, given: argparse.Namespace) -> tuple[list[Example], list[Example], list[Example]]:
    """Return the examples for training, of the held-out authors, and of the test authors."""
    examples = data.pairs(encoder) + data.relevance(encoder) + data.turns(encoder)
    examples, held_out = data.split(examples, frozenset(given.held_out))
    known, test = data.split(examples, data.TEST_AUTHORS)
    return known, held_out, test


def teach(known: Sequence[Example], given: argparse.Namespace, encoder: Encoder) -> None:
    """Train a teacher, print its figures on text it has not seen, and write its labels for a student."""
    from training import teacher

    reader = teacher.Reader.read(given.base)
    own, held_out, test = examples_of(reader, given)
    asked, students = [*own, *combinations(own, reader)], [*known, *combinations(known, encoder)]
    learned_from = [each for at, each in enumerate(own) if at % 2 or not _is_easy(each)]
    model = teacher.load(given.base, device=DEVICE)
    model = fitted(
        model, learned_from, epochs=given.epochs, rate=given.rate, seed=given.seed, size=given.batch, tokens=14_000
    )
    for name, unseen in (("test", test), ("held-out", held_out)):
        print("teacher", name, json.dumps(figures(unseen, predicted(model, unseen))), flush=True)
    labelled = [
        _for_student(each, answer.logits, theirs)
        for each, answer, theirs in zip(asked, predicted(model, asked), students, strict=True)
    ]
    sizes = np.array([each.size for each in labelled])
    np.savez(given.teach, logits=np.concatenate([each.ravel() for each in labelled]).astype(np.float16), sizes=sizes)


def _is_easy(example: Example) -> bool:
    """Return whether a memory was put beside the text at random."""
    return bool(example.row.get("unrelated") or example.row.get("foreign"))


def _for_student(asked: Example, logits: np.ndarray, theirs: Example) -> np.ndarray:
    """Return a teacher's labels at the student's tokens: of a turn's words each has its place in both."""
    if asked.task != "words":
        return logits
    moved = np.zeros((len(theirs.ids), logits.shape[1]), np.float32)
    moved[[token for token, _ in theirs.places]] = logits[[token for token, _ in asked.places]]
    return moved


def taught(files: Sequence[Path], examples: Sequence[Example]) -> list[np.ndarray]:
    """Return the mean of the teachers' labels for these examples."""
    stored = [np.load(file) for file in files]
    if any(len(each["sizes"]) != len(examples) for each in stored):
        raise ValueError("a teacher labelled other examples: give student and teacher the same authors")
    logits = np.mean([each["logits"].astype(np.float32) for each in stored], axis=0)
    parts = np.split(logits, np.cumsum(stored[0]["sizes"])[:-1])
    return [
        part.reshape(len(each.ids), -1) if each.task == "words" else part
        for part, each in zip(parts, examples, strict=True)
    ]


def learned(examples: Sequence[Example], given: argparse.Namespace, encoder: Encoder) -> network.Network:
    """Return a student that has learned from these examples, and from the teachers' labels where there are any."""
    soft: list[np.ndarray] = []
    if given.taught:
        examples = [*examples, *combinations(examples, encoder)]
        soft = taught(given.taught, examples)
    student = network.minilm(given.base / "minilm.safetensors")
    return fitted(student, examples, epochs=given.epochs, rate=given.rate, seed=given.seed, soft=soft, size=given.batch)


def combinations(examples: Sequence[Example], encoder: Encoder, seed: int = 7) -> list[Example]:
    """Return unlabelled pairs of the same text: statements beside other memories of their author, prompts likewise."""
    chance = random.Random(seed)
    memories, statements, prompts = defaultdict(set), defaultdict(set), defaultdict(set)
    for each in examples:
        if each.task == "relation":
            memories[each.author].add(each.row["memory"])
            statements[each.author].add(each.row["said"])
        elif each.task == "relevance":
            memories[each.author].add(each.row["memory"])
            prompts[each.author].add(each.row["prompt"])
        elif each.row.get("role", "user") == "user" and len(each.row["said"]) < 400:
            (statements if each.row["facts"] else prompts)[each.author].add(each.row["said"])
            for fact in each.row["facts"]:
                if isinstance(fact, dict):
                    memories[each.author] |= {fact["text"], fact["quote"]}
                    statements[each.author].add(fact["quote"])
    found = []
    for author, own in sorted(memories.items()):
        pool = sorted(own)
        tokens = [_content(memory) for memory in pool]
        for said in sorted(statements[author]):
            near = _nearest(said, tokens, 7, chance)[1:] + chance.sample(range(len(pool)), 1)
            found += [Example("relation", author, *encoder.pair(pool[at], said), label=-1) for at in near]
        for prompt in sorted(prompts[author]):
            near = _nearest(prompt, tokens, 6, chance) + chance.sample(range(len(pool)), min(3, len(pool)))
            found += [Example("relevance", author, *encoder.relevance(pool[at], prompt), label=-1) for at in near]
    return found


def _nearest(text: str, others: Sequence[set[str]], count: int, chance: random.Random) -> list[int]:
    """Return the places of the texts that share most words with one."""
    words = _content(text)
    scores = [(len(words & other) / (4 + len(other)), chance.random()) for other in others]
    return sorted(range(len(others)), key=lambda at: scores[at], reverse=True)[:count]


def _content(text: str) -> set[str]:
    return set(text.lower().split())


def fitted(
    model: network.Network,
    examples: Sequence[Example],
    *,
    epochs: int,
    rate: float,
    seed: int,
    soft: Sequence[np.ndarray] = (),
    size: int = BATCH,
    tokens: int = 1_000_000,
) -> network.Network:
    """Train all heads together on batches of one task each."""
    torch.manual_seed(seed)
    chance = random.Random(seed)
    model = model.to(DEVICE).train()
    plan = []
    for _ in range(epochs):
        plan += _batches(examples, chance, size, tokens)
    heads = [value for name, value in model.named_parameters() if not name.startswith("encoder.")]
    body = [value for name, value in model.named_parameters() if name.startswith("encoder.")]
    optimizer = torch.optim.AdamW(
        [{"params": body, "lr": rate}, {"params": heads, "lr": 5 * rate}], weight_decay=0.01, fused=DEVICE == "cuda"
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, step / (0.1 * len(plan))) * max(0.0, (len(plan) - step) / (0.9 * len(plan)))
    )
    began = time.monotonic()
    for step, batch in enumerate(plan):
        chosen = [examples[at] for at in batch]
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            outputs = model(*tensors(chosen))
        loss = WEIGHTS[chosen[0].task] * loss_of(chosen, outputs, [soft[at] for at in batch] if soft else None)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 99 or step == len(plan) - 1:
            print(
                f"  step {step + 1} of {len(plan)}, {time.monotonic() - began:.0f} s, loss {loss.item():.3f}",
                flush=True,
            )
    return model.eval()


def _batches(examples: Sequence[Example], chance: random.Random, size: int, tokens: int) -> list[list[int]]:
    """Return batches of one task, of texts of similar length, with at most so many tokens, in random order."""
    found = []
    for task in WEIGHTS:
        places = [at for at, each in enumerate(examples) if each.task == task] * REPEATS[task]
        chance.shuffle(places)
        for start in range(0, len(places), 16 * size):
            block = sorted(places[start : start + 16 * size], key=lambda at: len(examples[at].ids))
            while block:
                fitting = min(size, max(1, tokens // len(examples[block[-1]].ids)))
                found.append(block[-fitting:])
                del block[-fitting:]
    chance.shuffle(found)
    return found


def tensors(chosen: Sequence[Example]) -> tuple[torch.Tensor, ...]:
    """Return ids, mask and types of a batch, padded."""
    size = max(len(each.ids) for each in chosen)
    ids = np.zeros((len(chosen), size), np.int64)
    mask, types = np.zeros_like(ids), np.zeros_like(ids)
    for row, each in enumerate(chosen):
        ids[row, : len(each.ids)], mask[row, : len(each.ids)], types[row, : len(each.ids)] = each.ids, 1, each.types
    return tuple(torch.from_numpy(each).to(DEVICE) for each in (ids, mask, types))


def loss_of(
    chosen: Sequence[Example], outputs: Mapping[str, torch.Tensor], soft: Sequence[np.ndarray] | None
) -> torch.Tensor:
    """Return the loss of one task's head and screen: part hard labels, part the teacher's, where there is one."""
    task = chosen[0].task
    head = outputs[task].float()
    if task == "words":
        return _loss_of_words(chosen, head, soft)
    screen = outputs[f"screen {task}"].float()[:, 0]
    gold = torch.tensor([each.label for each in chosen], device=DEVICE)
    taught = torch.from_numpy(np.stack(soft)).to(DEVICE) if soft else None
    if task == "relation":
        loss = _loss_of_relation(head, gold.long(), taught)
        wanted = 1 - taught.softmax(-1)[:, 0] if taught is not None else (gold > 0).float()
    else:
        loss = _loss_of_relevance(head[:, 0], gold, taught)
        wanted = taught[:, 0].sigmoid() if taught is not None else gold
    known = (gold >= 0) | (taught is not None)
    return loss + SCREEN * functional.binary_cross_entropy_with_logits(screen[known], wanted[known])


def _loss_of_relation(head: torch.Tensor, gold: torch.Tensor, taught: torch.Tensor | None) -> torch.Tensor:
    labelled = bool((gold >= 0).any())
    hard = functional.cross_entropy(head, gold, ignore_index=-1, label_smoothing=0.05) if labelled else head.sum() * 0
    if taught is None:
        return hard
    kl = functional.kl_div(head.log_softmax(-1), taught.softmax(-1), reduction="batchmean")
    return 0.4 * hard + 0.6 * 2 * kl


def _loss_of_relevance(head: torch.Tensor, gold: torch.Tensor, taught: torch.Tensor | None) -> torch.Tensor:
    known = (gold >= 0).float()
    positive = torch.tensor(POSITIVE, device=DEVICE)
    each = functional.binary_cross_entropy_with_logits(head, gold.clamp(min=0), pos_weight=positive, reduction="none")
    hard = (each * known).sum() / known.sum().clamp(min=1)
    if taught is None:
        return hard
    return 0.4 * hard + 0.6 * functional.binary_cross_entropy_with_logits(
        head, taught[:, 0].sigmoid(), pos_weight=positive
    )


def _loss_of_words(chosen: Sequence[Example], words: torch.Tensor, soft: Sequence[np.ndarray] | None) -> torch.Tensor:
    size = words.shape[1]

    def padded(name: str) -> torch.Tensor:
        return torch.tensor(
            [getattr(each, name) + [IGNORED] * (size - len(each.ids)) for each in chosen], device=DEVICE
        )

    tags, kinds, about = words.split([len(TAGS), len(KINDS), len(ABOUT)], dim=-1)
    gold = padded("words")
    loss = functional.cross_entropy(tags.flatten(0, 1), gold.flatten(), ignore_index=IGNORED)
    if soft:
        filled = np.zeros(words.shape, np.float32)
        for row, each in enumerate(soft):
            filled[row, : len(each)] = each
        taught = torch.from_numpy(filled).to(DEVICE)
        kept = gold != IGNORED
        theirs = taught[..., : len(TAGS)][kept].softmax(-1)
        loss = 0.4 * loss + 0.6 * 2 * functional.kl_div(tags[kept].log_softmax(-1), theirs, reduction="batchmean")
    for logits, name, weight in ((kinds, "kinds", 0.25), (about, "about", 0.15)):
        labels = padded(name)
        if (labels != IGNORED).any():
            loss = loss + weight * functional.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED
            )
    return loss


class Answer(NamedTuple):
    """What a model says to one example: the logits of its task's head, and of a pair's screen."""

    logits: np.ndarray
    screen: float = 0.0


def predicted(model: network.Network, examples: Sequence[Example]) -> list[Answer]:
    """Return the answers to the examples, in their order."""
    answers: list[Any] = [None] * len(examples)
    order = sorted(range(len(examples)), key=lambda at: (examples[at].task, len(examples[at].ids)))
    model.eval()
    with torch.inference_mode(), torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
        for task in WEIGHTS:
            own = [at for at in order if examples[at].task == task]
            for start in range(0, len(own), 256):
                batch = own[start : start + 256]
                outputs = model(*tensors([examples[at] for at in batch]))
                heads = outputs[task].float().cpu().numpy()
                if task == "words":
                    for at, head in zip(batch, heads, strict=True):
                        answers[at] = Answer(head[: len(examples[at].ids)])
                    continue
                for at, head, screen in zip(batch, heads, outputs[f"screen {task}"].float().cpu(), strict=True):
                    answers[at] = Answer(head, float(screen[0]))
    return answers


def figures(examples: Sequence[Example], answers: Sequence[Answer]) -> dict[str, float]:
    """Return the figures of every head on these examples."""
    said = [each.logits for each in answers]
    report: dict[str, float] = {}
    pairs = [
        (each, logits)
        for each, logits in zip(examples, said, strict=True)
        if each.task == "relation" and "unrelated" not in each.row
    ]
    if pairs:
        gold = np.array([int(each.label) for each, _ in pairs])
        report |= metrics.relation(gold, _softmax(np.stack([logits for _, logits in pairs])))
    prompts = defaultdict(list)
    for each, logits in zip(examples, said, strict=True):
        if each.task == "relevance" and not each.row["foreign"]:
            prompts[f"{each.author} {each.group}"].append((each.label, float(logits[0])))
    if prompts:
        report |= metrics.relevance(prompts)
    turns: dict[str, tuple[list[tuple[int, int]], list[tuple[int, int, float]]]] = {}
    for each, logits in zip(examples, said, strict=True):
        if each.task == "words":
            _, spans = turns.setdefault(each.group, ([(a, b) for a, b, _, _ in data._spans(each.row)], []))
            spans += [
                (one.start, one.end, one.probability) for one in decode(each.row["said"], Tagged(each.places, logits))
            ]
    for threshold in (0.4, 0.5, 0.6, 0.7) if turns else ():
        report |= {f"{name} at {threshold}": value for name, value in metrics.spans(turns, threshold).items()}
    return {name: round(value, 3) for name, value in report.items()}


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


if __name__ == "__main__":
    main()
