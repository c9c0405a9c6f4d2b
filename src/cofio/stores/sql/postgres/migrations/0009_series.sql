-- Captures of a backfill name the first changeset of its series, and are processed after all others.
ALTER TABLE inbox ADD COLUMN series bigint NOT NULL DEFAULT 0; -- 0 if captured live

CREATE INDEX inbox_pending ON inbox (tenant, series, id) WHERE state = 'pending';
