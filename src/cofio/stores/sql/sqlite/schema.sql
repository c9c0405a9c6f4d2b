-- Schema of the embedded store after the last migration. A test compares it with the result of the migrations.

-- Properties of the store, one per row: the embedder's signature, the generation of the vectors.
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: no id is assigned twice, even if the highest was deleted.
CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    text TEXT NOT NULL,
    source TEXT NOT NULL,
    category TEXT NOT NULL,
    kind TEXT NOT NULL,
    confidence REAL NOT NULL,
    method TEXT NOT NULL,
    entities TEXT NOT NULL, -- JSON array
    tags TEXT NOT NULL, -- JSON array
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    visibility TEXT NOT NULL,
    metadata TEXT NOT NULL, -- JSON object
    speaker TEXT NOT NULL,
    context TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    archived_at TEXT,
    supersedes INTEGER,
    superseded_by INTEGER,
    previous_text TEXT,
    occurrences INTEGER NOT NULL,
    retrieval_count INTEGER NOT NULL DEFAULT 0,
    last_retrieved_at TEXT,
    fingerprint INTEGER NOT NULL, -- of the text, ignoring case and white space
    project TEXT NOT NULL DEFAULT '', -- '' for none
    anchors TEXT NOT NULL DEFAULT '[]', -- JSON array of kind, name, path, hash
    origin TEXT NOT NULL DEFAULT '', -- origin of an import; '' if learned here
    user TEXT NOT NULL DEFAULT '', -- the owner; '' if it belongs to an agent
    team TEXT NOT NULL DEFAULT '', -- '' is the only team of a store without teams
    provenance TEXT NOT NULL DEFAULT '', -- whose words: user, import, assistant, tool, pasted; '' if unknown
    author TEXT NOT NULL DEFAULT '', -- writer of pasted text; '' if unknown
    digest TEXT -- of the row without its retrieval counts: finds silent damage
) STRICT;

CREATE INDEX memories_by_fingerprint ON memories (fingerprint);
CREATE INDEX memories_by_source ON memories (source, archived_at); -- with archived_at: counts without reading rows
CREATE INDEX memories_by_project ON memories (project, archived_at, visibility); -- covers views from a project
CREATE INDEX memories_pinned ON memories (id) WHERE pinned = 1; -- few, and read at the start of every session
CREATE INDEX memories_by_category ON memories (category, archived_at);
CREATE INDEX memories_by_supersedes ON memories (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX memories_by_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memories_by_session ON memories (session) WHERE session <> '';
CREATE INDEX memories_by_speaker ON memories (speaker) WHERE speaker <> '';
CREATE INDEX memories_by_created ON memories (created_at);
CREATE INDEX memories_by_audience ON memories (visibility, team, user, agent, archived_at); -- for viewers
CREATE INDEX memories_by_origin ON memories (origin) WHERE origin <> '';
CREATE INDEX memories_unused ON memories (category, created_at) WHERE archived_at IS NULL AND retrieval_count = 0 AND pinned = 0;
CREATE INDEX memories_by_use ON memories (retrieval_count, last_retrieved_at) WHERE archived_at IS NULL AND retrieval_count > 0;
CREATE INDEX memories_live ON memories (id) WHERE archived_at IS NULL; -- counts without reading rows
CREATE INDEX memories_archived ON memories (id) WHERE archived_at IS NOT NULL;
-- Counts by day, also for a viewer, without reading rows.
CREATE INDEX memories_by_day ON memories (created_at, category, archived_at, visibility, team, user, agent, source);

-- Apart from the rows, so that reading rows does not read vectors. float32, little-endian, unit length.
CREATE TABLE vectors (
    memory_id INTEGER PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE,
    vector BLOB NOT NULL
) STRICT;

-- Memories that got their vector later than their text: not a change of content, but other processes must see it.
CREATE TABLE vector_changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    memory_id INTEGER NOT NULL
) STRICT;

-- Columns of the word search: text, context, and speaker, agent and labels.
CREATE VIEW searchable (id, text, context, about) AS
SELECT id, text, context, speaker || ' ' || agent || ' ' || source || ' ' || entities || ' ' || tags
FROM memories;

CREATE VIRTUAL TABLE words USING fts5 (
    text, context, about,
    content = 'searchable', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);

-- Keep the word index up to date inside the same transaction.
CREATE TRIGGER words_of_new AFTER INSERT ON memories BEGIN
    INSERT INTO words (rowid, text, context, about)
    VALUES (new.id, new.text, new.context, new.speaker || ' ' || new.agent || ' ' || new.source || ' ' || new.entities || ' ' || new.tags);
