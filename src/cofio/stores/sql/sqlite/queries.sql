-- Named queries of the embedded store; the server store has the same names in its own dialect. {where} is a condition
-- on memories made from a Scope; :ids and the like are JSON arrays of ids.

-- name: set_meta
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: state
SELECT
    coalesce((SELECT max(id) FROM changesets), 0), coalesce((SELECT max(id) FROM vector_changes), 0),
    coalesce((SELECT value FROM meta WHERE name = 'generation'), '0'),
    coalesce((SELECT value FROM meta WHERE name = 'signature'), '');

-- name: get_memory
SELECT {columns} FROM memories WHERE id = :id;

-- name: get_memories
SELECT {columns} FROM memories WHERE id IN (SELECT value FROM json_each(:ids));

-- name: said
SELECT id, speaker, created_at FROM memories WHERE id IN (SELECT value FROM json_each(:ids));

-- name: any_speaker
SELECT EXISTS (SELECT 1 FROM memories WHERE speaker <> '');

-- name: newest
SELECT max(id) FROM memories;

-- name: page
SELECT {columns} FROM memories WHERE id IN ( -- sorts ids only, not the rows of all that a viewer sees
    SELECT id FROM memories WHERE {where} AND id < :after ORDER BY id DESC LIMIT :limit OFFSET :skip
)
ORDER BY id DESC;

-- name: latest
SELECT {columns} FROM memories WHERE {where} ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: count
SELECT count(*) FROM memories WHERE {where};

-- name: among
SELECT id FROM memories NOT INDEXED WHERE id IN (SELECT value FROM json_each(:ids)) AND {where};

-- name: ids_of
SELECT id FROM memories WHERE {where};

-- name: known
SELECT id FROM memories INDEXED BY memories_by_fingerprint WHERE fingerprint = :fingerprint AND {where} ORDER BY id;

-- name: twin
SELECT id FROM memories INDEXED BY memories_by_fingerprint
WHERE fingerprint = :fingerprint AND archived_at IS NULL AND project = :project AND (project <> '' OR source = :source)
    AND visibility = :visibility AND speaker = :speaker AND (visibility <> 'team' OR team = :team)
    AND (visibility <> 'private' OR (user = :user AND (user <> '' OR agent = :agent)))
ORDER BY id LIMIT 1;

-- name: insert_memory
INSERT INTO memories ({columns}, fingerprint, digest) VALUES ({places}, :fingerprint, :digest) RETURNING id;

-- name: save_memory
UPDATE memories SET {changed}, fingerprint = :fingerprint, digest = :digest WHERE id = :id;

-- name: undigested
SELECT {columns} FROM memories WHERE digest IS NULL ORDER BY id LIMIT :limit;

-- name: set_digest
UPDATE memories SET digest = :digest WHERE id = :id;

-- name: digested
SELECT {columns}, digest FROM memories WHERE id > :after ORDER BY id LIMIT :limit;

-- name: counts_of
SELECT retrieval_count, last_retrieved_at FROM memories WHERE id = :id;

-- name: set_counts
UPDATE memories SET retrieval_count = :count, last_retrieved_at = :last WHERE id = :id;

-- name: remove_memory
DELETE FROM memories WHERE id = :id;

-- name: get_vector
SELECT vector FROM vectors WHERE memory_id = :id;

-- name: set_vector
INSERT INTO vectors (memory_id, vector) VALUES (:id, :vector) ON CONFLICT (memory_id) DO UPDATE SET vector = excluded.vector;

-- name: any_vector
SELECT EXISTS (SELECT 1 FROM vectors) OR EXISTS (SELECT 1 FROM passage_vectors);

-- name: fill_vector
INSERT INTO vectors (memory_id, vector) SELECT id, :vector FROM memories WHERE id = :id ON CONFLICT (memory_id) DO NOTHING;

-- name: note_embedded
INSERT INTO vector_changes (memory_id) VALUES (:id);

-- name: drop_vector
DELETE FROM vectors WHERE memory_id = :id;

-- name: drop_vectors
DELETE FROM vectors;

-- name: drop_vectors_of
DELETE FROM vectors WHERE memory_id IN (SELECT value FROM json_each(:ids));

-- name: count_missing_vectors
SELECT (SELECT count(*) FROM memories) - (SELECT count(*) FROM vectors);

-- name: forget_old_vectors
UPDATE changes SET vector = NULL WHERE vector IS NOT NULL;

-- name: size_of_vectors
SELECT count(*), ( -- the usual size: a damaged vector may have another
    SELECT length(vector) FROM (SELECT vector FROM vectors ORDER BY memory_id DESC LIMIT 100)
    GROUP BY 1 ORDER BY count(*) DESC, 1 DESC LIMIT 1
) FROM vectors;

-- name: all_vectors
SELECT v.memory_id, v.vector, m.archived_at IS NULL FROM vectors v JOIN memories m ON m.id = v.memory_id;

-- name: changed_vectors
SELECT c.memory_id, v.vector, m.archived_at IS NULL
FROM (
    SELECT +memory_id AS memory_id FROM changes WHERE changeset_id > ? -- the + makes SQLite use the index by changeset
    UNION SELECT memory_id FROM vector_changes WHERE id > ?
) c
LEFT JOIN memories m ON m.id = c.memory_id
LEFT JOIN vectors v ON v.memory_id = c.memory_id;

-- name: unembedded
SELECT {columns} FROM memories WHERE id NOT IN (SELECT memory_id FROM vectors) ORDER BY id LIMIT :limit;

-- name: unembedded_among
SELECT {columns} FROM memories
WHERE id IN (SELECT value FROM json_each(:ids)) AND id NOT IN (SELECT memory_id FROM vectors) ORDER BY id LIMIT :limit;

-- name: frequency
SELECT count(*) FROM words WHERE words MATCH ?;

-- name: holders
SELECT group_concat(rowid) FROM words WHERE words MATCH ?;

-- name: lengths
SELECT id, sz FROM words_docsize;

-- name: lengths_of
SELECT d.id, d.sz, m.archived_at IS NULL FROM words_docsize d JOIN memories m ON m.id = d.id
WHERE d.id IN (SELECT value FROM json_each(?));

-- name: archived
SELECT id FROM memories WHERE archived_at IS NOT NULL;

