-- What mcp-memory-service 8.24.0 wrote: the columns and the rows of its memories.
CREATE TABLE memories (
  id INTEGER PRIMARY KEY, content_hash TEXT, content TEXT, tags TEXT, memory_type TEXT, metadata TEXT,
  created_at REAL, updated_at REAL, created_at_iso TEXT, updated_at_iso TEXT
);
INSERT INTO memories VALUES (
  1, '10fd76eaa3a24aa5aae956a4c37e4aff989356be24ddc8856330ff444b5df850',
  'We chose Postgres over MySQL for the shop', 'db,project:shop', 'decision',
  '{"project": "/srv/shop", "source": "claude"}', 1794793535.8729656, 1794793535.8729656,
  '2026-11-16T01:45:35.872966Z', '2026-11-16T01:45:35.872966Z'
);
INSERT INTO memories VALUES (
  2, 'bd5d597bdb096dc1bdfb03c39ac359c12fe43a6982aaed80c3eb2ff42d8e9f2f', 'Tests run with make test', 'howto',
  'note', '{}', 1794793535.875499, 1794793535.875499, '2026-11-16T01:45:35.875499Z', '2026-11-16T01:45:35.875499Z'
);
INSERT INTO memories VALUES (
  4, 'd70b31751fc278387be2d7bf2cea075ee57d623da6eeeb17f239a7daad36aadd', 'No type, no tags', '', NULL, '{}',
  1794793535.8761463, 1794793535.8761463, '2026-11-16T01:45:35.876146Z', '2026-11-16T01:45:35.876146Z'
);
