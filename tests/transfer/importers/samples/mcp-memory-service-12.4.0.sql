-- What mcp-memory-service 12.4.0 wrote: the columns and the rows of its memories.
CREATE TABLE memories (
  id INTEGER PRIMARY KEY, content_hash TEXT, content TEXT, tags TEXT, memory_type TEXT, metadata TEXT,
  created_at REAL, updated_at REAL, created_at_iso TEXT, updated_at_iso TEXT, deleted_at REAL, store TEXT,
  parent_id TEXT, version INTEGER, confidence REAL, last_accessed INTEGER, superseded_by TEXT,
  embedding_pending INTEGER
);
INSERT INTO memories VALUES (
  1, '10fd76eaa3a24aa5aae956a4c37e4aff989356be24ddc8856330ff444b5df850',
  'We chose Postgres over MySQL for the shop', 'db,project:shop', 'decision',
  '{"project": "/srv/shop", "source": "claude"}', 1794793536.7375665, 1794793536.7375665,
  '2026-11-16T01:45:36.737566Z', '2026-11-16T01:45:36.737566Z', NULL, 'default', NULL, 1, 1.0, NULL, NULL, 0
);
INSERT INTO memories VALUES (
  2, 'bd5d597bdb096dc1bdfb03c39ac359c12fe43a6982aaed80c3eb2ff42d8e9f2f', 'Tests run with make test', 'howto',
  'note', '{}', 1794793536.7530963, 1794793536.7530963, '2026-11-16T01:45:36.753096Z',
  '2026-11-16T01:45:36.753096Z', NULL, 'default', NULL, 1, 1.0, NULL, NULL, 0
);
INSERT INTO memories VALUES (
  3, 'a15217df56275e3a613fb2f0648b8d406ab45423e381eb7a9d328049d4a03b03', 'This one is deleted', 'x', 'note', '{}',
  1794793536.7567852, 1794793536.7567852, '2026-11-16T01:45:36.756785Z', '2026-11-16T01:45:36.756785Z',
  1794793536.7604535, 'default', NULL, 1, 1.0, NULL, NULL, 0
);
INSERT INTO memories VALUES (
  4, 'd70b31751fc278387be2d7bf2cea075ee57d623da6eeeb17f239a7daad36aadd', 'No type, no tags', 'untagged', NULL,
  '{}', 1794793536.758716, 1794793536.758716, '2026-11-16T01:45:36.758716Z', '2026-11-16T01:45:36.758716Z', NULL,
  'default', NULL, 1, 1.0, NULL, NULL, 0
);
