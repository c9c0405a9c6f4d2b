-- What claude-mem 10.6.3 wrote: the columns and the rows of the tables that hold memories.
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT, project TEXT, user_prompt TEXT,
  started_at TEXT, started_at_epoch INTEGER, completed_at TEXT, completed_at_epoch INTEGER, status TEXT,
  worker_port INTEGER, prompt_counter INTEGER, custom_title TEXT
);
INSERT INTO sdk_sessions VALUES (
  1, 'c1', 'm1', 'shop', 'hello', '2026-01-02T03:04:05.000Z', 1767323045000, NULL, NULL, 'active', NULL, 0, NULL
);
INSERT INTO sdk_sessions VALUES (
  2, 'manual-content-shop', 'manual-shop', 'shop', NULL, '2026-11-16T01:45:18.264Z', 1794793518264, NULL, NULL,
  'active', NULL, 0, NULL
);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, text TEXT, type TEXT, title TEXT, subtitle TEXT,
  facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER,
  discovery_tokens INTEGER, created_at TEXT, created_at_epoch INTEGER, content_hash TEXT
);
INSERT INTO observations VALUES (
  1, 'm1', 'shop', NULL, 'discovery', 'List was slow', 'no index', '["The list query did a full scan"]',
  'The list took four seconds.', '["how-it-works"]', '["/srv/shop/src/list.ts"]', '[]', 1, 5,
  '2026-01-02T03:05:05.000Z', 1767323105000, NULL
);
INSERT INTO observations VALUES (
  2, 'manual-shop', 'shop', NULL, 'discovery', 'By hand', 'Manual memory', '[]', 'Saved by hand', '[]', '[]', '[]',
  NULL, 0, '2026-11-16T01:45:18.265Z', 1794793518265, 'bbd232bda1101d0e'
);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, request TEXT, investigated TEXT, learned TEXT,
  completed TEXT, next_steps TEXT, files_read TEXT, files_edited TEXT, notes TEXT, prompt_number INTEGER,
  discovery_tokens INTEGER, created_at TEXT, created_at_epoch INTEGER
);
INSERT INTO session_summaries VALUES (
  1, 'm1', 'shop', 'Speed up the list', 'The query plan', 'The list needs an index on (project, created_at)',
  'Index added', 'none', '[]', '[]', NULL, 1, 10, '2026-01-02T03:06:05.000Z', 1767323165000
);
