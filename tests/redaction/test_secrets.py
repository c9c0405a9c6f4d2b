"""Secrets: detection in the corpus, false positives, and properties for any text."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.text.secrets import redact
from cofio.text.secrets.detection import find_secrets
from tests.redaction.corpus import HARMLESS, IN_CONTEXT, SECRETS, join_parts

CASES = [*SECRETS, *IN_CONTEXT]
KINDS = """
    anthropic-key openai-key github-token gitlab-token aws-access-key aws-secret google-key slack-token slack-webhook
    stripe-key npm-token pypi-token huggingface-token sendgrid-key twilio-key discord-token telegram-token azure-key jwt
    private-key bearer-token basic-auth url-password password session-cookie card-number iban ssn
""".split()


def test_only_the_secret_is_redacted_in_every_corpus_text() -> None:
    failed = [
        redact(before + secret + after)
        for kind, before, secret, after in CASES
        if redact(before + secret + after) != f"{before}[redacted:{kind}]{after}"
    ]
    print(f"{len(CASES) - len(failed)} of {len(CASES)} secrets")
    assert failed == []


def test_harmless_texts_of_the_corpus_are_unchanged() -> None:
    failed = [redact(text) for text in HARMLESS if redact(text) != text]
    print(f"{len(HARMLESS) - len(failed)} of {len(HARMLESS)} harmless texts")
    assert failed == []


def test_corpus_is_large_enough_and_has_every_kind() -> None:
    assert len(SECRETS) >= 60
    assert len(HARMLESS) >= 80
    assert {kind for kind, *_ in SECRETS} >= set(KINDS)


def test_concatenated_harmless_texts_are_unchanged() -> None:
    page = "\n\n".join(HARMLESS)
    assert redact(page) == page


def test_concatenated_secrets_are_redacted() -> None:
    page = redact("\n\n".join(before + secret + after for _, before, secret, after in SECRETS))
    assert [secret for _, _, secret, _ in SECRETS if secret in page] == []


CONTEXTS = {
    "in parentheses": lambda text: f"({text})",
    "quoted": lambda text: f"> {text}",
    "in JSON": lambda text: json.dumps({"said": text}),
    "in JSON in JSON": lambda text: json.dumps(json.dumps({"said": text})),
    "in a table": lambda text: f"| a | {text} | b |",
    "in a list": lambda text: f"- {text}",
    "bold": lambda text: f"**{text}**",
    "inline code": lambda text: f"`{text}`",
    "in a tag": lambda text: f"<v>{text}</v>",
    "in a difference": lambda text: "+" + text.replace("\n", "\n+"),
    "indented": lambda text: "    " + text.replace("\n", "\n    "),
    "of Windows": lambda text: text.replace("\n", "\r\n"),
    "before a full stop": lambda text: f"{text}. More of it.",
    "before a comma": lambda text: f"{text}, and more",
}


@pytest.mark.parametrize("context", CONTEXTS)
def test_context_neither_hides_nor_creates_a_secret(context: str) -> None:
    embed = CONTEXTS[context]
    single = [(before + secret + after, secret) for _, before, secret, after in SECRETS if secret.isprintable()]
    assert [text for text, secret in single if secret in redact(embed(text))] == []
    assert [text for text in HARMLESS if redact(embed(text)) != embed(text)] == []


def test_offsets_refer_to_the_text() -> None:
    text = "İ: password=" + join_parts("hunt", "er2!x") + " and token=" + join_parts("abc123", "def456")
    assert [(kind, text[start:end]) for kind, start, end in find_secrets(text)] == [
        ("password", join_parts("hunt", "er2!x")),
        ("password", join_parts("abc123", "def456")),
    ]


def test_disguised_keyword_is_recognized_and_the_text_keeps_its_disguise() -> None:
    secret = join_parts("Zero1", "Width2")
    assert redact(f"ｍｙ pass\u200bword:\u200b {secret[:4]}\u200b{secret[4:]}\u200b！") == (
        "ｍｙ pass\u200bword:\u200b [redacted:password]"
    )
    assert (
        redact(f"la contrase\\u00f1a es {secret}, s\\u00ed") == "la contrase\\u00f1a es [redacted:password], s\\u00ed"
    )


def test_both_halves_of_an_aws_key_are_redacted() -> None:
    half = join_parts("q7Rk2/Zp9LmX", "4vTn8+HsWc1J", "yUe6BdGo3FiK5aNt")
    text = f"creds {join_parts('AK', 'IA', 'Q3EGRX7MP2LWVN4T')}, {half}"
    assert redact(text) == "creds [redacted:aws-access-key], [redacted:aws-secret]"


def test_end_of_a_private_key_whose_beginning_is_missing_is_redacted() -> None:
    lines = [join_parts("MIIEvQIBADANBgkq", "hkiG9w0BAQEFAASC", str(number)) for number in range(3)]
    end = join_parts("-----END ", "PRIVATE KEY-----")
    text = "The rest of it:\n" + "\n".join([*lines, end]) + "\nThat is all."
    assert redact(text) == "The rest of it:\n[redacted:private-key]\nThat is all."


def test_match_of_two_rules_is_redacted_once_by_the_more_specific_name() -> None:
    token = join_parts("gh", "p_", "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4")
    assert redact(f"GITHUB_TOKEN={token}!x") == "GITHUB_TOKEN=[redacted:github-token]"


def test_long_value_is_redacted_as_a_whole() -> None:
    assert redact("password=" + "aB3!" * 1000 + " end") == "password=[redacted:password] end"


# ── Any text ──────────────────────────────────────────────────────────────────────────────────────────────────────────

PIECES = [
    *(part for _, before, secret, after in SECRETS for part in (before, secret, after) if len(part) < 200),
    *HARMLESS[::3],
    *"password secret token key : = \" ' ` @ :// [redacted:password] \\n - . / is for eyJ sk- basic bearer".split(),
    "\n",
    " ",
]


@given(st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join))
def test_redaction_is_idempotent(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


CONTEXT_DEPENDENT = (
    "bearer-token url-password aws-secret slack-webhook discord-webhook azure-key session-cookie".split()
)


@given(
    st.sampled_from([(secret, kind) for kind, before, secret, _ in SECRETS if kind not in ("password", "basic-auth")]),
    st.sampled_from(["see", "use it:", "(", "\n", "token ", '"']),
)
def test_format_of_a_secret_is_sufficient_in_any_context(secret_and_kind: tuple[str, str], before: str) -> None:
    secret, kind = secret_and_kind
    if kind in CONTEXT_DEPENDENT:
        return
    assert secret not in redact(f"{before} {secret} after it")


PATHOLOGICAL = [
    "a",
    "A1",
    "-----BEGIN ",
    "password=",
    "eyJ",
    "http://a:",
    "sk-",
    "token is ",
    '"password": "',
    "glpat-.",
    "M.",
    "aws",
]
PATHOLOGICAL += [
    "4111 ",
    "4111",
    "DE89",
    "<password>",
    "cookie: a=",
    "sessionid=",
    "AKIAQ3EGRX7MP2LWVN4T ",
    " as the ",
    "creds: a/",
    "name: token\n value",
    "docker login -p ",
    "mysql -",
    "pass\u200b",
    "\\u00e4",
    "\\",
    "secret_",
    "a-",
    "password: swordfish ",
    "密码是",
]
PATHOLOGICAL += [
    "seed phrase is ",
    "apple bread candle ",
    "passphrase for ",
    "passphrase: apple ",
    "pin for a ",
    "backup codes: 8f3k-2m9q, ",
    "recovery code ",
    "htpasswd -b a ",
    'variable "db_password" { default ',
    "algolia_key=aB3dE5fG7",
    "ldapsearch -D zip -P 7z ",
    "a:5432:b:c:",
    "log in to ",
    "hooks.slack.com/a/ glc_ hv. dp.st. ",
    "$2a$10$",
    "0123456789abcdef-",
    "aB3/+",
]
PATHOLOGICAL += [
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "password for ",
    "curl -u ",
    "://:@",
    "basic ",
    "\\n",
    "+" * 30,
    "secret key",
    "the pw it's now ",
    "wifi key ",
    "echo -n a | ",
    "echo a:bcd|",
    "env.A_KEY || ",
    "${KEY:-",
    "salt = 'a",
    "_pat azure ",
    "xoxd-%2B",
]


@pytest.mark.parametrize("piece", PATHOLOGICAL)
def test_time_is_linear_in_the_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        durations = []
        for _ in range(3):
            started = time.thread_time()
            redact(text)
            durations.append(time.thread_time() - started)
        return min(durations)

    assert seconds(40_000) < 6 * max(seconds(20_000), 0.002)