-- name: holding
SELECT rowid FROM words WHERE words MATCH :word AND rowid IN (SELECT value FROM json_each(:ids));

-- name: open_changeset
INSERT INTO changesets (at, by, why, undoes, part_of) VALUES (:at, :by, :why, :undoes, :part_of)
ON CONFLICT DO NOTHING -- another changeset has undone it
RETURNING id;

-- name: get_changeset
SELECT s.id, s.at, s.by, s.why, s.undoes, (SELECT u.id FROM changesets u WHERE u.undoes = s.id), s.part_of FROM changesets s WHERE s.id = :id;

-- name: newest_changeset
SELECT coalesce(max(id), 0) FROM changesets;

-- name: newest_changesets
SELECT s.id, s.at, s.by, s.why, s.undoes, (SELECT u.id FROM changesets u WHERE u.undoes = s.id), s.part_of FROM changesets s
ORDER BY s.id DESC LIMIT :limit;

-- name: newest_changesets_within
SELECT s.id, s.at, s.by, s.why, s.undoes, (SELECT u.id FROM changesets u WHERE u.undoes = s.id), s.part_of FROM changesets s
WHERE s.id IN (SELECT c.changeset_id FROM changes c WHERE c.memory_id IN (SELECT id FROM memories WHERE {where}))
    OR s.id IN (SELECT changeset_id FROM knowledge_changes WHERE {known})
ORDER BY s.id DESC LIMIT :limit;

-- name: record
INSERT INTO changes (changeset_id, memory_id, action, reason, before, vector, occurrence, erased, counters)
VALUES (:changeset, :memory_id, :action, :reason, :before, :vector, :occurrence, :erased, :counters) RETURNING id;

-- name: recorded
SELECT id, changeset_id, memory_id, action, reason, before, vector, occurrence, erased, counters FROM changes WHERE id = :id;

-- name: next_recorded
SELECT id, changeset_id, memory_id, action, reason, before, vector, occurrence, erased, counters FROM changes
WHERE memory_id = :memory_id AND id > :id ORDER BY id LIMIT 1;

-- name: next_befores
SELECT c.id, n.before
FROM changes c JOIN changes n ON n.id = (SELECT min(l.id) FROM changes l WHERE l.memory_id = c.memory_id AND l.id > c.id)
WHERE c.id IN (SELECT value FROM json_each(:ids));

-- name: changes_of_changeset
SELECT c.id, c.changeset_id, c.memory_id, c.action, c.reason, c.before, NULL, c.occurrence, c.erased, NULL, s.at, s.by, s.why
FROM changes c JOIN changesets s ON s.id = c.changeset_id WHERE c.changeset_id = :id ORDER BY c.id;

-- name: changes_of_lineage
WITH RECURSIVE lineage (id) AS (
    SELECT :id
    UNION SELECT m.supersedes FROM lineage l JOIN memories m ON m.id = l.id WHERE m.supersedes IS NOT NULL
    UNION SELECT m.superseded_by FROM lineage l JOIN memories m ON m.id = l.id WHERE m.superseded_by IS NOT NULL
    UNION SELECT m.id FROM lineage l JOIN memories m ON m.supersedes = l.id
    UNION SELECT m.id FROM lineage l JOIN memories m ON m.superseded_by = l.id
)
SELECT c.id, c.changeset_id, c.memory_id, c.action, c.reason, c.before, NULL, c.occurrence, c.erased, NULL, s.at, s.by, s.why
FROM changes c JOIN changesets s ON s.id = c.changeset_id WHERE c.memory_id IN (SELECT id FROM lineage) ORDER BY c.id;

-- name: see
INSERT INTO occurrences (memory_id, change_id, agent, session, at) VALUES (:memory_id, :change_id, :agent, :session, :at);

-- name: unsee
DELETE FROM occurrences WHERE change_id = :id;

-- name: sightings_beside
SELECT agent, session, at FROM occurrences WHERE memory_id = :id ORDER BY at, id;

-- name: sightings
WITH RECURSIVE merged (id) AS ( -- memories merged into it, but not the one that it replaced, which is another fact
    SELECT :id
    UNION SELECT m.id FROM merged h JOIN memories m ON m.superseded_by = h.id
    WHERE NOT EXISTS (SELECT 1 FROM memories n WHERE n.id = h.id AND n.supersedes = m.id)
)
SELECT agent, session, at FROM occurrences WHERE memory_id IN (SELECT id FROM merged)
UNION ALL SELECT agent, session, created_at FROM memories WHERE id IN (SELECT id FROM merged)
ORDER BY 3;

-- name: projects
SELECT project, count(*) FROM memories WHERE {where} AND project > :after GROUP BY project ORDER BY project LIMIT :limit;

-- name: repeated
WITH inside AS (SELECT id, agent, fingerprint FROM memories WHERE {where})
SELECT agent, min(id), count(*)
FROM (
    SELECT id, agent, fingerprint FROM inside
    UNION ALL SELECT i.id, o.agent, i.fingerprint FROM occurrences o JOIN inside i ON i.id = o.memory_id
)
WHERE agent <> ''
GROUP BY agent, fingerprint HAVING count(*) >= :least
ORDER BY 3 DESC, 2, 1 LIMIT :limit;

-- name: erase_changes
UPDATE changes SET before = NULL, vector = NULL, occurrence = NULL, counters = NULL, reason = '', erased = 1
WHERE memory_id = :id;

-- name: erase_retrievals
DELETE FROM retrievals WHERE memory_id = :id;

-- name: linked
SELECT id, supersedes, superseded_by FROM memories
WHERE id IN (SELECT value FROM json_each(:ids)) OR supersedes IN (SELECT value FROM json_each(:ids))
    OR superseded_by IN (SELECT value FROM json_each(:ids));

-- name: memories_with_copies
SELECT {columns} FROM memories
WHERE id IN (SELECT value FROM json_each(:lineage)) OR supersedes = :id
    -- Learned from the same sentence.
    OR context IN (SELECT value FROM json_each(:said));

-- name: changes_with_copies
SELECT id, before FROM changes
WHERE before IS NOT NULL AND memory_id <> :id AND (
    memory_id IN (SELECT value FROM json_each(:lineage)) OR json_extract(before, '$.supersedes') = :id
    OR json_extract(before, '$.context') IN (SELECT value FROM json_each(:said))
);

