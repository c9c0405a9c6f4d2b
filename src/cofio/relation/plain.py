"""A text in plain words: contractions written out, numbers in one spelling, turns of phrase by one word."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from cofio import late

_Instead: TypeAlias = str | Callable[[re.Match[str]], str]
#: A sign without which there is nothing to do, what is looked for, and what is put instead.
_Rewrites: TypeAlias = tuple[tuple[str, re.Pattern[str], _Instead], ...]


def plain(text: str) -> str:
    """The text as it is read: "isn't 30s anymore" is "is not 30 s"."""
    written = _BLANKS.sub(" ", text.translate(_SIGNS))
    low = written.lower()
    for sign, pattern, instead in _REWRITES:
        if sign in low:
            written = pattern.sub(instead, written)
    low = written.lower()
    if any(each in low for each in _PHRASES):
        written = _PHRASE.sub(lambda found: _PHRASES[found.group().lower()], written)
        low = written.lower()
    for sign, pattern, instead in _TURNS:
        if sign in low:
            written = pattern.sub(instead, written)
    return written


def _compiled(*rewrites: tuple[str, str, _Instead]) -> _Rewrites:
    return tuple(
        (sign, late.compile(pattern, re.IGNORECASE | re.DOTALL), instead) for sign, pattern, instead in rewrites
    )


def _clock(match: re.Match[str]) -> str:
    hour = int(match.group(1)) % 12 + (12 if match.group(3).lower() == "pm" else 0)
    return f"{hour}:{match.group(2) or '00'}"


_SIGNS = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": ",", "*": " ", "→": " -> ", "⇒": " -> "})
_BLANKS = late.compile(r"[^\S\n]{2,}")
_UNITS = r"ms|msec|s|sec|secs|min|mins|h|hr|hrs|d|kb|mb|gb|tb|kib|mib|gib|tib|kg|g|lb|lbs|km|m|cm|mm|px|x|k|mbit|gbit"
_REWRITES = _compiled(
    ("```", r"```.*?(?:```|$)", " "),
    ("can't", r"\bcan't\b", "can not"),
    ("won't", r"\bwon't\b", "will not"),
    ("n't", r"n't\b", " not"),
    ("'s", r"\b(it|that|there|what|who|he|she|here)'s\b", r"\1 is"),
    ("'s", r"(?<=\w)'s\b", " 's"),
    ("'re", r"'re\b", " are"),
    ("'ve", r"'ve\b", " have"),
    ("'m", r"'m\b", " am"),
    ("'ll", r"'ll\b", " will"),
    ("'d", r"'d\b", " would"),
    (",", r"(?<=\d),(?=\d{3}\b)", ""),
    ("/", r"\b(\w+)/(s|sec|second|min|minute|h|hour|day|week|month|year)\b", r"\1 per \2"),
    ("rps", r"\brps\b", "requests per second"),
    ("rpm", r"\brpm\b", "requests per minute"),
    ("v", r"\bv(\d+(?:\.\d+)*)\b", r"version \1"),
    ("m", r"\b(\d{1,2})(?::(\d\d))?\s?(am|pm)\b", _clock),
    ("", r"\b(\d+)(?:st|nd|rd|th)\b", r"\1"),
    ("", rf"\b(\d+(?:\.\d+)?)({_UNITS})\b", r"\1 \2"),
    ("%", r"(\d)\s?%", r"\1 percent"),
    ("$", r"([$])\s?(\d+(?:\.\d+)?)", r"\2 \1"),
    ("€", r"([€])\s?(\d+(?:\.\d+)?)", r"\2 \1"),
    ("£", r"([£])\s?(\d+(?:\.\d+)?)", r"\2 \1"),
    ("-", r"(?<=\d)-(?=[a-z])", " "),
)

#: What is said in several words, by one that is read as such.
_PHRASES = {
    said: instead
    for instead, phrases in (
        ("not", "no longer/not any longer/not anymore/nicht mehr"),
        ("", "anymore/any more/any longer/at the moment/after all/as of now/as of today/had to"),
        ("henceforth", "from now on/going forward/from today on"),
        ("nobody", "no one/no-one"),
        ("without", "with no"),
        ("for", "in favor of/in favour of"),
        ("insteadof", "instead of/in place of/in lieu of/rather than"),
        ("stopped using", "moved away from/moving away from/move away from/moved off/moving off"),
        ("dropped", "got rid of/get rid of/getting rid of/gave up on/gave up"),
        ("chose", "went with/go with/going with/goes with/are going with/am going with/decided on/settled on"),
        ("the owner of", "responsible for"),
        ("the manager of", "in charge of"),
        ("is used", "is what we use/is what i use/is what the team uses"),
        ("is", "takes place"),
        ("is the", "took over as the/took over as/takes over as the/takes over as"),
        ("switched to", "went back to/gone back to/moved back to/reverted to"),
        ("is owned by", "belongs to"),
        ("owns", "looks after/look after"),
        ("is owned by ourselves", "is ours/is now ours"),
        ("changed to", "went up to/went down to/goes up to/goes down to/go up to/go down to"),
        ("changed to", "moved up to/moved forward to"),
        ("replaced", "took over from/takes over from"),
        ("switched from", "moved on from"),
        ("is the on-call", "is on call"),
        ("because", "due to/on account of"),
        ("can not", "cannot"),
        ("we use", "wir nutzen/wir verwenden/wir benutzen/nous utilisons/on utilise/usamos/ahora usamos"),
        ("insteadof", "statt/anstatt/anstelle von/au lieu de/en lugar de/en vez de"),
        ("", "inzwischen/mittlerweile/désormais/ce mois-ci"),
        ("is on", "est sur"),
        ("->", "=>"),
    )
    for said in phrases.split("/")
}
_PHRASE = late.compile(
    r"(?<!\w)(?:" + "|".join(map(re.escape, sorted(_PHRASES, key=len, reverse=True))) + r")(?!\w)", re.IGNORECASE
)
_DONE = r"\b(?:was|were|got|been) (?:turned|switched) "
_ON = r"\b(is|are|was|were|be|been|turned|switched) (?:currently |now |still )?(?:turned |switched )?"
_FORMER = r"([^,;]{1,40}?)\s*[,;]?\s*(?:but |and )?(?:it is now|now it is|is now|now is|now)\s+"
_WAS = r"(?:\((?:was|before:?|previously|formerly)|, (?:(?:it )?used to be|it was|up from|previously|formerly))"
_DATED = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tues?|wed|thurs?|fri|sat|sun"
_DAY = rf"(?=(?:the )?(?:\d|(?:{_DATED})[a-z]*\b))"
_UMGESTIEGEN = r"(?:umgestiegen|gewechselt|migriert)"
_AGREED = r"(?:agreed|insisted|decided|approved|confirmed|asked for it|signed off|said so|wanted it|wants it)"
_GONE = r"(?:out|gone|dead|history|dropped|retired|deprecated)"
_AT = r"(?:from|in|on|with|at|to|by)"
#: Words behind "not" that are nothing to be given up.
_NO_THING = r"(?!(?:for|when|if|because|yet|only|just|even|sure|all|every|always|until|needed|allowed|required)\b)"
#: "not A but B", "used to be A, now it is B" and "B, not A" are read as a change, "turned on" as one word.
_TURNS = _compiled(
    ("there ", r"^there (?:is|are|was|were)\b", " "),
    ("only ", r"\bonly (?=(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten)\b)", ""),
    ("got ", r"\b(?:got|gets) (?=\w+ed\b|set\b|cut\b)", "was "),
    (" be ", r"\bused to be " + _FORMER, r"is \1 -> "),
    (" was ", r"\bwas " + _FORMER, r"is \1 -> "),
    (" but ", r"\bnot ((?:[^\s,]+ ){1,4}?),?\s?but (?:rather |now |instead )?(?=\S+(?: \S+){0,3}$)", r"\1-> "),
    ("not ", r"\bnot ([^,;]{1,40}?)\s*[,;]\s*(?:it is|they are)\s+(?:now\s+)?", r"\1 -> "),
    (", not ", rf"\b(is|are|use|uses) (?!{_AT} )([^,;]{{1,40}}), not ([^,;.]{{1,40}})$", r"\1 \3 -> \2"),
    (", not ", rf", not (?:{_AT} )?{_NO_THING}(\S+(?: \S+)?)$", r" insteadof \1"),
    ("not ", rf"^(?:no,? )?not {_NO_THING}(\S+)(?: -|[,:;]) (?=\S+ )([^.;!?]+)", r"\2 insteadof \1"),
    (", ", rf"^(\S+) (?:is|are) {_GONE}, (?=\S+ )([^.;!?]+)", r"\2 insteadof \1"),
    (" on ", r"\b(is|are|runs|listens) on (?!(?:19|20)\d\d\b)(?=\d{4,5}(?:$|[.,;]| now\b))", r"\1 on port "),
    ("", _WAS + r" ([^\s,;()]+(?: [^\s,;()]+){0,2}?)(?: before)?\)?$", r" insteadof \1"),
    (", ", rf", ((?:the |our )?\w+ {_AGREED})$", r" because \1"),
    ("enough", r"^((?:\d+|one|two|three|four|five) [^,;.]{1,40}?) (?:is|are) (?:now )?enough\b", r"we need \1"),
    ("took over ", r"\btook over (?!as\b|from\b)([^,;.]{1,40}?)(?: from \w+)?(?=$|[,;.])", r"owns \1"),
    (" over ", r"\b\w+ handed (?:over )?([^,;.]{1,40}?) (?:over )?to (\w+)(?=$|[,;.])", r"\2 owns \1"),
    (" for ", rf"\b(is|are) (?:planned|scheduled|slated|set) for {_DAY}", r"\1 on "),
    (" due ", rf"\b(is|are) due (?:on |by )?{_DAY}", r"\1 on "),
    (" ist ", r"^((?:der|die|das|unsere?) [\w -]{1,30}?) ist (?:jetzt |nun )?", r"\1 is "),
    (" est ", r"^((?:le|la|notre) [\w -]{1,30}?) est (?:maintenant )?", r"\1 is "),
    (" es ", r"^((?:el|la|nuestr[oa]) [\w -]{1,30}?) es (?:ahora )?", r"\1 is "),
    ("on est pass", r"\bon est passés? de (\S+) à ", r"we switched from \1 to "),
    ("wir sind von ", rf"\bwir sind von (\S+) (?:auf|zu) (\S+) {_UMGESTIEGEN}", r"we switched from \1 to \2"),
    (" ok", r"\b(is|are) (?:ok|okay)(?= again| now|$|[.,;])", r"\1 allowed"),
    (" fine", r"\b(is|are) fine (?=again|now)", r"\1 allowed "),
    ("ed on", _DONE + r"on\b", "is enabled"),
    ("ed off", _DONE + r"off\b", "is disabled"),
    ("ed, ", r"\b(?:has been|have been|was|were|is|are|has|have) \w+ed, (?:now )?(?:it|they) (?:is|are) ", "is "),
    (" on", _ON + r"on(?=$|[.,;]| (?:in|on|for|by|at)\b)", r"\1 enabled"),
    (" off", _ON + r"off(?=$|[.,;]| (?:in|on|for|by|at)\b)", r"\1 disabled"),
)
