-- Calls of language models, by which processes share the daily limits. Counts are kept, texts are forgotten.
CREATE TABLE llm_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL, -- learn, extract, consolidate, prune
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    project TEXT NOT NULL,
    capture INTEGER, -- the inbox item that it was for
    characters INTEGER NOT NULL, -- of the request
    input_tokens INTEGER NOT NULL, -- estimated until it ends, or if the provider does not count
    output_tokens INTEGER NOT NULL DEFAULT 0,
    seconds REAL NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT 'running', -- running, done, refused, failed
    request TEXT NOT NULL, -- redacted; '' once forgotten
    reply TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX llm_calls_by_time ON llm_calls (at);