-- name: set_before
UPDATE changes SET before = :before WHERE id = :id;

-- name: erase_reasons_of_changes
UPDATE changes SET reason = ''
WHERE reason <> '' AND EXISTS (SELECT 1 FROM json_each(:said) WHERE instr(reason, value));

-- name: any_holding
SELECT EXISTS (SELECT 1 FROM words WHERE words MATCH :word);

-- name: logged_queries
SELECT DISTINCT query FROM retrievals
WHERE query <> '' AND (:anybody OR memory_id IN (SELECT value FROM json_each(:ids)));

-- name: erase_queries
UPDATE retrievals SET query = '' WHERE query IN (SELECT value FROM json_each(:queries));

-- name: note
INSERT INTO retrievals (memory_id, query, caller, at)
SELECT :memory_id, :query, :caller, :at WHERE EXISTS (SELECT 1 FROM memories WHERE id = :memory_id);

-- name: count_retrievals
UPDATE memories SET retrieval_count = retrieval_count + :count, last_retrieved_at = max(coalesce(last_retrieved_at, ''), :last)
WHERE id = :id;

-- name: begin_tracking
INSERT INTO meta (name, value) SELECT 'tracked_since', at FROM (SELECT at FROM retrievals ORDER BY at LIMIT 1) WHERE true
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value < value;

-- name: view_of_use
SELECT {columns} FROM memories WHERE {where} AND archived_at IS NULL AND {used} ORDER BY {order} LIMIT :limit;

-- name: tracking
SELECT
    (SELECT value FROM meta WHERE name = 'tracked_since'),
    (SELECT count(DISTINCT substr(at, 1, 10)) FROM retrievals WHERE at >= :since);

-- name: unused
SELECT {columns} FROM memories m
WHERE category = :category AND created_at < :before AND archived_at IS NULL AND retrieval_count = 0 AND pinned = 0
    AND NOT EXISTS ( -- any change since, its arrival included, counts as use
        SELECT 1 FROM changes c JOIN changesets s ON s.id = c.changeset_id WHERE c.memory_id = m.id AND s.at >= :before
    )
    AND NOT EXISTS (SELECT 1 FROM memories d WHERE d.superseded_by = m.id AND d.retrieval_count > 0) -- successor recalled
ORDER BY created_at, id LIMIT :limit;

-- name: queries_that_found
SELECT query FROM retrievals
WHERE query <> '' AND memory_id IN (
    SELECT value FROM json_each(:ids)
    UNION SELECT id FROM memories WHERE superseded_by IN (SELECT value FROM json_each(:ids)) -- replaced by them
)
GROUP BY query ORDER BY max(at) DESC, query LIMIT :limit;

-- name: touched
SELECT DISTINCT memory_id FROM changes
WHERE changeset_id > :after AND memory_id IN (SELECT value FROM json_each(:ids)) AND action <> :besides;

-- name: last_touched
SELECT max(changeset_id) FROM changes WHERE memory_id = :id;

-- name: forget_retrievals
DELETE FROM retrievals WHERE at < :before;

-- name: injected
SELECT memory_id, digest FROM injected_memories WHERE client = :client AND session = :session;

-- name: mark_injected
INSERT INTO injected_memories (client, session, memory_id, digest, at)
SELECT :client, :session, id, :digest, :at FROM memories WHERE id = :id
ON CONFLICT (client, session, memory_id) DO UPDATE SET digest = excluded.digest, at = excluded.at;

-- name: clear_injected
DELETE FROM injected_memories WHERE client = :client AND session = :session;

-- name: forget_injected_before
DELETE FROM injected_memories WHERE at < :before;

-- name: stats
SELECT
    (SELECT count(*) FROM memories WHERE archived_at IS NULL), (SELECT count(*) FROM memories),
    (SELECT count(*) FROM vectors), (SELECT count(*) FROM changesets), (SELECT count(*) FROM retrievals),
    (SELECT count(*) FROM inbox WHERE state = 'pending');

-- name: stats_by
SELECT {column}, count(*) FROM memories WHERE archived_at IS NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 50;

-- name: tidy_words
INSERT INTO words (words) VALUES ('optimize');

-- name: receive
INSERT INTO inbox (client, session, turn, task, received_at, due_at, payload, series)
VALUES (:client, :session, :turn, :task, :received_at, :due_at, :payload, :series) RETURNING id;

-- name: received
SELECT id FROM inbox
WHERE client = :client AND session = :session AND turn = :turn AND task = :task
    AND turn <> '' AND (client <> '' OR session <> '');

-- name: part_of_turn
SELECT {items} FROM inbox
WHERE client = :client AND session = :session AND turn = :turn AND task = :task
    AND turn <> '' AND (client <> '' OR session <> '');

-- name: turns
SELECT DISTINCT turn FROM inbox
WHERE client = :client AND session = :session AND turn <> '' AND (client <> '' OR session <> '')
UNION SELECT turn FROM inbox
WHERE :any_key = 1 AND session = :session AND turn <> '' AND (client <> '' OR session <> '')
    AND substr(client, 1, length(:client) + 1) = :client || '~';

-- name: purged_turns
SELECT turn, payload FROM inbox -- as_json has one format: payloads with the mark are parsed to be sure
WHERE client = :client AND session = :session AND turn <> ''
    AND (payload = '' OR instr(payload, '"cut"') > 0);

-- name: amend_item
UPDATE inbox SET payload = :payload, due_at = min(due_at, :due_at), state = 'pending', series = :series WHERE id = :id;

-- name: due_by
UPDATE inbox SET due_at = :due_at WHERE id = :id AND state = 'pending' AND due_at > :due_at;

-- name: release_items
UPDATE inbox SET due_at = :at
WHERE state = 'pending' AND due_at > :at AND attempts = 0 AND client = :client AND session = :session;

-- name: waiting_of_session
SELECT count(*) FROM inbox
WHERE state = 'pending' AND reason = '' AND due_at > :at AND due_at <= :until AND client = :client AND session = :session;

-- name: hold_items
UPDATE inbox SET due_at = :due_at
WHERE state = 'pending' AND reason = '' -- failed items, and those that wait for another reason, have their own time
    AND due_at > :at AND due_at <= :latest AND client = :client AND session = :session;

