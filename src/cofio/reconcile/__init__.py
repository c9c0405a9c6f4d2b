"""Decides what becomes of facts, given what is known: added, replacing or ending a memory, or noted as known.

`compare` tells what a statement is to a memory. `decide` turns such verdicts into decisions. `model` asks a language
model instead, where one is configured.
"""