END;

CREATE TRIGGER words_of_gone AFTER DELETE ON memories BEGIN
    INSERT INTO words (words, rowid, text, context, about)
    VALUES ('delete', old.id, old.text, old.context, old.speaker || ' ' || old.agent || ' ' || old.source || ' ' || old.entities || ' ' || old.tags);
END;

CREATE TRIGGER words_of_changed AFTER UPDATE OF text, context, speaker, agent, source, entities, tags ON memories BEGIN
    INSERT INTO words (words, rowid, text, context, about)
    VALUES ('delete', old.id, old.text, old.context, old.speaker || ' ' || old.agent || ' ' || old.source || ' ' || old.entities || ' ' || old.tags);
    INSERT INTO words (rowid, text, context, about)
    VALUES (new.id, new.text, new.context, new.speaker || ' ' || new.agent || ' ' || new.source || ' ' || new.entities || ' ' || new.tags);
END;

-- The journal: one changeset per transaction. A change stores the row before it; the row after it is the next change's
-- before, or the present row.
CREATE TABLE changesets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    by TEXT NOT NULL,
    why TEXT NOT NULL,
    undoes INTEGER UNIQUE REFERENCES changesets (id),
    part_of INTEGER REFERENCES changesets (id) -- the first of its series
) STRICT;

CREATE INDEX changesets_by_series ON changesets (part_of) WHERE part_of IS NOT NULL;
CREATE INDEX changesets_by_time ON changesets (at);

CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    changeset_id INTEGER NOT NULL REFERENCES changesets (id),
    memory_id INTEGER NOT NULL,
    action TEXT NOT NULL,
    reason TEXT NOT NULL,
    before TEXT, -- the memory as JSON; null if it did not exist
    vector BLOB, -- the old vector, if the change replaced or removed it
    occurrence TEXT, -- JSON; the sighting recorded by this change
    erased INTEGER NOT NULL DEFAULT 0, -- the memory was purged: it cannot be restored
    counters TEXT -- JSON: counts and sightings of a removed memory
) STRICT;

CREATE INDEX changes_by_changeset ON changes (changeset_id);
CREATE INDEX changes_by_memory ON changes (memory_id, id);