-- name: is_full
SELECT CASE -- pending items are between the first pending id and the last id, which usually answers without counting
    WHEN (SELECT max(id) FROM inbox) - (SELECT min(id) FROM inbox WHERE state = 'pending') + 1 < :most THEN 0
    ELSE (SELECT count(*) FROM (SELECT 1 FROM inbox WHERE state = 'pending' LIMIT :most)) >= :most
END;

-- name: any_pending
SELECT EXISTS (SELECT 1 FROM inbox WHERE state = 'pending');

-- name: any_misdated
SELECT EXISTS (
    SELECT 1 FROM inbox WHERE state = 'pending' AND due_at > :at AND (received_at > :soon OR due_at > :latest)
);

-- name: correct_dates
UPDATE inbox SET due_at = :at, received_at = min(received_at, :at)
WHERE state = 'pending' AND due_at > :at AND (received_at > :soon OR due_at > :latest);

-- name: due_items
SELECT {items} FROM inbox WHERE state = 'pending' AND due_at <= :at ORDER BY series, id LIMIT :limit;

-- name: get_item
SELECT {items} FROM inbox WHERE id = :id;

-- name: item_state
SELECT state FROM inbox WHERE id = :id;

-- name: newest_items
SELECT {items} FROM inbox WHERE id < :after ORDER BY id DESC LIMIT :limit;

-- name: newest_items_in
SELECT {items} FROM inbox WHERE state = :state AND id < :after ORDER BY id DESC LIMIT :limit;

-- name: item_settled_by
SELECT {items} FROM inbox -- it was settled with the changeset, or later: older items are skipped
WHERE changeset_id = :changeset AND payload <> ''
    AND finished_at >= (SELECT at FROM changesets WHERE id = :changeset)
ORDER BY finished_at LIMIT 1;

-- name: settle_item
UPDATE inbox SET
    state = :state, reason = :reason, result = :result, changeset_id = coalesce(:changeset, changeset_id),
    finished_at = CASE :state WHEN 'pending' THEN NULL ELSE :at END
WHERE id = :id AND state = :from_state;

-- name: postpone_item
UPDATE inbox SET attempts = attempts + :attempt, faults = faults + :fault, due_at = :due_at, reason = :reason
WHERE id = :id AND state = 'pending';

-- name: park_item
UPDATE inbox SET state = 'parked', reason = :reason WHERE id = :id AND state = 'pending';

-- name: retry_item
UPDATE inbox SET
    state = 'pending', due_at = :at, attempts = 0, faults = 0, reason = '', finished_at = NULL,
    result = CASE state WHEN 'parked' THEN result ELSE '{}' END -- of a parked item, learned parts are not learned again
WHERE id = :id AND state IN ('parked', 'rejected') AND payload <> '';

-- name: inbox_status
SELECT 'state', state, count(*) FROM inbox GROUP BY state -- one statement, one snapshot
UNION ALL SELECT 'reason', reason, count(*) FROM inbox WHERE state = 'rejected' GROUP BY reason
UNION ALL SELECT 'oldest', min(received_at), 0 FROM inbox WHERE id IN (
    (SELECT min(id) FROM inbox WHERE state = 'pending'), (SELECT min(id) FROM inbox WHERE state = 'parked')
);

-- name: forget_items
UPDATE inbox SET payload = '', result = '{}' WHERE finished_at < :before AND payload <> '';

-- name: words_of
SELECT json_extract(before, '$.text'), json_extract(before, '$.context') FROM changes
WHERE memory_id = :id AND before IS NOT NULL;

-- name: settled_items_saying
SELECT id, payload, result, true FROM inbox
WHERE finished_at IS NOT NULL AND payload <> '' AND (
    changeset_id IN (SELECT changeset_id FROM changes WHERE memory_id = :id)
    OR EXISTS (
        SELECT 1 FROM json_each(payload, '$.messages') m JOIN json_each(:said) s
        WHERE instr(json_extract(m.value, '$.text'), s.value)
    )
    OR EXISTS (
        SELECT 1 FROM json_each(payload, '$.injected') i JOIN json_each(:said) s WHERE instr(i.value, s.value)
    )
    OR EXISTS (
        SELECT 1 FROM json_each(result, '$.actions') a JOIN json_each(:said) s
        WHERE instr(json_extract(a.value, '$.text'), s.value)
    )
);

-- name: erase_settled_items
UPDATE inbox SET payload = '', result = '{}' WHERE id IN (SELECT value FROM json_each(:ids));

-- name: reasons_saying
SELECT id, payload FROM inbox
WHERE reason <> '' AND EXISTS (SELECT 1 FROM json_each(:said) WHERE instr(reason, value));

-- name: erase_reasons
UPDATE inbox SET reason = '' WHERE id IN (SELECT value FROM json_each(:ids));

-- name: open_payloads
SELECT id, payload FROM inbox WHERE state IN ('pending', 'parked');

-- name: set_payload
UPDATE inbox SET
    payload = :payload, -- the result still shows that it is partly processed
    result = CASE result WHEN '{}' THEN '{}' ELSE '{"actions": []}' END
WHERE id = :id;

-- name: as_read
SELECT payload, result FROM inbox WHERE id = :id AND state = 'pending';

-- name: bury_runs
UPDATE runs SET outcome = 'died', finished_at = :at WHERE chore = :chore AND outcome = 'running' AND alive_at < :dead;

-- name: claim_run
INSERT INTO runs (chore, slot, by, started_at, alive_at)
SELECT :chore, :slot, :by, :at, :at
WHERE :slot = '' OR (
    NOT EXISTS ( -- no slot before one that was run, except one in the future, the effect of a wrong clock
        SELECT 1 FROM runs WHERE chore = :chore AND slot <> '' AND slot >= :slot AND slot <= :at AND outcome <> 'died'
    )
    AND (SELECT count(*) FROM runs WHERE chore = :chore AND slot = :slot AND outcome = 'died') < :deaths
)
ON CONFLICT DO NOTHING -- the chore is running
RETURNING {columns};

-- name: run_is_alive
UPDATE runs SET alive_at = :at WHERE id = :id AND outcome = 'running';

