"""Self-identifying secrets: the prefixes and lengths that vendors chose to make their tokens recognisable.

A pattern is searched only if one of its hints is in the text, which is a cheap test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cofio.ingest.sanitize.secret_patterns import PATTERNS, TOKENS

_SHORTEST = 20  # characters of the shortest token
_HINTS = tuple((hint, place) for place, token in enumerate(TOKENS) for hint in token.hints)


def find_tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of all vendor secrets in the text."""
    if max(map(len, text.split()), default=0) < _SHORTEST:
        return  # true for almost all prose
    hinted = {place for hint, place in _HINTS if hint in text}
    for place in sorted(hinted):
        token = TOKENS[place]
        for match in token.pattern.finditer(text):
            start, end = match.span(match.lastindex or 0)
            if not _is_filler(text[start:end], token.mixed):
                yield token.kind, start, end


def _is_filler(token: str, mixed: bool) -> bool:
    """Return whether the token is a placeholder."""
    if PATTERNS["token_filler"].search(token):
        return True
    return mixed and not (re.search(r"\d", token) and re.search(r"[A-Za-z]", token))
