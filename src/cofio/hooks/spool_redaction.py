"""Redaction of deliveries that wait on disk: in the spool there is no secret that cofio recognises.

a hook that misses its service ─ redact_delivery ─▶ spool
large input, or too little time ─▶ spool, raw ─ detached `entry.py --redact` ─▶ the same files, redacted
"""

from __future__ import annotations

import sys

from cofio.hooks import detached_process, json_peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from cofio.hooks.environment import HookEnvironment

FLAG = "--redact"
LARGEST = 8_192  # bytes that a hook redacts itself, in 70 ms with the imports


def redact_delivery(raw: bytes) -> bytes:
    """Return a client's input without secrets; the same bytes if it has none."""
    from cofio.text.secrets import redact

    def redact_values(value: object) -> object:
        if isinstance(value, str):
            return redact(value)
        if isinstance(value, dict):
            return {name: redact_values(inner) for name, inner in value.items()}
        return [redact_values(inner) for inner in value] if isinstance(value, list) else value

    fields = json_peek.parse_object(raw, lax=True)
    if fields is None:
        text = raw.decode("utf-8", "surrogateescape")
        clean_text = redact(text)
        return raw if clean_text == text else clean_text.encode("utf-8", "surrogateescape")
    clean = redact_values(fields)
    if clean == fields:
        return raw
    from json import dumps

    return dumps(clean).encode()


def start(around: HookEnvironment) -> None:
    """Start a detached process that redacts what is in the spool."""
    home = around.home.decode("utf-8", "surrogateescape")
    command = [sys.executable, "-I", "-S", __file__.rpartition("/")[0] + "/entry.py", "--home", home, FLAG]
    detached_process.spawn(command, around.variables)


def run(home: str) -> None:
    """Redact the deliveries in the spool and in spool/bad that were stored raw."""
    from pathlib import Path

    for folder in (Path(home, "spool"), Path(home, "spool", "bad")):
        for path in sorted(folder.glob("*.hook")):
            try:
                _redact_file(path)
            except OSError:  # taken by the service meanwhile
                continue


def _redact_file(path: Path) -> None:
    import json

    head, _, raw = path.read_bytes().partition(b"\n")
    try:
        about = json.loads(head)
        is_redacted = about["redacted"] or about["bytes"] != len(raw)
    except (ValueError, KeyError, TypeError):  # not written by a hook
        return
    if is_redacted:
        return
    clean = redact_delivery(raw)
    draft = path.with_name(f".{path.stem}.part")
    draft.touch(0o600)
    draft.write_bytes(json.dumps({**about, "bytes": len(clean), "redacted": True}).encode() + b"\n" + clean)
    if path.exists():
        draft.replace(path)
    else:
        draft.unlink()
