"""Description of the machine on which figures were measured."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Return processor, cores, memory, system, versions and load."""
    import numpy

    return {
        "cpu": _get_cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": _get_memory(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "numpy": numpy.__version__,
        "load": round(os.getloadavg()[0], 2),
    }


def in_words(measured_on: dict[str, Any]) -> str:
    """Return the machine in one line."""
    return (
        f"{measured_on['cpu']}, {measured_on['cores']} cores, {measured_on['memory_gb']} GB, {measured_on['system']},"
        f" Python {measured_on['python']}, load {measured_on['load']}"
    )


def _get_memory() -> int:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30))
    except (ValueError, OSError):
        return 0


def _get_cpu() -> str:
    """Return the name of the CPU; on ARM the name of the design, since the kernel gives only a number."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        lines = dict(line.split(":", 1) for line in path.read_text(encoding="utf-8").splitlines() if ":" in line)
        plain = {name.strip(): value.strip() for name, value in lines.items()}
        if "model name" in plain:
            return plain["model name"]
        if design := _DESIGNS.get((plain.get("CPU implementer", ""), plain.get("CPU part", ""))):
            return f"{design} ({platform.machine()})"
    return platform.processor() or platform.machine()


_DESIGNS = {
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
}
