"""Recognition of text in a user's message that somebody else wrote, by its structure.

    marks     quoted lines, fences, markup, long quotations, code: the marks end the passage
    openings  mail headers, chat lines, commits, file names, notices: it ends before the user's closing request
    intros    "What does this page say?", "Here is the issue:": the same, for text without marks of its own

The user's own lists, rules and dictated notes stay the user's, unless they have such marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cofio.judgement.model_inputs import sentences_of
from cofio.text import lazy_re, sentences


class ThirdPartyPassage(NamedTuple):
    """Part of a text that is not in the user's own words; its author, if it is named."""

    start: int
    end: int
    author: str = ""


def find_third_party(text: str) -> list[ThirdPartyPassage]:
    """Return the passages of other authors in a user's message, in order and without overlap."""
    marked = merge_passages([*find_marked(text), *_find_code(text)])
    found = list(marked)
    if opening := min(_find_openings(text), default=None):
        found.append(opening._replace(end=_find_closing(text, opening.start)))
    for intro in _find_intros(text):
        within = (passage.end for passage in marked if passage.start <= intro.start < passage.end)
        end = min(intro.end, next(within, _find_closing(text, intro.start)))
        found.append(intro._replace(end=end))
    return merge_passages(found)


def merge_passages(passages: list[ThirdPartyPassage]) -> list[ThirdPartyPassage]:
    """Return the passages in order, joined where they overlap."""
    merged: list[ThirdPartyPassage] = []
    for passage in sorted(passages):
        if merged and passage.start <= merged[-1].end:
            last = merged[-1]
            merged[-1] = ThirdPartyPassage(last.start, max(last.end, passage.end), last.author or passage.author)
        elif passage.end > passage.start:
            merged.append(passage)
    return merged


def cut_passages(text: str, passages: list[ThirdPartyPassage]) -> str:
    """Return the text with a paragraph break in place of each passage."""
    parts, last = [], 0
    for passage in passages:
        parts.append(text[last : passage.start].rstrip())
        last = passage.end
    return "\n\n".join(part for part in (*parts, text[last:].strip()) if part.strip()) if passages else text


def is_adopted(own_text: str) -> bool:
    """Return whether the user asks, in own words, to keep the text beside them."""
    own_sentences = (own_text[start:end] for start, end in sentences_of(own_text))
    return any(
        _ADOPTS.search(sentence) and not _REFUSES.search(sentence) and not sentences.is_question(sentence)
        for sentence in own_sentences
    )


# ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def find_marked(text: str) -> Iterator[ThirdPartyPassage]:
    """Yield the passages between marks, which are certain: quoted lines, fences, markup, reported speech."""
    for mark in _MARKS:
        for match in mark.finditer(text):
            yield ThirdPartyPassage(match.start(), match.end())
    yield from _find_elements(text)
    if (closing := list(_JSON_END.finditer(text))) and (opening := _JSON_START.search(text)):
        yield ThirdPartyPassage(opening.start(), closing[-1].end())
    for match in _REPORTED.finditer(text):
        author = _NAME_BEFORE.search(text[max(0, match.start() - _NAMED_WITHIN) : match.start()])
        yield ThirdPartyPassage(match.start("quote"), match.end("quote"), _clean_author(author[0] if author else ""))


def _find_elements(text: str) -> Iterator[ThirdPartyPassage]:
    """Yield elements of markup, from a start tag to the last end tag of its name."""
    ends = {match[1].lower(): match.end() for match in _END_TAG.finditer(text)}
    for match in _START_TAG.finditer(text) if ends else ():
        if (end := ends.get(match[1].lower(), 0)) > match.start():
            yield ThirdPartyPassage(match.start(), end)


def _find_code(text: str) -> Iterator[ThirdPartyPassage]:
    """Yield paragraphs of which most lines are code, markup or data."""
    for paragraph in _PARAGRAPH.finditer(text):
        lines = [line for line in paragraph[0].splitlines() if line.strip()]
        code = [line for line in lines if sentences.is_code(line) or _COMMENT.match(line)]
        if len(code) >= 2 and 2 * len(code) >= len(lines):
            yield ThirdPartyPassage(paragraph.start(), paragraph.end())


