"""Decisions on labelled pairs: new, known or a correction."""
