"""The card of the judgement model: name, digest, thresholds, calibration. Standard library only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cofio.errors import Misconfigured

WEIGHTS = Path(__file__).with_name("weights")
PARTS = ("screen.onnx", "judge.onnx")
_HINT = "Install cofio again; until then patterns and words judge."


def read_card(place: Path = WEIGHTS) -> Mapping[str, Any]:
    """Return model.json: thresholds, calibration and the digest of the weights. Misconfigured where a file is wrong."""
    try:
        card: Mapping[str, Any] = json.loads((place / "model.json").read_text(encoding="utf-8"))
        digest = digest_of(place)
    except (OSError, ValueError) as error:
        raise Misconfigured(f"The judgement model cannot be read: {error}.", _HINT) from error
    if digest != card.get("sha256"):
        raise Misconfigured("The judgement model is not the one that came with cofio (SHA-256 differs).", _HINT)
    return card


def digest_of(place: Path) -> str:
    """Return the SHA-256 of both parts of the network, one after the other."""
    digest = hashlib.sha256()
    for name in PARTS:
        digest.update((place / name).read_bytes())
    return digest.hexdigest()
