-- Upkeep: what memories rest on, where they came from, series of changesets, and the runs of chores.

ALTER TABLE memories ADD COLUMN anchors TEXT NOT NULL DEFAULT '[]'; -- JSON array of kind, name, path, hash
ALTER TABLE memories ADD COLUMN origin TEXT NOT NULL DEFAULT ''; -- where it was imported from; '' where it was learned here

CREATE INDEX memories_by_origin ON memories (origin) WHERE origin <> '';
CREATE INDEX memories_unused ON memories (category, created_at) WHERE archived_at IS NULL AND retrieval_count = 0 AND pinned = 0;
CREATE INDEX memories_by_use ON memories (retrieval_count, last_retrieved_at) WHERE archived_at IS NULL AND retrieval_count > 0;

ALTER TABLE changesets ADD COLUMN part_of INTEGER REFERENCES changesets (id); -- the first of the series that it belongs to
ALTER TABLE changes ADD COLUMN beside TEXT; -- JSON: the counts and sightings that went with a memory that was removed

CREATE INDEX changesets_by_series ON changesets (part_of) WHERE part_of IS NOT NULL;

CREATE INDEX retrievals_by_time ON retrievals (at);

-- Each time that a chore ran, or was left to another process. One line a slot of the schedule: whoever writes it runs it.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    chore TEXT NOT NULL,
    slot TEXT NOT NULL, -- the time that it was due; '' where somebody asked for it
    by TEXT NOT NULL,
    started_at TEXT NOT NULL,
    alive_at TEXT NOT NULL, -- moves while it runs: a run that stands still has died
    finished_at TEXT,
    outcome TEXT NOT NULL DEFAULT 'running', -- running, done, failed, died, began
    told TEXT NOT NULL DEFAULT '{}', -- JSON object: what it did, or why not
    changeset_id INTEGER REFERENCES changesets (id)
) STRICT;

CREATE UNIQUE INDEX runs_by_slot ON runs (chore, slot) WHERE slot <> '' AND outcome <> 'died'; -- what died is done again
CREATE UNIQUE INDEX runs_going ON runs (chore) WHERE outcome = 'running'; -- one at a time

-- Since when retrievals are noted: kept apart, for old ones are forgotten.
INSERT INTO meta (name, value) SELECT 'tracked_since', at FROM retrievals ORDER BY at LIMIT 1;
