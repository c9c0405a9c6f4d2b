"""Error tree, grouped by the party that has to act.

    CofioError
    ├── InvalidInput        caller: invalid input (HTTP 400)
    │   └── TooLarge        caller: the input is too large (413)
    ├── NotFound            caller: the memory or changeset does not exist (404)
    ├── Conflict            caller: the store has changed meanwhile, or the change cannot be undone (409)
    │   └── HeldForReview   caller: a person has to approve the memory before it is stored (409)
    ├── TooBusy             caller: a queue is full, retry later (429)
    │   └── TooManyTries    too many wrong keys from this address (429)
    ├── Denied              caller: not allowed
    │   ├── MissingKey      the request has no key and needs one (401)
    │   ├── WrongKey        the key is unknown or no longer valid (401)
    │   └── Forbidden       the key, the host name or the origin of the web page is not allowed (403)
    ├── Misconfigured       owner: a setting, an extra or a file is missing or wrong (500 in the service)
    │   ├── EmbedderMismatch    another model made the store's embeddings
    │   └── NotConfigured   the feature is switched off (501)
    ├── StoreError          store: it cannot be read or written (503)
    │   ├── StoreBusy       another process held the write lock too long
    │   ├── StoreCorrupt    the file is damaged or is not a cofio store
    │   └── StoreTooNew     a newer version of cofio wrote it
    ├── Unreadable          model: the reply cannot be used (502)
    ├── Refused             model: it refuses the request; a retry does not help (502)
    └── Unavailable         remote party: a provider or the service did not answer correctly (502, 503)
        ├── NoReply         no reply to a model call, which may be billed nevertheless (503)
        └── BudgetSpent     the daily limit of calls or tokens of the language model is spent (503)

Every error has a `hint`: a sentence that tells the user what to do. Adapters translate the errors of their libraries,
so no other module sees `sqlite3.Error` or the exceptions of an HTTP client.
"""

from __future__ import annotations


class CofioError(Exception):
    """Base class of all errors: a message, and a hint that says what to do."""

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


class HeldForReview(Conflict):
    code = "held_for_review"


class TooBusy(CofioError):
    code = "too_busy"


class TooManyTries(TooBusy):
    code = "too_many_tries"
    seconds = 60  # until a retry makes sense


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


class RefusedError(CofioError):
    code = "refused"


class Unavailable(CofioError):
    code = "unavailable"


class NoReply(Unavailable):
    """A model call without a reply. Shares the code of Unavailable: only the budget tells them apart."""


class BudgetSpent(Unavailable):
    code = "budget_spent"

    def __init__(self, message: str, hint: str = "", resets_at: str = "") -> None:
        super().__init__(message, hint)
        self.resets_at = resets_at


def class_for_code(code: str) -> type[CofioError]:
    """Return the class with this `code`, or the base class for an unknown one. The client rebuilds errors with it."""
    found: list[type[CofioError]] = [CofioError]
    for kind in found:
        if kind.code == code:
            return kind
        found.extend(kind.__subclasses__())
    return CofioError
