-- Domain knowledge: the tables, and their part of the journal.

-- What is known exactly of a domain. `x_folded` is x as it is compared: without regard to case and white space.
CREATE TABLE patterns (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL, -- the source that it was told in
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
    memory bigint, -- the memory that says it in words; it may be gone
    pattern text NOT NULL,
    source text COLLATE "C" NOT NULL, -- '' where it shows anywhere
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
CREATE INDEX correlations_by_first ON correlations (tenant, source_a_folded); -- walked from either side
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
    processed boolean NOT NULL, -- whether their confidence has moved by it
    anomaly_folded text COLLATE "C" NOT NULL,
    note_folded text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX feedback_by_time ON feedback (tenant, created_at DESC, id);
CREATE INDEX feedback_by_anomaly ON feedback (tenant, anomaly_folded);
CREATE INDEX feedback_unprocessed ON feedback (tenant, created_at) WHERE NOT processed;

-- Its part of the journal. Of a row that was erased the lines stay, but not what it was called and what it said.
CREATE TABLE knowledge_changes (
    tenant text COLLATE "C" NOT NULL,
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    changeset_id bigint NOT NULL,
    row_table text COLLATE "C" NOT NULL CHECK (row_table IN ('patterns', 'correlations', 'thresholds', 'seasonal', 'feedback')),
    row_id text COLLATE "C" NOT NULL, -- of an erased row '#' and a digest
    action text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    before json, -- the row; null when it did not exist
    erased smallint NOT NULL DEFAULT 0,
    place text COLLATE "C" NOT NULL, -- whose the row was: who may see that it changed
    agent text COLLATE "C" NOT NULL,
    "user" text COLLATE "C" NOT NULL,
    team text COLLATE "C" NOT NULL,
    visibility text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, changeset_id) REFERENCES changesets (tenant, id)
);

CREATE INDEX knowledge_changes_by_changeset ON knowledge_changes (tenant, changeset_id);
CREATE INDEX knowledge_changes_by_row ON knowledge_changes (tenant, row_table, row_id, id);

-- The words of the names of what is known: what it is found by where a prompt says one.
CREATE TABLE knowledge_words (
    tenant text COLLATE "C" NOT NULL,
    word text COLLATE "C" NOT NULL,
    row_table text COLLATE "C" NOT NULL,
    row_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, word, row_table, row_id)
);

CREATE INDEX knowledge_words_by_row ON knowledge_words (tenant, row_table, row_id);
