"""Base classes of reply schemas, and those of domain knowledge; the others are in `responses`."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from cofio.models.domain_knowledge import Direction, KnowledgeAction, Period, Relation, Table, Verdict


class ResponseModel(Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of reply schemas: no fields beyond those declared."""


class KnowledgeRowResponse(ResponseModel):
    """Domain knowledge row: its fields depend on the table."""

    id: str
    place: str
    agent: str
    user: str
    team: str
    visibility: str
    created_at: str
    updated_at: str
    ref: str | UnsetType = UNSET  # table and id; only in lists, and for a single row
    says: str | UnsetType = UNSET
    confidence: float | UnsetType = UNSET
    prior: float | UnsetType = UNSET
    confirmed: int | UnsetType = UNSET
    refuted: int | UnsetType = UNSET
    memory: int | UnsetType | None = UNSET
    pattern: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    source_a: str | UnsetType = UNSET
    source_b: str | UnsetType = UNSET
    rule: str | UnsetType = UNSET
    relation: Relation | UnsetType = UNSET
    inverse: bool | UnsetType = UNSET
    metric: str | UnsetType = UNSET
    value: float | UnsetType = UNSET
    direction: Direction | UnsetType = UNSET
    inclusive: bool | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    period: Period | UnsetType = UNSET
    during: str | UnsetType = UNSET
    lasts: int | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    anomaly: str | UnsetType = UNSET
    verdict: Verdict | UnsetType = UNSET
    note: str | UnsetType = UNSET
    about: list[str] | UnsetType = UNSET
    processed: bool | UnsetType = UNSET


class KnowledgeChangeResponse(ResponseModel):
    id: int
    changeset: int
    action: KnowledgeAction
    table: Table
    key: str
    at: str
    by: str
    why: str
    before: KnowledgeRowResponse | None
    after: KnowledgeRowResponse | None
    reason: str


class CountResponse(ResponseModel):
    """Number of rows in each table."""

    patterns: int
    correlations: int
    thresholds: int
    seasonal: int
    feedback: int


class RowsResponse(ResponseModel):
    rows: list[KnowledgeRowResponse]
    next: str | None


class RowHistoryResponse(ResponseModel):
    table: Table
    key: str
    changes: list[KnowledgeChangeResponse]


class EvaluateResponse(ResponseModel):
    threshold: KnowledgeRowResponse
    value: float
    by: float


class FiringResponse(ResponseModel):
    firing: list[EvaluateResponse]


class ActiveAtResponse(ResponseModel):
    seasonal: KnowledgeRowResponse
    since: str
    until: str


class ActiveResponse(ResponseModel):
    active: list[ActiveAtResponse]


class StepResponse(ResponseModel):
    here: str
    there: str
    correlation: KnowledgeRowResponse
    forward: bool
    depth: int
    confidence: float
    inverse: bool


class RelatedResponse(ResponseModel):
    related: list[StepResponse]


class ReadingResponse(ResponseModel):
    text: str
    table: Table
    fields: dict[str, Any]
    denied: bool
    confidence: float


class ReadingsResponse(ResponseModel):
    readings: list[ReadingResponse]
