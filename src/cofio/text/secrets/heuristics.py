"""Classification of the value after the word "password". Most such values are prose, code or a placeholder.

    password: required      api_key: str      secret = get_secret()      TOKEN=$TOKEN      password=hunter2

The required evidence depends on the form: a quoted or assigned value (`PASSWORD=…`, `--password …`) only must not look
like a reference; a value in a sentence must clearly look like a secret.
"""

from __future__ import annotations

import re
from typing import Literal

from cofio.text import lazy_re
from cofio.text.secrets.patterns import PATTERNS

#: "password": "…" | PASSWORD=… | password=… | --password … | password: … | my password is … | is "…" | the password …
ValueForm = Literal["quoted", "declared", "set", "option", "noted", "stated", "stated in quotes", "beside"]

_DIGIT = lazy_re.compile(r"\d")


def looks_secret(value: str, form: ValueForm, *, of_password: bool) -> bool:
    """Return whether this value of a password (or else of a token or key) is a secret."""
    if len(value) < 4 or is_placeholder(value) or _is_reference(value):
        return False
    if " " in value or "\t" in value:
        return form in ("quoted", "stated in quotes") and _is_phrase(value.split(), form, of_password)
    if form in ("quoted", "declared", "set", "option"):
        return _is_assigned_secret(value, form, of_password)
    if of_password and (_is_row_of_words(value) or (form != "beside" and _is_worded(value))):
        return True
    if _is_compound(value) or PATTERNS["technical_term"].match(value):
        return False
    if form == "noted":
        return _is_noted_secret(value, of_password)
    return _is_strong(value) or (
        form != "beside" and of_password and PATTERNS["word_and_number"].fullmatch(value) is not None
    )


def is_placeholder(value: str) -> bool:
    """Return whether the value stands for a secret: "password", "changeme", "<token>", "$TOKEN"."""
    return value.lower().strip("<>[]{}()*_-") in _NO_SECRETS or PATTERNS["placeholder"].search(value) is not None


def looks_random(value: str) -> bool:
    """Return whether the value looks generated: letters and digits, but no compound of words and numbers."""
    return _has_both(value) and not _is_compound(value) and not PATTERNS["path"].match(value)


def is_key(value: str, before: str) -> bool:
    """Return whether the value of a setting is a generated key, given the text before it with the setting's name."""
    has_all = all(re.search(kind, value) for kind in ("[a-z]", "[A-Z]", "[0-9].*[0-9]"))
    if not has_all or not looks_random(value) or value.startswith("AAAA") or value.count("/") > 2:
        return False
    return not PATTERNS["placeholder"].search(value) and not PATTERNS["no_secret_key"].search(before)


def is_word_list(value: str, least: int) -> bool:
    """Return whether the value is a list of unrelated words, as in seed phrases and passphrases, and no sentence."""
    words = PATTERNS["letters"].findall(value.lower())
    ordinary = sum(map(_is_ordinary_word, words))
    return len(words) >= least and _PROSE.isdisjoint(words) and len(words) - ordinary <= len(words) // 4


def is_plain_word(value: str) -> bool:
    """Return whether the value is a plain word that people use as a password, and no remark about passwords."""
    return 5 <= len(value) <= 24 and _is_ordinary_word(value)


def _is_ordinary_word(word: str) -> bool:
    """Return whether a word is in lower case, except for its first letter, and no remark about passwords."""
    if not PATTERNS["plain_word"].fullmatch(word) or PATTERNS["secret_word"].search(word):
        return False
    low = word.lower()
    return low not in _NO_SECRETS and low not in _ABOUT_PASSWORDS and not PATTERNS["descriptive_ending"].search(low)


def _is_phrase(words: list[str], form: ValueForm, of_password: bool) -> bool:
    if any(_is_strong(word) for word in words):
        return True
    if not of_password or len(words) > 6 or not _PROSE.isdisjoint(word.lower().strip("().,:") for word in words):
        return False
    mixed = any(
        _has_both(word) and not PATTERNS["technical_term"].match(word) and not _is_compound(word) for word in words
    )
    return mixed or (form == "stated in quotes" and any(word.isdigit() for word in words))


def _is_row_of_words(value: str) -> bool:
    """Return whether the value is a row of random words, as in "correct-horse-battery-staple"."""
    parts = value.split("-")
    return len(parts) >= 4 and all(PATTERNS["short_word"].fullmatch(part) and part not in _PROSE for part in parts)


def _is_worded(value: str) -> bool:
    """Return whether the value is words and a number, as in typical passwords: "blue-Falcon-42", "falcon7falcon7"."""
    if PATTERNS["run_together"].fullmatch(value):
        return all(map(_is_made_up, PATTERNS["letters"].findall(value)))
    parts = re.split(r"[-_.]", value.rstrip("!?"))
    if len(parts) > 1 and not value.islower():  # "Copper-Lantern4711"
        parts[-1:] = re.split(r"(?<=[^\W\d])(?=\d{2,4}$)", parts[-1])
    numbers = [part for part in parts if part.isdigit()]
    words = [part for part in parts if not part.isdigit()]
    if not words or len(numbers) != 1 or len(numbers[0]) > 4 or not all(map(_is_made_up, words)):
        return False
    return len(words) > 1 or (len(numbers[0]) > 1 and not value.islower())  # "Falcon-42", but not "sprint-12"


