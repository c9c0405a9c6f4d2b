"""Model card of the judgement model: name, files, digest, thresholds, calibration. Standard library only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cofio.errors import Misconfigured

WEIGHTS = Path(__file__).with_name("weights")
_HINT = "Reinstall cofio; until then, patterns and word rules are used."


def read_card(place: Path = WEIGHTS) -> Mapping[str, Any]:
    """Return model.json: files, digest, thresholds, calibration.

    Raise Misconfigured if a file is missing or differs.
    """
    try:
        card: Mapping[str, Any] = json.loads((place / "model.json").read_text(encoding="utf-8"))
        digest = digest_of([*part_files(card, place), tagger_file(card, place)])
    except (OSError, ValueError, KeyError) as error:
        raise Misconfigured(f"The judgement model cannot be read: {error}.", _HINT) from error
    if digest != card.get("sha256"):
        raise Misconfigured("The files of the judgement model are damaged or were replaced (SHA-256 differs).", _HINT)
    return card


def part_files(card: Mapping[str, Any], place: Path = WEIGHTS) -> list[Path]:
    """Return the files of the network, in the order of its layers."""
    return [place / name for name in card["parts"]]


def tagger_file(card: Mapping[str, Any], place: Path = WEIGHTS) -> Path:
    """Return the file of the tagger that tells other people's sentences from the user's."""
    return place / str(card["tagger"])


def digest_of(files: Sequence[Path]) -> str:
    """Return the SHA-256 of the files, one after the other."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
