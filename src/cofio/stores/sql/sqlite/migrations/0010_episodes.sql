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
    visibility TEXT NOT NULL
) STRICT;

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

CREATE INDEX inbox_by_changeset ON inbox (changeset_id) WHERE changeset_id IS NOT NULL; -- episode by memory

INSERT INTO unindexed (capture_id) SELECT id FROM inbox WHERE payload <> '';
