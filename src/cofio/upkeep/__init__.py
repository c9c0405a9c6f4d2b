"""Upkeep: what repeats is merged, and later what is dead is set aside. Everything here only decides."""
