-- The inbox as it is used. Nothing was ever delivered to the one of the first shape.

DROP TABLE inbox;

-- What clients delivered and what became of it. A row stays for ever, so that every capture is accounted for; its words
-- do not. What is long stands last, so that reading the rest does not read it.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    turn TEXT NOT NULL, -- '' where the client names none
    task TEXT NOT NULL, -- learn, extract
    received_at TEXT NOT NULL,
    due_at TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending', -- pending, parked, stored, merged, rejected
    attempts INTEGER NOT NULL DEFAULT 0,
    faults INTEGER NOT NULL DEFAULT 0, -- of the attempts, those that failed for a reason that does not pass by itself
    changeset_id INTEGER REFERENCES changesets (id),
    finished_at TEXT,
    reason TEXT NOT NULL DEFAULT '',
    payload TEXT NOT NULL, -- the exchange as JSON; '' once it is forgotten
    result TEXT NOT NULL DEFAULT '{}' -- JSON object
) STRICT;

-- A turn comes in once, however often it is delivered.
CREATE UNIQUE INDEX inbox_by_turn ON inbox (client, session, turn, task)
WHERE turn <> '' AND (client <> '' OR session <> '');
CREATE INDEX inbox_by_state ON inbox (state, id, due_at); -- counts, lists, and finds what is due, without reading rows
CREATE INDEX inbox_by_reason ON inbox (state, reason) WHERE state = 'rejected';
CREATE INDEX inbox_unforgotten ON inbox (finished_at) WHERE finished_at IS NOT NULL AND payload <> '';
