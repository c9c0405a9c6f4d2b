"""Secrets in texts: found by vendors' token shapes, by the words beside them, and by checksums; and redacted.

    from cofio.text.secrets import redact
    redact("the token is ghp_…")      # "the token is [redacted:github-token]"

Light enough for a hook: the standard library only, and patterns that are compiled on first use.
"""

from cofio.text.secrets.detection import find_secrets, redact, redact_shown

__all__ = ["find_secrets", "redact", "redact_shown"]
