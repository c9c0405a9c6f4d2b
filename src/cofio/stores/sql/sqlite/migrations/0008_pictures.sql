-- Dashboard statistics.

-- Injected context blocks: amounts, not contents. One row for each prompt and each start of a session, also if nothing
-- was found. Derived.
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

-- Counts by day, also for a viewer, without reading rows.
CREATE INDEX memories_by_day ON memories (created_at, category, archived_at, visibility, team, user, agent, source);
CREATE INDEX changesets_by_time ON changesets (at);
CREATE INDEX retrievals_by_caller ON retrievals (caller, at);
