"""Markdown as memory: splitting pages into parts, and keeping memories in sync with them.

`files` reads and writes files; all other modules are pure functions.
"""
