"""Markdown as memory: what a page says, part by part, and how memories follow it.

    page ─ front ─▶ front matter, body ─ parts ─▶ [Part] ─ following ─▶ which memory each is ─▶ [Decision]
    memory ─ vault ─▶ a note, which says whose it is ─ vault ─▶ what was changed in it

`folder` looks at files and writes them; all else is functions from values to values.
"""
