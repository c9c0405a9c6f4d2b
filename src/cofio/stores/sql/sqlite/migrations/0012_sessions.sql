-- Sessions are listed from episodes; the context distinguishes compaction summaries from turns.
ALTER TABLE episodes ADD COLUMN context TEXT NOT NULL DEFAULT ''; -- compact_summary; '' for a turn

-- Covers lists of sessions without reading rows.
CREATE INDEX episodes_by_session ON episodes (
    session, client, "user", agent, created_at, context, project, visibility, team, source
) WHERE session <> '';
CREATE INDEX inbox_by_session ON inbox (session, client, changeset_id) WHERE changeset_id IS NOT NULL AND session <> '';
