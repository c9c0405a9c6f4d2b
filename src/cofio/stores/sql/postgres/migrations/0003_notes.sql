-- Markdown files.

-- Markdown files that were read into the store, with content hashes and the memories of their parts. Derived.
CREATE TABLE notes (
    tenant text COLLATE "C" NOT NULL,
    folder text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL, -- within the folder, with forward slashes
    hash text COLLATE "C" NOT NULL, -- of the content
    size bigint NOT NULL,
    modified bigint NOT NULL, -- nanoseconds since 1970
    at text COLLATE "C" NOT NULL, -- when it was read
    parts text NOT NULL, -- JSON array: memory, heading, digests
    PRIMARY KEY (tenant, folder, path)
);
