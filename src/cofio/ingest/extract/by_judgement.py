"""Extraction without a language model: the judgement model's spans of a turn, as facts.

    message ─ prose ─ judge.spans ─▶ spans ─ statement ─▶ ExtractedFact, one for each span

A fact keeps the person's own words and is made readable on its own: without lead-ins, with the reason that was given,
with the question that a fragment answers, and with dates in place of "tomorrow".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cofio.ingest.extract import patterns
from cofio.ingest.extract.dates import resolve
from cofio.judgement.labels import RETRACTION
from cofio.judgement.model_inputs import sentences_of
from cofio.models.exchange import OBSERVATION, Exchange, ExtractedFact, Sentence, Way
from cofio.ports import Judge, Span
from cofio.text import lazy_re, sentences
from cofio.text.stemmer import stem
from cofio.text.tokens import search_terms

KEPT = "Worth keeping"
DOUBTFUL = "May be worth keeping"
NOTHING = "Nothing that will matter in a month"
_KEPT: tuple[Way, str] = ("pattern", KEPT)
_DOUBTFUL: tuple[Way, str] = ("model", DOUBTFUL)
_SKIPPED: tuple[Way, str] = ("skip", NOTHING)
WINDOWS = {"user": 8, "assistant": 2}  # windows of 160 tokens that are read of one message
_LONGEST = 600  # characters of a fact; a longer one is pasted text
_ALL_BUT = 0.7  # share of a span's words that a pattern's wording must keep
_FEW_BEFORE, _FEW_AFTER = 3, 6  # words of its clause that a span may lack
_FEWEST_WORDS, _MOST_WORDS = 4, 90  # of a message without facts that is compared with memories
_FEWEST_TELLING = 2  # content words of a fact
_FRAGMENT = 3  # words of a statement that counts as part of the one before it
_SHORT = 10  # words of a statement that is kept with the sentence before it, which often names its subject
_FEWEST_BEFORE, _LONGEST_BEFORE = 3, 200  # minimum words and maximum characters of that sentence
_PART = 0.4  # probability from which a part of a sentence is a fact by itself
_REPORT = 35  # words from which an assistant's message is a report, not just a remark
_LONGEST_HEADING = 8  # words of a list heading that is stored with each item
_HEADING_WITHIN = 2_000  # characters before an item in which its heading is searched
_LONGEST_PARAGRAPH = 400  # characters of a report's paragraph or list that is kept as one fact
_MOST = 8  # facts per message; more than this is a document

_FENCED = lazy_re.compile(r"^(```|~~~).*?(?:^\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED = lazy_re.compile(r"^[ \t]*[>|].*$", re.MULTILINE)
_PASTED = lazy_re.compile(r"""^[ \t]*["“](?=[^"“”\n]{60})(?:(?!\n[ \t]*\n)[^"“”])*["”][ \t]*$""", re.MULTILINE)
_LEAD_IN = lazy_re.compile(
    r"^(?:(?:and|but|so(?! far)|also|oh|ok|okay|btw|fyi|by the way|heads up|reminder|ps|p\.s\.|psa|plus|well|hey"
    r"|yeah|actually|anyway|one more thing|for the record|just so you know|please|pls"
    r"|(?:note|remember|don[’']t forget|keep in mind|i think|i guess|i believe)(?: that\b)?)\b[\s,:;.!–—-]*"
    r"|(?:no|nope|yes|that)[,:;.!]\s*)+",
    re.IGNORECASE,
)
_BULLET = lazy_re.compile(r"^(?:[-*•]|\d{1,2}[.)])\s+")
_BOLD = lazy_re.compile(r"\*\*(\S(?:.*?\S)?)\*\*")
_TAIL = lazy_re.compile(
    r"[\s,;:–—-]*(?:\b(?:and|but|so|or|because|please|pls|btw|ok|okay|thanks|right)\b)?[\s,;:–—-]*$", re.IGNORECASE
)
_JOINT = lazy_re.compile(r"[,;]\s+(?:and|but)\s+(?:also\s+)?|;\s+", re.IGNORECASE)
_CLAUSE_END = lazy_re.compile(r"[,;:–—(]\s+|\s[-–—]+\s")
_MIDDLE = lazy_re.compile(
    r"(?:to|of|about|with|in|on|at|by|for|from|than|into|over|under|as|is|are|was|has|have)\b", re.IGNORECASE
)  # no clause begins with such a word and has others before it
_REASON = lazy_re.compile(
    r"^[\s,;:–—(-]*(?:because|cause|cuz|since|as|due to|so that|so we|otherwise|after|until|unless|except|but only"
    r"|only|for|when|if|while)\b[^.!?;\n]{3,160}",
    re.IGNORECASE,
)
_POINTS = lazy_re.compile(
    r"^(?:it|its|it's|it’s|that|that's|that’s|this|they|they're|these|those|he|she|him|her|them|there|same"
    r"|the (?:former|latter|first|second|other) one)\b",
    re.IGNORECASE,
)
#: A pronoun among the first words that refers to an earlier sentence.
_REFERS = lazy_re.compile(r"^(?:\S+ ){0,5}?(?:his|her|him|their|theirs|them|they|he|she|of it|to it)\b", re.IGNORECASE)
#: A place or thing among the first words that refers to the words before a statement.
_POINTS_BACK = lazy_re.compile(
    r"^(?:\S+ ){1,5}?(?:there\b(?! (?:is|are|was|were|will|has|have|must|should)\b)"
    r"|(?:of|like|for|with|to|by|from|in|on|about|than) (?:it|that|this|those|these)"
    r"(?=[ ,.;:!?]*$| (?:we|i|you|the|in|on|is|are)\b))",
    re.IGNORECASE,
)
#: Last word of an unfinished clause.
_DANGLING = lazy_re.compile(
    r"\b(?:to|of|the|an?|with|for|in|on|at|by|from|than|because|that|is|are|my|our|your|their|his|her)$",
    re.IGNORECASE,
)
_VERB_OR_VALUE = lazy_re.compile(r"[\w]{2,}\s+\S+\s+\S+")


@dataclass(frozen=True, slots=True)
class _TurnText:
    """Message with the other side's message before it."""

    text: str
    before: str
    role: str
    at: str
    spans: Sequence[Span] = ()

    def states_before(self, place: int) -> bool:
        """Return whether the sentence before a place states a fact, which is then a memory of its own."""
        earlier = sentences_of(self.text[:place])
        return bool(earlier) and any(span.start < earlier[-1][1] and span.end > earlier[-1][0] for span in self.spans)


@dataclass(frozen=True, slots=True)
class _TextPart:
    """Sentence of a turn, or a paragraph or list of a report, with its spans by certainty and the facts of patterns."""

    place: tuple[int, int]
    sure: Sequence[Span]
    rows: Sequence[ExtractedFact]
    likely: Sequence[Span]
    hint: bool = False  # the model gives a word of it a probability of at least 0.1


def prose(text: str) -> str:
    """Return a message without fenced code, quoted lines, tables and paragraphs in quotation marks."""
    plain = _FENCED.sub("\n", text) if "```" in text or "~~~" in text else text
    return _PASTED.sub("", _QUOTED.sub("", plain))


def read_exchange(exchange: Exchange, judge: Judge, before: str = "") -> list[Sentence]:
    """Return all sentences of an exchange with their facts; `before` is the other side's turn before it."""
    result: list[Sentence] = []
    for message in exchange.messages:
        role = "user" if exchange.context == OBSERVATION else message.role
        turn = _TurnText(prose(message.text), before, role, exchange.at)
        result += _read_turn(turn, judge, message.role)
        before = message.text
    return result


def kept_spans(text: str, judge: Judge, before: str = "", role: str = "user") -> list[Span]:
    """Return the spans of a message that are kept as facts, as places in the result of `prose`."""
    turn = _TurnText(prose(text), before, role, "")
    return [span for part in _read_parts(turn, judge) for span in part.sure][:_MOST]


def kind_of(text: str, judge: Judge) -> tuple[str, bool]:
    """Return the kind of a typed fact, and whether it is about the person."""
    spans = judge.spans(text, "", "user", windows=1)
    if not spans:
        return "other", False
    surest = max(spans, key=lambda span: span.probability)
    return ("other" if surest.kind == RETRACTION else surest.kind), surest.about == "person"


def _read_turn(turn: _TurnText, judge: Judge, role: str) -> list[Sentence]:
    parts = list(_read_parts(turn, judge))
    turn = replace(turn, spans=[span for part in parts for span in part.sure])
    result: list[Sentence] = []
    count = 0
    for part in parts:
        spans = part.sure or (part.likely if turn.role == "user" else [])
        rows = part.rows if role == turn.role else ()  # an agent's words are not reworded to the user's or the team's
        facts = list(_build_facts(turn, part.place, spans, role, rows))[: max(0, _MOST - count)]
        count += len(facts)
        if not part.sure:
            facts = [replace(fact, tentative=True) for fact in facts]
        way, reason = _KEPT if part.sure and facts else _DOUBTFUL if part.likely else _SKIPPED
        text = turn.text[part.place[0] : part.place[1]]
        if facts and result and (joined := _continued(result[-1].found, facts[0])):
            result[-1] = replace(result[-1], found=(*result[-1].found[:-1], joined))
            del facts[0]
        for place in range(len(facts) - 1, 0, -1):
            points_back = _POINTS.match(facts[place].text) or _POINTS_BACK.match(facts[place].text)
            if points_back and (joined := _continued(facts[:place], facts[place])):
                facts[place - 1 : place + 1] = [joined]
        result.append(Sentence(text=text, role=role, way=way, reason=reason, found=tuple(facts)))
    if role == "user" and any(part.hint for part in parts) and not any(sentence.found for sentence in result):
        _add_news(turn, result)
    return result


def _continued(before: Sequence[ExtractedFact], fact: ExtractedFact) -> ExtractedFact | None:
    """Return the last fact of a sentence joined with the first of the next, if that one only continues it."""
    if not before or before[-1].tentative or fact.tentative or not _goes_on(fact.text):
        return None
    if before[-1].about != fact.about or RETRACTION in (before[-1].kind, fact.kind):
        return None
    text = f"{before[-1].text.rstrip('.')}. {fact.text}"
    return replace(before[-1], text=text, entities=patterns.names_in(text)) if len(text) <= _LONGEST // 2 else None


def _goes_on(text: str) -> bool:
    """Return whether a statement is a fragment, or refers to a thing or person that it does not name."""
    if len(text.split()) <= _FRAGMENT or not _names_its_subject(text):
        return True
    return _REFERS.match(text) is not None or _POINTS_BACK.match(text) is not None


def _add_news(turn: _TurnText, result: list[Sentence]) -> None:
    """Add a short message without facts as one tentative fact, since it may still change a memory.

    Messages in which the model sees no hint of a fact are skipped: 70 % of the noise, and none of the changes.
    """
    texts = [sentence.text for sentence in result if not sentence.text.rstrip().endswith("?")]
    text = _trim(" ".join(texts))
    if not _FEWEST_WORDS <= len(text.split()) <= _MOST_WORDS:
        return
    at = next(place for place, sentence in enumerate(result) if sentence.text == texts[0])
    news = ExtractedFact(
        text=resolve(sentences.capitalised(text), turn.at),
        kind="observation",
        confidence=0.5,
        tentative=True,
        is_message=True,
    )
    result[at] = replace(result[at], found=(news,))


def _read_parts(turn: _TurnText, judge: Judge) -> Iterator[_TextPart]:
    """Yield the sentences of a turn; of a report, whose sentences explain each other, its paragraphs and lists."""
    parts = _find_parts(turn, judge)
    return _join_parts(turn.text, parts) if _is_report(turn) else parts


def _join_parts(text: str, parts: Iterable[_TextPart]) -> Iterator[_TextPart]:
    joined: _TextPart | None = None
    for part in parts:
        if joined and _belong_together(text, joined, part):
            place = joined.place[0], part.place[1]
            sure, likely = [*joined.sure, *part.sure], [*joined.likely, *part.likely]
            joined = _TextPart(place, _choose_surest(sure, place), (), _choose_surest(likely, place))
            continue
        if joined:
            yield joined
        joined = part
    if joined:
        yield joined


def _belong_together(text: str, first: _TextPart, second: _TextPart) -> bool:
    """Return whether neighbouring parts may state facts in one paragraph, or are items of one list."""
    together = text[first.place[0] : second.place[1]]
    heading = _find_heading(text, first.place)
    if len(together) > _LONGEST_PARAGRAPH or "\n\n" in together or heading != _find_heading(text, second.place):
        return False
    return bool(heading or (first.likely and second.likely))


def _choose_surest(spans: Sequence[Span], place: tuple[int, int]) -> list[Span]:
    return [max(spans, key=lambda span: span.probability)._replace(start=place[0], end=place[1])] if spans else []


def _find_parts(turn: _TurnText, judge: Judge) -> Iterator[_TextPart]:
    is_remark = turn.role == "assistant" and not _is_report(turn)  # it says what was just done: not worth reading
    raw_spans = [] if is_remark else judge.spans(turn.text, turn.before, turn.role, windows=WINDOWS.get(turn.role, 2))
    spans = [piece for span in raw_spans for piece in _split(span, turn.text, judge)]
    threshold = judge.thresholds["assistant fact" if turn.role == "assistant" else "fact"]
    low_threshold = judge.thresholds["doubtful fact"]
    if _is_report(turn) and any(span.probability >= threshold for span in spans):
        threshold = low_threshold  # sentences next to a fact in a report explain it
    for start, end in sentences_of(turn.text):
        inside = _join_clauses([span for span in spans if span.start < end and span.end > start], turn.text)
        sentence = turn.text[start:end]
        if sentence.rstrip("*").endswith(":") and _BULLET.match(turn.text[end : end + 40].lstrip()):
            inside = []  # the heading of a list
        elif inside and _find_heading(turn.text, (start, end)):
            inside = _choose_surest(inside, (start, end))
        rows = patterns.find(sentence, role=turn.role)
        if not inside and rows and rows[0].kind != "other":  # a pattern finds a fact, but the model does not
            about = "person" if rows[0].text.startswith("User") else "project"
            inside = [Span(start, end, rows[0].confidence, rows[0].kind, about)]
        sure = [span for span in inside if span.probability >= (low_threshold if rows else threshold)]
        likely = [span for span in inside if span.probability >= low_threshold]
        yield _TextPart((start, end), sure, rows, likely, hint=bool(inside))


def _join_clauses(spans: Sequence[Span], text: str) -> list[Span]:
    """Return the spans of a sentence, joined where they overlap or where one ends within a clause."""
    joined: list[Span] = []
    for span in spans:
        if joined:
            last = joined[-1]
            is_next = not text[last.end : span.start].strip()
            if span.start < last.end or (is_next and _DANGLING.search(text[last.start : last.end].rstrip())):
                joined[-1:] = _choose_surest([last, span], (last.start, max(last.end, span.end)))
                continue
        joined.append(span)
    return joined


def _is_report(turn: _TurnText) -> bool:
    return turn.role == "assistant" and len(turn.text.split()) >= _REPORT


def _split(span: Span, text: str, judge: Judge) -> list[Span]:
    """Return the parts of a span that joins statements, if each part is a fact by itself."""
    cuts = [match.span() for match in _JOINT.finditer(text, span.start, span.end)]
    starts, ends = [span.start, *(end for _, end in cuts)], [*(start for start, _ in cuts), span.end]
    parts = [span._replace(start=start, end=end) for start, end in zip(starts, ends, strict=True)]
    is_joined = len(parts) > 1 and all(_is_fact(text[part.start : part.end], judge) for part in parts)
    return parts if is_joined else [span]


def _is_fact(text: str, judge: Judge) -> bool:
    if len(text.split()) < _FEWEST_WORDS:
        return False
    spans = judge.spans(text, "", "user", windows=1)
    return any(span.probability >= _PART and 2 * (span.end - span.start) > len(text) for span in spans)


def _build_facts(
    turn: _TurnText, sentence: tuple[int, int], spans: Sequence[Span], role: str, rows: Sequence[ExtractedFact]
) -> Iterator[ExtractedFact]:
    texts: set[str] = set()  # two spans of a sentence may match the same pattern fact
    if len(spans) > 1:  # a pattern fact that repeats the whole sentence fits none of its spans
        sentence_text = turn.text[slice(*sentence)].lower()
        rows = [row for row in rows if row.text.lower() not in sentence_text]
    for number, span in enumerate(spans):
        following = spans[number + 1].start if number + 1 < len(spans) else sentence[1]
        row = _match_pattern(turn.text[span.start : span.end], rows)
        if row:
            text = resolve(row.text, turn.at)
        else:
            text = _build_statement(turn, sentence, span, following, alone=len(spans) == 1)
        if not text or text in texts or len(text) > _LONGEST:
            continue
        texts.add(text)
        if row:
            yield replace(row, text=text, about=span.about, role=role)
        else:
            yield ExtractedFact(
                text=text,
                kind=span.kind,
                entities=patterns.names_in(text),
                confidence=round(min(0.95, span.probability), 2),
                said=_context(turn, sentence),
                role=role,
                about=span.about,
            )


def _match_pattern(text: str, rows: Sequence[ExtractedFact]) -> ExtractedFact | None:
    terms = {stem(word) for word in search_terms(text)}
    for row in rows:
        if len(terms & {stem(word) for word in search_terms(row.text)}) >= _ALL_BUT * len(terms):
            return row
    return None


def _build_statement(turn: _TurnText, sentence: tuple[int, int], span: Span, following: int, *, alone: bool) -> str:
    """Return the fact in a span, readable by itself; "" if nothing is left of it."""
    text = _snapped(turn, sentence, span, following)
    rest = turn.text[sentence[0] : following].partition(text)[2]
    if reason := _REASON.match(rest):
        text += reason[0]
    text = _trim(text)
    if not text:
        return ""
    if alone and not _names_its_subject(text):
        text = _trim(turn.text[sentence[0] : sentence[1]])
    if heading := _find_heading(turn.text, sentence):
        items = [_trim(turn.text[slice(*place)]) for place in _find_sentences(turn.text, sentence)]
        text = f"{heading} {'; '.join(items) if len(items) > 1 else text}"
    elif not turn.states_before(sentence[0]):
        if _goes_on(text):
            text = f"{_find_question(turn, sentence[0])} {text}".strip()
            if len(search_terms(text)) < _FEWEST_TELLING:
                return ""
        elif len(text.split()) <= _SHORT:
            paragraph = turn.text[: sentence[0]].rpartition("\n\n")[2]
            text = f"{_find_previous(paragraph)} {sentences.capitalised(text)}".strip()
    return resolve(sentences.capitalised(text), turn.at)


def _snapped(turn: _TurnText, sentence: tuple[int, int], span: Span, following: int) -> str:
    """Return the words of a span, with the few before and after them in the same clause."""
    before, after = turn.text[sentence[0] : span.start], turn.text[span.end : following]
    before = before[max((match.end() for match in _CLAUSE_END.finditer(before)), default=0) :]
    end = _CLAUSE_END.search(after)
    after = after[: end.start()] if end else after
    inner = turn.text[span.start : span.end]
    if inner[-1] in ",;:":  # the clause ends with the span
        after = ""
    if len(before.split()) > _FEW_BEFORE and not _MIDDLE.match(inner):
        before = ""
    goes_on = _DANGLING.search(inner) is not None
    return before + inner + (after if goes_on or len(after.split()) <= _FEW_AFTER else "")


def _names_its_subject(text: str) -> bool:
    """Return whether a text has more than two words and does not start with a pronoun."""
    return not _POINTS.match(text) and _VERB_OR_VALUE.search(text) is not None


def _trim(text: str) -> str:
    plain = " ".join(_BOLD.sub(r"\1", text).split())
    plain = _TAIL.sub("", _LEAD_IN.sub("", _BULLET.sub("", plain))).rstrip(" .,;:")
    for opening, closing in (("(", ")"), ("[", "]"), ("“", "”")):
        if plain.count(opening) > plain.count(closing):
            plain += closing
        elif plain.count(closing) > plain.count(opening):
            plain = plain.removesuffix(closing)
    return plain if search_terms(plain) else ""


def _find_question(turn: _TurnText, start: int) -> str:
    """Return the text that a fragment refers to: the sentence before it, or the question that it answers."""
    for text in (turn.text[:start], turn.before):
        places = sentences_of(text)
        if places and search_terms(text[places[-1][0] : places[-1][1]]):
            last = " ".join(text[places[-1][0] : places[-1][1]].split())
            return last[-200:] if last[-1] in ".?!:" else f"{last[-200:]}:"
    return ""


def _find_previous(text: str) -> str:
    """Return the last sentence of a text; "" if it is a question, or too short or too long to name a subject."""
    places = sentences_of(text)
    last = text[places[-1][0] : places[-1][1]] if places else ""
    if len(last.split()) < _FEWEST_BEFORE or last.endswith("?") or len(last) > _LONGEST_BEFORE:
        return ""
    subject = _trim(last)
    return f"{subject}." if subject else ""


def _find_heading(text: str, sentence: tuple[int, int]) -> str:
    """Return the heading of the list that a sentence is an item of, such as "Key settings:"; "" if there is none."""
    if not _BULLET.match(text[sentence[0] : sentence[1]]):
        return ""
    for line in reversed(text[max(0, sentence[0] - _HEADING_WITHIN) : sentence[0]].splitlines()):
        if line.strip() and not _BULLET.match(line.strip()):
            last = _trim(line[sentences_of(line)[-1][0] :])
            is_heading = line.rstrip(" *").endswith(":") and len(last.split()) <= _LONGEST_HEADING
            return f"{last}:" if last and is_heading else ""
    return ""


def _find_sentences(text: str, place: tuple[int, int]) -> list[tuple[int, int]]:
    return [(start, end) for start, end in sentences_of(text) if start >= place[0] and end <= place[1]]


def _context(turn: _TurnText, sentence: tuple[int, int]) -> str:
    """Return the context of a fact: the message without questions, or the neighbouring sentences if it is long."""
    within = _find_sentences(turn.text, sentence)
    places = [place for place in sentences_of(turn.text) if turn.text[place[1] - 1] != "?" or place in within]
    first, last = places.index(within[0]), places.index(within[-1])
    around = places if len(turn.text.split()) <= _MOST_WORDS else places[max(0, first - 1) : last + 2]
    return " ".join(" ".join(turn.text[start:end].split()) for start, end in around)[:_LONGEST]
