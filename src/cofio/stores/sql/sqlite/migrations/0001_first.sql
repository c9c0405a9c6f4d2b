-- The first schema: memories, their words and vectors, the journal, the retrieval log, the inbox.

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
    fingerprint INTEGER NOT NULL -- of the text, ignoring case and white space
) STRICT;

CREATE INDEX memories_by_fingerprint ON memories (fingerprint);
CREATE INDEX memories_by_source ON memories (source, archived_at); -- with archived_at: counts without reading rows
CREATE INDEX memories_by_category ON memories (category, archived_at);
CREATE INDEX memories_by_supersedes ON memories (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX memories_by_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memories_by_session ON memories (session) WHERE session <> '';
CREATE INDEX memories_by_speaker ON memories (speaker) WHERE speaker <> '';
CREATE INDEX memories_by_created ON memories (created_at);
CREATE INDEX memories_live ON memories (id) WHERE archived_at IS NULL; -- counts without reading rows
CREATE INDEX memories_archived ON memories (id) WHERE archived_at IS NOT NULL;

-- Apart from the rows, so that reading rows does not read vectors. float32, little-endian, unit length.
CREATE TABLE vectors (
    memory_id INTEGER PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE,
    vector BLOB NOT NULL
) STRICT;

-- Memories that got their vector later than their text: not a change of content, but other processes must see it.
CREATE TABLE embedded (
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
    undoes INTEGER UNIQUE REFERENCES changesets (id)
) STRICT;

CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    changeset_id INTEGER NOT NULL REFERENCES changesets (id),
    memory_id INTEGER NOT NULL,
    action TEXT NOT NULL,
    reason TEXT NOT NULL,
    before TEXT, -- the memory as JSON; null if it did not exist
    vector BLOB, -- the old vector, if the change replaced or removed it
    occurrence TEXT, -- JSON; the sighting recorded by this change
    erased INTEGER NOT NULL DEFAULT 0 -- the memory was purged: it cannot be restored
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

-- Captures not processed yet; a turn is stored once, however often it is delivered.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    turn TEXT NOT NULL,
    payload TEXT NOT NULL, -- JSON
    received_at TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending',
    attempts INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '',
    changeset_id INTEGER REFERENCES changesets (id),
    UNIQUE (client, session, turn)
) STRICT;

CREATE INDEX inbox_by_state ON inbox (state, id);
