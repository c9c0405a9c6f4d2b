"""Fixtures of the client's tests."""

from tests.cli.conftest import new_keeper

__all__ = ["new_keeper"]
