-- The store as people look at it.

-- What was put before agents: how much, not what. A line for each prompt and each start of a session, also those for
-- which nothing was found. Derived.
CREATE TABLE injections (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    caller TEXT NOT NULL,
    occasion TEXT NOT NULL, -- start, prompt
    memories INTEGER NOT NULL,
    tokens INTEGER NOT NULL
) STRICT;

CREATE INDEX injections_by_time ON injections (at, occasion, memories, tokens); -- sums without reading rows
CREATE INDEX injections_by_caller ON injections (caller, at);

-- Counts by day, of what a viewer sees too, without reading rows.
CREATE INDEX memories_by_day ON memories (created_at, category, archived_at, visibility, team, user, agent, source);
CREATE INDEX changesets_by_time ON changesets (at);
CREATE INDEX retrievals_by_caller ON retrievals (caller, at);
