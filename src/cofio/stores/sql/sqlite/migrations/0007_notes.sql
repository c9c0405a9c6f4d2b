-- Markdown files.

-- Markdown files that were read into the store, with content hashes and the memories of their parts. Derived.
CREATE TABLE notes (
    folder TEXT NOT NULL,
    path TEXT NOT NULL, -- within the folder, with forward slashes
    hash TEXT NOT NULL, -- of the content
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL, -- nanoseconds since 1970
    at TEXT NOT NULL, -- when it was read
    parts TEXT NOT NULL, -- JSON array: memory, heading, digests
    PRIMARY KEY (folder, path)
) STRICT, WITHOUT ROWID;
