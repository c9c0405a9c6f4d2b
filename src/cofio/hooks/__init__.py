"""What stands between an agent and its memory: the hook that a client starts, and the clients' own JSON.

    client ─ stdin ─▶ entry ─ socket ─▶ service (POST /hooks/<client>) ─ reply ─▶ stdout
                        └ no answer ─▶ degrade: the store's file, the last briefing, nothing; the turn goes to the spool

Standard library only: a hook starts for every prompt, and must not be felt.
"""
