"""Trains the tagger of voices (`cofio.judgement.voices`): `python -m training.voices --help`.

    evals/data/voices, turns ─ compose ─▶ turns of known voices ─ encode ─▶ sentence vectors ─ train ─▶ voices.onnx

The encoder is the shipped judgement model and stays as it is: only the tagger learns. `encode` needs no GPU, `train`
needs PyTorch, `export` writes the graph by hand, since onnx alone is enough for it.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cofio.judgement.model_inputs import sentences_of
from training.data import TEST_AUTHORS

HELD_OUT = ("pf",)
PLAIN = "plain"  # turns of authors held out, without foreign text
CALIBRATION = frozenset("ch eh gh he lh v vh xg yh".split())  # authors that no model is trained on
TEST = ("px", "py")
WRITTEN_WEIGHT = 6.0  # of a sentence of a written turn, relative to composed ones
COMPOSED = 8_000
PIECES, OWN_TURNS = 6_000, 1_500  # own turns that others are composed of, and further ones
HIDDEN = 48
EPOCHS, BATCH, LEARNING_RATE, DROPOUT = 16, 64, 2e-3, 0.3


class VoicedTurn(NamedTuple):
    """Text with the voice of each part: (end, is third party)."""

    text: str
    parts: tuple[tuple[int, bool], ...]
    author: str


class Pieces(NamedTuple):
    """Parts of written turns: words of the user before and after a foreign text, foreign texts, whole own turns."""

    intros: list[str]
    remarks: list[str]
    documents: list[str]
    own: list[str]


def join(segments: Sequence[tuple[str, bool]], author: str) -> VoicedTurn:
    """Return the segments as one turn."""
    parts, end = [], 0
    for text, is_foreign in segments:
        end += len(text)
        parts.append((end, is_foreign))
    return VoicedTurn("".join(text for text, _ in segments), tuple(parts), author)


def read_rows(data: Path, authors: Sequence[str] = ()) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (author, row) of the labelled turns; of all training authors by default."""
    for path in sorted((data / "voices").glob("*.jsonl")):
        if path.stem in authors or (not authors and path.stem not in TEST):
            for line in path.read_text(encoding="utf-8").splitlines():
                yield path.stem, json.loads(line)


def voiced(row: Mapping[str, Any], author: str) -> VoicedTurn:
    """Return a labelled row as a turn."""
    segments = [(part["text"], part["voice"] == "other") for part in row["segments"]]
    return join(segments, author)


def collect_pieces(rows: Sequence[Mapping[str, Any]], own: Sequence[str]) -> Pieces:
    """Return the parts that turns are composed of."""
    pieces = Pieces([], [], [], list(own))
    for row in rows:
        segments = row["segments"]
        for number, part in enumerate(segments):
            text = part["text"].strip()
            if part["voice"] == "other":
                pieces.documents.append(text)
            elif len(segments) == 1:
                pieces.own.extend([] if row["manipulative"] else [text])
            else:
                (pieces.remarks if number else pieces.intros).append(text)
    return pieces


def read_own_turns(data: Path, *, held_out: bool = False) -> list[str]:
    """Return the turns of the other labelled data that state facts: all of their words are the user's own."""
    turns = []
    for path in sorted((data / "turns").glob("*.jsonl")):
        if path.stem in TEST_AUTHORS or (path.stem in CALIBRATION) != held_out:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if (
                row.get("role", "user") == "user"
                and (row["facts"] or "\n" not in row["said"])
                and "```" not in row["said"]
            ):
                turns.append(row["said"])
    return turns


