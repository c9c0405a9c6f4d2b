"""Whether a sentence of work talk tells what stands, by small signs that no wording has to bring in a certain order.

    "db is postgres 15 on RDS btw, not mysql" ─▶ states, definite, contrast

A row of the table reads a sentence whole; people word most facts in ways that no table foresees. What those have in
common are signs: a verb of what is so, a definite value, a rule, a contrast, a change, a reason, a date, an owner, the
team as the subject. None of them tells a fact alone; several together seldom tell anything else. What is supposed, told
to do, about the moment or about trouble has none.

Part of the words, so that the gate and the patterns judge alike: pure functions over str.
"""

from __future__ import annotations

import re
from functools import lru_cache

from cofio import late, sentences

ENOUGH = 3  # signs
_FEWEST, _LONGEST = 4, 40  # words


@lru_cache(maxsize=8)  # the gate and the patterns ask for the same sentence's, one after the other
def signs(sentence: str) -> tuple[str, ...]:
    """The signs that it tells what stands; those that weigh double are there twice. None where they are too few."""
    plain = sentences.bare(sentence)
    held = sentences.tokens(plain)
    if not _FEWEST <= len(held) <= _LONGEST or not _VETO.isdisjoint(held) or _is_denied(held):
        return ()
    there = set(held)
    found = [name for name, words in _WORDS.items() if not words.isdisjoint(there)]
    if not found:  # told cheaply, and many are
        return ()
    found += [name for name, reads in _READS.items() if name not in found and reads.search(plain)]
    if _CORRECTS.match(sentence):
        found.append("corrects")
    found += [name for name in found if name in _DOUBLE]
    if len(found) < ENOUGH or _TELLING.isdisjoint(found) or _is_no_statement(plain):
        return ()
    return tuple(found)


def may_stand(sentence: str) -> bool:
    """Whether it has signs enough for a model to look at it."""
    return bool(signs(sentence))


def stands(sentence: str) -> bool:
    """Whether it is to be kept as it was said where there is no model: none counts double, and one must be firm."""
    found = set(signs(sentence))
    return len(found) >= ENOUGH and not _FIRM.isdisjoint(found)


def _is_denied(held: tuple[str, ...]) -> bool:
    """Whether it is told to do, points instead of naming, or is about trouble."""
    if _is_instruction(held) or (held[0] in _POINTING and held[1] not in _OWN_WORK):
        return True
    return not _TROUBLE.isdisjoint(held) and _BECAUSE.isdisjoint(held)


def _is_no_statement(plain: str) -> bool:
    """Whether it is quoted, code, or about the moment, the speaker or a password."""
    if plain[0] == ">" or any(each.search(plain) for each in (_OF_THE_MOMENT, _OF_THE_SPEAKER, _OF_ACCESS)):
        return True
    return sentences.is_code(plain)


