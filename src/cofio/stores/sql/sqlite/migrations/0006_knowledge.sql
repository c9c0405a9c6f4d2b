-- Domain knowledge: the tables, and their part of the journal.

-- Structured domain knowledge. `x_folded` is x as it is compared, ignoring case and white space.
CREATE TABLE patterns (
    id TEXT NOT NULL PRIMARY KEY,
    place TEXT NOT NULL, -- the source of the statement
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    team TEXT NOT NULL,
    visibility TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    prior REAL NOT NULL CHECK (prior BETWEEN 0 AND 1), -- the confidence before any verdict
    confirmed INTEGER NOT NULL CHECK (confirmed >= 0),
    refuted INTEGER NOT NULL CHECK (refuted >= 0),
    memory INTEGER, -- the memory that expresses it in words; may be deleted
    pattern TEXT NOT NULL,
    source TEXT NOT NULL, -- '' for every source
    pattern_folded TEXT NOT NULL,
    source_folded TEXT NOT NULL
) STRICT;

CREATE INDEX patterns_by_confidence ON patterns (confidence DESC, id);
CREATE INDEX patterns_by_source ON patterns (source_folded);
CREATE INDEX patterns_by_memory ON patterns (memory) WHERE memory IS NOT NULL;

CREATE TABLE correlations (
    id TEXT NOT NULL PRIMARY KEY,
    place TEXT NOT NULL,
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    team TEXT NOT NULL,
    visibility TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    prior REAL NOT NULL CHECK (prior BETWEEN 0 AND 1),
    confirmed INTEGER NOT NULL CHECK (confirmed >= 0),
    refuted INTEGER NOT NULL CHECK (refuted >= 0),
    memory INTEGER,
    source_a TEXT NOT NULL,
    source_b TEXT NOT NULL,
    rule TEXT NOT NULL,
    relation TEXT NOT NULL CHECK (relation IN ('leads', 'with')),
    inverse INTEGER NOT NULL CHECK (inverse IN (0, 1)),
    source_a_folded TEXT NOT NULL,
    source_b_folded TEXT NOT NULL,
    rule_folded TEXT NOT NULL
) STRICT;

CREATE INDEX correlations_by_confidence ON correlations (confidence DESC, id);
CREATE INDEX correlations_by_first ON correlations (source_a_folded); -- searched from either side
CREATE INDEX correlations_by_second ON correlations (source_b_folded);
CREATE INDEX correlations_by_memory ON correlations (memory) WHERE memory IS NOT NULL;

CREATE TABLE thresholds (
    id TEXT NOT NULL PRIMARY KEY,
    place TEXT NOT NULL,
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    team TEXT NOT NULL,
    visibility TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    prior REAL NOT NULL CHECK (prior BETWEEN 0 AND 1),
    confirmed INTEGER NOT NULL CHECK (confirmed >= 0),
    refuted INTEGER NOT NULL CHECK (refuted >= 0),
    memory INTEGER,
    source TEXT NOT NULL, -- '*' for every source
    metric TEXT NOT NULL,
    value REAL NOT NULL,
    direction TEXT NOT NULL CHECK (direction IN ('above', 'below')),
    inclusive INTEGER NOT NULL CHECK (inclusive IN (0, 1)),
    unit TEXT NOT NULL,
    source_folded TEXT NOT NULL,
    metric_folded TEXT NOT NULL,
    unit_folded TEXT NOT NULL
) STRICT;

CREATE INDEX thresholds_by_confidence ON thresholds (confidence DESC, id);
CREATE INDEX thresholds_by_metric ON thresholds (source_folded, metric_folded);
CREATE INDEX thresholds_by_memory ON thresholds (memory) WHERE memory IS NOT NULL;

CREATE TABLE seasonal (
    id TEXT NOT NULL PRIMARY KEY,
    place TEXT NOT NULL,
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    team TEXT NOT NULL,
    visibility TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    prior REAL NOT NULL CHECK (prior BETWEEN 0 AND 1),
    confirmed INTEGER NOT NULL CHECK (confirmed >= 0),
    refuted INTEGER NOT NULL CHECK (refuted >= 0),
    memory INTEGER,
    pattern TEXT NOT NULL,
    period TEXT NOT NULL CHECK (period IN ('daily', 'weekly', 'monthly', 'yearly', 'cron')),
    during TEXT NOT NULL,
    lasts INTEGER NOT NULL CHECK (lasts > 0), -- minutes
    timezone TEXT NOT NULL,
    source TEXT NOT NULL,
    pattern_folded TEXT NOT NULL,
    during_folded TEXT NOT NULL,
    timezone_folded TEXT NOT NULL,
    source_folded TEXT NOT NULL
) STRICT;

CREATE INDEX seasonal_by_confidence ON seasonal (confidence DESC, id);
CREATE INDEX seasonal_by_source ON seasonal (source_folded);
CREATE INDEX seasonal_by_memory ON seasonal (memory) WHERE memory IS NOT NULL;

CREATE TABLE feedback (
    id TEXT NOT NULL PRIMARY KEY,
    place TEXT NOT NULL,
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    team TEXT NOT NULL,
    visibility TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    anomaly TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('confirmed', 'false_alarm', 'note')),
    note TEXT NOT NULL,
    about TEXT NOT NULL, -- JSON array of the claims that it judges: thresholds/aapl.volume.above
    processed INTEGER NOT NULL CHECK (processed IN (0, 1)), -- whether it was applied to their confidence
    anomaly_folded TEXT NOT NULL,
    note_folded TEXT NOT NULL
) STRICT;

CREATE INDEX feedback_by_time ON feedback (created_at DESC, id);
CREATE INDEX feedback_by_anomaly ON feedback (anomaly_folded);
CREATE INDEX feedback_unprocessed ON feedback (created_at) WHERE processed = 0;

-- Journal of domain knowledge. Entries of an erased row remain, but without its name and content.
CREATE TABLE knowledge_changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    changeset_id INTEGER NOT NULL REFERENCES changesets (id),
    row_table TEXT NOT NULL CHECK (row_table IN ('patterns', 'correlations', 'thresholds', 'seasonal', 'feedback')),
    row_id TEXT NOT NULL, -- '#' and a digest for an erased row
    action TEXT NOT NULL,
    reason TEXT NOT NULL,
    before TEXT, -- the row as JSON; null if it did not exist
    erased INTEGER NOT NULL DEFAULT 0,
    place TEXT NOT NULL, -- ownership of the row, which determines who may see the change
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    team TEXT NOT NULL,
    visibility TEXT NOT NULL
) STRICT;

CREATE INDEX knowledge_changes_by_changeset ON knowledge_changes (changeset_id);
CREATE INDEX knowledge_changes_by_row ON knowledge_changes (row_table, row_id, id);

-- Words in the names of rows, by which prompts find them.
CREATE TABLE knowledge_words (
    word TEXT NOT NULL,
    row_table TEXT NOT NULL,
    row_id TEXT NOT NULL,
    PRIMARY KEY (word, row_table, row_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX knowledge_words_by_row ON knowledge_words (row_table, row_id);