-- name: finish_run
UPDATE runs SET outcome = :outcome, details = :details, changeset_id = :changeset, finished_at = :at
WHERE id = :id AND outcome = 'running';

-- name: get_run
SELECT {columns} FROM runs WHERE id = :id;

-- name: last_run
SELECT {columns} FROM runs
WHERE chore = :chore AND slot <> '' AND slot <= :at AND outcome <> 'died' AND (outcome <> 'running' OR alive_at >= :dead)
ORDER BY slot DESC LIMIT 1;

-- name: newest_runs
SELECT {columns}, outcome = 'running' AND alive_at < :dead FROM runs
WHERE :chore IN ('', chore) ORDER BY id DESC LIMIT :limit;

-- name: get_meta
SELECT value FROM meta WHERE name = :name;

-- name: make_identity
INSERT INTO meta (name, value) VALUES ('identity', :value) ON CONFLICT (name) DO NOTHING;

-- name: last_given
SELECT max(
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'memories'), 0), coalesce((SELECT max(id) FROM memories), 0)
);

-- name: move_last_given
UPDATE sqlite_sequence SET seq = :last WHERE name = 'memories';

-- name: set_last_given
INSERT INTO sqlite_sequence (name, seq) VALUES ('memories', :last);

-- name: ever_held
SELECT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'memories' AND seq > 0) OR EXISTS (SELECT 1 FROM memories);

-- name: origins
SELECT origin, min(id) FROM memories
WHERE origin <> '' AND origin IN (SELECT value FROM json_each(:origins)) GROUP BY origin;

-- name: carried_counts
SELECT count(*), coalesce(max(id), 0) FROM memories;

-- name: carried_memories
SELECT {columns} FROM memories WHERE id > :after ORDER BY id LIMIT :limit;

-- name: carried_sightings
SELECT memory_id, agent, session, at FROM occurrences
WHERE memory_id IN (SELECT value FROM json_each(:ids)) ORDER BY memory_id, at, agent, session;

-- name: carried_vectors
SELECT memory_id, vector FROM vectors WHERE memory_id IN (SELECT value FROM json_each(:ids));

-- name: parts
SELECT id FROM changesets WHERE id = :id UNION SELECT id FROM changesets WHERE part_of = :id ORDER BY id;

-- name: sequences
SELECT name, seq FROM sqlite_sequence;

-- name: raise_sequence
UPDATE sqlite_sequence SET seq = max(seq, :seq) WHERE name = :name;

-- name: set_sequence
INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :seq);

-- name: create_key
INSERT INTO keys (digest, hint, name, role, agent, user, team, prefixes, expires_at, created_at, created_by)
VALUES (:digest, :hint, :name, :role, :agent, :user, :team, :prefixes, :expires_at, :at, :by)
ON CONFLICT DO NOTHING;

-- name: find_key
SELECT {columns} FROM keys WHERE digest = :digest;

-- name: get_key
SELECT {columns} FROM keys WHERE id = :id;

-- name: all_keys
SELECT {columns} FROM keys ORDER BY id DESC;

-- name: carried_keys
SELECT {columns}, digest FROM keys ORDER BY id;

-- name: adopt_key
INSERT INTO keys (digest, hint, name, role, agent, user, team, prefixes, expires_at, created_at, created_by, revoked_at)
VALUES (:digest, :hint, :name, :role, :agent, :user, :team, :prefixes, :expires_at, :created_at, :created_by, :revoked_at)
ON CONFLICT DO NOTHING;

-- name: follow_key
UPDATE keys SET
    revoked_at = coalesce(revoked_at, :revoked_at), last_used_at = coalesce(:last_used_at, last_used_at)
WHERE digest = :digest;

-- name: any_valid_key
SELECT EXISTS (SELECT 1 FROM keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :at));

-- name: revoke_key
UPDATE keys SET revoked_at = :at WHERE id = :id AND revoked_at IS NULL;

-- name: key_used
UPDATE keys SET last_used_at = :at WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :at);

-- name: log_entry
INSERT INTO audit_log (at, act, outcome, key_id, name, what, address)
VALUES (:at, :act, :outcome, :key, :name, :what, :address);

-- name: newest_entries
SELECT {columns} FROM audit_log WHERE id < :after ORDER BY id DESC LIMIT :limit;

-- name: newest_entries_of
SELECT {columns} FROM audit_log WHERE key_id = :key AND id < :after ORDER BY id DESC LIMIT :limit;

-- name: forget_entries
DELETE FROM audit_log WHERE at < :before;

-- name: known_rows
SELECT {columns} FROM {table} WHERE {where} ORDER BY {order} LIMIT :limit;

-- name: known_by_id
SELECT {columns} FROM {table} WHERE id IN (SELECT value FROM json_each(:ids)) AND {where};

-- name: known_by_word
SELECT DISTINCT row_table, row_id FROM knowledge_words WHERE word IN (SELECT value FROM json_each(:words));

-- name: known_by_memory
SELECT {columns} FROM {table} WHERE memory IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: count_known
SELECT count(*) FROM {table} WHERE {where};

-- name: put_known
INSERT INTO {table} ({columns}) VALUES ({places}) ON CONFLICT (id) DO UPDATE SET {changed};

-- name: remove_known
DELETE FROM {table} WHERE id = :id;

-- name: name_known
INSERT INTO knowledge_words (word, row_table, row_id) VALUES (:word, :table, :id);

-- name: unname_known
DELETE FROM knowledge_words WHERE row_table = :table AND row_id = :id;

-- name: record_known
INSERT INTO knowledge_changes (changeset_id, row_table, row_id, action, reason, before, place, agent, user, team, visibility)
VALUES (:changeset, :table, :id, :action, :reason, :before, :place, :agent, :user, :team, :visibility)
RETURNING id;

-- name: recorded_known
SELECT id, changeset_id, row_table, row_id, action, reason, before, erased FROM knowledge_changes WHERE id = :id;

-- name: next_recorded_known
SELECT id, changeset_id, row_table, row_id, action, reason, before, erased FROM knowledge_changes
WHERE row_table = :table AND row_id = :key AND id > :id ORDER BY id LIMIT 1;

-- name: was_known
SELECT EXISTS (SELECT 1 FROM knowledge_changes WHERE row_table = :table AND row_id = :id);

