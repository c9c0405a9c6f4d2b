"""Upkeep: what repeats is merged, what is dead is set aside, what is wrong is found. Everything here only decides."""