def _is_instruction(held: tuple[str, ...]) -> bool:
    """Whether it begins with what is to be done: "build the image", not "build system is CMake"."""
    if held[0] in _LEADS_TO_DO and held[1] in _TO_DO:
        return True
    if held[0] not in _TO_DO:
        return False
    return held[1] in _DETERMINERS or _WORDS["states"].isdisjoint(held[2:6])


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: With one of these it is supposed, somebody else's opinion, or about this very moment.
_VETO = _set(
    """
    maybe perhaps might could would wonder wondering suppose supposing imagine assume assuming hypothetically whether
    thinks believes claims claimed say says suggests suggested recommends recommended according theory wants wanted
    example idea goal thinking considering hoping before should shouldn't ought today tonight tomorrow currently
    temporarily moment lunch meeting todo wip fixme vielleicht könnte würde quizás podría peut-être pourrait
    """
)
#: What an instruction begins with.
_TO_DO = _set(
    """
    add adjust apply bring build bump change check clean close combine commit compare compute configure convert copy
    create cut debug delete deploy describe design do document draft draw drop edit ensure estimate explain export
    extend extract fetch figure fill find finish fix flash follow format generate get give go grab handle help
    implement import improve include increase inline insert install introduce investigate join keep kill let let's lets
    list load look make mark measure merge migrate mock move open optimise optimize paste plot polish print profile
    pull push put read rebase rebuild recommend refactor remove rename reorder replace reproduce rerun reset resolve
    restart restore return revert review rewrite rollback run scale scan search see send set setup show simplify skip
    sort split spot start stop stub summarise summarize swap switch take tell test tidy trace translate try tune turn
    undo uninstall update upgrade upload use validate verify wait walk watch wire wrap write don't
    kannst könntest mach bitte schreib cambia haz puedes peux-tu pouvez-vous mets fais lance
    """
)
_LEADS_TO_DO = _set("please now then next first ok and so also just can you")
_DETERMINERS = _set(
    "the a an this that these those it all my our your his her its their in on to for from up out with me some"
)
#: Points at something instead of naming it, unless it is the work itself.
_POINTING = _set("it it's its this that that's these those he she you your here there then what which")
_OWN_WORK = _set(
    "project repo repository app service codebase library package board team company system module product"
)
_TROUBLE = _set(
    """
    fail fails failed failing error errors broken broke crash crashes crashed bug bugs exception traceback wrong weird
    stuck hanging blank
    """
)
_BECAUSE = _set("because since otherwise cause caused needs never always must weil porque car parce")
_OF_THE_MOMENT = late.compile(
    r"\b(?:right now|for now|at the moment|this (?:once|time|one|afternoon|experiment)|for the next|just for|only this"
    r"|in a (?:bit|minute|sec)|(?:minutes?|hours?|seconds?) (?:left|ago|to go)|until (?:lunch|then|tomorrow|tonight)"
    r"|(?<!\bI )said|don't think|must (?:have been|be so)|told (?:me|us|him|her))\b",
    re.IGNORECASE,
)
#: What somebody does or thinks just now, what others do, and irony.
_OF_THE_SPEAKER = late.compile(
    r"^(?:I(?:'m|'ve|'ll|'d) |I (?:am|was|just|think|guess|hope|need|want|told|see|got|get|feel|will|would|made|set"
    r"|went|took|did|ran|\w+ed)\b|(?:my|the) (?:old company|colleague|intern|boss)\b|some (?:guy|people|one)\b"
    r"|because\b|brilliant,|(?:oh|yeah|wow|ugh|lol)\b)",
    re.IGNORECASE,
)

#: A password and what may be its value. What hygiene knows is redacted by now; of the rest nothing is kept by signs.
_OF_ACCESS = late.compile(r"\b(?:password|passwort|passphrase|pwd|login)\b(?:\W+\w+){0,3}?\W+\S*\d", re.IGNORECASE)