-- name: known_changes
SELECT
    c.id, c.changeset_id, c.row_table, c.row_id, c.action, c.reason, c.before, c.erased, s.at, s.by, s.why, n.id, n.before
FROM knowledge_changes c JOIN changesets s ON s.id = c.changeset_id
LEFT JOIN knowledge_changes n ON n.id = ( -- the row after a change is the row before the next one
    SELECT min(l.id) FROM knowledge_changes l
    WHERE l.row_table = c.row_table AND l.row_id = c.row_id AND l.id > c.id
)
WHERE {which} ORDER BY c.id;

-- name: erase_known_changes
UPDATE knowledge_changes SET
    row_id = :mark, before = NULL, reason = '', erased = 1,
    place = '', agent = '', user = '', team = '', visibility = 'private'
WHERE row_table = :table AND row_id = :id;

-- name: erase_judged
UPDATE feedback SET about = (SELECT json_group_array(value) FROM json_each(about) WHERE value <> :ref)
WHERE EXISTS (SELECT 1 FROM json_each(about) WHERE value = :ref);

-- name: erase_judged_in_changes
UPDATE knowledge_changes SET before = json_set(
    before, '$.about', json((SELECT json_group_array(value) FROM json_each(before, '$.about') WHERE value <> :ref))
)
WHERE row_table = 'feedback' AND before IS NOT NULL
    AND EXISTS (SELECT 1 FROM json_each(before, '$.about') WHERE value = :ref);

-- name: note_folders
SELECT DISTINCT folder FROM notes ORDER BY folder;

-- name: noted_files
SELECT path, hash, size, modified, at, parts FROM notes WHERE folder = :folder ORDER BY path;

-- name: put_file
INSERT INTO notes (folder, path, hash, size, modified, at, parts)
VALUES (:folder, :path, :hash, :size, :modified, :at, :parts)
ON CONFLICT (folder, path) DO UPDATE SET
    hash = excluded.hash, size = excluded.size, modified = excluded.modified, at = excluded.at, parts = excluded.parts;

-- name: drop_file
DELETE FROM notes WHERE folder = :folder AND path = :path;

-- name: arrived
SELECT '', category, count(*) FROM memories INDEXED BY memories_by_day -- covers this query
WHERE {where} AND created_at < :first GROUP BY category
UNION ALL SELECT substr(created_at, 1, 10), category, count(*) FROM memories INDEXED BY memories_by_day
WHERE {where} AND created_at >= :first GROUP BY 1, 2
ORDER BY 1, 2;

-- name: done
SELECT c.action, count(*) FROM changesets s CROSS JOIN changes c -- in this order: by time, then their changes
WHERE s.at >= :since AND c.changeset_id = s.id AND c.action <> 'noop' GROUP BY c.action ORDER BY c.action;

-- name: inject
INSERT INTO injections (at, caller, occasion, memories, tokens) VALUES (:at, :caller, :occasion, :memories, :tokens);

-- name: injection_counts
SELECT
    substr(at, 1, 10), sum(occasion = 'prompt'), sum(occasion = 'prompt' AND tokens > 0), sum(occasion = 'start'),
    sum(memories), sum(tokens)
FROM injections WHERE at >= :since GROUP BY 1 ORDER BY 1;

-- name: forget_injections
DELETE FROM injections WHERE at < :before;

-- name: keepers
SELECT substr(source, 1, instr(source || '/', '/') - 1), count(*), max(created_at) FROM memories
WHERE archived_at IS NULL AND source <> '' GROUP BY 1;

-- name: askers
SELECT caller, sum(returned), max(at) FROM (
    SELECT caller, count(*) AS returned, max(at) AS at FROM retrievals GROUP BY caller
    UNION ALL SELECT caller, 0, max(at) FROM injections GROUP BY caller -- also callers without results
)
WHERE caller <> '' GROUP BY caller;

-- name: pulse
SELECT
    coalesce((SELECT max(id) FROM changesets), 0),
    coalesce((SELECT max(id) FROM retrievals), 0) + coalesce((SELECT max(id) FROM injections), 0),
    coalesce((SELECT max(id) FROM inbox), 0),
    (SELECT count(*) FROM (SELECT 1 FROM inbox WHERE state = 'pending' LIMIT 10000)),
    (SELECT count(*) FROM (SELECT 1 FROM inbox WHERE state = 'parked' LIMIT 10000)),
    (SELECT max(finished_at) FROM inbox WHERE finished_at IS NOT NULL AND payload <> '');

-- name: dots
SELECT id, substr(text, 1, :characters), category, project, created_at FROM memories NOT INDEXED
WHERE id IN (SELECT value FROM json_each(:ids)) AND {where} ORDER BY id DESC;

-- name: token_embeddings
SELECT memory_id, vectors FROM token_embeddings WHERE memory_id IN (SELECT value FROM json_each(:ids))
AND EXISTS (SELECT 1 FROM meta WHERE name = 'reranker' AND value = :by);

-- name: pending_token_embeddings
SELECT {columns} FROM memories
WHERE id IN (SELECT memory_id FROM pending_token_embeddings ORDER BY memory_id DESC LIMIT :limit) ORDER BY id DESC;

-- name: put_token_embeddings
INSERT INTO token_embeddings (memory_id, vectors)
SELECT id, :vectors FROM memories WHERE id = :id AND text = :text AND speaker = :speaker AND context = :context
ON CONFLICT (memory_id) DO UPDATE SET vectors = excluded.vectors;

-- name: dequeue_token_embeddings
DELETE FROM pending_token_embeddings
WHERE memory_id = :id AND EXISTS (SELECT 1 FROM token_embeddings t WHERE t.memory_id = :id);

-- name: reranker
SELECT coalesce((SELECT value FROM meta WHERE name = 'reranker'), '');

-- name: drop_token_embeddings
DELETE FROM token_embeddings;

-- name: enqueue_token_embeddings
INSERT OR IGNORE INTO pending_token_embeddings (memory_id) SELECT id FROM memories;

-- name: count_token_embeddings
SELECT (SELECT count(*) FROM token_embeddings), (SELECT count(*) FROM pending_token_embeddings);

-- name: capture_to_index
SELECT payload FROM inbox WHERE id = :capture;

