-- Conventional names for tables and columns. No content changes.

DROP TRIGGER unread_new ON memories;
DROP TRIGGER unread_changed ON memories;
DROP FUNCTION cofio_unread();

ALTER TABLE given RENAME TO injected_memories;
ALTER INDEX given_by_memory RENAME TO injected_by_memory;
ALTER INDEX given_by_time RENAME TO injected_by_time;
ALTER TABLE deeds RENAME TO audit_log;
ALTER INDEX deeds_by_key RENAME TO audit_log_by_key;
ALTER INDEX deeds_by_time RENAME TO audit_log_by_time;
ALTER TABLE readings RENAME TO token_embeddings;
ALTER TABLE token_embeddings RENAME COLUMN words TO vectors;
ALTER TABLE unread RENAME TO pending_token_embeddings;
ALTER TABLE runs RENAME COLUMN told TO details;
ALTER TABLE changes RENAME COLUMN beside TO counters;
ALTER SEQUENCE deeds_id_seq RENAME TO audit_log_id_seq;
UPDATE meta SET name = 'reranker' WHERE name = 'reader';

-- Constraints keep the old names; PostgreSQL 18 also names those of NOT NULL.
DO $$
DECLARE
    old record;
BEGIN
    FOR old IN
        SELECT c.conrelid::regclass AS tbl, c.conname AS name, replace(replace(
            regexp_replace(c.conname, '^(given|deeds|readings|unread)_', c.conrelid::regclass::text || '_'),
            '_words_not_null', '_vectors_not_null'), 'runs_told_', 'runs_details_') AS renamed
        FROM pg_constraint c
        WHERE c.conrelid IN (
            'injected_memories'::regclass, 'audit_log'::regclass, 'token_embeddings'::regclass,
            'pending_token_embeddings'::regclass, 'runs'::regclass
        )
    LOOP
        IF old.renamed <> old.name THEN
            EXECUTE format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', old.tbl, old.name, old.renamed);
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION cofio_pending_token_embeddings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM token_embeddings WHERE tenant = new.tenant AND memory_id = new.id;
    END IF;
    INSERT INTO pending_token_embeddings (tenant, memory_id) VALUES (new.tenant, new.id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER token_embeddings_new AFTER INSERT ON memories FOR EACH ROW
EXECUTE FUNCTION cofio_pending_token_embeddings();

CREATE TRIGGER token_embeddings_changed AFTER UPDATE OF text, speaker, context ON memories FOR EACH ROW
WHEN ((old.text, old.speaker, old.context) IS DISTINCT FROM (new.text, new.speaker, new.context))
EXECUTE FUNCTION cofio_pending_token_embeddings();