-- Sightings of a fact after the first, which is the memory itself.
CREATE TABLE occurrences (
    id INTEGER PRIMARY KEY,
    memory_id INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    change_id INTEGER NOT NULL,
    agent TEXT NOT NULL,
    session TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;

CREATE INDEX occurrences_by_memory ON occurrences (memory_id);

-- Memories returned by recall, with query and caller.
CREATE TABLE retrievals (
    id INTEGER PRIMARY KEY,
    memory_id INTEGER NOT NULL,
    query TEXT NOT NULL,
    caller TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;

CREATE INDEX retrievals_by_memory ON retrievals (memory_id, at);
CREATE INDEX retrievals_by_time ON retrievals (at);
CREATE INDEX retrievals_by_caller ON retrievals (caller, at);

-- Injected context blocks: amounts, not contents. One row for each prompt and each start of a session, also if nothing
-- was found. Derived.
CREATE TABLE injections (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    caller TEXT NOT NULL,
    occasion TEXT NOT NULL, -- start, prompt
    memories INTEGER NOT NULL,
    tokens INTEGER NOT NULL
) STRICT;

CREATE INDEX injections_by_time ON injections (at, occasion, memories, tokens); -- sums without reading rows
CREATE INDEX injections_by_caller ON injections (caller, at);

-- Memories injected into a session, with a digest of their words, so that none is injected twice.
CREATE TABLE injected_memories (
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    memory_id INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    digest TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (client, session, memory_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX injected_by_memory ON injected_memories (memory_id);
CREATE INDEX injected_by_time ON injected_memories (at);

-- Captures and their outcome. A row stays for ever, so that every capture is accounted for; its words do not. Long
-- columns are last, so that reading the others does not read them.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    turn TEXT NOT NULL, -- '' if the client sends none
    task TEXT NOT NULL, -- learn, extract
    received_at TEXT NOT NULL,
    due_at TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending', -- pending, parked, stored, merged, rejected
    attempts INTEGER NOT NULL DEFAULT 0,
    faults INTEGER NOT NULL DEFAULT 0, -- attempts that failed for a reason that will not pass by itself
    changeset_id INTEGER REFERENCES changesets (id),
    finished_at TEXT,
    reason TEXT NOT NULL DEFAULT '',
    payload TEXT NOT NULL, -- the exchange as JSON; '' once forgotten
    result TEXT NOT NULL DEFAULT '{}', -- JSON object
    series INTEGER NOT NULL DEFAULT 0 -- of a backfill: the first changeset of its series
) STRICT;

-- A turn is stored once, however often it is delivered.
CREATE UNIQUE INDEX inbox_by_turn ON inbox (client, session, turn, task)
WHERE turn <> '' AND (client <> '' OR session <> '');
CREATE INDEX inbox_by_state ON inbox (state, id, due_at); -- counts, lists and finds due items without reading rows
CREATE INDEX inbox_pending ON inbox (series, id, due_at) WHERE state = 'pending'; -- live captures first
CREATE INDEX inbox_by_reason ON inbox (state, reason) WHERE state = 'rejected';
CREATE INDEX inbox_unforgotten ON inbox (finished_at) WHERE finished_at IS NOT NULL AND payload <> '';

-- Runs of chores. One row per cron slot: the process that inserts it runs the chore.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    chore TEXT NOT NULL,
    slot TEXT NOT NULL, -- the time of the cron slot; '' for a run on request
    by TEXT NOT NULL,
    started_at TEXT NOT NULL,
    alive_at TEXT NOT NULL, -- heartbeat: a run without one has died
    finished_at TEXT,
    outcome TEXT NOT NULL DEFAULT 'running', -- running, done, failed, died, began
    details TEXT NOT NULL DEFAULT '{}', -- JSON object: the result, or the reason of the failure
    changeset_id INTEGER REFERENCES changesets (id)
) STRICT;

CREATE UNIQUE INDEX runs_by_slot ON runs (chore, slot) WHERE slot <> '' AND outcome <> 'died'; -- a dead run frees it
CREATE UNIQUE INDEX runs_going ON runs (chore) WHERE outcome = 'running'; -- one run per chore at a time

-- API keys, identified by digest; the key itself is shown once and not stored.
CREATE TABLE keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest TEXT NOT NULL UNIQUE, -- SHA-256, in hex
    hint TEXT NOT NULL, -- the beginning of the key
    name TEXT NOT NULL,
    role TEXT NOT NULL, -- read, write, admin
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    team TEXT NOT NULL,
    prefixes TEXT NOT NULL, -- JSON array of sources
    expires_at TEXT,
    created_at TEXT NOT NULL,
    created_by TEXT NOT NULL,
    revoked_at TEXT,
    last_used_at TEXT
) STRICT;

CREATE UNIQUE INDEX keys_by_name ON keys (name) WHERE revoked_at IS NULL;

-- The audit log: operations on keys, and refused requests.
CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    act TEXT NOT NULL,
    outcome TEXT NOT NULL, -- done, refused
    key_id INTEGER, -- of keys; null if no known key was sent
    name TEXT NOT NULL, -- name of the key at that time
    what TEXT NOT NULL,
    address TEXT NOT NULL
) STRICT;

CREATE INDEX audit_log_by_key ON audit_log (key_id, id) WHERE key_id IS NOT NULL;
CREATE INDEX audit_log_by_time ON audit_log (at);

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

-- Markdown files that were read into the store, with content hashes and the memories of their parts. Derived.
CREATE TABLE notes (
    folder TEXT NOT NULL,
    path TEXT NOT NULL, -- within the folder, with forward slashes
    hash TEXT NOT NULL, -- of the content
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL, -- nanoseconds since 1970
    at TEXT NOT NULL, -- when it was read
    parts TEXT NOT NULL, -- JSON array: memory, heading, digests
    PRIMARY KEY (folder, path)
) STRICT, WITHOUT ROWID;

-- Token embeddings of memories for re-ranking. Derived.

CREATE TABLE token_embeddings (
    memory_id INTEGER PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE,
    vectors BLOB NOT NULL
) STRICT;

-- Memories whose token embeddings are missing or outdated: new ones, and those changed since.
CREATE TABLE pending_token_embeddings (
    memory_id INTEGER PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE
) STRICT;

CREATE TRIGGER token_embeddings_new AFTER INSERT ON memories BEGIN
    INSERT INTO pending_token_embeddings (memory_id) VALUES (new.id);
END;

CREATE TRIGGER token_embeddings_changed AFTER UPDATE OF text, speaker, context ON memories
WHEN old.text <> new.text OR old.speaker <> new.speaker OR old.context <> new.context BEGIN
    DELETE FROM token_embeddings WHERE memory_id = new.id;
    INSERT OR IGNORE INTO pending_token_embeddings (memory_id) VALUES (new.id);
END;