-- name: captures_to_index
SELECT u.capture_id FROM unindexed u JOIN inbox i ON i.id = u.capture_id
WHERE i.state <> 'pending' OR i.attempts > 0 ORDER BY u.capture_id LIMIT :limit;

-- name: mark_indexed
DELETE FROM unindexed WHERE capture_id = :capture;

-- name: episode_by_capture
SELECT episode_id FROM passages WHERE capture_id = :capture LIMIT 1;

-- name: episode_by_memory
SELECT p.episode_id FROM changes c JOIN inbox i ON i.changeset_id = c.changeset_id
JOIN passages p ON p.capture_id = i.id WHERE c.memory_id = :memory ORDER BY c.id LIMIT 1;

-- name: episode_by_turn
SELECT id FROM episodes
WHERE client = :client AND session = :session AND turn IN (:turn, :base) AND turn <> '' AND (client <> '' OR session <> '')
    AND source = :source AND project = :project AND agent = :agent AND user = :user AND team = :team
    AND visibility = :visibility
ORDER BY turn = :turn DESC, id LIMIT 1;

-- name: insert_episode
INSERT INTO episodes ({columns}) VALUES ({places}) RETURNING id;

-- name: save_episode
UPDATE episodes SET
    created_at = :created_at, source = :source, project = :project, client = :client, session = :session, turn = :turn,
    agent = :agent, user = :user, team = :team, visibility = :visibility, context = :context
WHERE id = :id;

-- name: count_passages
SELECT count(*) FROM passages WHERE episode_id = :episode;

-- name: insert_passage
INSERT INTO passages (episode_id, capture_id, place, size, text) VALUES (:episode, :capture, :place, :size, :text)
RETURNING id;

-- name: drop_passages
DELETE FROM passages WHERE capture_id = :capture;

-- name: drop_empty_episode
DELETE FROM episodes WHERE id = :episode AND NOT EXISTS (SELECT 1 FROM passages WHERE episode_id = :episode);

-- name: get_episodes
SELECT e.id, {columns}, (SELECT min(capture_id) FROM passages WHERE episode_id = e.id) FROM episodes e
WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: passages_of
SELECT episode_id, id, text FROM passages WHERE episode_id IN (SELECT value FROM json_each(:ids))
ORDER BY episode_id, capture_id, place;

-- name: get_passages
SELECT p.id, p.episode_id, p.text, e.created_at, e.session, e.project, e.source, p.capture_id
FROM passages p JOIN episodes e ON e.id = p.episode_id WHERE p.id IN (SELECT value FROM json_each(:ids));

-- name: passage_state
SELECT
    coalesce((SELECT max(id) FROM passage_changes), 0), 0,
    coalesce((SELECT value FROM meta WHERE name = 'generation'), '0'),
    coalesce((SELECT value FROM meta WHERE name = 'signature'), '');

-- name: passage_newest
SELECT max(id) FROM passages;

-- name: passage_among
SELECT p.id FROM passages p JOIN episodes e ON e.id = p.episode_id
WHERE p.id IN (SELECT value FROM json_each(:ids)) AND {where};

-- name: passage_ids_of
SELECT p.id FROM passages p JOIN episodes e ON e.id = p.episode_id WHERE {where};

-- name: passage_size_of_vectors
SELECT count(*), (
    SELECT length(vector) FROM (SELECT vector FROM passage_vectors ORDER BY passage_id DESC LIMIT 100)
    GROUP BY 1 ORDER BY count(*) DESC, 1 DESC LIMIT 1
) FROM passage_vectors;

-- name: passage_all_vectors
SELECT passage_id, vector, 1 FROM passage_vectors;

-- name: passage_changed_vectors
SELECT c.passage_id, v.vector, 1
FROM (SELECT DISTINCT passage_id FROM passage_changes WHERE id > ? AND id > ?) c
LEFT JOIN passage_vectors v ON v.passage_id = c.passage_id;

-- name: passage_lengths
SELECT id, sz FROM passage_words_docsize;

-- name: passage_lengths_of
SELECT id, sz, 1 FROM passage_words_docsize WHERE id IN (SELECT value FROM json_each(?));

-- name: passage_frequency
SELECT count(*) FROM passage_words WHERE passage_words MATCH ?;

-- name: passage_holders
SELECT group_concat(rowid) FROM passage_words WHERE passage_words MATCH ?;

-- name: passage_unembedded
SELECT p.id, p.episode_id, p.text, e.created_at, e.session, e.project, e.source, p.capture_id
FROM passages p JOIN episodes e ON e.id = p.episode_id
WHERE p.id IN (SELECT passage_id FROM unembedded ORDER BY passage_id DESC LIMIT :limit) ORDER BY p.id DESC;

-- name: passage_fill_vector
INSERT INTO passage_vectors (passage_id, vector) SELECT id, :vector FROM passages WHERE id = :id
ON CONFLICT (passage_id) DO NOTHING;

-- name: drop_passage_vectors
DELETE FROM passage_vectors;

-- name: unembed_passages
INSERT OR IGNORE INTO unembedded (passage_id) SELECT id FROM passages;

-- name: drop_passage_vectors_of
DELETE FROM passage_vectors WHERE passage_id IN (SELECT value FROM json_each(:ids));

-- name: unembed_passages_of
INSERT OR IGNORE INTO unembedded (passage_id) SELECT id FROM passages WHERE id IN (SELECT value FROM json_each(:ids));

-- name: note_passage_changes
INSERT INTO passage_changes (passage_id) SELECT value FROM json_each(:ids);

-- name: episodes_saying
SELECT id FROM episodes e
WHERE id IN (
    SELECT p.episode_id FROM passages p JOIN inbox i ON i.id = p.capture_id
    JOIN changes c ON c.changeset_id = i.changeset_id WHERE c.memory_id = :id
)
OR EXISTS ( -- in the whole text: a sentence may be split over two passages
    SELECT 1 FROM json_each(:said) s WHERE instr((
        SELECT group_concat(text, '') FROM (
            SELECT text FROM passages WHERE episode_id = e.id ORDER BY capture_id, place
        )
    ), s.value)
);

-- name: remove_episodes
DELETE FROM episodes WHERE id IN (SELECT value FROM json_each(:ids));

