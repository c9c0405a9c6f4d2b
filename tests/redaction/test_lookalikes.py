"""Texts that resemble secrets and are none: hashes, ids, public keys, code, and prose about passwords.

Each template is filled with random values of the right form, several times. Below 0.5 % may be redacted.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from random import Random

import pytest

from cofio.text.secrets import redact

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
WORDS = "user order cache retry queue parse token batch config render stream buffer index signal worker".split()

Make = Callable[[Random], str]


def digits(length: int) -> Make:
    return lambda random: "".join(random.choice("0123456789") for _ in range(length))


def hexadecimal(length: int) -> Make:
    return lambda random: "".join(random.choice("0123456789abcdef") for _ in range(length))


def encoded(length: int) -> Make:
    return lambda random: base64.b64encode(random.randbytes(length)).decode()


def of(alphabet: str, length: int) -> Make:
    return lambda random: "".join(random.choice(alphabet) for _ in range(length))


def camel_case(random: Random) -> str:
    return "".join(word.title() for word in random.choices(WORDS, k=5))


def snake_case(random: Random) -> str:
    return "_".join(random.choices(WORDS, k=6))


VALUES: dict[str, Make] = {
    "sha1": hexadecimal(40),
    "short": hexadecimal(7),
    "md5": hexadecimal(32),
    "sha256": hexadecimal(64),
    "sha512": encoded(64),
    "b256": encoded(32),
    "image": encoded(600),
    "uuid": lambda random: str(uuid.UUID(int=random.getrandbits(128))),
    "ulid": lambda random: "01" + of(CROCKFORD, 24)(random),
    "cid": lambda random: "Qm" + of(BASE58, 44)(random),
    "address": lambda random: "0x" + hexadecimal(40)(random),
    "isbn": lambda random: f"978-{digits(1)(random)}-{digits(4)(random)}-{digits(4)(random)}-{digits(1)(random)}",
    "version": lambda random: ".".join(str(random.randrange(30)) for _ in range(3)),
    "color": hexadecimal(6),
    "number": digits(13),
    "digits": digits(5),
    "ssh": lambda random: "AAAAC3NzaC1lZDI1NTE5AAAAI" + encoded(32)(random),
    "camel": camel_case,
    "snake": snake_case,
    "word": lambda random: random.choice(WORDS),
    "nano": of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", 21),
}

GENERATED = """
commit {sha1}
Merge {short}..{short} into main
git checkout {sha1} -- src/{snake}.py
- uses: actions/checkout@{sha1}
Subproject commit {sha1}
"integrity": "sha512-{sha512}"
"resolved": "https://packages.acme.io/{word}/-/{word}-{version}.tgz#{sha1}"
"checksum": "{sha256}"
{sha256}  dist/{word}-{version}.tar.gz
md5({word}) = {md5}
ETag: "{md5}"
If-None-Match: W/"{md5}"
image: ghcr.io/acme/{word}@sha256:{sha256}
FROM python:3.12-slim@sha256:{sha256}
digest: sha256:{sha256}
"request_id": "{uuid}"
trace {md5} span {md5}
traceparent: 00-{md5}-{short}f0a1b2c3d-01
run {ulid} failed after {number} ms
order {uuid} was refunded
userId={uuid}&page=2
id: {nano}
ssh-ed25519 {ssh} ann@laptop
Host key fingerprint is SHA256:{b256}
public_key: {b256}
"publicKey": "{b256}"
<img src="data:image/png;base64,{image}">
.icon {{ background: url(data:image/gif;base64,{image}) }}
//# sourceMappingURL=data:application/json;base64,{image}
ISBN {isbn}
EAN {number}
color: #{color}; border-color: #{color}
--accent: #{color};
{word}=={version}
"{word}": "^{version}"
{word}-{version}-py3-none-any.whl --hash=sha256:{sha256}
go.sum: github.com/acme/{word} v{version} h1:{b256}
ipfs://{cid}
The contract is deployed at {address}.
build {number} of branch {snake}
https://cdn.acme.io/assets/{word}.{md5}.js
https://acme.io/orders/{uuid}?tab=items
https://drive.google.com/file/d/{nano}abcdefghijkl/view
class {camel}Factory extends Abstract{camel} {{}}
const {camel} = get{camel}({snake})
def test_{snake}_returns_{snake}() -> None: ...
function a(b,c){{return b.{word}?c({digits}):void 0}}var e=a.{camel};e.{word}=!0
cache_key = "{snake}:{digits}"
key={snake}
partition key {snake}#{digits}
s3 key: backups/2026/{word}/{uuid}.tar.gz
token = tokens[{digits}]
token_count: {digits}
max_tokens={digits}
"token_type": "Bearer", "expires_in": {digits}
secret_name: {snake}
password_hash_algorithm = argon2id
PASSWORD_MIN_LENGTH = {digits}
sentry: {sha1}
datadog_version: {version}
STRIPE_API_VERSION=2026-01-28.{word}
twilio_message_id={uuid}
firebase: "{version}"
azure region westeurope, subscription {uuid}
commit range {sha1}...{sha1}
docker image id {short}{short}
kernel 6.8.0-{digits}-generic #{digits} SMP
{number} rows in {digits} ms
phone +49 30 {digits}{digits}
at line {digits} of {snake}.py, column {digits}
X-Request-Id: {uuid}
Content-MD5: {b256}
nonce-{b256}
'sha256-{b256}' 'unsafe-inline'
tracking number 1Z{md5}
""".strip().split("\n")

PROSE = """
the password policy is 12 characters
We rotate tokens weekly.
The token budget is 2000 per prompt.
Passwords are hashed with bcrypt before they are stored.
Password: required for all admin users
The passphrase is never stored on disk.
Ask Ann for the password of the staging server.
The secret of a good review is patience and small changes.
Recovery codes are shown once after enrolment.
Backup codes: print them and keep them in the safe.
The seed data is loaded by the first migration in the test suite and never in production.
The recovery phrase is shown once when you create the wallet and must never leave that device.
PIN the dependency to version 4.
Pin codes are not supported by this terminal.
GPIO pin 18 is an output.
The pin of the relay is 17.
SSN fields are masked in the logs.
Log in with your company account and the second factor.
You can log in to the dashboard with SSO.
The key to good tests is isolation.
The foreign key points at users.id.
Primary key: composite of tenant and day.
Press any key to continue.
API keys are created under Settings and shown once.
The API key must be sent in the header X-API-Key.
Use the token from the environment, never a literal one.
token: string
password: str = Field(min_length=8)
password = getpass.getpass()
DB_PASSWORD=${DB_PASSWORD}
password: <your password>
password: changeme
postgres://user:password@localhost:5432/app
postgres://postgres:postgres@db:5432/app
redis://:${REDIS_PASSWORD}@cache:6379
mysql://root:<password>@127.0.0.1/app
https://user:changeme@proxy.acme.io
amqp://guest:guest@rabbit:5672
keytool -list -keystore release.jks -storepass $STOREPASS
curl -u "$USER:$TOKEN" https://ci.acme.io
docker login -u ann --password-stdin
vault login -method=oidc
cargo login
npm login --registry https://npm.acme.io
htpasswd -c .htpasswd ann
variable "db_password" { type = string }
variable "region" { default = "eu-west-1" }
client-key: /etc/kubernetes/pki/client.key
enable secret scanning in the repository settings
Das Passwort muss mindestens zwölf Zeichen haben.
Das Passwort für den Server liegt im Tresor.
La contraseña debe tener ocho caracteres.
Le mot de passe doit contenir un chiffre.
Пароль должен содержать двенадцать символов.
We moved the credentials into Vault last week.
Credentials are read from the keychain.
The session cookie is HttpOnly and lasts 30 minutes.
csrf tokens are rotated on login
jwt.verify(token, publicKey)
Authorization: Bearer <token>
Authorization: Basic <credentials>
the bearer of bad news
Basic authentication is switched off.
sk-your-key-here
ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
AKIAXXXXXXXXXXXXXXXX
xoxb-your-token
glpat-xxxxxxxxxxxxxxxxxxxx
Tokens that begin with ghp_ are personal access tokens.
The prefix sk_live_ marks live keys of Stripe.
-----BEGIN PUBLIC KEY-----
hooks.slack.com is blocked by the proxy
npm_config_registry=https://npm.acme.io
pat-na1 is the region prefix of HubSpot
re_render_all_components_when_props_change
dp.st. is the prefix of a Doppler service token
""".strip().split("\n")


def fill(template: str, seed: int) -> str:
    random = Random(f"{template}{seed}")
    made = {name: [make(random) for _ in range(2)] for name, make in VALUES.items()}
    for name, values in made.items():
        for value in values:
            template = template.replace(f"{{{name}}}", value, 1)
    return template.replace("{{", "{").replace("}}", "}")


LOOKALIKES = [*(fill(template, seed) for template in GENERATED for seed in range(8)), *PROSE]


def test_fewer_than_one_look_alike_in_two_hundred_is_redacted() -> None:
    changed = [(text[:160], redact(text)[:160]) for text in LOOKALIKES if redact(text) != text]
    print(f"{len(changed)} of {len(LOOKALIKES)} look-alikes", *changed, sep="\n")
    assert len(LOOKALIKES) > 600
    assert len(changed) < 0.005 * len(LOOKALIKES)


@pytest.mark.parametrize("text", PROSE)
def test_prose_and_placeholders_are_unchanged(text: str) -> None:
    assert redact(text) == text
