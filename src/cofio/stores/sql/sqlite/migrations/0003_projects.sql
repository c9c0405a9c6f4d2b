-- Projects: memories that belong to one, and what each session of a client was given. What was there belongs to none.

ALTER TABLE memories ADD COLUMN project TEXT NOT NULL DEFAULT '';

CREATE INDEX memories_by_project ON memories (project, archived_at, visibility); -- what a project sees, without reading rows
CREATE INDEX memories_pinned ON memories (id) WHERE pinned = 1; -- few, and asked for at the start of every session

-- The memories that were put before the agent in a session, and a digest of the words: none is given twice.
CREATE TABLE given (
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    memory_id INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    digest TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (client, session, memory_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX given_by_memory ON given (memory_id);
CREATE INDEX given_by_time ON given (at);