-- name: open_captures_of
SELECT DISTINCT p.episode_id FROM passages p JOIN inbox i ON i.id = p.capture_id
WHERE p.episode_id IN (SELECT value FROM json_each(:ids)) AND i.state IN ('pending', 'parked');

-- name: erase_captures_of
UPDATE inbox SET payload = '', result = '{}', reason = ''
WHERE id IN (SELECT capture_id FROM passages WHERE episode_id IN (SELECT value FROM json_each(:ids)));

-- name: old_episodes
SELECT id FROM (
    SELECT id, created_at, sum(bytes) OVER (ORDER BY created_at DESC, id DESC) AS total FROM (
        SELECT e.id, e.created_at, coalesce((
            SELECT sum(p.size + :vector) FROM passages p WHERE p.episode_id = e.id
        ), 0) AS bytes FROM episodes e
    )
)
WHERE created_at < :before OR total > :most ORDER BY id;

-- name: count_episodes
SELECT
    (SELECT count(*) FROM episodes), (SELECT count(*) FROM passages), (SELECT count(*) FROM passage_vectors),
    (SELECT coalesce(sum(size), 0) FROM passages), (SELECT count(*) FROM unindexed);

-- name: sessions
SELECT
    client, session, "user", agent, min(created_at), max(created_at), count(*) FILTER (WHERE context = ''),
    count(*) FILTER (WHERE context <> ''), max(created_at || ' ' || project), -- the project of the last turn
    count(*) FILTER (WHERE project = :project OR (:folder <> '' AND substr(project, -length(:folder)) = :folder))
FROM episodes
WHERE session >= :first AND session <= :last AND session <> ''
    AND (:client = '' OR client = :client OR substr(client, 1, length(:client) + 1) = :client || '~')
    AND (:own = 0 OR ("user" <> '' AND "user" = :own_user) OR ("user" = '' AND agent <> '' AND agent = :own_agent))
    AND {where}
GROUP BY session, client, "user", agent
HAVING max(created_at) >= :since AND (
    :anywhere = 1 OR session IN (SELECT value FROM json_each(:also))
    OR count(*) FILTER (WHERE project = :project OR (:folder <> '' AND substr(project, -length(:folder)) = :folder)) > 0
)
ORDER BY max(created_at) DESC, session DESC LIMIT :limit;

-- name: session_clients
SELECT DISTINCT client, "user", agent FROM episodes WHERE session = :session AND session <> '';

-- name: session_episodes
SELECT id FROM episodes
WHERE session = :session AND session <> '' AND client IN (SELECT value FROM json_each(:clients)) AND "user" = :user AND agent = :agent
    AND (context <> '') = (:summaries = 1) AND {where}
ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: session_changesets
SELECT i.changeset_id, e."user", e.agent, CASE WHEN e.id IS NULL THEN i.payload ELSE '' END FROM inbox i
LEFT JOIN episodes e ON e.id = (SELECT p.episode_id FROM passages p WHERE p.capture_id = i.id LIMIT 1)
WHERE i.session = :session AND i.session <> '' AND i.client IN (SELECT value FROM json_each(:clients)) AND i.changeset_id IS NOT NULL
ORDER BY i.id DESC;

-- name: session_given
SELECT memory_id FROM injected_memories
WHERE session = :session AND client IN (SELECT value FROM json_each(:clients)) ORDER BY at, memory_id;

-- name: waiting_captures
SELECT i.id, i.payload FROM unindexed u CROSS JOIN inbox i ON i.id = u.capture_id
WHERE i.session <> '' AND i.payload <> '' AND (:session = '' OR i.session = :session)
    AND NOT EXISTS (SELECT 1 FROM passages p WHERE p.capture_id = i.id)
ORDER BY u.capture_id DESC LIMIT :limit;

-- name: carried_episodes
SELECT e.id, {columns}, NULL FROM episodes e WHERE id > :after ORDER BY id LIMIT :limit;

-- name: carried_passages
SELECT p.episode_id, p.text, v.vector FROM passages p LEFT JOIN passage_vectors v ON v.passage_id = p.id
WHERE p.episode_id IN (SELECT value FROM json_each(:ids)) ORDER BY p.episode_id, p.capture_id, p.place;

-- name: tidy_passage_words
INSERT INTO passage_words (passage_words) VALUES ('optimize');

-- name: start_llm_call
INSERT INTO llm_calls (
    at, provider, model, purpose, client, session, project, capture, characters, input_tokens, request
) VALUES (
    :at, :provider, :model, :purpose, :client, :session, :project, :capture, :characters, :input_tokens, :request
)
RETURNING id;

-- name: finish_llm_call
UPDATE llm_calls SET
    outcome = :outcome, seconds = :seconds, input_tokens = :input_tokens, output_tokens = :output_tokens,
    reply = CASE request WHEN '' THEN '' ELSE :reply END -- purged meanwhile: stays empty
WHERE id = :id;

-- name: unfinished_llm_calls
SELECT id FROM llm_calls WHERE at < :before AND outcome = 'running' LIMIT 1;

-- name: interrupt_llm_calls
UPDATE llm_calls SET outcome = 'interrupted' WHERE at < :before AND outcome = 'running' RETURNING id;

-- name: llm_spent
SELECT count(*), coalesce(sum(input_tokens + output_tokens), 0) FROM llm_calls
WHERE at >= :since AND outcome <> 'failed';

-- name: llm_sums
SELECT
    substr(at, 1, 10), provider, model, client, session, project,
    sum(CASE outcome WHEN 'failed' THEN 0 ELSE 1 END), sum(CASE outcome WHEN 'failed' THEN 1 ELSE 0 END),
    sum(characters), sum(input_tokens), sum(output_tokens)
FROM llm_calls WHERE at >= :since GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6;

-- name: get_llm_call
SELECT {columns} FROM llm_calls WHERE id = :id;

-- name: newest_llm_calls
SELECT {columns} FROM llm_calls ORDER BY id DESC LIMIT :limit;

-- name: llm_texts_before
SELECT id FROM llm_calls WHERE at < :before AND (request <> '' OR reply <> '');

-- name: erase_all_llm_texts
UPDATE llm_calls SET request = '', reply = '' WHERE request <> '' OR reply <> '';

-- name: erase_llm_texts
UPDATE llm_calls SET request = '', reply = '' WHERE id IN (SELECT value FROM json_each(:ids));
