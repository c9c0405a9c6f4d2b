-- Projects of memories, and memories given to each session of a client. Existing memories have no project.

ALTER TABLE memories ADD COLUMN project TEXT NOT NULL DEFAULT '';

CREATE INDEX memories_by_project ON memories (project, archived_at, visibility); -- covers views from a project
CREATE INDEX memories_pinned ON memories (id) WHERE pinned = 1; -- few, and read at the start of every session

-- Memories given to the agent in a session, with a digest of their words, so that none is given twice.
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