#: Signs that weigh double, signs of which one must be there, and signs of which one must be there for it to be kept.
_DOUBLE = _set("marked decided owned")
_TELLING = _set("states marked decided owned")
_FIRM = _set("definite contrast change decided owned dated marked scope corrects")
_WORDS = {
    "states": _set(
        """
        is are has have needs need lives live runs run uses use belongs goes go stays stay sits means must cannot can't
        requires keeps comes supports listens points reads writes owns handles takes works talks targets expires starts
        ends ships gets turns rejects refuses accepts allows forbids expects returns sends receives stores contains
        holds includes depends relies follows applies breaks blocks locks drops ignores hosts serves publishes deploys
        builds covers counts costs lasts renews rotates closes opens manages reviews approves signs lives prefers isn't
        aren't doesn't don't won't becomes became was were left joined took moved postponed extended raised lowered
        renamed dissolved replaced upgraded migrated dropped switched removed retired deprecated merged split changed
        cut needed excluded allowed frozen forbidden required reserved ist sind läuft nutzen benutzen verwenden macht
        bleibt liegt gehört wird wurde es son está están usamos va van tiene utilisons utilise déploie déployons sommes
        est sont
        """
    ),
    "rule": _set(
        """
        always never only must every all nobody nothing everything everyone none everywhere except unless mustn't
        immer nie niemals nur alle jeder siempre nunca solo sólo todos toujours jamais uniquement seulement tous
        """
    ),
    "ours": _set("we we're we've our ours us wir unser unsere uns nosotros nuestro nuestra nous notre nos"),
    "change": _set(
        """
        now anymore moved postponed extended delayed raised lowered bumped doubled reduced renamed replaced dissolved
        dropped removed retired deprecated migrated upgraded downgraded switched changed gone left took longer
        inzwischen mittlerweile jetzt statt ahora ya désormais maintenant passé
        """
    ),
    "reason": _set("because otherwise therefore weil damit porque car parce"),
    "owned": _set("owns owner belongs responsible maintains maintainer lead leads manages handed gehört zuständig"),
    "decided": _set("decided approved agreed chose chosen settled picked rejected entschieden decidido décidé choisi"),
}
_READS = {
    "states": late.compile(
        r"\bwe (?:(?:always|never|only|all|still|also) )?(?!(?:always|never|only|all|still|also|should|need|want|must"
        r"|can|could|would|will|had|have|were|did|might|may|think|get|got|see|saw|hit|found|ran|went|was|do|know|like"
        r"|\w+ed)\b)[a-z]{3,}\b",
        re.IGNORECASE,
    ),
    "definite": late.compile(r"(?<!^)(?<![.!?:] )(?:\b[A-Z]\w|\b\w+[._/@]\w|\b\w*[a-z][A-Z]|\b\w+/(?!\w)|\d|`|\(\))"),
    "detailed": late.compile(r"\d\S*\b.{1,60}?[ (]\S*\d"),
    "contrast": late.compile(
        r"(?:,| -| –|;) (?:and |but )?(?:not|never|nicht|nie|no|pas|jamais|nunca) "
        r"|\b(?:instead of|rather than|used to be|statt|anstatt|en vez de|au lieu de|plutôt que|no longer|any ?more"
        r"|after all|again(?=\W*$))\b",
        re.IGNORECASE,
    ),
    "scope": late.compile(
        r"\b(?:in|on|for|inside|within|across) (?:this|our|the) (?:whole |entire )?(?:repo|repository|project|codebase"
        r"|code|app|service|company|team|board|firmware|monorepo|cluster|product|paper)\b"
        r"|\b(?:in diesem projekt|en este (?:repo|proyecto)|dans ce (?:projet|dépôt))",
        re.IGNORECASE,
    ),
    "ours": late.compile(r"^on (?=\w+ (?:\w+ ){0,2}(?:le|la|les|un|une|de|du|à|sur|en)\b)", re.IGNORECASE),
    "reason": late.compile(
        r", so |\b(?:that's|which is) why\b|\bso that\b|\bsince (?!then|(?:we|i|you) (?:last|spoke|talked|met))",
        re.IGNORECASE,
    ),
    "dated": late.compile(
        r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
        r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.? \d|\b\d{4}-\d\d-\d\d\b|\bQ[1-4]\b"
        r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\bend of (?:the )?\w+",
        re.IGNORECASE,
    ),
    "owned": late.compile(r"\blooks? after\b|\bhand(?:ed|s) (?:it )?over\b|\bin charge\b"),
    "decided": late.compile(
        r"\b(?:we're|we are|we) going with\b|\bfinal (?:call|decision)\b|\bsigned off\b", re.IGNORECASE
    ),
    "marked": late.compile(
        r"^(?:gotcha|worth (?:remembering|noting|knowing)|note for later|for next time|lesson(?: learned)?"
        r"|learned the hard way|correction|heads up)\b",
        re.IGNORECASE,
    ),
}
_CORRECTS = late.compile(
    r"(?:no|nope|nein|non|wrong|actually|(?:(?:small|one|quick) )?correction|not quite"
    r"|that's (?:wrong|not right|incorrect))(?:[,:.;!]| -| –) ",
    re.IGNORECASE,
)