def compose(pieces: Pieces, chance: random.Random) -> VoicedTurn:
    """Return a turn composed at random, with or without a foreign text."""
    gap = chance.choice(("\n\n", "\n\n", "\n\n", "\n", " "))
    own = chance.choice(pieces.own)
    kind = chance.random()
    if kind < 0.22:
        return join([(own, False)], "composed")
    if kind < 0.32:
        return join([(own + gap, False), (chance.choice(pieces.own), False)], "composed")
    if kind < 0.5:
        return join([(_compose_list(pieces.own, chance), False)], "composed")
    document = _reformat(chance.choice(pieces.documents), chance)
    segments = [(document, True)]
    if kind < 0.87:
        intro = chance.choice(pieces.intros)
        intro = _cut(intro, chance, most=1) if chance.random() < 0.4 else intro
        segments.insert(0, (intro + gap, False))
    elif kind < 0.94:
        segments.insert(0, (own + "\n\n", False))
    if kind > 0.75 and pieces.remarks:
        after = chance.choice((own, chance.choice(pieces.remarks)))
        segments.append(("\n\n" + after, False))
    return join(segments, "composed")


def _compose_list(own: Sequence[str], chance: random.Random) -> str:
    """Return own statements as paragraphs, lines or a list, often after an own first sentence."""
    statements = [_cut(chance.choice(own), chance, most=2) for _ in range(chance.randint(2, 5))]
    mark, gap = chance.choice((("", "\n\n"), ("", "\n"), ("- ", "\n"), ("* ", "\n"), ("- ", "\n\n")))
    lines = [mark + " ".join(statement.split()) for statement in statements]
    if chance.random() < 0.7:
        first = _cut(chance.choice(own), chance, most=1)
        lines.insert(0, first.rstrip(".") + ":" if mark else first)
    return gap.join(lines)


def _cut(text: str, chance: random.Random, most: int) -> str:
    """Return a few sentences in a row."""
    places = sentences_of(text)
    start = chance.randrange(len(places))
    end = min(len(places), start + chance.randint(1, most))
    return text[places[start][0] : places[end - 1][1]]


def _reformat(text: str, chance: random.Random) -> str:
    if chance.random() < 0.3:
        text = _cut(text, chance, most=2)
    way = chance.random()
    if way < 0.08:
        return "\n".join(f"> {line}" for line in text.split("\n"))
    if way < 0.16:
        return f'"{text}"'
    if way < 0.22:
        return f"```\n{text}\n```"
    if way < 0.3:
        return " ".join(text.split())
    if way < 0.55:  # people also paste a sentence or two
        return _cut(text, chance, most=3)
    if way < 0.7:
        lines = [line for line in text.split("\n") if line.strip()]
        start = chance.randrange(max(1, len(lines) - 2))
        return "\n".join(lines[start : start + chance.randint(2, 12)])
    return text


def label_sentences(turn: VoicedTurn) -> list[float]:
    """Return the share of foreign characters of each sentence."""
    labels = []
    for start, end in sentences_of(turn.text):
        foreign, before = 0, 0
        for part_end, is_foreign in turn.parts:
            foreign += is_foreign * max(0, min(end, part_end) - max(start, before))
            before = part_end
        labels.append(foreign / (end - start))
    return labels


def encode(data: Path, out: Path, seed: int = 0) -> None:
    """Write the sentence vectors and labels of training, held-out and test turns."""
    from cofio.judgement.onnx_classifier import LocalJudge

    judge, chance = LocalJudge(), random.Random(seed)
    rows = list(read_rows(data))
    own = read_own_turns(data)
    chance.shuffle(own)
    pieces = collect_pieces([row for author, row in rows if author not in HELD_OUT], own[:PIECES])
    turns = [voiced(row, author) for author, row in rows]
    turns += [compose(pieces, chance) for _ in range(COMPOSED)]
    turns += [join([(text, False)], "own") for text in own[PIECES : PIECES + OWN_TURNS]]
    turns += [join([(text, False)], PLAIN) for text in read_own_turns(data, held_out=True)]
    vectors, sizes, labels, authors = [], [], [], []
    for number, turn in enumerate(turns):
        label = label_sentences(turn)
        vector = judge.sentence_vectors(turn.text, sentences_of(turn.text)).astype(np.float16) if label else []
        if not len(vector):
            continue
        vectors.append(vector)
        sizes.append(len(vector))
        labels += label
        authors.append(turn.author)
        if number % 1000 == 0:
            print(f"{number:,} of {len(turns):,}", flush=True)
    np.savez_compressed(
        out,
        vectors=np.concatenate(vectors),
        sizes=np.array(sizes),
        labels=np.array(labels, np.float32),
        authors=np.array(authors),
    )


