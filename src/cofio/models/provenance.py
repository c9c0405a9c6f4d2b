"""Provenance of a memory: whose words it holds, and the order of trust between them.

Only the service sets it, by the way in which a text arrives. No request, option or file may choose it.
"""

from __future__ import annotations

from typing import Literal

from cofio.text.briefing import clean_label

Provenance = Literal["user", "pasted", "assistant", "tool", "import", ""]

#: All values, most trusted first. "" is a memory that was recorded before cofio kept the provenance.
PROVENANCES: tuple[Provenance, ...] = ("user", "import", "", "assistant", "tool", "pasted")
#: Fields that only the service sets.
SERVICE_FIELDS = ("provenance", "author")
#: Labels of a memory, and of one that belongs to another user.
_LABELS = {
    "user": ("said by you", "said by {}"),
    "pasted": ("pasted", "pasted by {}"),
    "assistant": ("said by the assistant", "said by the assistant of {}"),
    "tool": ("tool output", "tool output of {}"),
    "import": ("imported", "imported by {}"),
    "": ("", "from {}"),
}
_OF_ROLE: dict[str, Provenance] = {"user": "user", "assistant": "assistant"}


def least_trusted(*provenances: str) -> str:
    """Return the provenance that is trusted least; a text made of several parts gets it."""
    return max(provenances, key=PROVENANCES.index)


def successor_provenance(new: str, old: str) -> str:
    """Return the provenance of a text that replaces another one: only a user's own words can raise it."""
    return new if new == "user" else least_trusted(new, old)


def provenance_label(provenance: str, user: str, visibility: str, reader: str = "") -> str:
    """Return whose words a memory of this user holds, for its reader: "said by you", "said by bob (team)"."""
    own, other = _LABELS.get(provenance, _LABELS[""])  # a newer version may know more
    if user in ("", reader):
        return own
    return other.format(clean_label(user)) + (" (team)" if visibility == "team" else "")


def method_provenance(method: str, origin: str) -> Provenance:
    """Return the provenance of a memory recorded before this field existed, as its migration derives it."""
    return "import" if method == "import" or origin else "user" if method == "manual" else ""


def role_provenance(role: str) -> Provenance:
    """Return the provenance of a message by its role: other roles than the user's and the assistant's are tools."""
    return _OF_ROLE.get(role, "tool")
