"""Reconciliation of facts with memories: add, replace or end a memory, or note it as known.

`compare` compares a statement with a memory. `decide` turns the verdicts into decisions. `model` asks a language model
instead, where one is configured.
"""
