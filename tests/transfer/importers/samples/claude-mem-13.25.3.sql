-- What claude-mem 13.25.3 wrote: the columns and the rows of the tables that hold memories.
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT, project TEXT, platform_source TEXT,
  user_prompt TEXT, started_at TEXT, started_at_epoch INTEGER, completed_at TEXT, completed_at_epoch INTEGER,
  status TEXT, worker_port INTEGER, prompt_counter INTEGER, custom_title TEXT, observed_model TEXT,
  observed_billing TEXT
);
INSERT INTO sdk_sessions VALUES (
  1, '5f0c2a5e-content-session', 'mem-session-1', 'shop', 'claude', 'Fix the login redirect',
  '2026-11-16T01:42:16.930Z', 1794793336930, NULL, NULL, 'active', 37777, 0, NULL, NULL, NULL
);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, text TEXT, type TEXT, title TEXT, subtitle TEXT,
  facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER,
  created_at TEXT, created_at_epoch INTEGER, discovery_tokens INTEGER, content_hash TEXT, generated_by_model TEXT,
  relevance_count INTEGER, merged_into_project TEXT, agent_type TEXT, agent_id TEXT, metadata TEXT,
  synced_at INTEGER, origin_device_id TEXT, origin_local_id TEXT, sync_rev TEXT
);
INSERT INTO observations VALUES (
  1, 'mem-session-1', 'shop', NULL, 'bugfix', 'Login redirect loop fixed',
  'The callback dropped the state parameter',
  '["The OAuth callback in src/auth/callback.ts lost the state parameter","Redirects now keep the state in a signed cookie"]',
  'The login page looped because the callback handler did not pass the state on. A signed cookie carries it now.',
  '["problem-solution","gotcha"]', '["src/auth/callback.ts"]', '["src/auth/callback.ts","src/auth/cookie.ts"]', 1,
  '2025-11-17T09:00:00.000Z', 1763370000000, 1200, '660d509950ce700d', 'claude-haiku', 0, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, '1'
);
INSERT INTO observations VALUES (
  2, 'mem-session-1', 'shop', NULL, 'decision', 'Sessions are kept in Redis', NULL, '[]',
  'Redis was chosen over signed JWTs because sessions must be revocable.', '["trade-off"]', '[]', '[]', 2,
  '2025-11-17T09:00:01.000Z', 1763370001000, 1200, '7d667a90f1f633ec', 'claude-haiku', 0, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, '1'
);
INSERT INTO observations VALUES (
  3, 'mem-session-1', 'shop', NULL, 'discovery', 'Migrations run on boot', NULL,
  '["Migrations run when the API boots, not in CI"]', NULL, '["how-it-works"]', '["src/db/migrate.ts"]', '[]', 3,
  '2025-11-17T09:00:02.000Z', 1763370002000, 1200, '16e2473cdb5c2e95', 'claude-haiku', 0, NULL, 'Explore',
  'agent-7', NULL, NULL, NULL, NULL, '1'
);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, request TEXT, investigated TEXT, learned TEXT,
  completed TEXT, next_steps TEXT, files_read TEXT, files_edited TEXT, notes TEXT, prompt_number INTEGER,
  created_at TEXT, created_at_epoch INTEGER, discovery_tokens INTEGER, merged_into_project TEXT, synced_at INTEGER,
  origin_device_id TEXT, origin_local_id TEXT, sync_rev TEXT
);
INSERT INTO session_summaries VALUES (
  1, 'mem-session-1', 'shop', 'Fix the login redirect', 'The OAuth callback and its cookies',
  'The state parameter must survive the redirect.', 'Signed cookie for the state; tests added.',
  'Remove the old session table.', '["src/auth/callback.ts"]', '["src/auth/cookie.ts"]', NULL, 3,
  '2025-11-17T09:00:09.000Z', 1763370009000, 400, NULL, NULL, NULL, NULL, '1'
);
