-- Sessions are listed from episodes; compaction summaries are told from turns by their context.
ALTER TABLE episodes ADD COLUMN context TEXT NOT NULL DEFAULT ''; -- compact_summary; '' for a turn

CREATE INDEX episodes_by_session ON episodes (session, client, created_at) WHERE session <> '';
CREATE INDEX inbox_by_session ON inbox (session, client, changeset_id) WHERE changeset_id IS NOT NULL AND session <> '';
