"""Search for secrets that only their context gives away: settings of known tools, phrases of words, PINs and codes.

seed phrase: …     passphrase for the backup: …     PIN 4711     backup codes: …     variable "db_password" { … }
FERNET_KEY=…       ALGOLIA_ADMIN=…                  host:port:database:user:password
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cofio.text.secrets.heuristics import is_key, is_placeholder, is_word_list, looks_secret
from cofio.text.secrets.labelled import Span
from cofio.text.secrets.patterns import PATTERNS, ROWS


def find_in_context(text: str, low: str) -> Iterator[Span]:
    """Yield the secrets of each rule whose hints are in the text. `low` is the text in lower case."""
    for name, kind, hints, accepts in _RULES:
        if any(hint in low for hint in hints):
            for match in PATTERNS[name].finditer(text):
                start, end = match.span(match.lastindex or 0)
                if accepts(text[start:end], low[max(0, match.start() - 24) : start]):
                    yield kind, start, end


def _is_password(value: str, _before: str) -> bool:
    return looks_secret(value, "quoted", of_password=True)


def _is_no_placeholder(value: str, _before: str) -> bool:
    return not is_placeholder(value)


def _is_any(_value: str, _before: str) -> bool:
    return True


def _is_fallback(value: str, before: str) -> bool:
    return looks_secret(value, "quoted", of_password="pass" in before or "pwd" in before)


def _is_salt(value: str, _before: str) -> bool:
    return looks_secret(value.replace(" ", ""), "beside", of_password=False)


def _is_worded_password(value: str, _before: str) -> bool:
    return looks_secret(value, "stated", of_password=True)


def _is_clear_password(value: str, _before: str) -> bool:
    return not PATTERNS["camel_case"].fullmatch(value) and looks_secret(value, "beside", of_password=True)


def _is_seed_phrase(value: str, _before: str) -> bool:
    return is_word_list(value, least=12)


def _is_passphrase(value: str, _before: str) -> bool:
    return is_word_list(value, least=4)


_LABELS = (
    "passw",
    "passp",
    "passc",
    "passord",
    "pw",
    "kennwort",
    "mdp",
    "contrase",
    "clave",
    "senha",
    "wachtwoord",
    "парол",
)
#: The names of the pattern's first group.
_VENDORS = tuple("".join(ROWS["vendor_setting"]["pattern"]).split("(?:", 1)[1].split(")", 1)[0].split("|"))
#: Pattern, kind, hints in lower case, and the check of a value with the text before it.
_RULES: tuple[tuple[str, str, tuple[str, ...], Callable[[str, str], bool]], ...] = (
    (
        "config_secret",
        "password",
        ("snmp-server", "enable ", " psk ", "variable", "networkcred", "password", "machine "),
        _is_no_placeholder,
    ),
    ("fallback", "password", ("env", "${"), _is_fallback),
    ("salt", "password", ("salt", "auth_key", "logged_in_key", "nonce_key"), _is_salt),
    ("wifi_key", "password", ("wifi", "wi-fi", "wlan", "hotspot", "ssid", "wpa"), _is_worded_password),
    ("late_password", "password", _LABELS, _is_clear_password),
    ("azure_devops", "azure-devops-token", ("azure", "devops", "azp_", "vsts", "accesstoken", "_pat"), _is_any),
    ("pgpass", "password", ("pgpass", ":5432:", ":5433:", ":6432:", ":*:"), _is_password),
    ("seed_phrase", "seed-phrase", ("seed", "mnemonic", "recovery", "secret"), _is_seed_phrase),
    ("passphrase", "password", ("pass", "phrase", "contrase", "парол"), _is_passphrase),
    ("pin", "pin", ("pin", "puk", "code"), _is_any),
    ("backup_codes", "backup-codes", ("code",), _is_any),
    ("labelled_ssn", "ssn", ("ssn", "social"), _is_any),
    ("key_setting", "api-key", ("key", "_pat", "_auth", "credential"), is_key),
    ("vendor_setting", "api-key", _VENDORS, is_key),
)
