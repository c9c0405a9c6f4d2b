"""Card, account and social security numbers, recognised by their shape and built-in check digits.

Any long number passes a checksum now and then. So a card must have the prefix and length of an issuer, and an account
the length of its country; timestamps, barcodes and message ids do not.
"""

from __future__ import annotations

from collections.abc import Iterator

from cofio.text import lazy_re


def find_pii_numbers(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each card number, IBAN and US social security number in the text."""
    if not _HINT.search(text):
        return
    for match in _CARD.finditer(text):
        ends = (match.end(), max(0, match.start("more")))  # the last group may be the security code
        if end := next((place for place in ends if _is_card(text[match.start() : place])), 0):
            yield "card-number", match.start(), end
    for match in _IBAN.finditer(text):
        if length := _measure_iban(match[0]):
            yield "iban", match.start(), match.start() + length
    for match in _SSN.finditer(text):
        yield "ssn", *match.span()


def _is_card(number: str) -> bool:
    """Return whether the number is of a card issuer and passes the Luhn check."""
    digits = number.replace(" ", "").replace("-", "")
    if not _ISSUED.fullmatch(digits):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(int(digit) for digit in digits[-1::-2]) + sum(doubled)) % 10 == 0


def _measure_iban(number: str) -> int:
    """Return the number of characters of an IBAN at the start, including blanks; 0 if there is none."""
    signs = [place for place, sign in enumerate(number, start=1) if sign != " "]
    length = _IBAN_LENGTHS.get(number[:2], 0)
    if not length or len(signs) < length or number[(end := signs[length - 1]) : end + 1].isalnum():
        return 0
    iban = number[:end].replace(" ", "")
    return end if int("".join(str(int(sign, 36)) for sign in iban[4:] + iban[:4])) % 97 == 1 else 0


def _begin(sign: str) -> str:
    """Return a pattern for the start of a number: not inside a longer one, a name or an address, but after an escaped
    newline.
    """
    return rf"{sign}(?:(?<![\w.+/#@-]{sign})|(?<=\\[nrt]{sign}))"


#: Part that all these numbers share, from four digits or from 123-45-6. Without alternation it matches ten times as
#: fast.
_HINT = lazy_re.compile(r"[0-9]{3}[0-9-][ 0-9-][0-9][0-9-][0-9]{2}[ 0-9-][0-9]")
#: In one piece, in groups of four, or as printed on cards with fifteen and fourteen digits.
_CARD = lazy_re.compile(
    _begin("[0-9]")
    + r"(?:[0-9]{12,18}|[0-9]{3}(?P<by>[ -])[0-9]{4}(?P=by)[0-9]{4}(?P=by)[0-9]{1,4}(?P<more>(?P=by)[0-9]{1,3})?"
    r"|[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5})(?![\w@/]|[-.][0-9])"
)
_ISSUED = lazy_re.compile(
    r"4[0-9]{12}(?:[0-9]{3}){0,2}|(?:5[1-5]|2[2-7])[0-9]{14}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:6011|64[4-9][0-9]|65[0-9]{2}|62[0-9]{2}|35[2-8][0-9])[0-9]{12,15}|(?:50|5[678]|6[0-9])[0-9]{14}"
)
_IBAN = lazy_re.compile(_begin("[A-Z]") + r"[A-Z][0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?")
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
_SSN = lazy_re.compile(
    _begin("[0-8]") + r"[0-9]{2}(?<!000)(?<!666)-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w@]|-[0-9]|\.[0-9])"
)
