-- Domain knowledge: the tables, and their part of the journal.

-- Structured domain knowledge. `x_folded` is x as it is compared, ignoring case and white space.
CREATE TABLE patterns (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL, -- the source of the statement
    agent text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    team text COLLATE "C" NOT NULL,
    visibility text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    confidence double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    prior double precision NOT NULL CHECK (prior BETWEEN 0 AND 1), -- the confidence before any verdict
    confirmed bigint NOT NULL CHECK (confirmed >= 0),
    refuted bigint NOT NULL CHECK (refuted >= 0),
    memory bigint, -- the memory that expresses it in words; may be deleted
    pattern text NOT NULL,
    source text COLLATE "C" NOT NULL, -- '' for every source
    pattern_folded text COLLATE "C" NOT NULL,
    source_folded text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX patterns_by_confidence ON patterns (tenant, confidence DESC, id);
CREATE INDEX patterns_by_source ON patterns (tenant, source_folded);
CREATE INDEX patterns_by_memory ON patterns (tenant, memory) WHERE memory IS NOT NULL;

CREATE TABLE correlations (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    team text COLLATE "C" NOT NULL,
    visibility text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    confidence double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    prior double precision NOT NULL CHECK (prior BETWEEN 0 AND 1),
    confirmed bigint NOT NULL CHECK (confirmed >= 0),
    refuted bigint NOT NULL CHECK (refuted >= 0),
    memory bigint,
    source_a text COLLATE "C" NOT NULL,
    source_b text COLLATE "C" NOT NULL,
    rule text NOT NULL,
    relation text COLLATE "C" NOT NULL CHECK (relation IN ('leads', 'with')),
    inverse boolean NOT NULL,
    source_a_folded text COLLATE "C" NOT NULL,
    source_b_folded text COLLATE "C" NOT NULL,
    rule_folded text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX correlations_by_confidence ON correlations (tenant, confidence DESC, id);
CREATE INDEX correlations_by_first ON correlations (tenant, source_a_folded); -- searched from either side
CREATE INDEX correlations_by_second ON correlations (tenant, source_b_folded);
CREATE INDEX correlations_by_memory ON correlations (tenant, memory) WHERE memory IS NOT NULL;

CREATE TABLE thresholds (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    team text COLLATE "C" NOT NULL,
    visibility text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    confidence double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    prior double precision NOT NULL CHECK (prior BETWEEN 0 AND 1),
    confirmed bigint NOT NULL CHECK (confirmed >= 0),
    refuted bigint NOT NULL CHECK (refuted >= 0),
    memory bigint,
    source text COLLATE "C" NOT NULL, -- '*' for every source
    metric text COLLATE "C" NOT NULL,
    value double precision NOT NULL,
    direction text COLLATE "C" NOT NULL CHECK (direction IN ('above', 'below')),
    inclusive boolean NOT NULL,
    unit text COLLATE "C" NOT NULL,
    source_folded text COLLATE "C" NOT NULL,
    metric_folded text COLLATE "C" NOT NULL,
    unit_folded text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX thresholds_by_confidence ON thresholds (tenant, confidence DESC, id);
CREATE INDEX thresholds_by_metric ON thresholds (tenant, source_folded, metric_folded);
CREATE INDEX thresholds_by_memory ON thresholds (tenant, memory) WHERE memory IS NOT NULL;

CREATE TABLE seasonal (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    team text COLLATE "C" NOT NULL,
    visibility text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    confidence double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    prior double precision NOT NULL CHECK (prior BETWEEN 0 AND 1),
    confirmed bigint NOT NULL CHECK (confirmed >= 0),
    refuted bigint NOT NULL CHECK (refuted >= 0),
    memory bigint,
    pattern text NOT NULL,
    period text COLLATE "C" NOT NULL CHECK (period IN ('daily', 'weekly', 'monthly', 'yearly', 'cron')),
    during text COLLATE "C" NOT NULL,
    lasts integer NOT NULL CHECK (lasts > 0), -- minutes
    timezone text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    pattern_folded text COLLATE "C" NOT NULL,
    during_folded text COLLATE "C" NOT NULL,
    timezone_folded text COLLATE "C" NOT NULL,
    source_folded text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX seasonal_by_confidence ON seasonal (tenant, confidence DESC, id);
CREATE INDEX seasonal_by_source ON seasonal (tenant, source_folded);
CREATE INDEX seasonal_by_memory ON seasonal (tenant, memory) WHERE memory IS NOT NULL;

CREATE TABLE feedback (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    team text COLLATE "C" NOT NULL,
    visibility text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    anomaly text COLLATE "C" NOT NULL,
    verdict text COLLATE "C" NOT NULL CHECK (verdict IN ('confirmed', 'false_alarm', 'note')),
    note text NOT NULL,
    about jsonb NOT NULL, -- array of the claims that it judges: thresholds/aapl.volume.above
    processed boolean NOT NULL, -- whether it was applied to their confidence
    anomaly_folded text COLLATE "C" NOT NULL,
    note_folded text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX feedback_by_time ON feedback (tenant, created_at DESC, id);
CREATE INDEX feedback_by_anomaly ON feedback (tenant, anomaly_folded);
CREATE INDEX feedback_unprocessed ON feedback (tenant, created_at) WHERE NOT processed;

-- Journal of domain knowledge. Entries of an erased row remain, but without its name and content.
CREATE TABLE knowledge_changes (
    tenant text COLLATE "C" NOT NULL,
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    changeset_id bigint NOT NULL,
    row_table text COLLATE "C" NOT NULL CHECK (row_table IN ('patterns', 'correlations', 'thresholds', 'seasonal', 'feedback')),
    row_id text COLLATE "C" NOT NULL, -- '#' and a digest for an erased row
    action text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    before json, -- the row; null if it did not exist
    erased smallint NOT NULL DEFAULT 0,
    place text COLLATE "C" NOT NULL, -- ownership of the row, which determines who may see the change
    agent text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    team text COLLATE "C" NOT NULL,
    visibility text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, changeset_id) REFERENCES changesets (tenant, id)
);

CREATE INDEX knowledge_changes_by_changeset ON knowledge_changes (tenant, changeset_id);
CREATE INDEX knowledge_changes_by_row ON knowledge_changes (tenant, row_table, row_id, id);

-- Words in the names of rows, by which prompts find them.
CREATE TABLE knowledge_words (
    tenant text COLLATE "C" NOT NULL,
    word text COLLATE "C" NOT NULL,
    row_table text COLLATE "C" NOT NULL,
    row_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, word, row_table, row_id)
);

CREATE INDEX knowledge_words_by_row ON knowledge_words (tenant, row_table, row_id);
