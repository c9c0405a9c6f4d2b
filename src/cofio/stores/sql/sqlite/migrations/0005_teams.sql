-- Teams: ownership of memories, API keys, and the audit log.

ALTER TABLE memories ADD COLUMN user TEXT NOT NULL DEFAULT ''; -- the owner; '' if it belongs to an agent
ALTER TABLE memories ADD COLUMN team TEXT NOT NULL DEFAULT ''; -- '' is the only team of a store without teams

CREATE INDEX memories_by_audience ON memories (visibility, team, user, agent, archived_at); -- for viewers

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
CREATE TABLE deeds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    act TEXT NOT NULL,
    outcome TEXT NOT NULL, -- done, refused
    key_id INTEGER, -- of keys; null if no known key was sent
    name TEXT NOT NULL, -- name of the key at that time
    what TEXT NOT NULL,
    address TEXT NOT NULL
) STRICT;

CREATE INDEX deeds_by_key ON deeds (key_id, id) WHERE key_id IS NOT NULL;
CREATE INDEX deeds_by_time ON deeds (at);
