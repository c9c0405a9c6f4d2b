"""Protocols of models: embedders, language models, classifiers, re-rankers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from cofio.models.exchange import TokenUsage
from cofio.ports.values import Matrix


class LateInteractionModel(Protocol):
    """A late-interaction model: compares a question with each token of a memory (re-ranking)."""

    @property
    def signature(self) -> str:
        """Identify everything that the readings depend on. Readings with different signatures must not be compared."""

    @property
    def floor(self) -> float:
        """The score from which a match is meaningful."""

    @property
    def ceiling(self) -> float:
        """The score from which a match is certain."""

    def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:
        """Return the token embeddings of each text, in order; b"" for a text above the model's limit."""

    def likeness(self, question: bytes, readings: Sequence[bytes]) -> list[float]:
        """Return the score of each reading for the question, at most 1."""


class Span(NamedTuple):
    """A part of a turn that states one fact."""

    start: int
    end: int
    probability: float
    kind: str
    about: str


class Relation(NamedTuple):
    """Probabilities of what a statement does to a memory."""

    add: float
    same: float
    update: float
    delete: float

    @property
    def change(self) -> float:
        """The probability that the memory no longer holds."""
        return self.update + self.delete


class SentenceVoice(NamedTuple):
    """Probability that a sentence of a user's turn is another author's."""

    start: int
    end: int
    third_party: float


class Judge(Protocol):
    """Trained classifiers: facts worth keeping, how a statement relates to a memory, which memories help."""

    @property
    def thresholds(self) -> Mapping[str, float]:
        """Probability thresholds for acting, by the name of the decision."""

    def spans(self, text: str, before: str = "", role: str = "user", *, windows: int = 8) -> list[Span]:
        """Return the parts of a turn that state a fact worth keeping."""

    def passages(self, text: str) -> list[SentenceVoice]:
        """Return the voice of each sentence of a user's turn (`model_inputs.sentences_of`), in order.

        The list is empty if the model cannot tell.
        """

    def relation(self, statement: str, memory: str) -> Relation:
        """Return the probabilities that a statement adds to, repeats, updates or deletes a memory."""

    def relevance(self, prompt: str, memories: Sequence[str]) -> list[float]:
        """Return, for each memory, the probability that it helps with the prompt."""


class Embedder(Protocol):
    """Model that turns texts into unit-length float32 vectors."""

    @property
    def signature(self) -> str:
        """Identify everything that would change the vectors: provider, model, dimension, prefixes. Stored with them."""

    @property
    def dimension(self) -> int:
        """The length of a vector. May have to ask the provider the first time."""

    @property
    def floor(self) -> float:
        """The cosine that unrelated texts have with this model; similarity is meaningful above it."""

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        """Return one row per text, in order.

        Raise Unavailable when the model cannot be reached, Misconfigured when it is missing.
        """


class Profile(NamedTuple):
    """Capabilities of a model."""

    json_schema: bool  # its replies can be constrained to a schema
    reconciles: bool  # it can be trusted to decide between add, update, delete and noop
    context: int  # context window, in tokens
    reconciles_known: bool = True  # False: `reconciles` is determined at the first use


class Completion(NamedTuple):
    """A model's reply. `truncated` means that it reached the token limit."""

    text: str
    truncated: bool = False
    usage: TokenUsage = TokenUsage()


class Health(NamedTuple):
    """State of a provider: healthy or not; if not, the problem with a hint on what to do."""

    healthy: bool
    problem: str = ""

    def __bool__(self) -> bool:
        return self.healthy


class LLM(Protocol):
    """A language model behind a provider."""

    @property
    def provider_name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def supports_audn(self) -> bool:
        """Return whether it may decide between add, update, delete and noop: `profile.reconciles`."""

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        """Return the model's reply, constrained to the JSON schema where the provider supports it.

        Raise Unavailable when no reply comes, Refused when the model declines, TooLarge when the prompt exceeds its
        context window, Misconfigured when the key or the model is wrong.
        """

    def health_check(self) -> Health:
        """Check that the provider answers and has the model. Never raises and never uses billed tokens."""


@runtime_checkable
class Stoppable(Protocol):
    """A model whose calls may outlive the request, such as one that starts processes."""

    def stop(self) -> None:
        """End the running calls, and refuse new ones."""


@runtime_checkable
class Probeable(Protocol):
    """A model whose capabilities have to be determined."""

    def probe(self, *, ask: bool) -> None:
        """Determine unknown capabilities; call the model for it only with `ask`. Never raises CofioError."""
