"""Memory use of long imports and exports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_COUNTS = """
import json, resource, sys
from pathlib import Path
from cofio.testing import FixedClock
from cofio.stores.sqlite.store import SqliteStore
from cofio.transfer import export
from cofio.transfer.importer import import_lines as take

TIME = "2026-01-01T00:00:00.000000+00:00"

class Made:
    def __init__(self, number):
        self.number = number
    def __iter__(self):
        header = {"cofio": "export", "version": 1, "store": "s", "memories": self.number, "last_id": self.number}
        yield json.dumps(header) + "\\n"
        for each in range(1, self.number + 1):
            plain = {"id": each, "text": f"memory number {each}" + " of a long story" * 20, "created_at": TIME}
            yield json.dumps({**plain, "updated_at": TIME}) + "\\n"

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

store = SqliteStore(Path(sys.argv[1]), FixedClock())
take(store, None, Made(2_000), name="warm")
told = {"before": peak(), "dry": take(store, None, Made(int(sys.argv[3])), name="long", dry_run=True).added}
told["looked"] = peak()
told["added"] = take(store, None, Made(int(sys.argv[2])), name="long").added
told["imported"] = peak()
told["lines"] = sum(1 for _ in export.export_lines(store))
told["exported"] = peak()
print(json.dumps(told))
store.close()
"""


@pytest.mark.timeout(240)
def test_memory_use_is_independent_of_the_file_size(tmp_path: Path) -> None:
    """The lines that are imported hold 5 MB of text, those that are only looked at 25 MB."""
    command = [sys.executable, "-c", _COUNTS, str(tmp_path / "cofio.db"), "12000", "60000"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    payload = json.loads(result.stdout)
    assert (payload["dry"], payload["added"], payload["lines"]) == (58_000, 10_000, 12_001)
    assert payload["looked"] - payload["before"] < 10, payload
    assert payload["imported"] - payload["looked"] < 30, payload  # the store keeps the lengths of all texts in memory
    assert payload["exported"] - payload["imported"] < 15, payload
