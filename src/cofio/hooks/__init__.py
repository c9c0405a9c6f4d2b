"""Hooks: the process that a client starts for an event, and the clients' own JSON formats.

    client ─ stdin ─▶ entry ─ socket ─▶ service (POST /hooks/<client>) ─ reply ─▶ stdout
                        └ no answer ─▶ fallback: store file, last briefing, nothing; the turn goes to the spool

Standard library only: a hook starts for every prompt and must not be noticeable.
"""
