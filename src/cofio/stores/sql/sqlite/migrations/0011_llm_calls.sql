-- Calls of language models. Several processes share the daily limits through it; counts stay, texts are forgotten.
CREATE TABLE llm_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL, -- learn, extract, consolidate, prune
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    project TEXT NOT NULL,
    capture INTEGER, -- the item of the inbox that it was for
    characters INTEGER NOT NULL, -- of the request
    input_tokens INTEGER NOT NULL, -- estimated while it runs, and where the provider does not count
    output_tokens INTEGER NOT NULL DEFAULT 0,
    seconds REAL NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT 'running', -- running, done, refused, failed
    request TEXT NOT NULL, -- redacted; '' once it is forgotten
    reply TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX llm_calls_by_time ON llm_calls (at);
