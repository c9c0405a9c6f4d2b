"""The library: services that read and write memories on behalf of one caller, and the façade in front of them."""

from cofio.core.facade import Keeper

__all__ = ["Keeper"]
