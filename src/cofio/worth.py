"""How likely it is that what was said will still matter in a month, told from its words alone.

    text ─ parts ─▶ sentences ─ signals ─▶ log-odds of each ─▶ worth: the chance that one of its best three matters

Part of the words: pure, deterministic, in time that grows with the text. A sentence speaks for itself by signals that
have a name each ("when", "own past", "praise"): `signals` tells which it gives, `WEIGHTS` what each of them counts.
The lists of words were written by hand; the weights are few numbers, fitted as `evals/extraction.py` tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import exp, log1p, sqrt
from types import MappingProxyType

from cofio import late, sentences
from cofio.wording import STOP_WORDS

BIAS = -4.3  # the log-odds of a sentence that gives no signal
#: What each signal adds to the log-odds of a sentence.
WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        # for it
        "telling words": 1.3,  # times the root of how many
        "when": 1.1,
        "called": 0.9,
        "change": 0.9,
        "name": 0.8,
        "number": 0.6,
        "of a life": 0.5,
        "relation": 0.5,
        "taste": 0.5,
        "rule": 0.5,
        "definite": 0.4,
        "own past": 0.2,
        "note": 0.1,
        # against it
        "thanks": -0.2,
        "short": -0.3,
        "task": -0.2,
        "passing": -0.5,
        "doubt": -0.4,
        "plan": -0.4,
        "praise": -0.7,
        "cheer": -0.7,
        "code": -1.0,
        "maxim": -1.1,
        "big words": -1.1,  # times their share of the words
        "of you": -1.2,
        "question": -1.4,
        "assistant": -1.5,  # not fitted: much that an assistant says sounds like a fact, and can be had again
    }
)
LONGEST = 20_000  # characters; of a longer text the beginning is judged
BEST = 3  # sentences of a text that count; so a long text is not worth more for being long
_FEW = 5  # words; with fewer, a sentence tells little
_MOST_TELLING = 12  # words; with more of them, a sentence tells no more


def worth(text: str, role: str = "user") -> float:
    """From 0 to 1, how likely it is that some of it will still matter in a month; 0 of what says nothing."""
    odds = sorted((log_odds(signals(part, role)) for part in parts(text)), reverse=True)
    return 1.0 - exp(-sum(log1p(exp(each)) for each in odds[:BEST]))


def log_odds(found: Mapping[str, float]) -> float:
    """The weighed sum of signals."""
    return BIAS + sum(WEIGHTS[name] * strength for name, strength in found.items())


def parts(text: str) -> list[str]:
    """The sentences, and each note in brackets ("[shared image: a map]") as one of its own."""
    plain = text[:LONGEST]
    notes = _NOTE.findall(plain) if "[" in plain else []
    return [*sentences.split(_NOTE.sub(" ", plain) if notes else plain), *notes]


def signals(sentence: str, role: str = "user") -> dict[str, float]:
    """What in a sentence speaks for its worth or against it, by name: 1 where it is there, or how much of it is."""
    if sentence[:1] == "[" and _NOTE.fullmatch(sentence):
        return {"note": 1.0}
    plain = sentence.replace("’", "'")
    held = [word.lower() for word in _WORD.findall(plain)]
    there = set(held)
    mine, yours = not _MINE.isdisjoint(there), not _YOURS.isdisjoint(there)
    telling = there - _LIGHT - _addressed(plain)
    found = {
        "telling words": sqrt(min(sum(len(word) > 2 for word in telling), _MOST_TELLING)),
        "big words": sum(word in _BIG for word in held) / max(len(held), _FEW),
        "own past": mine and any(map(_is_past, held)),
        "of you": yours and not mine,
        "question": sentences.asks(sentence),
        "short": len(held) < _FEW,
        "code": sentences.is_code(sentence),
        "passing": sentences.is_passing(sentence),
        "assistant": role == "assistant",
        **{name: not words.isdisjoint(there) for name, words in _HOLDS.items()},
        **{name: pattern.search(plain) is not None for name, pattern in _READS.items()},
    }
    return {name: float(strength) for name, strength in found.items() if strength}


def _is_past(word: str) -> bool:
    return word in _PAST or (len(word) > 4 and word.endswith("ed") and word not in _FELT)


def _addressed(sentence: str) -> set[str]:
    """The names of who is spoken to: "Thanks, Ann!"."""
    return {name.lower() for name in _ADDRESS.findall(sentence)}


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _any(phrases: str) -> str:
    """One of these, divided by commas."""
    return r"\b(?:" + "|".join(phrases.split(", ")) + r")\b"


_WORD = late.compile(r"[^\W_]+(?:'[^\W_]+)*")
_NOTE = late.compile(r"\[[^\[\]]{1,400}\]")
_ADDRESS = late.compile(
    r"(?:^|[,!] |\b(?:[Hh]ey|[Hh]i|[Hh]ello|[Tt]hanks|[Yy]e[ps]|[Yy]eah|[Ww]ow|[Ss]ure) )([A-Z][a-z]+)(?=[!,.?]|$)"
)

_MINE = frozenset("i i'm i've i'd i'll im ive me my mine myself we we're we've we'd we'll us our ours".split())
_YOURS = frozenset("you you're you've you'd you'll your yours yourself ya y'all u ur youre".split())
_PAST = frozenset(
    """
    was were had did went got made took came saw met found bought sold lost won left gave told said heard knew grew
    began ran ate drank drove flew wrote read built broke caught chose fell fought forgot hid hurt kept led paid put
    rode sang sent set shot slept spent spoke stole stood swam taught threw wore woke became brought held been gone done
    seen taken given written known grown shown
    """.split()
)
#: What one is rather than what one did.
_FELT = frozenset(
    """
    need indeed excited interested tired inspired amazed blessed determined dedicated focused motivated supposed honored
    honoured stressed stoked loved bored scared worried relaxed pleased impressed thrilled touched pumped overwhelmed
    """.split()
)
#: Large words that fit any talk: of encouragement, of feeling, of praise.
_BIG = frozenset(
    """
    support supportive supporting help helping helps inspire inspired inspires inspiring inspiration motivate motivated
    motivates motivating motivation passion dream dreams goal goals journey positive positivity impact difference change
    growth grow growing strength strong courage brave love joy happiness happy amazing awesome great wonderful fantastic
    incredible special beautiful cool nice important importance meaningful rewarding fulfilling powerful hope hopeful
    community connection connect bond understanding acceptance encouragement encourage determination determined
    dedication dedicated commitment effort hard progress success challenge challenges struggle struggles tough memories
    moments moment together life feel feeling feelings experience peace peaceful calm relax relaxing grateful thankful
    appreciate excited exciting fun glad proud kind lucky kindness believe better best good energy creative creativity
    express expression perspective sharing share truly really definitely totally
    """.split()
)
#: Words of small talk.
_SMALL = frozenset(
    """
    wow woah whoa yeah yep yup yes nah sure totally absolutely exactly aww haha lol right okay true agreed woohoo yay
    omg congrats hey hello bye thanks thank sorry worries time day lot lots bit new mean means keep start back able
    always never long lately even big little actually pretty super bunch ton stuff try trying tried gotta gonna wanna
    cause cuz around find found come came look looking looks sound sounds hear heard seen saw talk word words people
    person nothing wait idea thought guess maybe care place
    """.split()
)
_LIGHT = STOP_WORDS | _BIG | _SMALL

_HOLDS = {
    "relation": frozenset(
        """
        husband wife partner boyfriend girlfriend fiance fiancee spouse mom mum mother dad father parent parents son
        sons daughter daughters kid kids child children baby brother brothers sister sisters sibling siblings grandma
        grandpa grandmother grandfather grandparents granny uncle aunt cousin cousins niece nephew family roommate
        neighbor neighbour boss colleague colleagues coworker coworkers teammate mentor coach teacher doctor therapist
        dog dogs cat cats puppy kitten pet pets hamster rabbit horse manager landlord friend friends
        """.split()
    ),
    "of a life": frozenset(
        """
        job career business company degree class classes course lesson lessons exam interview internship promotion
        salary shift office project scholarship thesis book books novel movie film series song songs album band concert
        guitar piano violin cello drums choir painting drawing photography knitting sewing woodworking pottery camera
        car truck bike motorcycle house apartment flat mortgage rent loan savings insurance phone laptop console trip
        vacation holiday flight cruise hike hiking camping wedding funeral party anniversary birthday graduation
        conference workshop meeting festival parade exhibition tournament competition race marathon football soccer
        basketball baseball tennis golf chess swimming skiing surfing climbing boxing recipe cake bread dinner diet
        vegan vegetarian coffee wine yoga gym dance ballet necklace ring dress shoes tattoo gift award medal trophy
        certificate surgery accident injury illness cancer diabetes asthma migraine pregnancy pregnant medication
        allergy therapy language letter diary blog podcast website membership charity fundraiser campaign army military
        church temple mosque school college university museum beach island restaurant bakery garden farm
        """.split()
    ),
    "rule": frozenset("always never must only every policy rule convention standard require requires default".split()),
    "change": frozenset(
        """
        switched switching renamed upgraded downgraded bumped raised lowered migrated replaced replaces deprecated
        retired dropped anymore longer became dissolved instead formerly statt
        """.split()
    ),
    "doubt": frozenset(
        """
        maybe perhaps might suppose supposing imagine assuming hypothetically probably guess wonder wondering unsure
        vielleicht if
        """.split()
    ),
}

_TIMES = (
    "week|weekend|month|year|night|summer|winter|spring|fall|autumn|days?|weeks|months|years|decade|morning|evening"
)
_DAYS = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_READS = {
    "task": late.compile(
        r"^(?:(?:ok|okay|now|then|and|also|so|no|yes|first|just),? )*(?:please|pls|let'?s|let me|can you|could you"
        r"|i (?:want|need) you to|add|fix|remove|rename|run|re-?run|check|try|write|make|put|split|go|create|update"
        r"|refactor|implement|revert|show|move|delete|explain|list|find|look|open|change|replace|drop|wait|tell|give"
        r"|i'll|i will|i'm (?:going to|looking|trying|working))\b|\b(?:please|pls|bitte)\b",
        re.IGNORECASE,
    ),
    "when": late.compile(
        rf"\b(?:(?:last|next|this|past|every|each|few|couple of|\d+|two|three|four|five|six|seven|eight|nine|ten|a)"
        rf" (?:\w+ )?(?:{_TIMES}|{_DAYS})|yesterday|tomorrow|today|ago|since|recently|lately|the other day|growing up"
        rf"|when i was|as a (?:kid|child|teen\w*)|(?:in|on|by|until) (?:{_MONTHS}|{_DAYS}|\d{{4}}))\b",
        re.IGNORECASE,
    ),
    "number": late.compile(
        r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|hundred"
        r"|thousand|million|dozen|twice|first|second|third|once|several)\b",
        re.IGNORECASE,
    ),
    "called": late.compile(
        r"\b(?:named|called|titled|nicknamed|name(?: is|'s))\b|[\"“][A-Z][^\"”]{2,60}[\"”]"
        r"|(?<!\w)'[A-Z][^']{3,60}'(?!\w)"
    ),
    "name": late.compile(r"(?<=[a-z,&] )(?!I\b)[A-Z][\w&+-]*(?=[ ,.;:)]|'s)(?![!?]*$)"),
    "definite": late.compile(r"`[^`]+`|\w[._/@-]\w*\d|\w_\w|\w/\w|[a-z][A-Z]|\b[A-Z]{2,}\b|\w\(\)|\w\.\w"),
    "taste": late.compile(
        _any(
            "fav(?:e|s|ou?rites?)?, i (?:really |just )?(?:love|like|enjoy|hate|prefer)d?, prefers?, can't stand"
            ", allergic, fan of, obsessed with, keen on, passionate about, hobb(?:y|ies), interested in, go-to"
            ", always wanted, reminds? me, symboli[sz]es?, stands? for, represents?"
        ),
        re.IGNORECASE,
    ),
    "plan": late.compile(
        _any(
            "going to, gonna, plan(?:ning|s|ned)? (?:to|on|for), thinking (?:of|about), hop(?:e|ing) to, want to"
            ", wants to, wanted to, looking (?:into|for), about to, decided to, considering, will be, saving up"
            ", working on"
        ),
        re.IGNORECASE,
    ),
    "thanks": late.compile(
        _any("thanks, thank you, thx, appreciate, grateful, thankful, kind words, means? (?:a lot|so much|the world)"),
        re.IGNORECASE,
    ),
    "praise": late.compile(
        r"\b(?:that(?:'s|'re| is| sounds| looks) (?:(?:so|really|such|super|pretty|an?|absolutely|totally|just) )*"
        r"(?:great|awesome|cool|amazing|wonderful|fantastic|incredible|nice|lovely|sweet|inspiring|impressive|beautiful"
        r"|gorgeous|good|tough|sad|terrible|rough|cute|funny|neat|fun|right|true|perfect)"
        r"|(?:sounds|looks?) (?:(?:so|really|like|such|an?|super|pretty|absolutely) )*(?:great|awesome|cool|amazing"
        r"|wonderful|fantastic|incredible|nice|lovely|delicious|tasty|fun|good|gorgeous|beautiful|perfect)"
        r"|congrat(?:s|ulations)|proud of (?:you|ya)|(?:good|great|nice|awesome) (?:job|work|idea|one|for you|on you)"
        r"|well done|way to go|you(?:'re| are) (?:\w+ ){0,3}(?:amazing|awesome|great|inspiring|brave|strong|talented"
        r"|lucky|kind|right|welcome|doing)|(?:so|really) (?:happy|glad|proud|excited|sorry) (?:for|to hear|you)"
        r"|glad (?:you|to hear|it|that)|happy for you|i (?:\w+ )?agree|love (?:that|it|your)|must (?:have|'ve|be))\b",
        re.IGNORECASE,
    ),
    "cheer": late.compile(
        _any(
            "keep (?:it|up|going|on|at|pushing|me|doing|being|that), (?:you|we)(?:'ve)? (?:got this|can do), good luck"
            ", best of luck, go for it, hang in, (?:don't|never) give up, believe in, rooting for, cheer(?:ing)?"
            ", stay (?:strong|positive|motivated|true|safe|focused), have (?:fun|a (?:great|good|nice|blast))"
            ", take care, can't wait, let me know, here for (?:you|ya), got your back, wishing you, i'm sure, i bet"
            ", no worries, no prob(?:lem)?, anytime, you'll (?:do|be|get|find|make|have), you should, let's"
            ", hope (?:you|it|your|that), feel free, reach out, catch up"
            ", talk (?:to (?:you|ya) )?(?:soon|later), see you, bye, pay(?:s|ing)? off, worth it"
            ", together, means a lot, makes? a difference"
        ),
        re.IGNORECASE,
    ),
    "maxim": late.compile(
        _any(
            "it(?:'s| is) (?:\\w+ ){0,2}(?:important|key|crucial|vital|essential|great|amazing|awesome|how|so|nice"
            "|inspiring|always|about|normal|okay|tough|hard|true), life(?:'s| is), we (?:all|can|should|need|must)"
            ", people (?:can|should|need|are), everyone, nothing beats, makes? (?:life|us|you|all), brings? us"
            ", brings? people, brings? so much, helps? (?:us|you|people), it can, can be, there's (?:nothing|something)"
        ),
        re.IGNORECASE,
    ),
}
