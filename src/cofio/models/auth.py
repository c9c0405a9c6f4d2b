"""Types of access control: keys, their roles and grants, and the audit log.

    key ─ digest ─▶ Key ─▶ Role: which routes    Viewer: which memories    Deed: an audit log entry

Base layer, beside `model`. The key itself is shown once, on creation; only its digest is stored.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cofio.errors import InvalidInput
from cofio.models.json_values import JsonFields
from cofio.models.memory import MAX_LABEL, Viewer, check_text, to_utc_iso

#: Roles: read; write, which also adds and edits; admin, which does everything, for every team.
Role = Literal["read", "write", "admin"]
ROLES: tuple[Role, ...] = ("read", "write", "admin")
_MARK = "cofio_"  # prefix that identifies our keys, for people and for scanners of leaked secrets
_SHOWN = 12  # characters of a key that are stored to recognise it


def allows(role: Role, required: Role) -> bool:
    """Return whether one role includes the other."""
    return ROLES.index(role) >= ROLES.index(required)


def new_secret() -> str:
    """Return a random key of 256 bits, so that a plain digest is enough at rest."""
    return _MARK + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """Return the digest of a key, which is stored and looked up."""
    return hashlib.sha256(secret.encode()).hexdigest()


def hint(secret: str) -> str:
    """Return the first characters of a key, by which people recognise it."""
    return secret[:_SHOWN]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Permissions of a key to be created. Validated on creation."""

    name: str  # such as "ada's laptop" or "ci"
    role: Role = "write"
    agent: str = ""
    user: str = ""
    team: str = ""
    prefixes: tuple[str, ...] = ()  # sources that it may see and write, by whole path segments; all if empty
    expires_at: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", check_text(self.name, "name", MAX_LABEL).strip())
        if not self.name:
            raise InvalidInput(
                "The key has no name.", "Give a name, such as that of its user, to identify the key later."
            )
        if self.role not in ROLES:
            raise InvalidInput(f"There is no role {self.role!r}.", f"Give one of: {', '.join(ROLES)}.")
        if self.expires_at is not None:
            object.__setattr__(self, "expires_at", to_utc_iso(self.expires_at))
        if self.role == "admin":
            self._refuse_bounds()
        else:
            object.__setattr__(self, "prefixes", self._build_viewer().prefixes)

    def _refuse_bounds(self) -> None:
        if self.agent or self.user or self.team or self.prefixes:
            hint = "Leave agent, user, team and prefixes out, or give the role read or write."
            raise InvalidInput("An admin key sees everything, so it cannot be restricted.", hint)

    def _build_viewer(self) -> Viewer:
        if not all(prefix.strip() for prefix in self.prefixes):  # ignoring it would restrict the key to nothing
            raise InvalidInput("A source prefix is empty.", "Omit it to allow every source.")
        if not (self.agent or self.user):
            raise InvalidInput("The key has no owner.", "Name the agent or the user that the key belongs to.")
        return Viewer(agent=self.agent, user=self.user, team=self.team, prefixes=self.prefixes)

    @property
    def viewer(self) -> Viewer | None:
        """Viewer of the key's holder; None for everything."""
        return None if self.role == "admin" else self._build_viewer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Stored key: its permissions and state. The secret itself is not stored."""

    id: int
    grant: Grant
    hint: str
    created_at: str
    created_by: str = ""
    revoked_at: str | None = None
    last_used_at: str | None = None

    def is_valid(self, at: str) -> bool:
        """Return whether it grants access at this time."""
        return self.revoked_at is None and (self.grant.expires_at is None or at < self.grant.expires_at)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values, the grant's beside the key's own."""
        values = asdict(self)
        grant = values.pop("grant")
        return {**values, **grant, "prefixes": list(self.grant.prefixes)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Key:
        """Return the key that `as_dict` wrote."""
        grant = {name: plain[name] for name in Grant.__dataclass_fields__}
        values = {name: plain[name] for name in cls.__dataclass_fields__ if name != "grant"}
        return cls(grant=Grant(**{**grant, "prefixes": tuple(grant["prefixes"])}), **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(JsonFields):
    """Audit log entry: who did or tried what, and the outcome."""

    at: str
    act: str  # "POST /memory/add", "key created"
    outcome: str  # "done" or "refused"
    key: int | None = None  # None if the caller sent no key of the store
    name: str = ""  # of the key at that time
    what: str = ""  # memory, key, or reason of the refusal
    address: str = ""  # of the caller
    id: int = 0  # set by the store