# ── openings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_openings(text: str) -> Iterator[ThirdPartyPassage]:
    """Yield the first place of each kind from which the text is a mail, a commit, a chat, a file or a notice."""
    for pattern in (_MAIL, _COMMIT, _NOTICE, _DOCUMENT):
        if match := pattern.search(text):
            yield ThirdPartyPassage(match.start(), len(text), _clean_author(match.groupdict("").get("author", "")))
    if _TRAILER.search(text):
        yield ThirdPartyPassage(_skip_intro(text), len(text))
    if _SIGN_OFF.search(text) and (salutation := _SALUTATION.search(text)):
        yield ThirdPartyPassage(salutation.start(), len(text))
    if chat := _find_chat(text):
        yield chat


def _find_chat(text: str) -> ThirdPartyPassage | None:
    """Return the lines of a chat: one with a time and a name, or several that are a dialogue."""
    if timed := _TIMED_LINE.search(text):
        return ThirdPartyPassage(timed.start(), len(text), _clean_author(timed["author"] or timed["name"] or ""))
    lines = list(_NAMED_LINE.finditer(text))
    names = [line["author"].lower() for line in lines]
    is_dialogue = len(set(names)) < len(names) or any(line[0][-1] == "?" for line in lines)
    is_dialogue = is_dialogue or not _ROLES.isdisjoint(names) or any(name[0] == "@" for name in names)
    if len(set(names)) > 1 and is_dialogue:
        return ThirdPartyPassage(lines[0].start(), len(text), _clean_author(lines[0]["author"]))
    return None


def _skip_intro(text: str) -> int:
    """Return the place after the first paragraph if that is a question or an announcement, else 0."""
    first = _PARAGRAPH.search(text)
    is_intro = first and first[0].rstrip().endswith(("?", ":")) and first.end() < len(text.rstrip())
    return first.end() if first and is_intro else 0


def _clean_author(name: str) -> str:
    return " ".join(_ADDRESS.sub("", name).strip(" \t<>\"'*@[]()").split())[:80]


# ── intros ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_intros(text: str) -> Iterator[ThirdPartyPassage]:
    """Yield the text after the first own sentence that asks about a text or announces it."""
    places = [*sentences_of(text), (len(text), len(text))]
    for place, (start, end) in enumerate(places[:-1]):
        sentence, following = text[start:end], text[end : places[place + 1][0]]
        if _introduces(sentence, breaks=following.count("\n")):
            says, quotation = _SAYS.search(sentence), _QUOTATION.match(text, places[place + 1][0])
            author = _clean_author(says["author"]) if says else ""
            yield ThirdPartyPassage(places[place + 1][0], quotation.end() if quotation else len(text), author)
            return
        if inline := _INLINE_INTRO.match(sentence):
            yield ThirdPartyPassage(start + inline.end(), len(text))
            return


def _introduces(sentence: str, *, breaks: int) -> bool:
    """Return whether a sentence, with so many line breaks after it, asks about the text below or announces it."""
    if len(sentence) > _LONGEST_INTRO or _OWN.search(sentence) or _ADOPTS.search(sentence):
        return False
    names_text = _MEDIUM.search(sentence) is not None
    is_received = _RECEIVED.search(sentence) is not None
    points = is_received or _POINTS.search(sentence) is not None
    asks = _REWRITES.search(sentence) is not None or (points and _READING_TASK.search(sentence) is not None)
    if sentence.rstrip("*_ ").endswith(":"):
        return names_text or asks or is_received or _SAYS.search(sentence) is not None
    asks = asks or (names_text and _ASKS_MEANING.search(sentence) is not None)
    if breaks > 1:
        return asks or (names_text and _PRESENTS.search(sentence) is not None)
    return names_text and ((asks and breaks == 1) or _ASKS_MEANING.search(sentence) is not None)


def _find_closing(text: str, start: int) -> int:
    """Return the end of a passage: before the last paragraph if that is the user's request, else the end of text."""
    last = text.rstrip().rfind("\n\n")
    if last <= start:
        last = text.rstrip().rfind("\n")
    closing = text[last:].strip() if last > start else ""
    return last if closing and len(closing.split()) <= _LONGEST_CLOSING and _REQUEST.search(closing) else len(text)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_LONGEST_INTRO = 300  # characters
_NAMED_WITHIN = 60  # characters before a verb of saying in which its subject is searched
_LONGEST_CLOSING = 40  # words of the user's request after a passage
_PARAGRAPH = lazy_re.compile(r"\S(?:(?!\n[ \t]*\n).)*", re.DOTALL)
_COMMENT = lazy_re.compile(r"\s*(?:#!|//|/\*|\*[ /]|--\s|<!--|;;|%)")
_ADDRESS = lazy_re.compile(r"<[^>]*>|\S+@\S+\.\S+")

