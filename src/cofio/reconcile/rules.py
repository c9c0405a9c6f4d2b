"""Placeholder so that the package imports while this module is being written; to be overwritten."""

from __future__ import annotations

from typing import Any


def settle(*_: Any, **__: Any) -> Any:
    raise NotImplementedError


def echoes(*_: Any, **__: Any) -> Any:
    raise NotImplementedError
