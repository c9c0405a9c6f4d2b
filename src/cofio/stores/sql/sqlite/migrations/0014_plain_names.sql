-- Conventional names for tables and columns. No content changes.

DROP TRIGGER unread_new;
DROP TRIGGER unread_changed;
DROP INDEX given_by_memory;
DROP INDEX given_by_time;
DROP INDEX deeds_by_key;
DROP INDEX deeds_by_time;

ALTER TABLE embedded RENAME TO vector_changes;
ALTER TABLE given RENAME TO injected_memories;
ALTER TABLE deeds RENAME TO audit_log;
ALTER TABLE readings RENAME TO token_embeddings;
ALTER TABLE token_embeddings RENAME COLUMN words TO vectors;
ALTER TABLE unread RENAME TO pending_token_embeddings;
ALTER TABLE runs RENAME COLUMN told TO details;
ALTER TABLE changes RENAME COLUMN beside TO counters;
UPDATE meta SET name = 'reranker' WHERE name = 'reader';

CREATE INDEX injected_by_memory ON injected_memories (memory_id);
CREATE INDEX injected_by_time ON injected_memories (at);
CREATE INDEX audit_log_by_key ON audit_log (key_id, id) WHERE key_id IS NOT NULL;
CREATE INDEX audit_log_by_time ON audit_log (at);

CREATE TRIGGER token_embeddings_new AFTER INSERT ON memories BEGIN
    INSERT INTO pending_token_embeddings (memory_id) VALUES (new.id);
END;

CREATE TRIGGER token_embeddings_changed AFTER UPDATE OF text, speaker, context ON memories
WHEN old.text <> new.text OR old.speaker <> new.speaker OR old.context <> new.context BEGIN
    DELETE FROM token_embeddings WHERE memory_id = new.id;
    INSERT OR IGNORE INTO pending_token_embeddings (memory_id) VALUES (new.id);
END;
