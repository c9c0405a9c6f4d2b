"""Numbers of cards, accounts and people, known by their shape and by the check that is built into them.

Any long number passes a checksum now and then. So a card must have the prefix and the length of one that is issued, and
an account the length of its country: a timestamp, a barcode or the id of a message is none of these.
"""

from __future__ import annotations

from collections.abc import Iterator

from cofio import late


def numbers(text: str) -> Iterator[tuple[str, int, int]]:
    """Kind, start and end of each card number, IBAN and US social security number in the text."""
    if not _HINT.search(text):
        return
    for match in _CARD.finditer(text):
        ends = (match.end(), max(0, match.start("more")))  # what follows the fours may be the code of the card
        if end := next((each for each in ends if _is_card(text[match.start() : each])), 0):
            yield "card-number", match.start(), end
    for match in _IBAN.finditer(text):
        if length := _iban_length(match[0]):
            yield "iban", match.start(), match.start() + length
    for match in _SSN.finditer(text):
        yield "ssn", *match.span()


def _is_card(written: str) -> bool:
    """Whether it is of an issuer of cards, and its last digit the check of the others."""
    digits = written.replace(" ", "").replace("-", "")
    if not _ISSUED.fullmatch(digits):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(int(digit) for digit in digits[-1::-2]) + sum(doubled)) % 10 == 0


def _iban_length(written: str) -> int:
    """How many characters of this, blanks counted, are an IBAN; 0 when none."""
    signs = [place for place, sign in enumerate(written, start=1) if sign != " "]
    length = _IBAN_LENGTHS.get(written[:2], 0)
    if not length or len(signs) < length or written[(end := signs[length - 1]) : end + 1].isalnum():
        return 0
    iban = written[:end].replace(" ", "")
    return end if int("".join(str(int(sign, 36)) for sign in iban[4:] + iban[:4])) % 97 == 1 else 0


def _begin(sign: str) -> str:
    """Where a number begins: not within a longer one, a name or an address; a line break may be written out."""
    return rf"{sign}(?:(?<![\w.+/#@-]{sign})|(?<=\\[nrt]{sign}))"


#: How any of them goes on from four digits or from 123-45-6. Without an "or", it is looked for ten times as fast.
_HINT = late.compile(r"[0-9]{3}[0-9-][ 0-9-][0-9][0-9-][0-9]{2}[ 0-9-][0-9]")
#: In one piece, in fours, or as it is printed on the cards of fifteen and fourteen digits.
_CARD = late.compile(
    _begin("[0-9]")
    + r"(?:[0-9]{12,18}|[0-9]{3}(?P<by>[ -])[0-9]{4}(?P=by)[0-9]{4}(?P=by)[0-9]{1,4}(?P<more>(?P=by)[0-9]{1,3})?"
    r"|[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5})(?![\w@/]|[-.][0-9])"
)
_ISSUED = late.compile(
    r"4[0-9]{12}(?:[0-9]{3}){0,2}|(?:5[1-5]|2[2-7])[0-9]{14}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:6011|64[4-9][0-9]|65[0-9]{2}|62[0-9]{2}|35[2-8][0-9])[0-9]{12,15}|(?:50|5[678]|6[0-9])[0-9]{14}"
)
_IBAN = late.compile(_begin("[A-Z]") + r"[A-Z][0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?")
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL", 19: "MK SI", 20: "AT BA EE KZ LT LU XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS", 23: "AE GI IL IQ", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST", 26: "IS TR", 27: "FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB PL SV", 29: "BR PS QA UA",
        30: "JO KW MU", 31: "MT SC", 32: "LC",
    }.items()
    for country in countries.split()
}  # fmt: skip
_SSN = late.compile(
    _begin("[0-8]") + r"[0-9]{2}(?<!000)(?<!666)-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w@]|-[0-9]|\.[0-9])"
)
