"""Handler of the memory map."""

from __future__ import annotations

from typing import Any

from cofio.api import schemas
from cofio.api.desk import Call, Desk


def drawn(desk: Desk, given: schemas.Mapped, call: Call) -> dict[str, Any]:  # noqa: ARG001
    return desk.keeper.outlook.map(most=given.most, **given.within()).as_dict()
