"""Card, account and social security numbers, recognised by their shape and built-in check digits.

Any long number passes a checksum now and then. So a card must have the prefix and length of an issuer, and an account
the length of its country; timestamps, barcodes and message ids do not.
"""

from __future__ import annotations

from collections.abc import Iterator

from cofio.ingest.sanitize.secret_patterns import PATTERNS


def find_pii_numbers(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each card number, IBAN and US social security number in the text."""
    if not PATTERNS["number_hint"].search(text):
        return
    for match in PATTERNS["card_number"].finditer(text):
        ends = (match.end(), max(0, match.start("more")))  # the last group may be the security code
        if end := next((place for place in ends if _is_card(text[match.start() : place])), 0):
            yield "card-number", match.start(), end
    for match in PATTERNS["iban"].finditer(text):
        if length := _measure_iban(match[0]):
            yield "iban", match.start(), match.start() + length
    for match in PATTERNS["ssn"].finditer(text):
        yield "ssn", *match.span()


def _is_card(number: str) -> bool:
    """Return whether the number is of a card issuer and passes the Luhn check."""
    digits = number.replace(" ", "").replace("-", "")
    if not PATTERNS["card_issuer"].fullmatch(digits):
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
