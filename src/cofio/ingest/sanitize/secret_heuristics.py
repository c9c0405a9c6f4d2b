"""Classification of the value after the word "password". Most such values are prose, code or a placeholder.

    password: required      api_key: str      secret = get_secret()      TOKEN=$TOKEN      password=hunter2

The required evidence depends on the form: a quoted or assigned value (`PASSWORD=…`, `--password …`) only must not look
like a reference; a value in a sentence must clearly look like a secret.
"""

from __future__ import annotations

import re
from typing import Literal

from cofio.text import lazy_re

#: "password": "…" | PASSWORD=… | password=… | --password … | password: … | my password is … | is "…" | the password …
Put = Literal["quoted", "declared", "set", "option", "noted", "told", "told in quotes", "beside"]


def looks_secret(value: str, put: Put, *, of_password: bool) -> bool:
    """Return whether this value of a password (or else of a token or key) is a secret."""
    if len(value) < 4 or _is_placeholder(value) or _is_reference(value):
        return False
    if " " in value or "\t" in value:
        return put in ("quoted", "told in quotes") and _is_phrase(value.split(), put, of_password)
    if put in ("quoted", "declared", "set", "option"):
        return _is_given(value, put, of_password)
    if of_password and (_is_row_of_words(value) or (put != "beside" and _is_worded(value))):
        return True
    if _is_compound(value) or _TECHNICAL.match(value):
        return False
    if put == "noted":
        return _is_noted(value, of_password)
    return _is_strong(value) or (put != "beside" and of_password and _TOLD.fullmatch(value) is not None)


def looks_random(value: str) -> bool:
    """Return whether the value looks generated: letters and digits, but no compound of words and numbers."""
    return _has_both(value) and not _is_compound(value) and not _PATH.match(value)


def is_plain_word(value: str) -> bool:
    """Return whether the value is a plain word that people use as a password, and no remark about passwords."""
    return 5 <= len(value) <= 24 and _says_nothing(value)


def _says_nothing(word: str) -> bool:
    """Return whether a word is in lower case, except for its first letter, and no remark about passwords."""
    if not _WORD.fullmatch(word) or _KEY_WORD.search(word):
        return False
    low = word.lower()
    return low not in _NO_SECRETS and low not in _ABOUT_PASSWORDS and not _ABOUT.search(low)


def _is_phrase(words: list[str], put: Put, of_password: bool) -> bool:
    """Return whether several words are a secret, and no sentence about one."""
    if any(_is_strong(word) for word in words):
        return True
    if not of_password or len(words) > 6 or not _PROSE.isdisjoint(word.lower().strip("().,:") for word in words):
        return False
    mixed = any(_has_both(word) and not _TECHNICAL.match(word) and not _is_compound(word) for word in words)
    return mixed or (put == "told in quotes" and any(word.isdigit() for word in words))


def _is_row_of_words(value: str) -> bool:
    """Return whether the value is a row of random words, as in "correct-horse-battery-staple"."""
    parts = value.split("-")
    return len(parts) >= 4 and all(_ROW_WORD.fullmatch(part) and part not in _PROSE for part in parts)


def _is_worded(value: str) -> bool:
    """Return whether the value is words and a number, as in typical passwords: "blue-Falcon-42", "falcon7falcon7"."""
    if _RUN_TOGETHER.fullmatch(value):
        return all(map(_is_made_up, _LETTERS.findall(value)))
    *made_of, number = re.split(r"[-_.]", value.rstrip("!?"))
    if not made_of or not number.isdigit() or len(number) > 4 or not all(map(_is_made_up, made_of)):
        return False
    return len(made_of) > 1 or (len(number) > 1 and not value.islower())  # "Falcon-42", but not "sprint-12"


def _is_made_up(word: str) -> bool:
    return len(word) > 3 and _says_nothing(word) and word.lower() not in _PROSE


def _is_given(value: str, put: Put, of_password: bool) -> bool:
    if _has_letter(value) and (any(sign.isdigit() for sign in value) or re.search(r"[^\w./:-]", value)):
        # A declaration is in a settings file, which has no variable names; other values may be such names.
        return put == "declared" or not (_is_compound(value) and (_KEY_WORD.search(value) or _names_none(value)))
    if value.isdigit():
        return of_password and len(value) >= 4
    if _is_compound(value):  # "correct-horse-battery-staple" is a password, "my-app-secret" the name of one
        return of_password and value.count("-") >= 3 and not _KEY_WORD.search(value)
    named = value.isalpha() and len(value) >= (6 if of_password else 20) and not _KEY_WORD.search(value)
    return named and put != "option"  # "the --password options"


def _is_noted(value: str, of_password: bool) -> bool:
    if value.isdigit():
        return of_password and len(value) >= 6
    if _has_both(value):
        return len(value) >= (6 if of_password else 10) or _is_strong(value)
    return of_password and len(value) >= 6 and _INNER_SIGN.search(value) is not None


def _is_strong(value: str) -> bool:
    """Return whether the value looks like a secret and hardly like anything else."""
    if len(value) < 6 or not _has_letter(value) or _is_compound(value) or _TECHNICAL.match(value):
        return False
    if not any(sign.isdigit() for sign in value):
        return len(value) >= 8 and _INNER_SIGN.search(value) is not None
    classes = sum(re.search(kind, value) is not None for kind in ("[a-z]", "[A-Z]", r"[^\w.,:;/()'-]"))
    return classes >= 2 or (len(value) >= 16 and looks_random(value))


def _has_letter(value: str) -> bool:
    return any(sign.isalpha() for sign in value)


