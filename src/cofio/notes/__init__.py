"""Markdown as memory: splitting pages into parts, and keeping memories in sync with them.

    page ─ front ─▶ front matter, body ─ parts ─▶ [Part] ─ following ─▶ matched with memories ─▶ [Decision]
    memory ─ vault ─▶ a note with the memory's id ─ vault ─▶ edits made to it

`files` reads and writes files; all other modules are pure functions.
"""
