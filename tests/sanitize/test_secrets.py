"""Secrets: what is found in the corpus, what is left alone, and what holds for any text."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.ingest.sanitize import redact
from cofio.ingest.sanitize.secrets import find_secrets
from tests.sanitize.corpus import HARMLESS, SECRETS, made

KINDS = """
    anthropic-key openai-key github-token gitlab-token aws-access-key aws-secret google-key slack-token slack-webhook
    stripe-key npm-token pypi-token huggingface-token sendgrid-key twilio-key discord-token telegram-token azure-key jwt
    private-key bearer-token basic-auth url-password password session-cookie card-number iban ssn
""".split()


def test_every_secret_of_the_corpus_is_redacted_and_nothing_else_of_its_text() -> None:
    wrong = [
        redact(before + secret + after)
        for kind, before, secret, after in SECRETS
        if redact(before + secret + after) != f"{before}[redacted:{kind}]{after}"
    ]
    print(f"{len(SECRETS) - len(wrong)} of {len(SECRETS)} secrets")
    assert wrong == []


def test_no_harmless_text_of_the_corpus_is_touched() -> None:
    wrong = [redact(text) for text in HARMLESS if redact(text) != text]
    print(f"{len(HARMLESS) - len(wrong)} of {len(HARMLESS)} harmless texts")
    assert wrong == []


def test_the_corpus_is_large_enough_and_has_every_kind() -> None:
    assert len(SECRETS) >= 60
    assert len(HARMLESS) >= 80
    assert {kind for kind, *_ in SECRETS} >= set(KINDS)


def test_harmless_texts_stay_so_in_a_row() -> None:
    page = "\n\n".join(HARMLESS)
    assert redact(page) == page


def test_secrets_are_found_in_a_row() -> None:
    page = redact("\n\n".join(before + secret + after for _, before, secret, after in SECRETS))
    assert [secret for _, _, secret, _ in SECRETS if secret in page] == []


AROUND = {
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


@pytest.mark.parametrize("around", AROUND)
def test_what_stands_around_a_text_hides_no_secret_and_makes_none(around: str) -> None:
    put = AROUND[around]
    single = [(before + secret + after, secret) for _, before, secret, after in SECRETS if secret.isprintable()]
    assert [text for text, secret in single if secret in redact(put(text))] == []
    assert [text for text in HARMLESS if redact(put(text)) != put(text)] == []


def test_places_are_those_of_the_text() -> None:
    text = "İ: password=" + made("hunt", "er2!x") + " and token=" + made("abc123", "def456")
    assert [(kind, text[start:end]) for kind, start, end in find_secrets(text)] == [
        ("password", made("hunt", "er2!x")),
        ("password", made("abc123", "def456")),
    ]


def test_a_disguised_word_is_seen_through_and_the_text_keeps_its_disguise() -> None:
    secret = made("Zero1", "Width2")
    assert redact(f"ｍｙ pass\u200bword:\u200b {secret[:4]}\u200b{secret[4:]}\u200b！") == (
        "ｍｙ pass\u200bword:\u200b [redacted:password]"
    )
    assert (
        redact(f"la contrase\\u00f1a es {secret}, s\\u00ed") == "la contrase\\u00f1a es [redacted:password], s\\u00ed"
    )


def test_the_two_halves_of_an_aws_key_go_together() -> None:
    half = made("q7Rk2/Zp9LmX", "4vTn8+HsWc1J", "yUe6BdGo3FiK5aNt")
    text = f"creds {made('AK', 'IA', 'Q3EGRX7MP2LWVN4T')}, {half}"
    assert redact(text) == "creds [redacted:aws-access-key], [redacted:aws-secret]"


def test_what_two_rules_find_is_redacted_once_by_the_more_telling_name() -> None:
    token = made("gh", "p_", "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4")
    assert redact(f"GITHUB_TOKEN={token}!x") == "GITHUB_TOKEN=[redacted:github-token]"


def test_a_value_without_end_goes_as_a_whole() -> None:
    assert redact("password=" + "aB3!" * 1000 + " end") == "password=[redacted:password] end"


# ── any text ──────────────────────────────────────────────────────────────────────────────────────────────────────────

PIECES = [
    *(part for _, before, secret, after in SECRETS for part in (before, secret, after) if len(part) < 200),
    *HARMLESS[::3],
    *"password secret token key : = \" ' ` @ :// [redacted:password] \\n - . / is for eyJ sk- basic bearer".split(),
    "\n",
    " ",
]


@given(st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join))
def test_redaction_never_fails_and_to_repeat_it_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


NEED_SURROUNDINGS = (
    "bearer-token url-password aws-secret slack-webhook discord-webhook azure-key session-cookie".split()
)


@given(
    st.sampled_from([(secret, kind) for kind, before, secret, _ in SECRETS if kind not in ("password", "basic-auth")]),
    st.sampled_from(["see", "use it:", "(", "\n", "token ", '"']),
)
def test_the_shape_of_a_secret_is_enough_wherever_it_stands(found: tuple[str, str], before: str) -> None:
    secret, kind = found
    if kind in NEED_SURROUNDINGS:
        return
    assert secret not in redact(f"{before} {secret} after it")


LONG = [
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
LONG += [
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
LONG += [
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "password for ",
    "curl -u ",
    "://:@",
    "basic ",
    "\\n",
    "+" * 30,
    "secret key",
]


@pytest.mark.parametrize("piece", LONG)
def test_time_grows_no_faster_than_the_text(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        took = []
        for _ in range(3):
            started = time.thread_time()
            redact(text)
            took.append(time.thread_time() - started)
        return min(took)

    assert seconds(40_000) < 6 * max(seconds(20_000), 0.002)
