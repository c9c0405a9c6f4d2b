"""Extraction of facts from messages: `patterns` reads fixed wordings, a model reads the rest."""