#: Passages between marks: quoted lines, fences, elements of markup, comments, JSON, paragraphs in quotation marks.
_MARKS = tuple(
    lazy_re.compile(pattern, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    for pattern in (
        r"^[ \t]*[>|][^\n]*(?:\n[ \t]*[>|][^\n]*)*",
        r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)",
        r"<!--.*?(?:-->|\Z)",
        r"^[ \t]*(?:\"[^\"]{40,2000}\"|“[^”]{40,2000}”|„[^“”]{40,2000}[“”]|«[^»]{40,2000}»|'[^'\n]{40,}')[ \t]*$",
    )
)
_ELEMENT = (
    r"(html|head|body|main|article|section|header|footer|div|span|p|h[1-6]|ul|ol|li|table|blockquote|pre|title|a|meta"
    r"|script|style|[\w-]{0,20}(?:system|tool|function|result|output|response|document|page|email|mail|message|search"
    r"|file|content|quote|untrusted|admin|assistant)[\w-]{0,20})"
)
_START_TAG = lazy_re.compile(rf"<{_ELEMENT}(?:\s[^<>]{{0,200}})?>", re.IGNORECASE)
_END_TAG = lazy_re.compile(rf"</{_ELEMENT}\s{{0,9}}>", re.IGNORECASE)
_JSON_START = lazy_re.compile(r"^[ \t]*[\[{]\s{0,40}(?:\"|\{\s{0,40}\")", re.MULTILINE)
_JSON_END = lazy_re.compile(r"[\]}][ \t]*$", re.MULTILINE)
_SAYING = (
    r"(?:says|said|wrote|writes|stated|states|reads|told (?:me|us)|claims|claimed|announced|posted|replied|answered"
    r"|commented|suggests|suggested|recommends|recommended|advises|quote)"
)
#: A quotation within a sentence, after a verb of saying or an announcement.
_REPORTED = lazy_re.compile(
    rf"\b{_SAYING}\b[^.!?\n\"“„]{{0,30}}?[:,]?[ \t\n]{{1,3}}"
    r"(?P<quote>\"[^\"]{15,2000}\"|“[^”]{15,2000}”|„[^“”]{15,2000}[“”]|«[^»]{15,2000}»|'[^'\n]{25,2000}')"
)
_NAME_BEFORE = lazy_re.compile(r"\b[A-Z][\w.-]{0,40}(?: [A-Z][\w.-]{0,40})?(?=[^.!?\n\"“'„]*$)")
_MAIL = lazy_re.compile(
    r"^[ \t>*]{0,9}(?:(?:From|Von|De)\**:\**[ \t]*(?P<author>[^\n]*)\n{1,3}[ \t>*]{0,9}(?:To|Cc|Subject|Date|Sent|An"
    r"|Betreff|Datum"
    r"|Gesendet|Para|Asunto|À|Objet)\**:|(?:Subject|Betreff|Asunto|Objet)\**:[^\n]*$"
    r"|-{0,9} ?(?:Original|Forwarded) message\b|On [^\n]{5,80} wrote:)",
    re.MULTILINE | re.IGNORECASE,
)
_COMMIT = lazy_re.compile(
    r"^(?:commit [0-9a-f]{7,40}\b[^\n]*|Author:[ \t]*(?P<author>[^\n]+)|diff --git |Index: |@@ -\d|--- [ab]/)",
    re.MULTILINE,
)
_TRAILER = lazy_re.compile(
    r"^(?:Signed-off-by|Co-authored-by|Reviewed-by|Acked-by|Change-Id|Reported-by): ", re.MULTILINE
)
#: Notices that pose as a system, a tool or an assistant.
_NOTICE = lazy_re.compile(
    r"^[ \t]*(?:[\[(<{#*=|_-]+\s*(?:system|tool|function|assistant|developer|admin\w*|security|im_start)\b[^\n]{0,60}"
    r"[\])>}:#*=|]|(?-i:SYSTEM|TOOL|ADMIN|ASSISTANT|SECURITY|DEVELOPER)\b[^\n:]{0,30}:"
    r"|(?:system|tool|function|command|assistant|developer|security|admin\w*)[ _-]?"
    r"(?:results?|output|response|message|notice|reminder|update|prompt|instructions?|alert|call|note)\b[^\n:]{0,30}:"
    r"|(?:assistant|human|ai|stdout|stderr)[ \t]*:)",
    re.MULTILINE | re.IGNORECASE,
)
_FILE = (
    r"[\w./~-]*(?:README|CLAUDE|AGENTS|CONTRIBUTING|CHANGELOG|LICENSE|Dockerfile|Makefile"
    r"|\.(?:md|mdx|txt|rst|html?|pdf|log|json|ya?ml|toml|ini|cfg|eml|csv|docx?|py|js|tsx?|go|rs|java|rb|sh|sql"
    r"|patch))\b"
)
#: A line that is the name of a file, or a heading as in the files of a project.
_DOCUMENT = lazy_re.compile(
    rf"^[ \t]*(?:(?:[Cc]ontents? of|[Ff]ile|[Ff]rom|cat|\$ cat|[-=#/*]{{1,5}})[ \t:]*)?[`*\"']*(?:the )?{_FILE}[`*\"']*"
    r"[^\n.]{0,24}(?::[`*]*|[ \t]*[-=*]{3,}|)[ \t]*\n"
    r"|^#{1,2} (?:[^\n]*\b(?:README|Getting [Ss]tarted|Install\w*|Contribut\w+|Change ?log|License|Quick ?[Ss]tart"
    r"|Usage|CLAUDE|AGENTS|Release [Nn]otes)\b)[^\n]*$"
    r"|^(?:Contents? of|Output of)[^\n]{1,80}:[ \t]*$|^[-=*~_]{2,} ?[A-Za-z][^\n]{0,60}[-=*~_]{2,}[ \t]*$"
    r"|\A\s*https?://\S+[ \t]*\n",
    re.MULTILINE,
)
_SALUTATION = lazy_re.compile(
    r"^(?:dear|hi|hello|hey|hallo|liebe\w*|bonjour|hola|good (?:morning|afternoon))\b"
    r"(?! (?:claude|codex|cofio|there\b))[^\n.?:]{0,40}[,!]?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_SIGN_OFF = lazy_re.compile(
    r"^(?:(?:with )?(?:best|kind|warm|many)?[ ]?(?:regards|wishes|cheers|thanks|best|sincerely|yours\b[^\n]{0,20})"
    r"|(?:viele|liebe|mit freundlichen) gr[üu]ße?n?|cordialement|saludos)[,!]?[ \t]*\n+[ \t]*[A-Z][^\n]{0,60}\s*$",
    re.MULTILINE | re.IGNORECASE,
)
_TIME = r"(?:\d{4}-\d\d-\d\d[T ,]+)?\d{1,2}[:.]\d\d(?::\d\d)?(?: ?[ap]m)?"
_NAME = r"@?[A-Za-z][\w.'-]*(?: [A-Z][\w.'-]*){0,2}"
_TIMED_LINE = lazy_re.compile(
    rf"^[ \t]*(?:[\[(]?{_TIME}[\])]?[ \t]*[-–|,]?[ \t]*<?(?P<author>{_NAME})>?[ \t]*(?:\([^)\n]{{1,20}}\))?[:>|]"
    rf"|(?P<name>{_NAME})[ \t]*[\[(,|—–-]*[ \t]*(?:(?:today|yesterday)(?: at)? )?{_TIME}[\])]?[ \t]*(?::|$))",
    re.MULTILINE | re.IGNORECASE,
)
_NAMED_LINE = lazy_re.compile(
    r"^[ \t]*(?:<(?=[^>\n]+>)|\*\*)?(?P<author>@?[A-Za-z][\w.'-]{0,20}(?: [A-Z][\w.'-]{0,20})?)(?:>|:\**|\**:) +"
    r"[^\n]*\S$",
    re.MULTILINE,
)
_ROLES = frozenset("user assistant human ai bot claude codex chatgpt support agent customer".split())

