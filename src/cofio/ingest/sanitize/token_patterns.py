"""Self-identifying secrets: the prefixes and lengths that vendors chose to make their tokens recognisable.

A shape is searched only if one of its hints is in the text, which is a cheap test. Every pattern runs in linear time:
an unbounded repetition is followed by nothing that can fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cofio.text import lazy_re

#: Left boundary of a token: no character that could belong to it, or an escaped line break.
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_WHOLE = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"


class TokenPattern(NamedTuple):
    """Kind of secret: its hints, and the pattern of its extent (the last group, or the whole match)."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    mixed: bool = False  # require letters and digits: the prefix alone proves little


def _shape(kind: str, hints: str, pattern: str, *, mixed: bool = False) -> TokenPattern:
    return TokenPattern(kind, tuple(hints.split()), lazy_re.compile(pattern), mixed)


def find_tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of all vendor secrets in the text."""
    if max(map(len, text.split()), default=0) < _SHORTEST:
        return  # true for almost all prose
    hinted = {place for hint, place in _HINTS if hint in text}
    for place in sorted(hinted):
        shape = _SHAPES[place]
        for match in shape.pattern.finditer(text):
            start, end = match.span(match.lastindex or 0)
            if not _is_filler(text[start:end], shape.mixed):
                yield shape.kind, start, end


def _is_filler(token: str, mixed: bool) -> bool:
    """Return whether the token is a placeholder."""
    if _FILLER.search(token):
        return True
    return mixed and not (re.search(r"\d", token) and re.search(r"[A-Za-z]", token))


_SHORTEST = 20  # characters of the shortest shape

_FILLER = lazy_re.compile(r"(?i)x{6,}|\*{3,}|\.\.\.|…|(.)\1{9,}|your[-_]|[-_]here\b|placeholder|\[redacted")

_SHAPES = (
    _shape("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,}"),
    _shape(
        "openai-key", "sk-", _EDGE + r"sk-(?!ant-)(?:[a-z0-9]{1,10}-){0,2}[A-Za-z0-9_]{20}[A-Za-z0-9_-]*", mixed=True
    ),
    _shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{20,}"),
    _shape("github-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
    _shape(
        "gitlab-token",
        "glpat- gldt- glptt- glrt- glcbt- glsoat- glft- glimt- glagent-",
        r"gl(?:pat|dt|ptt|rt|cbt|soat|ft|imt|agent)-[A-Za-z0-9_.=-]{19,}[A-Za-z0-9_=-]",
    ),
    _shape("aws-access-key", "AKIA ASIA", r"(?<![A-Z0-9])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape(
        "google-key", "AIza GOCSPX- ya29.", r"AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{24,}|ya29\.[A-Za-z0-9_-]{20,}"
    ),
    _shape(
        "slack-token",
        "xox xapp-",
        r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{15,}|xapp-\d-[A-Za-z0-9-]{15,}",
        mixed=True,
    ),
    _shape("slack-webhook", "hooks.slack.com/", r"hooks\.slack\.com/[a-z]{1,20}/([A-Za-z0-9/_+-]{20,})"),
    _shape("discord-webhook", "/api/webhooks/", r"/api/webhooks/\d{10,25}/([A-Za-z0-9_-]{40,})"),
    _shape("stripe-key", "k_live_ k_test_ whsec_", r"(?:[sr]k_(?:live|test)_|whsec_)[A-Za-z0-9+/=]{16,}"),
    _shape("npm-token", "npm_", _EDGE + r"npm_[A-Za-z0-9]{36,}"),
    _shape("pypi-token", "pypi-Ag", r"pypi-Ag[A-Za-z0-9_-]{30,}"),
    _shape("huggingface-token", "hf_ api_org_", _EDGE + r"(?:hf|api_org)_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{30,}"),
    _shape("sendgrid-key", "SG.", _EDGE + r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}", mixed=True),
    _shape("twilio-key", "SK", _EDGE + r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _shape(
        "discord-token",
        ".",
        r"[MNO](?<![A-Za-z0-9_.-][MNO])[A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\."
        r"(?=[a-z_-]*[A-Z0-9])[A-Za-z0-9_-]{27,45}(?![\w-]|\.\w)",
        mixed=True,
    ),
    _shape("telegram-token", ":AA", r"(?<!\d)\d{8,10}:AA[A-Za-z0-9_-]{30,}"),
    _shape(
        "azure-key",
        "AccountKey= SharedAccessKey= 8Q~ sig=",
        r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})|[?&;]sig=([A-Za-z0-9%+/]{40,}=*)"
        r"|(?<![\w~.-])[\w~.-]{3}8Q~[\w~.-]{30,34}",
    ),
    _shape("jwt", "eyJ", _WHOLE + r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,3}"),
    _shape("private-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{20,}"),
    _shape(
        "api-key",
        "dop_v1_ doo_v1_ dapi key- hvs. hvb. PMAK- NRAK- tskey- sbp_ shpat_ shpss_ shpca_ sq0csp- figd_ lin_api_",
        _EDGE + r"(?:(?:do[op]_v1_|sbp_|shp(?:at|ss|ca)_)[0-9a-f]{32,}|(?:dapi|key-)[0-9a-f]{32}(?![A-Za-z0-9])"
        r"|(?:hv[sb]\.|PMAK-|NRAK-|tskey-|sq0csp-|figd_|lin_api_)[A-Za-z0-9_-]{20,})",
        mixed=True,
    ),
    _shape(
        "api-key",
        "gsk_ xai- pplx- r8_ dckr_pat_ sntrys_ ntn_ nvapi- tvly- pscale_tkn_ fly_ rnd_ dp.pt. pul-",
        _EDGE + r"(?:gsk_|xai-|pplx-|r8_|dckr_pat_|sntrys_|ntn_|nvapi-|tvly-|pscale_tkn_|rnd_|dp\.pt\.|pul-)"
        r"[A-Za-z0-9_-]{24,}",
        mixed=True,
    ),
)

_HINTS = tuple((hint, place) for place, shape in enumerate(_SHAPES) for hint in shape.hints)
