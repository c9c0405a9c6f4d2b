"""The error tree, split by whose fault it is.

    CofioError
    ├── InvalidInput        the caller's: what was given cannot be taken (HTTP 400)
    │   └── TooLarge        the same, because of its size (413)
    ├── NotFound            the caller's: there is no such memory or changeset (404)
    ├── Conflict            the caller's: the store has moved on, or the change cannot be undone (409)
    ├── TooBusy             the caller's: too much is waiting already, come back later (429)
    │   └── TooManyTries    too many wrong keys came from there (429)
    ├── Denied              the caller's: not allowed
    │   ├── MissingKey      no key came, and one is needed (401)
    │   ├── WrongKey        a key came, and it is another one, or no longer one (401)
    │   └── Forbidden       the key does not allow it; or a host name or a web page that is not ours (403)
    ├── Misconfigured       the owner's: a setting, an extra or a file is missing or wrong (500 in the service)
    │   ├── EmbedderMismatch    the store was embedded by another model
    │   └── NotConfigured   what was asked for is switched off (501)
    ├── StoreError          the store's: it cannot be read or written (503)
    │   ├── StoreBusy       another process held the write lock for too long
    │   ├── StoreCorrupt    the file is damaged or is not cofio's
    │   └── StoreTooNew     a newer cofio wrote it
    ├── Unreadable          a model's: it answered, but with nothing that can be used (502)
    ├── Refused             the model's: it will not answer this, and asking again does not help (502)
    └── Unavailable         a remote party's: a provider or the service did not answer as agreed (502, 503)
        ├── NoReply         a model was asked and no reply came back: the call may be billed all the same (503)
        └── BudgetSpent     the daily limit of calls or tokens of the language model is reached (503)

Every error says what to do: `hint` is a sentence for the person who meets it. Adapters translate the errors of their
libraries at the border, so nothing above them ever sees `sqlite3.Error` or an HTTP client's exception.
"""

from __future__ import annotations


class CofioError(Exception):
    """The root: a message, and a hint that says what to do about it."""

    code = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class InvalidInput(CofioError):
    code = "invalid_input"


class TooLarge(InvalidInput):
    code = "too_large"


class NotFound(CofioError):
    code = "not_found"


class Conflict(CofioError):
    code = "conflict"


class TooBusy(CofioError):
    code = "too_busy"


class TooManyTries(TooBusy):
    code = "too_many_tries"
    seconds = 60  # until it is worth to try again


class Denied(CofioError):
    code = "denied"


class MissingKey(Denied):
    code = "missing_key"


class WrongKey(Denied):
    code = "wrong_key"


class Forbidden(Denied):
    code = "forbidden"


class Misconfigured(CofioError):
    code = "misconfigured"


class EmbedderMismatch(Misconfigured):
    code = "embedder_mismatch"


class NotConfigured(Misconfigured):
    code = "not_configured"


class StoreError(CofioError):
    code = "store_error"


class StoreBusy(StoreError):
    code = "store_busy"


class StoreCorrupt(StoreError):
    code = "store_corrupt"


class StoreTooNew(StoreError):
    code = "store_too_new"


class Unreadable(CofioError):
    code = "unreadable"


class Refused(CofioError):
    code = "refused"


class Unavailable(CofioError):
    code = "unavailable"


class NoReply(Unavailable):
    """Has the code of Unavailable: only the budget makes a difference between them."""


class BudgetSpent(Unavailable):
    code = "budget_spent"

    def __init__(self, message: str, hint: str = "", resets_at: str = "") -> None:
        super().__init__(message, hint)
        self.resets_at = resets_at


def by_code(code: str) -> type[CofioError]:
    """The class whose `code` this is; the root for an unknown one. The client rebuilds errors with it."""
    found: list[type[CofioError]] = [CofioError]
    for kind in found:
        if kind.code == code:
            return kind
        found.extend(kind.__subclasses__())
    return CofioError
