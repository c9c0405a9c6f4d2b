-- Captures of a backfill name the first changeset of its series, and are processed after all others.
ALTER TABLE inbox ADD COLUMN series INTEGER NOT NULL DEFAULT 0; -- 0 if captured live

CREATE INDEX inbox_pending ON inbox (series, id, due_at) WHERE state = 'pending';