-- Captured turns, searchable in passages, also if no fact was extracted from them. Derived from the inbox, but kept
-- longer than its words; not journalled.
CREATE TABLE episodes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    created_at TEXT NOT NULL, -- when it was said
    source TEXT NOT NULL,
    project TEXT NOT NULL,
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    turn TEXT NOT NULL, -- '' if the client sends none
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    team TEXT NOT NULL,
    visibility TEXT NOT NULL,
    context TEXT NOT NULL DEFAULT '' -- compact_summary; '' for a turn
) STRICT;

-- Covers lists of sessions without reading rows.
CREATE INDEX episodes_by_session ON episodes (
    session, client, "user", agent, created_at, context, project, visibility, team, source
) WHERE session <> '';
CREATE INDEX episodes_by_turn ON episodes (client, session, turn) WHERE turn <> '';
CREATE INDEX episodes_by_time ON episodes (created_at);
CREATE INDEX episodes_by_project ON episodes (project);

CREATE TABLE passages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    episode_id INTEGER NOT NULL REFERENCES episodes (id) ON DELETE CASCADE,
    capture_id INTEGER, -- of inbox; null if the episode was copied from another store
    place INTEGER NOT NULL, -- position among the passages of its capture
    size INTEGER NOT NULL, -- bytes of the text
    text TEXT NOT NULL
) STRICT;

CREATE INDEX passages_by_episode ON passages (episode_id, capture_id, place, size); -- sizes without reading rows
CREATE INDEX passages_by_capture ON passages (capture_id) WHERE capture_id IS NOT NULL;

CREATE TABLE passage_vectors (
    passage_id INTEGER PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
    vector BLOB NOT NULL
) STRICT;

CREATE VIRTUAL TABLE passage_words USING fts5 (
    text, content = 'passages', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);

-- Passages without a vector.
CREATE TABLE unembedded (
    passage_id INTEGER PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE
) STRICT;

-- Passages added, removed or embedded later: the in-memory index follows these rows.
CREATE TABLE passage_changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    passage_id INTEGER NOT NULL
) STRICT;

CREATE TRIGGER passages_new AFTER INSERT ON passages BEGIN
    INSERT INTO passage_words (rowid, text) VALUES (new.id, new.text);
    INSERT INTO passage_changes (passage_id) VALUES (new.id);
    INSERT INTO unembedded (passage_id) VALUES (new.id);
END;

CREATE TRIGGER passages_gone AFTER DELETE ON passages BEGIN
    INSERT INTO passage_words (passage_words, rowid, text) VALUES ('delete', old.id, old.text);
    INSERT INTO passage_changes (passage_id) VALUES (old.id);
END;

CREATE TRIGGER passages_embedded AFTER INSERT ON passage_vectors BEGIN
    INSERT INTO passage_changes (passage_id) VALUES (new.passage_id);
    DELETE FROM unembedded WHERE passage_id = new.passage_id;
END;

-- Captures to be indexed: new ones, and those changed since they were indexed.
CREATE TABLE unindexed (
    capture_id INTEGER PRIMARY KEY REFERENCES inbox (id)
) STRICT;

CREATE TRIGGER unindexed_new AFTER INSERT ON inbox BEGIN
    INSERT INTO unindexed (capture_id) VALUES (new.id);
END;

CREATE TRIGGER unindexed_changed AFTER UPDATE OF payload ON inbox WHEN old.payload <> new.payload AND new.payload <> '' BEGIN
    INSERT OR IGNORE INTO unindexed (capture_id) VALUES (new.id);
END;

CREATE TRIGGER unindexed_forgotten AFTER UPDATE OF payload ON inbox WHEN new.payload = '' BEGIN
    DELETE FROM unindexed WHERE capture_id = new.id;
END;

CREATE INDEX inbox_by_session ON inbox (session, client, changeset_id) WHERE changeset_id IS NOT NULL AND session <> '';
CREATE INDEX inbox_by_changeset ON inbox (changeset_id) WHERE changeset_id IS NOT NULL; -- episode by memory

-- Calls of language models, by which processes share the daily limits. Counts are kept, texts are forgotten.
CREATE TABLE llm_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL, -- learn, extract, consolidate, prune
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    project TEXT NOT NULL,
    capture INTEGER, -- the inbox item that it was for
    characters INTEGER NOT NULL, -- of the request
    input_tokens INTEGER NOT NULL, -- estimated until it ends, or if the provider does not count
    output_tokens INTEGER NOT NULL DEFAULT 0,
    seconds REAL NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT 'running', -- running, done, refused, failed
    request TEXT NOT NULL, -- redacted; '' once forgotten
    reply TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX llm_calls_by_time ON llm_calls (at);
