-- Token embeddings of memories for re-ranking. Derived.

CREATE TABLE readings (
    tenant text COLLATE "C" NOT NULL,
    memory_id bigint NOT NULL,
    words bytea NOT NULL,
    PRIMARY KEY (tenant, memory_id),
    FOREIGN KEY (tenant, memory_id) REFERENCES memories (tenant, id) ON DELETE CASCADE
);
ALTER TABLE readings ALTER COLUMN words SET STORAGE EXTERNAL; -- vectors do not compress

-- Memories without a reading: new ones, and those changed since they were read.
CREATE TABLE unread (
    tenant text COLLATE "C" NOT NULL,
    memory_id bigint NOT NULL,
    PRIMARY KEY (tenant, memory_id),
    FOREIGN KEY (tenant, memory_id) REFERENCES memories (tenant, id) ON DELETE CASCADE
);

CREATE FUNCTION cofio_unread() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM readings WHERE tenant = new.tenant AND memory_id = new.id;
    END IF;
    INSERT INTO unread (tenant, memory_id) VALUES (new.tenant, new.id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER unread_new AFTER INSERT ON memories FOR EACH ROW EXECUTE FUNCTION cofio_unread();

CREATE TRIGGER unread_changed AFTER UPDATE OF text, speaker, context ON memories FOR EACH ROW
WHEN ((old.text, old.speaker, old.context) IS DISTINCT FROM (new.text, new.speaker, new.context))
EXECUTE FUNCTION cofio_unread();

INSERT INTO unread (tenant, memory_id) SELECT tenant, id FROM memories;
