"""Commands on API keys: create, list, revoke, and their audit log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from cofio.cli import output
from cofio.cli.output import ID, WHEN, Field
from cofio.cli.shared_options import BY, CliContext, command, examples, where
from cofio.errors import InvalidInput, NotFound
from cofio.models.auth import ROLES, Grant, Key
from cofio.models.memory import to_utc_iso

_NAME = Field("name", wraps=True)


class _FutureTime(click.ParamType[str]):
    """A future time, or a duration from now."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return output.to_come(str(value))
        except InvalidInput as error:
            self.fail(f"{error.message} {error.hint} Or a duration from now: 12h, 90d, 8w.", param, ctx)


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
    """Create, list and revoke keys for the service, and read their audit log."""


# ── create ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command(
    "create",
    'cofio keys create "ada\'s laptop" --user ada --team web',
    "cofio keys create ci --agent ci --role read --prefix ci/web --expires 90d",
    "cofio keys create root --role admin",
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="write",
    show_default=True,
    help="Role of the key: what its requests may do.",
)
@click.option("--agent", default="", metavar="NAME", help="Agent that uses the key; its requests act as this agent.")
@click.option("--user", default="", metavar="NAME", help="User that uses the key; its requests act as this user.")
@click.option("--team", default="", metavar="NAME", help="Team of the user or agent.")
@click.option("--prefix", "prefixes", metavar="SOURCE", multiple=True, help="Source that the key may read and write, "
              "including those below it; default: all.")  # fmt: skip
@click.option(
    "--expires", "expires_at", type=_FutureTime(), help="Expiry: 2027-01-31, or a duration: 90d. Default: never."
)
def create(session: CliContext, **about: Any) -> None:
    """Create a key and print it. It cannot be shown again: only a digest is stored.

    A key reads and writes for a user or an agent, as a member of a team. An admin key has full access. As soon as the
    first key exists, the service requires a key from everyone.
    """
    grant = Grant(**about)
    with session.store(new=True) as store:
        is_first = not _any_in_force(store.keys())
        key, secret = store.create_key(grant, by=BY)
    if session.as_json:
        output.document({**key.as_dict(), "secret": secret})
        return
    output.facts_about([("id", key.id), *_describe_key(key), ("key", secret)])
    output.say("The key is shown only this once. Clients send it as X-API-Key, and read it from COFIO_API_KEY:")
    output.say(f"  export COFIO_API_KEY={secret}")
    if is_first and not session.settings.api_key:
        output.say(
            "This is the first active key: from now on the service requires a key from everyone, also on this machine."
        )


# ── list ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("list", "cofio keys list", "cofio keys list --json")
def list_(session: CliContext) -> None:
    """List all keys, newest first, including revoked ones. Only the first characters of a key are shown."""
    with session.store() as store:
        stored_keys = store.keys()
    if session.as_json:
        output.document({"keys": [key.as_dict() for key in stored_keys]})
        return
    columns = (
        *(ID, _NAME, Field("role"), Field("for", wraps=True), Field("sources", wraps=True), Field("state")),
        *(Field("last used", "dim"), Field("begins", "dim")),
    )
    output.table(columns, (_format_row(key) for key in stored_keys))
    if not stored_keys:
        output.say("There are no keys; `cofio keys create` creates one.")


def _format_row(key: Key) -> tuple[Any, ...]:
    grant = key.grant
    last_used = output.when(key.last_used_at) or "never"
    return (
        key.id,
        grant.name,
        grant.role,
        _describe_owner(grant),
        grant.prefixes,
        _format_state(key),
        last_used,
        key.hint,
    )


def _describe_key(key: Key) -> Iterator[tuple[str, Any]]:
    grant = key.grant
    yield from (("name", grant.name), ("role", grant.role), ("for", _describe_owner(grant)))
    yield from (("sources", grant.prefixes), ("expires_at", grant.expires_at))


def _describe_owner(grant: Grant) -> str:
    owners = (("user", grant.user), ("agent", grant.agent), ("team", grant.team))
    return ", ".join(f"{label} {name}" for label, name in owners if name) or "everything"


def _format_state(key: Key) -> str:
    if key.revoked_at:
        return f"revoked {output.when(key.revoked_at)}"
    if not _is_in_force(key):
        return f"expired {output.when(key.grant.expires_at)}"
    return f"until {(key.grant.expires_at or '')[:10]}" if key.grant.expires_at else "active"


def _is_in_force(key: Key) -> bool:
    return key.is_valid(to_utc_iso(datetime.now(UTC)))


def _any_in_force(stored_keys: Sequence[Key]) -> bool:
    return any(_is_in_force(key) for key in stored_keys)


# ── revoke ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("revoke", "cofio keys revoke 3", 'cofio keys revoke "ada\'s laptop"')
@click.argument("key", metavar="ID|NAME")
def revoke(session: CliContext, key: str) -> None:
    """Revoke a key: it stops working within seconds. It stays in the list and in the log."""
    with session.store() as store:
        revoked_key = store.revoke_key(_find_key(key, store.keys()).id, by=BY)
        has_active = _any_in_force(store.keys())
    if session.as_json:
        output.document(revoked_key.as_dict())
        return
    output.say(f"Key {revoked_key.id} ({revoked_key.grant.name}) is revoked.")
    if not has_active and not session.settings.api_key:
        output.say("No key is active now: a service without COFIO_API_KEY is open to this machine again.")


def _find_key(reference: str, stored_keys: Sequence[Key]) -> Key:
    """Return the key with this id or name; an active one is preferred to revoked ones of the same name."""
    by_name = [key for key in stored_keys if key.grant.name == reference]
    active = [key for key in by_name if not key.revoked_at]
    matches = [key for key in stored_keys if str(key.id) == reference] or active or by_name
    if not matches:
        raise NotFound(f"There is no key {reference!r}.", "`cofio keys list` shows them all.")
    return matches[0]


# ── log ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@command("log", "cofio keys log", "cofio keys log --key ci --limit 100", "cofio keys log --json")
@click.option("--key", metavar="ID|NAME", help="Only operations with this key.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="Maximum number of audit log entries."
)
def log(session: CliContext, key: str | None, limit: int) -> None:
    """Show the audit log, newest first.

    It contains created and revoked keys, changes made with keys, and denied requests.
    """
    with session.store() as store:
        entries = store.deeds(limit=limit, key=_find_key(key, store.keys()).id if key else None)
    if session.as_json:
        output.document({"deeds": [entry.as_dict() for entry in entries]})
        return
    columns = (WHEN, Field("outcome"), Field("key", "cyan", "right"), _NAME, Field("operation", wraps=True),
               Field("about", wraps=True), Field("from", "dim"))  # fmt: skip
    output.table(
        columns,
        ((output.when(d.at), d.outcome, d.key or "", d.name, d.act, d.what, d.address) for d in entries),
    )
    if not entries:
        output.say("The audit log is empty.")


for subcommand in (create, list_, revoke, log):
    keys.add_command(subcommand)
