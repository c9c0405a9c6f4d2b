-- Teams: whose a memory is, who may ask, and what was done.

ALTER TABLE memories ADD COLUMN user TEXT NOT NULL DEFAULT ''; -- whose it is; '' where it is an agent's own
ALTER TABLE memories ADD COLUMN team TEXT NOT NULL DEFAULT ''; -- whose team's; '' is the one team of a store that has no others

CREATE INDEX memories_by_audience ON memories (visibility, team, user, agent, archived_at); -- what a viewer sees

-- Who may ask. A key is known by its digest; the key itself is shown once and not kept.
CREATE TABLE keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest TEXT NOT NULL UNIQUE, -- SHA-256, in hex
    hint TEXT NOT NULL, -- how the key begins
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

-- The audit log: what was done with keys, and what was refused.
CREATE TABLE deeds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    act TEXT NOT NULL,
    outcome TEXT NOT NULL, -- done, refused
    key_id INTEGER, -- of keys; null where none of ours was shown
    name TEXT NOT NULL, -- of the key, as it was called then
    what TEXT NOT NULL,
    address TEXT NOT NULL
) STRICT;

CREATE INDEX deeds_by_key ON deeds (key_id, id) WHERE key_id IS NOT NULL;
CREATE INDEX deeds_by_time ON deeds (at);
