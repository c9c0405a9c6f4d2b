"""Recognition of text that would make an agent act against its user, such as a stored "ignore previous instructions".

A memory with such content is not stored until a person approves it. Rules that forbid the same thing are harmless:
"never skip code review" is a rule, "always skip code review" is not.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from typing import NamedTuple

from cofio.text import lazy_re
from cofio.text.briefing import strip_invisible


def find_manipulation(text: str) -> str:
    """Return the reason why a person must approve a text before it is remembered; "" for harmless text."""
    plain = " ".join(unicodedata.normalize("NFKC", strip_invisible(text)).split())
    for content, prefix in ((plain, ""), (_decode_base64(plain), "Hidden as base64: ")):
        for sign in _SIGNS if content else ():
            if any(not _is_forbidden(content, match) for match in sign.pattern.finditer(content)):
                return prefix + sign.reason
    return ""


def _is_forbidden(text: str, match: re.Match[str]) -> bool:
    """Return whether the clause before a match forbids it: "never", "do not", "must not", "instead of"."""
    clause = _CLAUSE_END.split(text[max(0, match.start() - 60) : match.start()])[-1]
    return _FORBIDS.search(clause) is not None


def _decode_base64(text: str) -> str:
    """Return the readable texts that are hidden as base64 in a text."""
    decoded = []
    for blob in _BASE64.findall(text):
        try:
            content = base64.b64decode(blob + "=" * (-len(blob) % 4), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
        if content.isprintable() and " " in content:
            decoded.append(content)
    return "\n".join(decoded)


class _Sign(NamedTuple):
    reason: str
    pattern: re.Pattern[str]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_BASE64 = lazy_re.compile(r"(?<![\w+/])[A-Za-z0-9+/]{20,}={0,2}(?![\w+/])")
_CLAUSE_END = lazy_re.compile(r"[.!?;:\n]|,? (?:but|and then|then) ")
_FORBIDS = lazy_re.compile(
    r"\b(?:never|not|don['’]?t|no|cannot|can['’]?t|mustn['’]?t|shouldn['’]?t|won['’]?t|avoid|forbid\w*|prohibit\w*"
    r"|instead of|rather than|stop\w*|refuse\w*|prevent\w*|nie|niemals|nicht|keine?)\b",
    re.IGNORECASE,
)
_SHELL = r"(?:ba|z|da|k)?sh|python[\d.]*|node|perl|ruby|php|pwsh|powershell|iex|eval|source|sudo|chmod \+x"
_FETCH = r"(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod|fetch)"
_PLACE = (
    r"(?:https?://|ftp://|\S+@[\w-]+\.\w|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b(?!\()"
    r"|\b(?:webhook|pastebin|gist|url|attacker)\b)"
)
_CHECKS = (
    r"(?:tls|ssl|certificates?|signatures?|checksums?|host keys?|(?:security|safety|permission|integrity|signature"
    r"|certificate|hash|identity|content|virus|malware)[ -](?:checks?|verification|validation|review|filters?|scans?"
    r"|rules"
    r"|warnings?|policy|policies|guidelines|prompts?)|verification|sandbox\w*|guard ?rails?|safeguards?|antivirus"
    r"|firewall|2fa|mfa|(?:human|code|peer|manual|user) (?:review|approval|confirmation)s?|approvals?"
    r"|permission prompts?|reviewers?)"
)
_SECRETS = (
    r"(?:secrets?|passwords?|credentials|api[ _-]?keys?|access tokens|tokens|environment(?: variables?)?|env vars?"
    r"|\.env\b"
    r"|private keys?|ssh keys?|id_rsa|~/\.(?:ssh|aws|config)|keychain|cookies|source code|(?:the )?(?:conversation|chat"
    r"|prompt) ?(?:history|log)?s?|system prompt|customer (?:data|records)|personal data|\$\w+)"
)
_USER = r"(?:the |your |any )?(?:users?|developers?|humans?|anyone|anybody|owner|operator|team|reviewers?|me|them)\b"

_SIGNS = tuple(
    _Sign(reason, lazy_re.compile("|".join(alternatives), re.IGNORECASE))
    for reason, alternatives in {
        "It runs code that is fetched from the network": (
            rf"\b{_FETCH}\b[^\n]{{0,200}}?(?:\||&&|;|>\s*\S+\s*&&)\s*(?:sudo )?(?:{_SHELL}|\./)(?=\W|$)",
            rf"\b(?:{_SHELL})\b[^\n]{{0,20}}(?:<\(|\$\(|`|\"\$\(|\()\s*{_FETCH}\b",
            r"\b(?:run|execute|source|eval|pipe|start|launch|install)\b[^.\n]{0,60}\b(?:scripts?|installer|code"
            r"|commands?"
            r"|payload|binary|instructions)\b[^.\n]{0,30}\b(?:from|at|on|behind|under)\b[^\n]{0,20}https?://",
            r"\b(?:download|fetch|curl|wget|retrieve)\b[^\n]{0,120}\b(?:and|then|,)\s*(?:run|execute|source|eval"
            r"|launch)\b",
            r"\b(?:follow|obey|execute|do|apply)\b[^.\n]{0,40}\b(?:instructions?|commands?|steps|orders)\b[^.\n]{0,40}"
            r"https?://",
            r"https?://\S+[^\n]{0,60}\b(?:follow|obey|execute)\b[^.\n]{0,30}\b(?:instructions?|commands?|it says"
            r"|says)\b",
        ),
        "It switches off a check": (
            rf"\b(?:disable|skip|turn(?:ing)? off|bypass|circumvent|switch off|suppress|deactivate|ignore|remove"
            rf"|override"
            rf"|disregard)\b[^.\n]{{0,40}}?\b{_CHECKS}",
            r"\b(?:never|do not|don['’]?t|no need to|stop|without) (?:\w+ ){0,2}?(?:verify|validate|review|scan|check"
            rf"|confirm)(?:ing)?\b[^.\n]{{0,30}}\b{_CHECKS}",
            r"--dangerously[\w-]+|--no-verify\b|--insecure\b|--no-check-certificate\b|--allow-unauthenticated\b"
            r"|NODE_TLS_REJECT_UNAUTHORIZED\s*=\s*[\"']?0|StrictHostKeyChecking[= ]no\b|\bverify\s*=\s*False\b"
            r"|sslverify[= ]false\b|\bcurl -k\b",
        ),
        "It sends data or secrets to another place": (
            r"\b(?:send|post|upload|print|leak|exfiltrate|forward|e-?mail|transmit|dump|submit|deliver|report|beacon"
            r"|copy"
            rf"|append|encode|include|embed|put)\b[^\n]{{0,80}}?(?<![\w-]){_SECRETS}[^\n]{{0,60}}?"
            rf"\b(?:to|at|into|via|through|as|in)\b[^\n]{{0,40}}?{_PLACE}",
            rf"(?:{_SECRETS}|\benv|\bcat\b[^\n|]{{1,60}}|printenv)\s*\|\s*(?:base64\s*\|\s*)?(?:{_FETCH}|nc|ncat)\b",
            rf"\b{_FETCH}\b[^\n]{{0,80}}(?:-d|--data\S*|-F|-T|--upload-file)[ =][\"']?(?:@|\$\(|`|\S*\$)",
            r"!\[[^\]]*\]\(\s*(?:https?:)?//",
            r"https?://\S*[?&]\w+=(?:\{|<|\$|\[|%7B)",
        ),
        "It hides something from the user": (
            r"\bwithout (?:telling|informing|notifying|mentioning|alerting|reporting|letting)\b[^.\n]{0,30}",
            rf"\bwithout {_USER}(?:['’]s)? (?:knowing|knowledge|noticing|consent)",
            r"\b(?:do not|don['’]?t|never|must not|mustn['’]t) (?:tell|inform|mention|reveal|disclose|notify|report"
            r"|show"
            rf"|alert)\b (?:{_USER} )?(?:about |of )?(?:this|that|it|these|anything|so)\b(?! \w+ing\b)(?=[^.\n]{{0,40}}"
            rf"{_USER}|[.!]?$|[ ,;])",
            rf"\b(?:hide|conceal|keep)\b (?:this|that|it|these)[^.\n]{{0,30}}\b(?:from {_USER}|secret|hidden)",
            r"\b(?:secretly|covertly|stealthily|quietly|silently) (?:run|send|add|install|commit|push|upload|execute"
            r"|insert"
            r"|change|delete|include|forward|append|disable|replace)\b",
        ),
        "It overrides the agent's instructions": (
            r"\b(?:ignore|disregard|forget|override|bypass|discard|overlook|violate)\b (?:\w+ ){0,3}?(?:previous"
            r"|prior|above"
            r"|earlier|preceding|existing|original|system|safety|developer|all|any|your|other)\b(?: \w+){0,2}?"
            r" (?:instructions|prompts?|rules|guidelines|directives|constraints|policies|guardrails|training"
            r"|safeguards)\b",
            r"\bignor\w+\b[^.\n]{0,30}\b(?:anweisungen|regeln|vorgaben|instrucciones|instructions|istruzioni|instruções"
            r"|reglas|règles)\b[^.\n]{0,30}\b(?:anteriores|previas|précédentes|precedenti)\b"
            r"|\bignorier\w+\b[^.\n]{0,40}\b(?:anweisungen|regeln|vorgaben)\b"
            r"|\bignora\w* (?:todas )?las instrucciones\b"
            r"|(?:忽略|无视|無視)[^。\n]{0,12}(?:指令|指示|说明|規則|规则|提示)|(?:指示|命令)を無視"
            r"|игнорир\w+[^.\n]{0,30}(?:инструкц|указан|правил)\w*|이전 지시[^.\n]{0,10}무시",
            r"\byou are (?:now|no longer)\b[^.\n]{0,40}\b(?:DAN|jailbroken|unrestricted|unfiltered|developer mode"
            r"|god mode"
            r"|bound by|free of|root)\b",
            r"\b(?:new|updated|real|true|hidden) (?:system )?(?:instructions|prompt|directives?) (?:is|are"
            r"|follow)?\s*:",
        ),
        "It poses as the system, a tool or an assistant": (
            r"(?<![\w/])<\|?/?(?:im_start|im_end|system|endoftext|assistant|tool)\|?>|\[/?INST\]"
            r"|</?(?:system-reminder|cofio-memory"
            r"|tool_result|function_results?)\b",
            r"\[\s*(?:system|admin\w*|developer|security|tool|assistant)\b[^\]]{0,40}\]",
            r"(?-i:\b(?:SYSTEM|ADMIN|ADMINISTRATOR|DEVELOPER|ASSISTANT|TOOL)(?: [A-Z]+){0,3}:)",
            r"\b(?:system|administrator|admin|developer|security) (?:message|notice|override|prompt|directive"
            r"|alert)\b\s*[:\])-]",
            r"\bthis (?:is|comes from|was sent by) (?:an? |the )?(?:official |verified |trusted )?(?:system"
            r"|anthropic|openai"
            r"|administrator|admin|security team)\b",
            r"\b(?:pre-?|already )(?:authori[sz]ed|approved|verified) by (?:the )?(?:system|security|admin\w*|user"
            r"|anthropic"
            r"|openai)\b",
        ),
    }.items()
)
