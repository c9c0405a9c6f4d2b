"""Commands on keys: who may ask the service for what, and the log of what was done with keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from cofio.access import ROLES, Grant, Key
from cofio.cli import output
from cofio.cli.output import ID, WHEN, Column
from cofio.cli.session import BY, Session, command, examples, where
from cofio.errors import InvalidInput, NotFound
from cofio.model import moment

_NAME = Column("name", wraps=True)


class _ToCome(click.ParamType[str]):
    """A time, or in how long."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return output.to_come(str(value))
        except InvalidInput as error:
            self.fail(f"{error.message} {error.hint} Or in how long: 12h, 90d, 8w.", param, ctx)


@click.group(
    "keys",
    epilog=examples(
        'cofio keys create "ada\'s laptop" --user ada --team web',
        "cofio keys create ci --agent ci --role read --prefix ci/web --expires 90d",
        "cofio keys list",
        "cofio keys revoke ci",
        "cofio keys log --key ci",
    ),
)
@where(hidden=True)
def keys() -> None:
    """Make keys for the service, list and revoke them, and read what was done with them."""


# ── create ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "create",
    'cofio keys create "ada\'s laptop" --user ada --team web',
    "cofio keys create ci --agent ci --role read --prefix ci/web --expires 90d",
    "cofio keys create root --role admin",
)
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="write", show_default=True, help="What it allows.")
@click.option("--agent", default="", metavar="NAME", help="The agent that it is for.")
@click.option("--user", default="", metavar="NAME", help="The user that it is for.")
@click.option("--team", default="", metavar="NAME", help="Their team.")
@click.option("--prefix", "prefixes", metavar="SOURCE", multiple=True, help="A source that it may see and write, with "
              "what lies below; all when none is given.")  # fmt: skip
@click.option("--expires", "expires_at", type=_ToCome(), help="When it ends: 2027-01-31, or in 90d; else never.")
def create(session: Session, **about: Any) -> None:
    """Make a key, and show it. It is shown this once: what is kept of it is a digest.

    A key reads and writes for a user or an agent, as a member of a team. An admin's sees and does everything. From the
    first key on, the service wants one of everybody.
    """
    grant = Grant(**about)
    with session.store(new=True) as store:
        first = not _any_in_force(store.keys())
        key, secret = store.create_key(grant, by=BY)
    if session.as_json:
        output.document({**key.as_dict(), "secret": secret})
        return
    output.facts_about([("id", key.id), *_told(key), ("key", secret)])
    output.say("This is the only time that it is shown. Clients send it as X-API-Key, and read it from COFIO_API_KEY:")
    output.say(f"  export COFIO_API_KEY={secret}")
    if first and not session.settings.api_key:
        output.say("It is the first in force: from now on the service wants a key of everybody, on this machine too.")


# ── list ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("list", "cofio keys list", "cofio keys list --json")
def list_(session: Session) -> None:
    """List every key that was ever made, newest first. Of the key itself only the beginning is known."""
    with session.store() as store:
        found = store.keys()
    if session.as_json:
        output.document({"keys": [each.as_dict() for each in found]})
        return
    columns = (
        *(ID, _NAME, Column("role"), Column("for", wraps=True), Column("sources", wraps=True), Column("state")),
        *(Column("last used", "dim"), Column("begins", "dim")),
    )
    output.table(columns, (_row(each) for each in found))
    if not found:
        output.say("There is no key; `cofio keys create` makes one.")


def _row(key: Key) -> tuple[Any, ...]:
    grant = key.grant
    used = output.when(key.last_used_at) or "never"
    return key.id, grant.name, grant.role, _whose(grant), grant.prefixes, _state(key), used, key.hint


def _told(key: Key) -> Iterator[tuple[str, Any]]:
    grant = key.grant
    yield from (("name", grant.name), ("role", grant.role), ("for", _whose(grant)))
    yield from (("sources", grant.prefixes), ("expires_at", grant.expires_at))


def _whose(grant: Grant) -> str:
    named = (("user", grant.user), ("agent", grant.agent), ("team", grant.team))
    return ", ".join(f"{what} {name}" for what, name in named if name) or "everything"


def _state(key: Key) -> str:
    if key.revoked_at:
        return f"revoked {output.when(key.revoked_at)}"
    if not _is_in_force(key):
        return f"expired {output.when(key.grant.expires_at)}"
    return f"until {(key.grant.expires_at or '')[:10]}" if key.grant.expires_at else "in force"


def _is_in_force(key: Key) -> bool:
    return key.is_valid(moment(datetime.now(UTC)))


def _any_in_force(known: Sequence[Key]) -> bool:
    return any(_is_in_force(each) for each in known)


# ── revoke ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("revoke", "cofio keys revoke 3", 'cofio keys revoke "ada\'s laptop"')
@click.argument("key", metavar="ID|NAME")
def revoke(session: Session, key: str) -> None:
    """Revoke a key: within seconds it opens nothing any more. It stays in the list, and in the log."""
    with session.store() as store:
        gone = store.revoke_key(_meant(key, store.keys()).id, by=BY)
        left = _any_in_force(store.keys())
    if session.as_json:
        output.document(gone.as_dict())
        return
    output.say(f"Key {gone.id} ({gone.grant.name}) opens nothing any more.")
    if not left and not session.settings.api_key:
        output.say("None is in force now: a service without COFIO_API_KEY is open to this machine again.")


def _meant(given: str, known: Sequence[Key]) -> Key:
    """The key that a person means, by its id or its name; the one in force, where others had the name before."""
    named = [each for each in known if each.grant.name == given]
    standing = [each for each in named if not each.revoked_at]
    found = [each for each in known if str(each.id) == given] or standing or named
    if not found:
        raise NotFound(f"There is no key {given!r}.", "`cofio keys list` shows them all.")
    return found[0]


# ── log ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("log", "cofio keys log", "cofio keys log --key ci --limit 100", "cofio keys log --json")
@click.option("--key", metavar="ID|NAME", help="Only what was done with this key.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="How many lines.")
def log(session: Session, key: str | None, limit: int) -> None:
    """Show the audit log, newest first.

    It has keys made and revoked, what was changed with them, and what was refused.
    """
    with session.store() as store:
        found = store.deeds(limit=limit, key=_meant(key, store.keys()).id if key else None)
    if session.as_json:
        output.document({"deeds": [each.as_dict() for each in found]})
        return
    columns = (WHEN, Column("outcome"), Column("key", "cyan", "right"), _NAME, Column("what was done", wraps=True),
               Column("about", wraps=True), Column("from", "dim"))  # fmt: skip
    output.table(
        columns,
        ((output.when(d.at), d.outcome, d.key or "", d.name, d.act, d.what, d.address) for d in found),
    )
    if not found:
        output.say("Nothing was done with keys yet.")


for each in (create, list_, revoke, log):
    keys.add_command(each)