def train(encoded: Path, out: Path, students: int = 3) -> None:
    """Train taggers that differ by their seed on a GPU; write their weights and the held-out predictions."""
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pad_sequence

    stored = np.load(encoded)
    ends = np.cumsum(stored["sizes"])
    vectors = [torch.tensor(part.astype(np.float32)) for part in np.split(stored["vectors"], ends[:-1])]
    labels = [torch.tensor(part) for part in np.split(stored["labels"], ends[:-1])]
    authors = stored["authors"]
    device = "cuda" if torch.cuda.is_available() else "cpu"

    class Tagger(nn.Module):
        """Recurrent network over the sentences of a turn."""

        def __init__(self, size: int) -> None:
            super().__init__()
            self.inner = nn.Linear(size, 2 * HIDDEN)
            self.over = nn.GRU(2 * HIDDEN, HIDDEN, bidirectional=True, batch_first=True)
            self.out = nn.Linear(2 * HIDDEN, 1)
            self.drop = nn.Dropout(DROPOUT)

        def forward(self, batch: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
            states = torch.tanh(self.inner(self.drop(batch)))
            packed = nn.utils.rnn.pack_padded_sequence(states, sizes, batch_first=True, enforce_sorted=False)
            states, _ = nn.utils.rnn.pad_packed_sequence(self.over(packed)[0], batch_first=True)
            return self.out(self.drop(states))

    def forward(model: Tagger, chosen: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        sizes = torch.tensor([len(vectors[number]) for number in chosen])
        batch = pad_sequence([vectors[number] for number in chosen], batch_first=True).to(device)
        mask = torch.arange(batch.shape[1])[None] < sizes[:, None]
        return model(batch, sizes), mask.to(device)

    held_out = [number for number, author in enumerate(authors) if author in HELD_OUT]
    plain = [number for number, author in enumerate(authors) if author == PLAIN]
    training = [number for number, author in enumerate(authors) if author not in (*HELD_OUT, PLAIN)]
    weights = torch.tensor([1.0 if author in ("composed", "own") else WRITTEN_WEIGHT for author in authors])
    saved: dict[str, np.ndarray] = {}
    predictions: dict[tuple[int, ...], list[np.ndarray]] = {tuple(held_out): [], tuple(plain): []}
    for seed in range(students):
        torch.manual_seed(seed)
        chance = random.Random(seed)
        model = Tagger(vectors[0].shape[1]).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=0.02)
        steps = EPOCHS * (len(training) // BATCH + 1)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
        for epoch in range(EPOCHS):
            chance.shuffle(training)
            model.train()
            total = 0.0
            for start in range(0, len(training), BATCH):
                chosen = training[start : start + BATCH]
                logits, mask = forward(model, chosen)
                target = pad_sequence([labels[number] for number in chosen], batch_first=True).to(device)
                weight = weights[chosen].to(device)
                voice = nn.functional.binary_cross_entropy_with_logits(logits[..., 0], target, reduction="none")
                loss = ((voice * mask).sum(1) / mask.sum(1).sqrt() * weight).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                total += float(loss)
            print(f"student {seed} epoch {epoch}: {total:.1f}", flush=True)
        model.eval()
        with torch.no_grad():
            for chosen, rows in predictions.items():
                logits = [forward(model, [number])[0][0] for number in chosen]
                rows.append(torch.cat(logits).cpu().numpy())
        saved |= {f"{seed}.{name}": value.cpu().numpy() for name, value in model.state_dict().items()}
    for chosen, logits in predictions.items():
        mean = 1 / (1 + np.exp(-np.mean(logits, axis=0)))
        report(mean, [labels[number].numpy() for number in chosen])
    np.savez_compressed(out, **saved)


def report(predicted: np.ndarray, labels: Sequence[np.ndarray]) -> None:
    """Print how many foreign sentences are found, and how many own ones and own turns are taken for foreign."""
    truth = np.concatenate(labels)
    starts = np.cumsum([0, *map(len, labels)])
    print(f"{len(labels)} turns, {(truth > 0.5).sum()} foreign sentences, {(truth <= 0.5).sum()} own ones")
    for threshold in (0.3, 0.5, 0.7, 0.9, 0.97):
        found = predicted[:, 0] >= threshold
        turns = np.array([found[start:end].any() for start, end in pairwise(starts)])
        own = np.array([label.max() <= 0.5 for label in labels])
        foreign = f"{found[truth > 0.5].mean():.3f}" if (truth > 0.5).any() else "-"
        print(
            f"at {threshold}: foreign found {foreign}, own taken for foreign {found[truth <= 0.5].mean():.4f},"
            f" own turns touched {turns[own].mean():.4f}"
        )


def export(weights: Path, out: Path) -> None:
    """Write the taggers as one ONNX graph that returns the mean of their logits."""
    import onnx
    from onnx import helper, numpy_helper

    stored = np.load(weights)
    nodes: list[Any] = []
    constants: list[Any] = []

    def add(operator: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, [*inputs], [name], **attributes))
        return name

    def constant(name: str, values: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    seeds = sorted({name.split(".")[0] for name in stored.files})
    for seed in seeds:

        def weight(name: str, seed: str = seed) -> Any:
            return stored[f"{seed}.{name}"].astype(np.float32)

        inner = add("Gemm", ["vectors", constant(f"{seed}.w", weight("inner.weight")),
                             constant(f"{seed}.b", weight("inner.bias"))], f"{seed}.inner", transB=1)  # fmt: skip
        states = add("Unsqueeze", [add("Tanh", [inner], f"{seed}.tanh"), constant(f"{seed}.axis", [1])], f"{seed}.x")
        gates = {
            name: np.stack([_onnx_gates(weight(f"over.{name}_l0{way}")) for way in ("", "_reverse")])
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        both_biases = np.concatenate([gates["bias_ih"], gates["bias_hh"]], axis=1)
        inputs = [states, constant(f"{seed}.ih", gates["weight_ih"]), constant(f"{seed}.hh", gates["weight_hh"]),
                  constant(f"{seed}.gb", both_biases)]  # fmt: skip
        over = add(
            "GRU", inputs, f"{seed}.gru", hidden_size=HIDDEN, direction="bidirectional", linear_before_reset=1
        )  # sentences, directions, 1, hidden
        flat = add("Reshape", [over, constant(f"{seed}.shape", [-1, 2 * HIDDEN])], f"{seed}.flat")
        add("Gemm", [flat, constant(f"{seed}.ow", weight("out.weight")), constant(f"{seed}.ob", weight("out.bias"))],
            f"{seed}.out", transB=1)  # fmt: skip
    add("Mean", [f"{seed}.out" for seed in seeds], "voices")
    size = stored[f"{seeds[0]}.inner.weight"].shape[1]
    graph = helper.make_graph(
        nodes,
        "voices",
        [helper.make_tensor_value_info("vectors", onnx.TensorProto.FLOAT, ["sentences", size])],
        [helper.make_tensor_value_info("voices", onnx.TensorProto.FLOAT, ["sentences", 1])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    out.write_bytes(model.SerializeToString())
    print(f"{out.name}: {out.stat().st_size:,} bytes")


def _onnx_gates(weights: np.ndarray) -> np.ndarray:
    """Return the gates in the order of ONNX (update, reset, hidden); PyTorch has reset first."""
    reset, update, hidden = np.split(weights, 3)
    return np.concatenate([update, reset, hidden])


def main() -> None:
    """Encode the labelled turns, train on them, or export the trained tagger."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    for name in ("encode", "train", "export"):
        command = commands.add_parser(name)
        command.add_argument("source", type=Path)
        command.add_argument("out", type=Path)
    arguments = parser.parse_args()
    {"encode": encode, "train": train, "export": export}[arguments.command](arguments.source, arguments.out)


if __name__ == "__main__":
    main()
