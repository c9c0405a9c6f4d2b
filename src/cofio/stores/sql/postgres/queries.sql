-- Named queries of the server store; the embedded store has the same names in its own dialect.
-- {where} is a condition over memories made from a Scope. %(tenant)s is put in by itself; lists are arrays.

-- name: make_migrations
CREATE TABLE IF NOT EXISTS cofio_migrations (number integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());

-- name: newest_migration
SELECT coalesce(max(number), 0) FROM cofio_migrations;

-- name: note_migration
INSERT INTO cofio_migrations (number) VALUES (%(number)s);
