-- Before there were observations, claude-mem (3.x) kept texts; then came observations that were one text, and sessions
-- by an older name (4.x). By the migrations of later versions; no program of that time was run.
CREATE TABLE memories (
  id INTEGER PRIMARY KEY, session_id TEXT, text TEXT, document_id TEXT, keywords TEXT, created_at TEXT,
  created_at_epoch INTEGER, project TEXT, archive_basename TEXT, origin TEXT
);
CREATE TABLE overviews (
  id INTEGER PRIMARY KEY, session_id TEXT, content TEXT, created_at TEXT, created_at_epoch INTEGER, project TEXT
);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY, sdk_session_id TEXT, project TEXT, text TEXT, type TEXT, created_at TEXT,
  created_at_epoch INTEGER
);
INSERT INTO memories VALUES (
  1, 's-old', 'The build needs Node 20', 'shop_1', 'build,node', '2025-08-01T10:00:00.000Z', 1754042400000, 'shop',
  's-old.jsonl', 'transcript'
);
INSERT INTO overviews VALUES (1, 's-old', 'A day of builds', '2025-08-01T10:00:00.000Z', 1754042400000, 'shop');
INSERT INTO observations VALUES (
  1, 's-less-old', 'shop', 'The cart is kept in local storage', 'discovery', '2025-10-01T10:00:00.000Z', 1759312800000
);