def _is_made_up(word: str) -> bool:
    return len(word) > 3 and _is_ordinary_word(word) and word.lower() not in _PROSE


def _is_assigned_secret(value: str, form: ValueForm, of_password: bool) -> bool:
    if _has_letter(value) and (_DIGIT.search(value) or re.search(r"[^\w./:-]", value)):
        if form == "declared" or not _is_compound(value):
            return True  # a declaration is in a settings file, which has no variable names; other values may be such
        is_name = not _NO_SECRETS.isdisjoint(PATTERNS["separator"].split(value.lower()))
        return not is_name and not PATTERNS["secret_word"].search(value)
    if value.isdigit():
        return of_password and len(value) >= 4
    if _is_compound(value):  # "correct-horse-battery-staple" is a password, "my-app-secret" the name of one
        return of_password and value.count("-") >= 3 and not PATTERNS["secret_word"].search(value)
    named = value.isalpha() and len(value) >= (6 if of_password else 20) and not PATTERNS["secret_word"].search(value)
    return named and form != "option"  # "the --password options"


def _is_noted_secret(value: str, of_password: bool) -> bool:
    if value.isdigit():
        return of_password and len(value) >= 6
    if _has_both(value):
        return len(value) >= (6 if of_password else 10) or _is_strong(value)
    return of_password and len(value) >= 6 and PATTERNS["inner_sign"].search(value) is not None


def _is_strong(value: str) -> bool:
    """Return whether the value looks like a secret and hardly like anything else."""
    if len(value) < 6 or not _has_letter(value) or _is_compound(value) or PATTERNS["technical_term"].match(value):
        return False
    if not _DIGIT.search(value):
        return len(value) >= 8 and PATTERNS["inner_sign"].search(value) is not None
    classes = sum(re.search(kind, value) is not None for kind in ("[a-z]", "[A-Z]", r"[^\w.,:;/()'-]"))
    return classes >= 2 or (len(value) >= 16 and looks_random(value))


def _has_letter(value: str) -> bool:
    return PATTERNS["letters"].search(value) is not None


def _has_both(value: str) -> bool:
    return _has_letter(value) and _DIGIT.search(value) is not None


def _is_compound(value: str) -> bool:
    """Return whether it is made of words and numbers: base64-encoded, AES-256-GCM, required|min:8, oauth2_scheme."""
    parts = PATTERNS["separator"].split(value)
    return len(parts) > 1 and all(
        len(part) <= 20 and PATTERNS["word_or_number"].fullmatch(part) for part in parts if part
    )


def _is_reference(value: str) -> bool:
    """Return whether the value refers to a secret or is code: a path, an address, a variable, a call, an attribute."""
    if any(PATTERNS[name].match(value) for name in ("path", "address_or_number", "call", "digest_or_color")):
        return True
    if any(PATTERNS[name].fullmatch(value) for name in ("attribute", "variable")):
        return True
    return value.replace("_", "").isalpha() and ("_" in value or PATTERNS["secret_word"].search(value) is not None)


_NO_SECRETS = frozenset(
    """
    none null nil undefined true false yes no on off ok string str bytes int integer number bool boolean text any object
    password passwd passphrase pwd secret token key apikey api_key api-key credential credentials username user admin
    root guest postgres mysql mariadb redis rabbitmq mongo minio docker localhost test tests testing dev development
    staging prod production example examples sample dummy fake mock foo bar baz foobar qux changeme change_me change-me
    changeit letmeknow required optional missing invalid valid wrong incorrect correct expired revoked rotated unset
    empty blank hidden masked redacted removed encrypted hashed plain plaintext unknown default auto generated random
    secure strong weak todo tbd here there value file path keyring vault keychain header cookie query body bearer basic
    oauth jwt session refresh access client server field column label input prompt forgot reset login logout signin
    signup confirm passwort kennwort static public private shared internal external inherit placeholder
    """.split()
)
#: Remarks on passwords that occur in place of a value.
_ABOUT_PASSWORDS = frozenset(
    """
    json jsonb uuid digest fingerprint pattern always never length strength policy minimum maximum varchar nvarchar same
    both either below above later again please email phone argon unique mandatory numeric alphanumeric ascii unicode
    lowercase uppercase digits letters characters symbols words nothing something anything match matches mismatch error
    errors fails success change update create rotate check enter choose repeat sent where which their about other those
    these three seven eight first second third short clear manager parameter identifier keeper bitwarden lastpass
    see ask kept lives stays comes goes gets uses use using inside vault team everyone every each shared only
    dashlane keepass okta ldap kerberos yubikey passkey requis aucun aucune keine keines siehe folgt unten oben nein
    leer egal unverändert ninguna opcional vacio secreto secreta secrète geheim bekannt
    """.split()
)
_PROSE = frozenset(
    """
    a an the your my our this that and or of for to in on at by with from as is are be must should may can not no only
    than least most min max minimum maximum characters chars digits letters symbols long length between enter type
    choose password passwords username und oder mit mindestens zeichen ziffern der die das ein eine muss des les une
    caracteres caractères chiffres moins debe tener need needs have has contain contains same per via day days end
    it we you they who all any but then when will would could was were been use see ask new old next
    """.split()
)
