"""Fixtures shared with the tests of the command line."""

from __future__ import annotations

from tests.cli.conftest import new_keeper

__all__ = ["new_keeper"]
