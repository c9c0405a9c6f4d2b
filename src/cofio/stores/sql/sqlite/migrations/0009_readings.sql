-- Token embeddings of memories for re-ranking. Derived.

CREATE TABLE readings (
    memory_id INTEGER PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE,
    words BLOB NOT NULL
) STRICT;

-- Memories without a reading: new ones, and those changed since they were read.
CREATE TABLE unread (
    memory_id INTEGER PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE
) STRICT;

CREATE TRIGGER unread_new AFTER INSERT ON memories BEGIN
    INSERT INTO unread (memory_id) VALUES (new.id);
END;

CREATE TRIGGER unread_changed AFTER UPDATE OF text, speaker, context ON memories
WHEN old.text <> new.text OR old.speaker <> new.speaker OR old.context <> new.context BEGIN
    DELETE FROM readings WHERE memory_id = new.id;
    INSERT OR IGNORE INTO unread (memory_id) VALUES (new.id);
END;

INSERT INTO unread (memory_id) SELECT id FROM memories;
