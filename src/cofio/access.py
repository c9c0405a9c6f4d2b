"""The words of access: who has a key, what it allows, and what was done with it.

    key ─ digest ─▶ Key ─▶ Role: which routes    Viewer: which memories    Deed: a line of the audit log

Part of the words, beside `model`. The key itself is shown once, when it is made; what is kept is its digest.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cofio.errors import InvalidInput
from cofio.model import MAX_LABEL, Viewer, checked_text, moment

#: What a key allows: to look; to remember and correct too; to do all there is, for every team.
Role = Literal["read", "write", "admin"]
ROLES: tuple[Role, ...] = ("read", "write", "admin")
_MARK = "cofio_"  # tells our keys from others, for people and for scanners that look for leaked ones
_SHOWN = 12  # characters of a key that are kept to tell it by


def allows(role: Role, wanted: Role) -> bool:
    """Whether what one role may do includes the other."""
    return ROLES.index(role) >= ROLES.index(wanted)


def new_secret() -> str:
    """A key that nobody can guess: 256 bits, so a plain digest of it is enough at rest."""
    return _MARK + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What is kept of a key, and what it is found by."""
    return hashlib.sha256(secret.encode()).hexdigest()


def hint(secret: str) -> str:
    """The beginning of a key, by which a person knows it again."""
    return secret[:_SHOWN]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a key is to allow, before there is one. Checks itself."""

    name: str  # what people call it: "ada's laptop", "ci"
    role: Role = "write"
    agent: str = ""
    user: str = ""
    team: str = ""
    prefixes: tuple[str, ...] = ()  # the sources that it may see and write, by whole path segments; all when empty
    expires_at: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", checked_text(self.name, "name", MAX_LABEL).strip())
        if not self.name:
            raise InvalidInput("The key has no name.", "Say whose it is, so that it can be told from others.")
        if self.role not in ROLES:
            raise InvalidInput(f"role is {self.role!r}.", f"It is one of: {', '.join(ROLES)}.")
        if self.expires_at is not None:
            object.__setattr__(self, "expires_at", moment(self.expires_at))
        if self.role == "admin":
            self._refuse_bounds()
        else:
            object.__setattr__(self, "prefixes", self._viewer().prefixes)

    def _refuse_bounds(self) -> None:
        if self.agent or self.user or self.team or self.prefixes:
            hint = "Leave agent, user, team and prefixes out, or give the role read or write."
            raise InvalidInput("An admin key sees everything: it is bound to nobody.", hint)

    def _viewer(self) -> Viewer:
        if not all(each.strip() for each in self.prefixes):  # left out, it would bind the key to nothing
            raise InvalidInput("A source prefix is empty.", "Leave it out, to allow every source.")
        if not (self.agent or self.user):
            raise InvalidInput("The key is nobody's.", "Name the agent or the user that it is for.")
        return Viewer(agent=self.agent, user=self.user, team=self.team, prefixes=self.prefixes)

    @property
    def viewer(self) -> Viewer | None:
        """What its holder may see; None for everything."""
        return None if self.role == "admin" else self._viewer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key that was made: what it allows, and what became of it. The secret itself is not known."""

    id: int
    grant: Grant
    hint: str
    created_at: str
    created_by: str = ""
    revoked_at: str | None = None
    last_used_at: str | None = None

    def is_valid(self, at: str) -> bool:
        """Whether it opens anything at this time."""
        return self.revoked_at is None and (self.grant.expires_at is None or at < self.grant.expires_at)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, the grant's beside the key's own."""
        told = asdict(self)
        grant = told.pop("grant")
        return {**told, **grant, "prefixes": list(self.grant.prefixes)}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Key:
        """The key that `as_dict` wrote."""
        grant = {name: told[name] for name in Grant.__dataclass_fields__}
        own = {name: told[name] for name in cls.__dataclass_fields__ if name != "grant"}
        return cls(grant=Grant(**{**grant, "prefixes": tuple(grant["prefixes"])}), **own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """A line of the audit log: who did, or tried to do, what, and how that ended."""

    at: str
    act: str  # "POST /memory/add", "key created"
    outcome: str  # done, refused
    key: int | None = None  # None where no key of the store was shown
    name: str = ""  # of the key, as it was called then
    what: str = ""  # which memory, which key, why it was refused
    address: str = ""  # from where
    id: int = 0  # given by the store

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
