-- The inbox in its first used form. The one of the first schema was never used.

DROP TABLE inbox;

-- Captures and their outcome. A row stays for ever, so that every capture is accounted for; its words do not. Long
-- columns are last, so that reading the others does not read them.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    turn TEXT NOT NULL, -- '' if the client sends none
    task TEXT NOT NULL, -- learn, extract
    received_at TEXT NOT NULL,
    due_at TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending', -- pending, parked, stored, merged, rejected
    attempts INTEGER NOT NULL DEFAULT 0,
    faults INTEGER NOT NULL DEFAULT 0, -- attempts that failed for a reason that will not pass by itself
    changeset_id INTEGER REFERENCES changesets (id),
    finished_at TEXT,
    reason TEXT NOT NULL DEFAULT '',
    payload TEXT NOT NULL, -- the exchange as JSON; '' once forgotten
    result TEXT NOT NULL DEFAULT '{}' -- JSON object
) STRICT;

-- A turn is stored once, however often it is delivered.
CREATE UNIQUE INDEX inbox_by_turn ON inbox (client, session, turn, task)
WHERE turn <> '' AND (client <> '' OR session <> '');
CREATE INDEX inbox_by_state ON inbox (state, id, due_at); -- counts, lists and finds due items without reading rows
CREATE INDEX inbox_by_reason ON inbox (state, reason) WHERE state = 'rejected';
CREATE INDEX inbox_unforgotten ON inbox (finished_at) WHERE finished_at IS NOT NULL AND payload <> '';
