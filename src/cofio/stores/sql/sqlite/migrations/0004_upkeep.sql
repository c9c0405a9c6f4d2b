-- Upkeep: anchors and origins of memories, series of changesets, and runs of chores.

ALTER TABLE memories ADD COLUMN anchors TEXT NOT NULL DEFAULT '[]'; -- JSON array of kind, name, path, hash
ALTER TABLE memories ADD COLUMN origin TEXT NOT NULL DEFAULT ''; -- origin of an import; '' if learned here

CREATE INDEX memories_by_origin ON memories (origin) WHERE origin <> '';
CREATE INDEX memories_unused ON memories (category, created_at) WHERE archived_at IS NULL AND retrieval_count = 0 AND pinned = 0;
CREATE INDEX memories_by_use ON memories (retrieval_count, last_retrieved_at) WHERE archived_at IS NULL AND retrieval_count > 0;

ALTER TABLE changesets ADD COLUMN part_of INTEGER REFERENCES changesets (id); -- the first of its series
ALTER TABLE changes ADD COLUMN beside TEXT; -- JSON: counts and sightings of a removed memory

CREATE INDEX changesets_by_series ON changesets (part_of) WHERE part_of IS NOT NULL;

CREATE INDEX retrievals_by_time ON retrievals (at);

-- Runs of chores. One row per cron slot: the process that inserts it runs the chore.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    chore TEXT NOT NULL,
    slot TEXT NOT NULL, -- the time of the cron slot; '' for a run on request
    by TEXT NOT NULL,
    started_at TEXT NOT NULL,
    alive_at TEXT NOT NULL, -- heartbeat: a run without one has died
    finished_at TEXT,
    outcome TEXT NOT NULL DEFAULT 'running', -- running, done, failed, died, began
    told TEXT NOT NULL DEFAULT '{}', -- JSON object: the result, or the reason of the failure
    changeset_id INTEGER REFERENCES changesets (id)
) STRICT;

CREATE UNIQUE INDEX runs_by_slot ON runs (chore, slot) WHERE slot <> '' AND outcome <> 'died'; -- a dead run frees it
CREATE UNIQUE INDEX runs_going ON runs (chore) WHERE outcome = 'running'; -- one run per chore at a time

-- Start of the retrieval log: stored separately, because old rows are deleted.
INSERT INTO meta (name, value) SELECT 'tracked_since', at FROM retrievals ORDER BY at LIMIT 1;