_MEDIUM = lazy_re.compile(
    r"\b(?:(?:web ?)?(?:page|site)|website|article|blog\w*|post|issue|ticket|bug report|pr|pull request|merge request"
    r"|comment|review|(?:e-?)?mail|message|letter|newsletter|chat|conversation|thread|slack|discord|teams|tweet|forum"
    r"|read ?me|doc|documentation|manual|guide|tutorial|pdf|document|paper|contract|spec(?:ification)?|wiki|faq"
    r"|log|output|trace|transcript|change ?log|release notes|commit(?: message)?|diff|patch|snippet|excerpt"
    r"|quote|paragraph|passage|text|content|report|minutes|notes? (?:of|from)|result|response|reply|answer|feedback"
    r"|search|file|policy of|terms|ad|job posting|error|claude\.md|agents\.md|seite|artikel|nachricht|página|correo"
    r"|mensaje|courriel)s?\b",
    re.IGNORECASE,
)
_READING_TASK = lazy_re.compile(
    r"\b(?:explain|review|read|analy[sz]e|skim|interpret|critique|reply|respond|answer|look|check|thoughts|opinion"
    r"|make of|reading|extract|classify|what(?:['’]s| do| does| is| are| did)|is (?:this|that|it)|understand|mean"
    r"|do you (?:think|agree)|steht|erkläre|explica|rate|edit|improve|correct|shorten)\b",
    re.IGNORECASE,
)
#: Tasks that are always about a text.
_REWRITES = lazy_re.compile(
    r"\b(?:summari[sz]\w*|tl;?dr|translat\w+|proofread|paraphrase|rephrase|sum up|fasse?|zusammenfass\w*|übersetz\w*"
    r"|resume|traduce|résume\w*|traduis)\b",
    re.IGNORECASE,
)
_INLINE_INTRO = lazy_re.compile(
    r"(?:(?:please|pls|can you|could you)[, ]+)*(?:summari[sz]e|translate|proofread|paraphrase|rephrase|tl;?dr)\b"
    r"[^:\n]{0,60}:\s+(?=\S+ \S+ \S+)",
    re.IGNORECASE,
)
_ASKS_MEANING = lazy_re.compile(
    r"\bwhat (?:do|does|did|is|are)\b.{1,60}\b(?:say|saying|tell\w*|mean|about|want)\b", re.IGNORECASE
)
_QUOTATION = lazy_re.compile('"[^"]+"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|\'[^\n]+?\'(?!\\w)')
_POINTS = lazy_re.compile(
    r"\b(?:this|these|that|below|following|here|diese\w*|esto?|esta|ceci|cette?)\b", re.IGNORECASE
)
_PRESENTS = lazy_re.compile(
    r"\b(?:here(?:['’]s| is| are)|(?:this|below) (?:is|came|comes)|from (?:the|a|an|their)|below|attached)",
    re.IGNORECASE,
)
_RECEIVED = lazy_re.compile(
    r"\b(?:(?:got|received|found|saw|copied|pasted?|forwarded|sent(?: me)?|fetched|downloaded) (?:this|these|that|it"
    r"|the following|\S+:$)|(?:i|me|us) (?:got|received|found|copied|pasted|forwarded|fetched|was sent))\b",
    re.IGNORECASE,
)
_SAYS = lazy_re.compile(
    rf"(?P<author>[\w.'’-]+(?: [A-Z][\w.'-]*)*) (?:just |also )?{_SAYING}\b[^:]{{0,30}}:", re.IGNORECASE
)
#: Intros of the user's own lists, rules and notes.
_OWN = lazy_re.compile(
    r"\b(?:our|my) (?:\w+ ){0,3}(?:rules?|conventions?|guidelines?|standards?|decisions?|preferences?|policy"
    r"|policies|requirements?|setup|stack|plan|constraints|facts|principles|habits|defaults|format|notes|agreements?)\b"
    r"|\b(?:keep in mind|from now on|fyi|dictat\w+|for the record|to know)\b",
    re.IGNORECASE,
)
_ADOPTS = lazy_re.compile(
    r"\b(?:remember|save|store|memori[sz]e|keep|adopt|note(?: down)?|merk\w*|recuerda|retiens)\b[^.?!\n]{0,40}"
    r"(?:\b(?:this|these|that|it|them|following|below|dir|das|esto)\b|:)"
    r"|\b(?:this|these|that|they|it)(?:['’]s|['’]re| is| are)(?: now)? (?:our|my)\b"
    r"|\bwe(?:['’]ll| will)? (?:now )?(?:follow|adopt|use|go by) (?:this|these|it|them)\b",
    re.IGNORECASE,
)
_REFUSES = lazy_re.compile(r"\b(?:don['’]?t|do not|never|not to|no need|without)\b", re.IGNORECASE)
_REQUEST = lazy_re.compile(
    r"\?[\s)\"'*]*$|^(?:(?:ok|so|now|and|then|please|pls|just|also|anyway|btw|by the way)[, ]+)*"
    r"(?:fix|summari[sz]e|explain|translate|reply|write|draft|answer|tell me|review|what|why|how|thoughts|any ideas?"
    r"|tl;?dr)\b"
    r"|^(?:(?:ok|so|now|and|please|pls)[, ]+)*(?:remember|save|store|memori[sz]e|keep|adopt)\b (?:this|these|that|it"
    r"|them)\b[^.:\n]{0,40}[.!]?$|^(?:this|these|that|they)(?:['’]s|['’]re| is| are)(?: now)? (?:our|my)\b"
    r"[^.:\n]{0,40}[.!]?$",
    re.IGNORECASE,
)