def _has_both(value: str) -> bool:
    return _has_letter(value) and any(sign.isdigit() for sign in value)


def _is_compound(value: str) -> bool:
    """Return whether it is made of words and numbers: base64-encoded, AES-256-GCM, required|min:8, 50k/day,
    oauth2_scheme.
    """
    parts = _JOINT.split(value)
    return len(parts) > 1 and all(len(part) <= 20 and _WORDY.fullmatch(part) for part in parts if part)


def _names_none(compound: str) -> bool:
    return not _NO_SECRETS.isdisjoint(_JOINT.split(compound.lower()))


def _is_placeholder(value: str) -> bool:
    return value.lower().strip("<>[]{}()*_-") in _NO_SECRETS or _PLACEHOLDER.search(value) is not None


def _is_reference(value: str) -> bool:
    """Return whether the value refers to a secret or is code: a path, an address, a variable, a call, an attribute."""
    if _PATH.match(value) or _ADDRESS.match(value) or _CALL.match(value) or _DIGEST.match(value):
        return True
    if _DOTTED.fullmatch(value) or _VARIABLE.fullmatch(value):
        return True
    return value.replace("_", "").isalpha() and ("_" in value or _KEY_WORD.search(value) is not None)


_JOINT = lazy_re.compile(r"[-_/.:+|,&=()\[\]]+")
_WORDY = lazy_re.compile(r"[^\W\d_]+\d{0,4}|\d+[^\W\d_]{0,3}|[^\W\d_]{1,3}\d{1,4}[^\W\d_]{1,3}")
#: A word and a number, or joined words longer than any natural one.
_TOLD = lazy_re.compile(r"(?=.{6})[^\W\d_]{3,}\d{1,6}[!?]*|[a-z]{20,}")
#: Words, each followed by a number.
_RUN_TOGETHER = lazy_re.compile(r"(?:[^\W\d_]{4,12}\d{1,6}){2,4}[!?]*")
_LETTERS = lazy_re.compile(r"[^\W\d_]+")
_WORD = lazy_re.compile(r"[^\W\d_]?[a-zà-öø-ÿ]+")
_ROW_WORD = lazy_re.compile(r"[a-z]{3,12}")
#: Endings of words that describe a state or an action.
_ABOUT = lazy_re.compile(
    r"(?:ed|ing|ly|able|ible|tion|sion|ment|ness|less|ent|ant|ary|ory|ive|ous|ful|ity|ance|ence|hash|crypt|ware"
    r"|lich|bar|ung|iert|ig|isch|aire|ado|ada|ido|ida|orio|oria|atif|oire|ional)$"
)
_INNER_SIGN = lazy_re.compile(r"\w[!@#$%^&*~+=?]+\w")
_KEY_WORD = lazy_re.compile(r"(?i)passw|passphrase|pwd|secret|token|credential|(?<!mon|don|tur|hoc|joc|his)key")

_TECHNICAL = lazy_re.compile(
    r"(?i)(?:base|sha|md|utf|aes|rsa|hs|rs|es|ps|ed|ec|p|oauth|http|ipv|iso|pbkdf|argon|x|hmac|tls|ssl|int|uint|float|"
    r"python|node|k|s|ec|web|win|gpt|v|id_ed)-?\d+[a-z-]{0,8}[.,;:!?)]*$|1password|b2c|auth0|c\+\+"
)
_PLACEHOLDER = lazy_re.compile(
    r"(?i)^x{3,}|\*{3}|•{3}|\.\.\.|…|^<|>$|^\$[a-z_{(]|\$\{|\$\(|\{\{|^[{(\[]|^%[a-z_(]|%s|\[redacted|#\{"
    r"|(?:^|[-_ ])(?:your|change[-_]?me|example|placeholder|insert|replace|dummy|fake|sample|redacted|todo)(?:$|[-_ ])"
    r"|^(?:my|the|some|a)[-_](?:[a-z]+[-_])*(?:password|passwd|secret|token|key)$"
)
_PATH = lazy_re.compile(
    r"(?:~|\.{0,2})/(?:[\w.-]+/|[a-z.-]+$)|[A-Za-z]:[\\/]|[\w.@-]+(?:/[\w.@-]+)*\.[a-z]{2,5}\d?[.,;:)]*$"
)
_ADDRESS = lazy_re.compile(
    r"(?i)[a-z][a-z0-9+.-]{1,20}://|[\w.+-]+@[\w-]+\.[\w.-]+$|v?\d+(?:\.\d+)+|\d{4}-\d\d-\d\d|\d+:\d+"
    r"|0x[0-9a-f]{40}$"  # a contract address: such a "token" is public
)
_CALL = lazy_re.compile(
    r"&?(?:await|new|not|lambda|func)\b|[A-Za-z_$][A-Za-z_.$:>-]*\??[(\[{]"
    r"|[A-Za-z_][\w.]{2,}\((?:$|[)A-Za-z_\"'.*&\[{-])|[-+]|!+[a-z]+[.(]|[a-z]+::"
)
_DIGEST = lazy_re.compile(r"(?i)(?:sha|md)\d{1,3}[-:]|#[0-9a-f]{3,8}$|\d+\*")  # also a colour and a grammar
_DOTTED = lazy_re.compile(r"[A-Za-z_$][\w$]{0,30}(?:\??\.[A-Za-z_$][A-Za-z_$]{0,30}\d?)+;?")
_VARIABLE = lazy_re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]+(?:_[a-z]+)+\d?")

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
    """.split()
)
