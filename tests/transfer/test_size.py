"""However long a file is, it does not fill the memory; nor does a store that is exported."""

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
def test_the_memory_of_a_long_import_and_export_stays_flat(tmp_path: Path) -> None:
    """The lines that are imported hold 5 MB of text, those that are only looked at 25 MB."""
    command = [sys.executable, "-c", _COUNTS, str(tmp_path / "cofio.db"), "12000", "60000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["dry"], told["added"], told["lines"]) == (58_000, 10_000, 12_001)
    assert told["looked"] - told["before"] < 10, told
    assert told["imported"] - told["looked"] < 30, told  # the store itself keeps the lengths of all texts at hand
    assert told["exported"] - told["imported"] < 15, told
