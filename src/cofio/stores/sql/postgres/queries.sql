-- Named queries of the server store; the embedded store has the same names in its own dialect. {where} is a condition
-- on memories made from a Scope. %(tenant)s is set automatically; lists are arrays.

-- name: make_migrations
CREATE TABLE IF NOT EXISTS cofio_migrations (number integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());

-- name: newest_migration
SELECT coalesce(max(number), 0) FROM cofio_migrations;

-- name: note_migration
INSERT INTO cofio_migrations (number) VALUES (%(number)s);

-- ── memories, words, vectors and the journal ─────────────────────────────────────────────────────────────────────────

-- name: set_meta
INSERT INTO meta (tenant, name, value) VALUES (%(tenant)s, %(name)s, %(value)s)
ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value;

-- name: drop_meta
DELETE FROM meta WHERE tenant = %(tenant)s AND name = %(name)s;

-- name: state
SELECT
    coalesce((SELECT max(id) FROM changesets WHERE tenant = %(tenant)s), 0),
    coalesce((SELECT max(id) FROM memories WHERE tenant = %(tenant)s), 0),
    coalesce((SELECT value FROM meta WHERE tenant = %(tenant)s AND name = 'signature'), ''),
    coalesce((SELECT value::integer FROM meta WHERE tenant = %(tenant)s AND name = 'dimension'), 0);

-- name: get_memory
SELECT {columns} FROM memories WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: get_memories
SELECT {columns} FROM memories WHERE tenant = %(tenant)s AND id = ANY(%(ids)s::bigint[]);

-- name: said
SELECT id, speaker, created_at FROM memories WHERE tenant = %(tenant)s AND id = ANY(%(ids)s::bigint[]);

-- name: any_speaker
SELECT EXISTS (SELECT 1 FROM memories WHERE tenant = %(tenant)s AND speaker <> '');

-- name: page
SELECT {columns} FROM memories WHERE tenant = %(tenant)s AND {where} AND id < %(after)s
ORDER BY id DESC LIMIT %(limit)s OFFSET %(skip)s;

-- name: latest
SELECT {columns} FROM memories WHERE tenant = %(tenant)s AND {where} ORDER BY created_at DESC, id DESC LIMIT %(limit)s;

-- name: count
SELECT count(*) FROM memories WHERE tenant = %(tenant)s AND {where};

-- name: ids_of
SELECT id FROM memories WHERE tenant = %(tenant)s AND {where} LIMIT %(limit)s;

-- name: known
SELECT id FROM memories WHERE tenant = %(tenant)s AND fingerprint = %(fingerprint)s AND {where} ORDER BY id;

-- name: twin
SELECT id FROM memories
WHERE tenant = %(tenant)s AND fingerprint = %(fingerprint)s AND archived_at IS NULL AND project = %(project)s
    AND (project <> '' OR source = %(source)s) AND visibility = %(visibility)s AND speaker = %(speaker)s
    AND (visibility <> 'team' OR team = %(team)s)
    AND (visibility <> 'private' OR ("user" = %(user)s AND ("user" <> '' OR agent = %(agent)s)))
ORDER BY id LIMIT 1;

-- name: insert_memory
INSERT INTO memories (tenant, {columns}, fingerprint, digest, said, around, length)
VALUES (
    %(tenant)s, {places}, %(fingerprint)s, %(digest)s, to_tsvector('cofio', %(said)s), to_tsvector('cofio', %(around)s), %(length)s
)
RETURNING id;

-- name: raise_sequence
SELECT CASE -- one by one, so that the sequence never goes back while others take ids, except for large leaps
    WHEN %(id)s - last > 10000 THEN ( -- one leap at a time: of two, the shorter one must not come last
        SELECT setval(name, greatest(%(id)s, pg_sequence_last_value(name)))
        FROM (SELECT pg_advisory_xact_lock(hashtextextended('cofio/sequence', 0))) AS alone
    )
    ELSE (SELECT max(id) FROM (SELECT nextval(name) AS id FROM generate_series(1, %(id)s - last)) taken)
END
FROM (
    SELECT name, coalesce(pg_sequence_last_value(name), 0) AS last
    FROM (SELECT pg_get_serial_sequence('{table}', 'id')::regclass AS name) ours
) given
WHERE %(id)s > last;

-- name: save_memory
UPDATE memories SET
    {changed}, fingerprint = %(fingerprint)s, digest = %(digest)s, said = to_tsvector('cofio', %(said)s),
    around = to_tsvector('cofio', %(around)s), length = %(length)s
WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: undigested
SELECT {columns} FROM memories WHERE tenant = %(tenant)s AND digest IS NULL ORDER BY id LIMIT %(limit)s;

-- name: set_digest
UPDATE memories SET digest = %(digest)s WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: digested
SELECT {columns}, digest FROM memories WHERE tenant = %(tenant)s AND id > %(after)s ORDER BY id LIMIT %(limit)s;

-- name: tenants
SELECT DISTINCT tenant FROM memories;

-- name: counts_of
SELECT retrieval_count, last_retrieved_at FROM memories WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: set_counts
UPDATE memories SET retrieval_count = %(count)s, last_retrieved_at = %(last)s
WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: remove_memory
DELETE FROM memories WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: get_vector
SELECT vector FROM vectors WHERE tenant = %(tenant)s AND memory_id = %(id)s;

-- name: set_vector
INSERT INTO vectors (tenant, memory_id, vector) VALUES (%(tenant)s, %(id)s, %(vector)b)
ON CONFLICT (tenant, memory_id) DO UPDATE SET vector = excluded.vector;

-- name: any_vector
SELECT EXISTS (SELECT 1 FROM vectors WHERE tenant = %(tenant)s)
    OR EXISTS (SELECT 1 FROM passage_vectors WHERE tenant = %(tenant)s);

-- name: any_vector_of_any
SELECT EXISTS (SELECT 1 FROM vectors);

-- name: are_many_vectors
SELECT count(*) >= %(most)s FROM (SELECT 1 FROM vectors WHERE tenant = %(tenant)s LIMIT %(most)s) first;

-- name: fill_vector
INSERT INTO vectors (tenant, memory_id, vector)
SELECT tenant, id, %(vector)b::vector FROM memories WHERE tenant = %(tenant)s AND id = %(id)s
ON CONFLICT (tenant, memory_id) DO NOTHING;

-- name: drop_vector
DELETE FROM vectors WHERE tenant = %(tenant)s AND memory_id = %(id)s;

-- name: drop_vectors
DELETE FROM vectors WHERE tenant = %(tenant)s;

-- name: drop_vectors_of
DELETE FROM vectors WHERE tenant = %(tenant)s AND memory_id = ANY(%(ids)s::bigint[]);

-- name: damaged_vectors
SELECT memory_id FROM vectors -- NaN is greater than any number
WHERE tenant = %(tenant)s AND NOT (vector_dims(vector) = %(dimension)s AND vector_norm(vector) BETWEEN 0.5 AND 2)
ORDER BY memory_id;

-- name: count_missing_vectors
SELECT (SELECT count(*) FROM memories WHERE tenant = %(tenant)s) - (SELECT count(*) FROM vectors WHERE tenant = %(tenant)s);

-- name: forget_old_vectors
UPDATE changes SET vector = NULL WHERE tenant = %(tenant)s AND vector IS NOT NULL;

-- name: vectors_of
SELECT v.memory_id, vector_send(v.vector), m.archived_at IS NULL
FROM vectors v JOIN memories m ON m.tenant = v.tenant AND m.id = v.memory_id
WHERE v.tenant = %(tenant)s AND v.memory_id = ANY(%(ids)s::bigint[])
    AND vector_dims(v.vector) = (SELECT value::integer FROM meta WHERE tenant = %(tenant)s AND name = 'dimension')
    AND vector_norm(v.vector) BETWEEN 0.5 AND 2;

-- name: vectors_within
SELECT v.memory_id, vector_send(v.vector), archived_at IS NULL
FROM vectors v JOIN memories m ON m.tenant = v.tenant AND m.id = v.memory_id
WHERE v.tenant = %(tenant)s AND v.memory_id > %(after)s AND {where}
    AND vector_dims(v.vector) = (SELECT value::integer FROM meta WHERE tenant = %(tenant)s AND name = 'dimension')
    AND vector_norm(v.vector) BETWEEN 0.5 AND 2
ORDER BY v.memory_id LIMIT %(limit)s;

-- name: has_nearness
SELECT to_regclass('vectors_by_nearness_{dimension}') IS NOT NULL;

-- name: one_at_a_time
SELECT pg_advisory_xact_lock(hashtext('cofio/nearness'));

-- name: make_nearness
CREATE INDEX IF NOT EXISTS vectors_by_nearness_{dimension} ON vectors
USING hnsw ((vector::halfvec({dimension})) halfvec_ip_ops) WITH (m = 16, ef_construction = 64)
WHERE vector_dims(vector) = {dimension};

-- name: drop_nearness
DROP INDEX IF EXISTS vectors_by_nearness_{dimension};

-- name: search_by_nearness
SELECT
    set_config('hnsw.ef_search', %(effort)s::text, true), set_config('hnsw.iterative_scan', 'relaxed_order', true),
    set_config('hnsw.max_scan_tuples', '10000', true), -- from then on, a full scan is faster
    -- The index scan is the only good plan here, whatever the statistics are.
    set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true),
    set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);

-- name: nearest_by_index
SELECT memory_id, -(vector <#> %(vector)b::vector) AS cosine
FROM (
    SELECT v.memory_id, v.vector
    FROM vectors v JOIN memories m ON m.tenant = v.tenant AND m.id = v.memory_id
    WHERE v.tenant = %(tenant)s AND vector_dims(v.vector) = {dimension} AND {where}
    ORDER BY v.vector::halfvec({dimension}) <#> %(vector)b::vector::halfvec({dimension}) LIMIT %(many)s
) near
WHERE vector_norm(vector) BETWEEN 0.5 AND 2
ORDER BY cosine DESC, memory_id LIMIT %(k)s;

-- name: nearest_of_all
SELECT v.memory_id, -(v.vector <#> %(vector)b::vector) AS cosine
FROM vectors v JOIN memories m ON m.tenant = v.tenant AND m.id = v.memory_id
WHERE v.tenant = %(tenant)s AND {where}
    AND vector_dims(v.vector) = (SELECT value::integer FROM meta WHERE tenant = %(tenant)s AND name = 'dimension')
    AND vector_norm(v.vector) BETWEEN 0.5 AND 2
ORDER BY cosine DESC, v.memory_id LIMIT %(k)s;

-- name: cosines
SELECT memory_id, -(vector <#> %(vector)b::vector) AS cosine FROM vectors
WHERE tenant = %(tenant)s AND memory_id = ANY(%(ids)s::bigint[])
    AND vector_dims(vector) = (SELECT value::integer FROM meta WHERE tenant = %(tenant)s AND name = 'dimension')
    AND vector_norm(vector) BETWEEN 0.5 AND 2
ORDER BY {order} LIMIT %(k)s;

-- name: unembedded
SELECT {columns} FROM memories m
WHERE tenant = %(tenant)s AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.tenant = m.tenant AND v.memory_id = m.id)
ORDER BY id LIMIT %(limit)s;

-- name: unembedded_among
SELECT {columns} FROM memories m
WHERE tenant = %(tenant)s AND id = ANY(%(ids)s::bigint[])
    AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.tenant = m.tenant AND v.memory_id = m.id)
ORDER BY id LIMIT %(limit)s;

-- name: lengths
SELECT count(*), coalesce(sum(length), 0)::bigint FROM memories WHERE tenant = %(tenant)s;

-- name: frequency
WITH asked AS MATERIALIZED (
    SELECT word, phraseto_tsquery('cofio', word) AS phrase FROM unnest(%(phrases)s::text[]) AS words (word)
)
SELECT a.word, count(*) FROM asked a JOIN memories m ON m.said @@ a.phrase OR m.around @@ a.phrase
WHERE m.tenant = %(tenant)s GROUP BY a.word;

-- name: matching
WITH asked AS MATERIALIZED (
    SELECT phraseto_tsquery('cofio', word) AS phrase, idf
    FROM unnest(%(phrases)s::text[], %(rarity)s::float8[]) AS words (word, idf)
)
SELECT id, sum(idf * weight / (weight + short)) AS score
FROM (
    SELECT
        m.id, a.idf, %(base)s::float8 + %(slope)s::float8 * m.length AS short,
        CASE
            WHEN m.around = ''::tsvector THEN 1::float8
            ELSE (m.said @@ a.phrase)::integer + %(context)s::float8 * (m.around @@ a.phrase)::integer
        END AS weight
    FROM asked a JOIN memories m ON m.said @@ a.phrase OR m.around @@ a.phrase
    WHERE m.tenant = %(tenant)s AND {where}
    OFFSET 0 -- so that weights are computed only once
) held
GROUP BY id ORDER BY score DESC, id LIMIT %(k)s;

-- name: holding
WITH asked AS MATERIALIZED (
    SELECT place, phraseto_tsquery('cofio', word) AS phrase
    FROM unnest(%(phrases)s::text[]) WITH ORDINALITY AS words (word, place)
),
among AS MATERIALIZED (
    SELECT id, said, around FROM memories WHERE tenant = %(tenant)s AND id = ANY(%(ids)s::bigint[])
)
SELECT m.id, a.place FROM among m JOIN asked a ON m.said @@ a.phrase OR m.around @@ a.phrase ORDER BY a.place;

-- name: open_changeset
INSERT INTO changesets (tenant, at, by, why, undoes, part_of)
VALUES (%(tenant)s, %(at)s, %(by)s, %(why)s, %(undoes)s, %(part_of)s)
ON CONFLICT DO NOTHING -- another changeset has undone it
RETURNING id;

-- name: get_changeset
SELECT
    s.id, s.at, s.by, s.why, s.undoes,
    (SELECT u.id FROM changesets u WHERE u.tenant = s.tenant AND u.undoes = s.id), s.part_of
FROM changesets s WHERE s.tenant = %(tenant)s AND s.id = %(id)s;

-- name: newest_changeset
SELECT coalesce(max(id), 0) FROM changesets WHERE tenant = %(tenant)s;

-- name: newest_changesets
SELECT
    s.id, s.at, s.by, s.why, s.undoes,
    (SELECT u.id FROM changesets u WHERE u.tenant = s.tenant AND u.undoes = s.id), s.part_of
FROM changesets s WHERE s.tenant = %(tenant)s ORDER BY s.id DESC LIMIT %(limit)s;

-- name: newest_changesets_within
SELECT
    s.id, s.at, s.by, s.why, s.undoes,
    (SELECT u.id FROM changesets u WHERE u.tenant = s.tenant AND u.undoes = s.id), s.part_of
FROM changesets s
WHERE s.tenant = %(tenant)s AND (
    EXISTS (
        SELECT 1 FROM changes c JOIN memories m ON m.tenant = c.tenant AND m.id = c.memory_id
        WHERE c.tenant = s.tenant AND c.changeset_id = s.id AND {where}
    )
    OR EXISTS (SELECT 1 FROM knowledge_changes WHERE tenant = s.tenant AND changeset_id = s.id AND {known})
)
ORDER BY s.id DESC LIMIT %(limit)s;

-- name: record
INSERT INTO changes (tenant, changeset_id, memory_id, action, reason, before, vector, occurrence, erased, counters)
VALUES (
    %(tenant)s, %(changeset)s, %(memory_id)s, %(action)s, %(reason)s, %(before)s, %(vector)s, %(occurrence)s, %(erased)s,
    %(counters)s
)
RETURNING id;

-- name: recorded
SELECT id, changeset_id, memory_id, action, reason, before, vector, occurrence, erased, counters FROM changes
WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: next_recorded
SELECT id, changeset_id, memory_id, action, reason, before, vector, occurrence, erased, counters FROM changes
WHERE tenant = %(tenant)s AND memory_id = %(memory_id)s AND id > %(id)s ORDER BY id LIMIT 1;

-- name: next_befores
SELECT c.id, n.before FROM changes c, LATERAL (
    SELECT l.before FROM changes l
    WHERE l.tenant = %(tenant)s AND l.memory_id = c.memory_id AND l.id > c.id ORDER BY l.id LIMIT 1
) n
WHERE c.tenant = %(tenant)s AND c.id = ANY(%(ids)s::bigint[]);

-- name: changes_of_changeset
SELECT
    c.id, c.changeset_id, c.memory_id, c.action, c.reason, c.before, NULL, c.occurrence, c.erased, NULL, s.at, s.by, s.why
FROM changes c JOIN changesets s ON s.tenant = c.tenant AND s.id = c.changeset_id
WHERE c.tenant = %(tenant)s AND c.changeset_id = %(id)s ORDER BY c.id;

-- name: changes_of_lineage
WITH RECURSIVE lineage (id) AS (
    SELECT %(id)s::bigint
    UNION SELECT next.id FROM lineage l, LATERAL (
        SELECT unnest(ARRAY[m.supersedes, m.superseded_by]) AS id FROM memories m
        WHERE m.tenant = %(tenant)s AND m.id = l.id
        UNION ALL SELECT m.id FROM memories m WHERE m.tenant = %(tenant)s AND m.supersedes = l.id
        UNION ALL SELECT m.id FROM memories m WHERE m.tenant = %(tenant)s AND m.superseded_by = l.id
    ) next WHERE next.id IS NOT NULL
)
SELECT
    c.id, c.changeset_id, c.memory_id, c.action, c.reason, c.before, NULL, c.occurrence, c.erased, NULL, s.at, s.by, s.why
FROM changes c JOIN changesets s ON s.tenant = c.tenant AND s.id = c.changeset_id
WHERE c.tenant = %(tenant)s AND c.memory_id IN (SELECT id FROM lineage) ORDER BY c.id;

-- name: see
INSERT INTO occurrences (tenant, memory_id, change_id, agent, session, at)
VALUES (%(tenant)s, %(memory_id)s, %(change_id)s, %(agent)s, %(session)s, %(at)s);

-- name: unsee
DELETE FROM occurrences WHERE tenant = %(tenant)s AND change_id = %(id)s;

-- name: sightings_beside
SELECT agent, session, at FROM occurrences WHERE tenant = %(tenant)s AND memory_id = %(id)s ORDER BY at, id;

-- name: sightings
WITH RECURSIVE merged (id) AS ( -- memories merged into it, but not the one that it replaced, which is another fact
    SELECT %(id)s::bigint
    UNION SELECT m.id FROM merged h JOIN memories m ON m.tenant = %(tenant)s AND m.superseded_by = h.id
    WHERE NOT EXISTS (SELECT 1 FROM memories n WHERE n.tenant = m.tenant AND n.id = h.id AND n.supersedes = m.id)
)
SELECT agent, session, at FROM occurrences WHERE tenant = %(tenant)s AND memory_id IN (SELECT id FROM merged)
UNION ALL
SELECT agent, session, created_at FROM memories WHERE tenant = %(tenant)s AND id IN (SELECT id FROM merged)
ORDER BY 3;

-- name: projects
SELECT project, count(*) FROM memories WHERE tenant = %(tenant)s AND {where} AND project COLLATE "C" > %(after)s
GROUP BY project ORDER BY project COLLATE "C" LIMIT %(limit)s;

-- name: repeated
WITH inside AS (SELECT id, agent, fingerprint FROM memories WHERE tenant = %(tenant)s AND {where})
SELECT agent, min(id), count(*)
FROM (
    SELECT id, agent, fingerprint FROM inside
    UNION ALL
    SELECT i.id, o.agent, i.fingerprint FROM occurrences o JOIN inside i ON i.id = o.memory_id
    WHERE o.tenant = %(tenant)s
) times
WHERE agent <> ''
GROUP BY agent, fingerprint HAVING count(*) >= %(least)s
ORDER BY 3 DESC, 2, 1 LIMIT %(limit)s;

-- name: last_touched
SELECT max(changeset_id) FROM changes WHERE tenant = %(tenant)s AND memory_id = %(id)s;

-- name: erase_changes
UPDATE changes SET before = NULL, vector = NULL, occurrence = NULL, counters = NULL, reason = '', erased = 1
WHERE tenant = %(tenant)s AND memory_id = %(id)s;

-- name: erase_retrievals
DELETE FROM retrievals WHERE tenant = %(tenant)s AND memory_id = %(id)s;

-- name: linked
SELECT id, supersedes, superseded_by FROM memories
WHERE tenant = %(tenant)s AND (
    id = ANY(%(ids)s::bigint[]) OR supersedes = ANY(%(ids)s::bigint[]) OR superseded_by = ANY(%(ids)s::bigint[])
);

-- name: memories_with_copies
SELECT {columns} FROM memories
WHERE tenant = %(tenant)s AND (
    id = ANY(%(lineage)s::bigint[]) OR supersedes = %(id)s
    OR context = ANY(%(said)s::text[]) -- learned from the same sentence
);

-- name: changes_with_copies
SELECT id, before FROM changes
WHERE tenant = %(tenant)s AND before IS NOT NULL AND memory_id <> %(id)s AND (
    memory_id = ANY(%(lineage)s::bigint[]) OR (before ->> 'supersedes')::bigint = %(id)s
    OR before ->> 'context' = ANY(%(said)s::text[])
);

-- name: set_before
UPDATE changes SET before = %(before)s WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: erase_reasons_of_changes
UPDATE changes SET reason = ''
WHERE tenant = %(tenant)s AND reason <> ''
    AND EXISTS (SELECT 1 FROM unnest(%(said)s::text[]) s WHERE strpos(reason, s) > 0);

-- name: any_holding
SELECT EXISTS (
    SELECT 1 FROM memories
    WHERE tenant = %(tenant)s AND (
        said @@ phraseto_tsquery('cofio', %(word)s) OR around @@ phraseto_tsquery('cofio', %(word)s)
    )
);

-- name: logged_queries
SELECT DISTINCT query FROM retrievals
WHERE tenant = %(tenant)s AND query <> '' AND (%(anybody)s = 1 OR memory_id = ANY(%(ids)s::bigint[]));

-- name: erase_queries
UPDATE retrievals SET query = '' WHERE tenant = %(tenant)s AND query = ANY(%(queries)s::text[]);

-- name: note
INSERT INTO retrievals (tenant, memory_id, query, caller, at)
SELECT tenant, id, %(query)s, %(caller)s, %(at)s FROM memories WHERE tenant = %(tenant)s AND id = %(memory_id)s;

-- name: count_retrievals
UPDATE memories SET
    retrieval_count = retrieval_count + %(count)s, last_retrieved_at = greatest(last_retrieved_at, %(last)s)
WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: begin_tracking
INSERT INTO meta (tenant, name, value)
SELECT tenant, 'tracked_since', at FROM (
    SELECT tenant, at FROM retrievals WHERE tenant = %(tenant)s ORDER BY at LIMIT 1
) first
ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value WHERE excluded.value < meta.value;

-- name: injected
SELECT memory_id, digest FROM injected_memories WHERE tenant = %(tenant)s AND client = %(client)s AND session = %(session)s;

-- name: mark_injected
INSERT INTO injected_memories (tenant, client, session, memory_id, digest, at)
SELECT tenant, %(client)s, %(session)s, id, %(digest)s, %(at)s FROM memories WHERE tenant = %(tenant)s AND id = %(id)s
ON CONFLICT (tenant, client, session, memory_id) DO UPDATE SET digest = excluded.digest, at = excluded.at;

-- name: clear_injected
DELETE FROM injected_memories WHERE tenant = %(tenant)s AND client = %(client)s AND session = %(session)s;

-- name: forget_injected_before
DELETE FROM injected_memories WHERE tenant = %(tenant)s AND at < %(before)s;

-- name: stats
SELECT
    (SELECT count(*) FROM memories WHERE tenant = %(tenant)s AND archived_at IS NULL),
    (SELECT count(*) FROM memories WHERE tenant = %(tenant)s),
    (SELECT count(*) FROM vectors WHERE tenant = %(tenant)s),
    (SELECT count(*) FROM changesets WHERE tenant = %(tenant)s),
    (SELECT count(*) FROM retrievals WHERE tenant = %(tenant)s),
    (SELECT count(*) FROM inbox WHERE tenant = %(tenant)s AND state = 'pending');

-- name: stats_by
SELECT {column}, count(*) FROM memories WHERE tenant = %(tenant)s AND archived_at IS NULL
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 50;

-- name: bytes
SELECT sum(pg_total_relation_size(each::regclass))::bigint FROM unnest(ARRAY[ -- of all tenants: they share the pages
    'meta', 'memories', 'vectors', 'changesets', 'changes', 'occurrences', 'retrievals', 'injected_memories', 'inbox',
    'runs', 'keys', 'audit_log', 'episodes', 'passages', 'passage_vectors'
]) each;

-- ── the inbox, runs, uses, carrying, keys ────────────────────────────────────────────────────────────────────────────

-- name: receive
INSERT INTO inbox (tenant, client, session, turn, task, received_at, due_at, payload, series)
VALUES (
    %(tenant)s, %(client)s, %(session)s, %(turn)s, %(task)s, %(received_at)s, %(due_at)s, %(payload)s, %(series)s
)
ON CONFLICT DO NOTHING -- a concurrent delivery of this turn was faster
RETURNING id;

-- name: received
SELECT id FROM inbox
WHERE tenant = %(tenant)s AND client = %(client)s AND session = %(session)s AND turn = %(turn)s AND task = %(task)s
    AND turn <> '' AND (client <> '' OR session <> '');

-- name: part_of_turn
SELECT {items} FROM inbox
WHERE tenant = %(tenant)s AND client = %(client)s AND session = %(session)s AND turn = %(turn)s AND task = %(task)s
    AND turn <> '' AND (client <> '' OR session <> '')
FOR UPDATE;

-- name: turns
SELECT DISTINCT turn FROM inbox
WHERE tenant = %(tenant)s AND client = %(client)s AND session = %(session)s AND turn <> ''
    AND (client <> '' OR session <> '')
UNION SELECT turn FROM inbox
WHERE %(any_key)s = 1 AND tenant = %(tenant)s AND session = %(session)s AND turn <> '' AND (client <> '' OR session <> '')
    AND substr(client, 1, length(%(client)s) + 1) = %(client)s || '~';

-- name: purged_turns
SELECT turn, payload FROM inbox -- as_json has one format: payloads with the mark are parsed to be sure
WHERE tenant = %(tenant)s AND client = %(client)s AND session = %(session)s AND turn <> ''
    AND (payload = '' OR strpos(payload, '"cut"') > 0);

-- name: amend_item
UPDATE inbox SET
    payload = %(payload)s, due_at = least(due_at, %(due_at)s), state = 'pending', series = %(series)s
WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: due_by
UPDATE inbox SET due_at = %(due_at)s
WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'pending' AND due_at > %(due_at)s;

-- name: release_items
UPDATE inbox SET due_at = %(at)s
WHERE tenant = %(tenant)s AND state = 'pending' AND due_at > %(at)s AND attempts = 0
    AND client = %(client)s AND session = %(session)s AND (claimed_until IS NULL OR claimed_until <= %(at)s);

-- name: waiting_of_session
SELECT count(*) FROM inbox
WHERE tenant = %(tenant)s AND state = 'pending' AND reason = '' AND due_at > %(at)s AND due_at <= %(until)s
    AND client = %(client)s AND session = %(session)s;

-- name: hold_items
UPDATE inbox SET due_at = %(due_at)s
WHERE tenant = %(tenant)s AND state = 'pending' AND due_at > %(at)s AND due_at <= %(latest)s
    AND reason = '' -- failed items, and those that wait for another reason, have their own time
    AND client = %(client)s AND session = %(session)s AND (claimed_until IS NULL OR claimed_until <= %(at)s);

-- name: is_full
SELECT CASE -- pending items are between the first pending id and the last id, which usually answers without counting
    WHEN (SELECT max(id) FROM inbox WHERE tenant = %(tenant)s)
        - (SELECT min(id) FROM inbox WHERE tenant = %(tenant)s AND state = 'pending') + 1 < %(most)s THEN false
    ELSE (
        SELECT count(*) FROM (SELECT 1 FROM inbox WHERE tenant = %(tenant)s AND state = 'pending' LIMIT %(most)s) w
    ) >= %(most)s
END;

-- name: any_due
SELECT EXISTS (SELECT 1 FROM inbox WHERE tenant = %(tenant)s AND state = 'pending' AND due_at <= %(at)s);

-- name: any_misdated
SELECT EXISTS (
    SELECT 1 FROM inbox
    WHERE tenant = %(tenant)s AND state = 'pending' AND due_at > %(at)s
        AND (received_at > %(soon)s OR due_at > %(latest)s)
);

-- name: correct_dates
UPDATE inbox SET due_at = %(at)s, received_at = least(received_at, %(at)s), claimed_until = NULL
WHERE tenant = %(tenant)s AND state = 'pending' AND due_at > %(at)s
    AND (received_at > %(soon)s OR due_at > %(latest)s);

-- name: due_items
SELECT {items} FROM inbox
WHERE tenant = %(tenant)s AND state = 'pending' AND due_at <= %(at)s
    AND (claimed_until IS NULL OR claimed_until <= %(at)s)
ORDER BY series, id LIMIT %(limit)s;

-- name: claim_items
WITH first AS (
    SELECT id, client, session FROM inbox i
    WHERE tenant = %(tenant)s AND state = 'pending' AND due_at <= %(at)s
        AND (claimed_until IS NULL OR claimed_until <= %(at)s)
        AND NOT EXISTS ( -- an earlier turn of the same session is being processed
            SELECT 1 FROM inbox o
            WHERE o.tenant = %(tenant)s AND o.client = i.client AND o.session = i.session AND o.id < i.id
                AND o.state = 'pending' AND o.claimed_until > %(at)s AND (o.client <> '' OR o.session <> '')
        )
    ORDER BY series, id LIMIT %(limit)s
),
due AS (
    SELECT id, client, session FROM first
    UNION -- the other turns of its batch
    SELECT m.id, m.client, m.session
    FROM (SELECT DISTINCT client, session FROM first WHERE client <> '' OR session <> '') s
    CROSS JOIN LATERAL (
        SELECT id, client, session FROM inbox i
        WHERE tenant = %(tenant)s AND i.client = s.client AND i.session = s.session
            AND state = 'pending' AND due_at <= %(at)s AND (claimed_until IS NULL OR claimed_until <= %(at)s)
            AND NOT EXISTS (
                SELECT 1 FROM inbox o
                WHERE o.tenant = %(tenant)s AND o.client = i.client AND o.session = i.session AND o.id < i.id
                    AND o.state = 'pending' AND o.claimed_until > %(at)s
            )
        ORDER BY series, id LIMIT %(together)s
    ) m
),
free AS (
    SELECT id FROM inbox
    WHERE tenant = %(tenant)s AND id IN (SELECT id FROM due) AND state = 'pending' AND due_at <= %(at)s
    FOR UPDATE SKIP LOCKED -- items being amended now are left for the next time
)
UPDATE inbox SET claimed_until = %(until)s, due_at = %(until)s
WHERE tenant = %(tenant)s AND id IN (
    SELECT d.id FROM due d WHERE d.id IN (SELECT id FROM free) AND NOT EXISTS ( -- nor overtake an item being amended
        SELECT 1 FROM due o
        WHERE o.client = d.client AND o.session = d.session AND o.id < d.id AND (o.client <> '' OR o.session <> '')
            AND o.id NOT IN (SELECT id FROM free)
    )
)
RETURNING {items};

-- name: give_back_items
UPDATE inbox SET claimed_until = NULL, due_at = CASE due_at WHEN claimed_until THEN %(at)s ELSE due_at END
WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'pending' AND claimed_until = %(until)s;

-- name: get_item
SELECT {items} FROM inbox WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: item_state
SELECT state FROM inbox WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: newest_items
SELECT {items} FROM inbox WHERE tenant = %(tenant)s AND id < %(after)s ORDER BY id DESC LIMIT %(limit)s;

-- name: newest_items_in
SELECT {items} FROM inbox WHERE tenant = %(tenant)s AND state = %(state)s AND id < %(after)s
ORDER BY id DESC LIMIT %(limit)s;

-- name: item_settled_by
SELECT {items} FROM inbox -- it was settled with the changeset, or later: older items are skipped
WHERE tenant = %(tenant)s AND changeset_id = %(changeset)s AND payload <> ''
    AND finished_at >= (SELECT at FROM changesets WHERE tenant = %(tenant)s AND id = %(changeset)s)
ORDER BY finished_at LIMIT 1;

-- name: settle_item
UPDATE inbox SET
    state = %(state)s, reason = %(reason)s, result = %(result)s,
    changeset_id = coalesce(%(changeset)s::bigint, changeset_id),
    claimed_until = CASE %(state)s WHEN 'pending' THEN claimed_until END, -- partly processed: the claim is kept
    finished_at = CASE %(state)s WHEN 'pending' THEN NULL ELSE %(at)s END
WHERE tenant = %(tenant)s AND id = %(id)s AND state = %(from_state)s;

-- name: postpone_item
UPDATE inbox SET
    attempts = attempts + %(attempt)s, faults = faults + %(fault)s, due_at = %(due_at)s, reason = %(reason)s,
    claimed_until = NULL
WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'pending';

-- name: park_item
UPDATE inbox SET state = 'parked', reason = %(reason)s, claimed_until = NULL
WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'pending';

-- name: retry_item
UPDATE inbox SET
    state = 'pending', due_at = %(at)s, attempts = 0, faults = 0, reason = '', finished_at = NULL,
    result = CASE state WHEN 'parked' THEN result ELSE '{}' END -- of a parked item, learned parts are not learned again
WHERE tenant = %(tenant)s AND id = %(id)s AND state IN ('parked', 'rejected') AND payload <> '';

-- name: inbox_status
SELECT 'state', state, count(*) FROM inbox WHERE tenant = %(tenant)s GROUP BY state -- one statement, one snapshot
UNION ALL SELECT 'reason', reason, count(*) FROM inbox
WHERE tenant = %(tenant)s AND state = 'rejected' GROUP BY reason
UNION ALL SELECT 'oldest', min(received_at), 0 FROM inbox WHERE tenant = %(tenant)s AND id IN (
    (SELECT min(id) FROM inbox WHERE tenant = %(tenant)s AND state = 'pending'),
    (SELECT min(id) FROM inbox WHERE tenant = %(tenant)s AND state = 'parked')
);

-- name: forget_items
UPDATE inbox SET payload = '', result = '{}'
WHERE tenant = %(tenant)s AND id IN (
    SELECT id FROM inbox
    WHERE tenant = %(tenant)s AND finished_at IS NOT NULL AND finished_at < %(before)s AND payload <> ''
    LIMIT %(limit)s
);

-- name: words_of
SELECT before ->> 'text', before ->> 'context' FROM changes
WHERE tenant = %(tenant)s AND memory_id = %(id)s AND before IS NOT NULL;

-- name: settled_items_saying
SELECT id, payload, result, led -- led to it, or may contain it: escaped matches are parsed and checked
FROM (
    SELECT *, coalesce(changeset_id IN (
        SELECT changeset_id FROM changes WHERE tenant = %(tenant)s AND memory_id = %(id)s
    ), false) AS led
    FROM inbox WHERE tenant = %(tenant)s AND finished_at IS NOT NULL AND payload <> ''
) settled
WHERE led
    OR EXISTS (SELECT 1 FROM unnest(%(written)s::text[]) w WHERE strpos(payload, w) > 0 OR strpos(result, w) > 0);

-- name: erase_settled_items
UPDATE inbox SET payload = '', result = '{}' WHERE tenant = %(tenant)s AND id = ANY(%(ids)s);

-- name: reasons_saying
SELECT id, payload FROM inbox
WHERE tenant = %(tenant)s AND reason <> ''
    AND EXISTS (SELECT 1 FROM unnest(%(said)s::text[]) s WHERE strpos(reason, s) > 0);

-- name: erase_reasons
UPDATE inbox SET reason = '' WHERE tenant = %(tenant)s AND id = ANY(%(ids)s);

-- name: open_payloads
SELECT id, payload FROM inbox WHERE tenant = %(tenant)s AND state IN ('pending', 'parked') ORDER BY id FOR UPDATE;

-- name: set_payload
UPDATE inbox SET
    payload = %(payload)s, -- the result still shows that it is partly processed
    result = CASE result WHEN '{}' THEN '{}' ELSE '{"actions": []}' END
WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: as_read
SELECT payload, result FROM inbox WHERE tenant = %(tenant)s AND id = %(id)s AND state = 'pending' FOR UPDATE;

-- name: bury_runs
UPDATE runs SET outcome = 'died', finished_at = %(at)s
WHERE tenant = %(tenant)s AND chore = %(chore)s AND outcome = 'running' AND alive_at < %(dead)s;

-- name: claim_run
INSERT INTO runs (tenant, chore, slot, by, started_at, alive_at)
SELECT %(tenant)s, %(chore)s, %(slot)s, %(by)s, %(at)s, %(at)s
WHERE %(slot)s = '' OR (
    NOT EXISTS ( -- no slot before one that was run, except one in the future, the effect of a wrong clock
        SELECT 1 FROM runs
        WHERE tenant = %(tenant)s AND chore = %(chore)s AND slot <> '' AND slot >= %(slot)s AND slot <= %(at)s
            AND outcome <> 'died'
    )
    AND (
        SELECT count(*) FROM runs
        WHERE tenant = %(tenant)s AND chore = %(chore)s AND slot = %(slot)s AND outcome = 'died'
    ) < %(deaths)s
)
ON CONFLICT DO NOTHING -- the chore is running
RETURNING {columns};

-- name: run_is_alive
UPDATE runs SET alive_at = %(at)s WHERE tenant = %(tenant)s AND id = %(id)s AND outcome = 'running';

-- name: finish_run
UPDATE runs SET outcome = %(outcome)s, details = %(details)s, changeset_id = %(changeset)s, finished_at = %(at)s
WHERE tenant = %(tenant)s AND id = %(id)s AND outcome = 'running';

-- name: get_run
SELECT {columns} FROM runs WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: last_run
SELECT {columns} FROM runs
WHERE tenant = %(tenant)s AND chore = %(chore)s AND slot <> '' AND slot <= %(at)s AND outcome <> 'died'
    AND (outcome <> 'running' OR alive_at >= %(dead)s)
ORDER BY slot DESC LIMIT 1;

-- name: newest_runs
SELECT {columns}, outcome = 'running' AND alive_at < %(dead)s FROM runs
WHERE tenant = %(tenant)s AND %(chore)s IN ('', chore) ORDER BY id DESC LIMIT %(limit)s;

-- name: view_of_use
SELECT {columns} FROM memories
WHERE tenant = %(tenant)s AND {where} AND archived_at IS NULL AND {used} ORDER BY {order} LIMIT %(limit)s;

-- name: tracking
SELECT
    (SELECT value FROM meta WHERE tenant = %(tenant)s AND name = 'tracked_since'),
    (SELECT count(DISTINCT substr(at, 1, 10)) FROM retrievals WHERE tenant = %(tenant)s AND at >= %(since)s);

-- name: unused
SELECT {columns} FROM memories m
WHERE tenant = %(tenant)s AND category = %(category)s AND created_at < %(before)s AND archived_at IS NULL
    AND retrieval_count = 0 AND pinned = 0
    AND NOT EXISTS ( -- any change since, its arrival included, counts as use
        SELECT 1 FROM changes c JOIN changesets s ON s.tenant = c.tenant AND s.id = c.changeset_id
        WHERE c.tenant = %(tenant)s AND c.memory_id = m.id AND s.at >= %(before)s
    )
    AND NOT EXISTS ( -- successor recalled
        SELECT 1 FROM memories d
        WHERE d.tenant = %(tenant)s AND d.superseded_by = m.id AND d.retrieval_count > 0
    )
ORDER BY created_at, id LIMIT %(limit)s;

-- name: queries_that_found
SELECT query FROM retrievals
WHERE tenant = %(tenant)s AND query <> '' AND memory_id IN (
    SELECT unnest(%(ids)s::bigint[])
    UNION SELECT id FROM memories WHERE tenant = %(tenant)s AND superseded_by = ANY(%(ids)s) -- replaced by them
)
GROUP BY query ORDER BY max(at) DESC, query COLLATE "C" LIMIT %(limit)s;

-- name: touched
SELECT DISTINCT memory_id FROM changes
WHERE tenant = %(tenant)s AND changeset_id > %(after)s AND memory_id = ANY(%(ids)s) AND action <> %(besides)s;

-- name: forget_retrievals
DELETE FROM retrievals WHERE tenant = %(tenant)s AND id IN (
    SELECT id FROM retrievals WHERE tenant = %(tenant)s AND at < %(before)s LIMIT %(limit)s
);

-- name: get_meta
SELECT value FROM meta WHERE tenant = %(tenant)s AND name = %(name)s;

-- name: make_identity
INSERT INTO meta (tenant, name, value) VALUES (%(tenant)s, 'identity', %(value)s) ON CONFLICT DO NOTHING;

-- name: last_given
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('memories', 'id')::regclass), 0);

-- name: ever_held
SELECT EXISTS (SELECT 1 FROM changesets WHERE tenant = %(tenant)s)
    OR EXISTS (SELECT 1 FROM memories WHERE tenant = %(tenant)s)
    OR EXISTS (SELECT 1 FROM meta WHERE tenant = %(tenant)s AND name = 'reserved');

-- name: take_ids
SELECT min(id) FROM ( -- one by one: the sequence never goes back while others take ids
    SELECT nextval(pg_get_serial_sequence('memories', 'id')) AS id FROM generate_series(1, %(count)s)
) taken;

-- name: origins
SELECT origin, min(id) FROM memories
WHERE tenant = %(tenant)s AND origin <> '' AND origin = ANY(%(origins)s) GROUP BY origin;

-- name: carried_counts
SELECT count(*), coalesce(max(id), 0) FROM memories WHERE tenant = %(tenant)s;

-- name: carried_memories
SELECT {columns} FROM memories WHERE tenant = %(tenant)s AND id > %(after)s ORDER BY id LIMIT %(limit)s;

-- name: carried_sightings
SELECT memory_id, agent, session, at FROM occurrences
WHERE tenant = %(tenant)s AND memory_id = ANY(%(ids)s) ORDER BY memory_id, at, agent, session;

-- name: carried_vectors
SELECT memory_id, vector FROM vectors WHERE tenant = %(tenant)s AND memory_id = ANY(%(ids)s);

-- name: parts
SELECT id FROM changesets WHERE tenant = %(tenant)s AND id = %(id)s
UNION SELECT id FROM changesets WHERE tenant = %(tenant)s AND part_of = %(id)s ORDER BY id;

-- name: create_key
INSERT INTO keys (tenant, digest, hint, name, role, agent, "user", team, prefixes, expires_at, created_at, created_by)
VALUES (
    %(tenant)s, %(digest)s, %(hint)s, %(name)s, %(role)s, %(agent)s, %(user)s, %(team)s, %(prefixes)s, %(expires_at)s,
    %(at)s, %(by)s
)
ON CONFLICT DO NOTHING;

-- name: find_key
SELECT {columns} FROM keys WHERE tenant = %(tenant)s AND digest = %(digest)s;

-- name: get_key
SELECT {columns} FROM keys WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: all_keys
SELECT {columns} FROM keys WHERE tenant = %(tenant)s ORDER BY id DESC;

-- name: carried_keys
SELECT {columns}, digest FROM keys WHERE tenant = %(tenant)s ORDER BY id;

-- name: adopt_key
INSERT INTO keys (
    tenant, digest, hint, name, role, agent, "user", team, prefixes, expires_at, created_at, created_by, revoked_at
)
VALUES (
    %(tenant)s, %(digest)s, %(hint)s, %(name)s, %(role)s, %(agent)s, %(user)s, %(team)s, %(prefixes)s, %(expires_at)s,
    %(created_at)s, %(created_by)s, %(revoked_at)s
)
ON CONFLICT DO NOTHING;

-- name: follow_key
UPDATE keys SET
    revoked_at = coalesce(revoked_at, %(revoked_at)s), last_used_at = coalesce(%(last_used_at)s, last_used_at)
WHERE tenant = %(tenant)s AND digest = %(digest)s;

-- name: any_valid_key
SELECT EXISTS (
    SELECT 1 FROM keys
    WHERE tenant = %(tenant)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %(at)s)
);

-- name: revoke_key
UPDATE keys SET revoked_at = %(at)s WHERE tenant = %(tenant)s AND id = %(id)s AND revoked_at IS NULL;

-- name: key_used
UPDATE keys SET last_used_at = %(at)s
WHERE tenant = %(tenant)s AND id = %(id)s AND (last_used_at IS NULL OR last_used_at < %(at)s);

-- name: log_entry
INSERT INTO audit_log (tenant, at, act, outcome, key_id, name, what, address)
VALUES (%(tenant)s, %(at)s, %(act)s, %(outcome)s, %(key)s, %(name)s, %(what)s, %(address)s);

-- name: newest_entries
SELECT {columns} FROM audit_log WHERE tenant = %(tenant)s AND id < %(after)s ORDER BY id DESC LIMIT %(limit)s;

-- name: newest_entries_of
SELECT {columns} FROM audit_log WHERE tenant = %(tenant)s AND key_id = %(key)s AND id < %(after)s
ORDER BY id DESC LIMIT %(limit)s;

-- name: forget_entries
DELETE FROM audit_log WHERE tenant = %(tenant)s AND at < %(before)s;

-- ── domain knowledge ──────────────────────────────────────────────────────────────────────────────────────────────────

-- name: known_rows
SELECT {columns} FROM {table} WHERE tenant = %(tenant)s AND {where} ORDER BY {order} LIMIT %(limit)s;

-- name: known_by_id
SELECT {columns} FROM {table} WHERE tenant = %(tenant)s AND id = ANY(%(ids)s::text[]) AND {where};

-- name: known_by_word
SELECT DISTINCT row_table, row_id FROM knowledge_words
WHERE tenant = %(tenant)s AND word = ANY(%(words)s::text[]);

-- name: known_by_memory
SELECT {columns} FROM {table} WHERE tenant = %(tenant)s AND memory = ANY(%(ids)s::bigint[]) ORDER BY id;

-- name: count_known
SELECT count(*) FROM {table} WHERE tenant = %(tenant)s AND {where};

-- name: put_known
INSERT INTO {table} (tenant, {columns}) VALUES (%(tenant)s, {places}) ON CONFLICT (tenant, id) DO UPDATE SET {changed};

-- name: remove_known
DELETE FROM {table} WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: name_known
INSERT INTO knowledge_words (tenant, word, row_table, row_id) VALUES (%(tenant)s, %(word)s, %(table)s, %(id)s);

-- name: unname_known
DELETE FROM knowledge_words WHERE tenant = %(tenant)s AND row_table = %(table)s AND row_id = %(id)s;

-- name: record_known
INSERT INTO knowledge_changes (
    tenant, changeset_id, row_table, row_id, action, reason, before, place, agent, "user", team, visibility
)
VALUES (
    %(tenant)s, %(changeset)s, %(table)s, %(id)s, %(action)s, %(reason)s, %(before)s, %(place)s, %(agent)s, %(user)s,
    %(team)s, %(visibility)s
)
RETURNING id;

-- name: recorded_known
SELECT id, changeset_id, row_table, row_id, action, reason, before, erased FROM knowledge_changes
WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: next_recorded_known
SELECT id, changeset_id, row_table, row_id, action, reason, before, erased FROM knowledge_changes
WHERE tenant = %(tenant)s AND row_table = %(table)s AND row_id = %(key)s AND id > %(id)s ORDER BY id LIMIT 1;

-- name: was_known
SELECT EXISTS (
    SELECT 1 FROM knowledge_changes WHERE tenant = %(tenant)s AND row_table = %(table)s AND row_id = %(id)s
);

-- name: known_changes
SELECT
    c.id, c.changeset_id, c.row_table, c.row_id, c.action, c.reason, c.before, c.erased, s.at, s.by, s.why, n.id, n.before
FROM knowledge_changes c JOIN changesets s ON s.tenant = c.tenant AND s.id = c.changeset_id
LEFT JOIN LATERAL ( -- the row after a change is the row before the next one
    SELECT l.id, l.before FROM knowledge_changes l
    WHERE l.tenant = c.tenant AND l.row_table = c.row_table AND l.row_id = c.row_id AND l.id > c.id
    ORDER BY l.id LIMIT 1
) n ON true
WHERE c.tenant = %(tenant)s AND {which} ORDER BY c.id;

-- name: erase_known_changes
UPDATE knowledge_changes SET
    row_id = %(mark)s, before = NULL, reason = '', erased = 1,
    place = '', agent = '', "user" = '', team = '', visibility = 'private'
WHERE tenant = %(tenant)s AND row_table = %(table)s AND row_id = %(id)s;

-- name: erase_judged
UPDATE feedback SET about = about - %(ref)s::text WHERE tenant = %(tenant)s AND about ? %(ref)s;

-- name: erase_judged_in_changes
UPDATE knowledge_changes SET before = jsonb_set(before::jsonb, '{about}', (before::jsonb -> 'about') - %(ref)s::text)::json
WHERE tenant = %(tenant)s AND row_table = 'feedback' AND before IS NOT NULL AND before::jsonb -> 'about' ? %(ref)s;

-- name: note_folders
SELECT DISTINCT folder FROM notes WHERE tenant = %(tenant)s ORDER BY folder;

-- name: noted_files
SELECT path, hash, size, modified, at, parts FROM notes
WHERE tenant = %(tenant)s AND folder = %(folder)s ORDER BY path;

-- name: put_file
INSERT INTO notes (tenant, folder, path, hash, size, modified, at, parts)
VALUES (%(tenant)s, %(folder)s, %(path)s, %(hash)s, %(size)s, %(modified)s, %(at)s, %(parts)s)
ON CONFLICT (tenant, folder, path) DO UPDATE SET
    hash = excluded.hash, size = excluded.size, modified = excluded.modified, at = excluded.at, parts = excluded.parts;

-- name: drop_file
DELETE FROM notes WHERE tenant = %(tenant)s AND folder = %(folder)s AND path = %(path)s;

-- ── dashboard statistics ──────────────────────────────────────────────────────────────────────────────────────────────

-- name: arrived
SELECT CASE WHEN left(created_at, 10) < %(first)s THEN '' ELSE left(created_at, 10) END, category, count(*)
FROM memories WHERE tenant = %(tenant)s AND {where} GROUP BY 1, 2 ORDER BY 1, 2;

-- name: done
SELECT c.action, count(*) FROM changesets s JOIN changes c ON c.tenant = s.tenant AND c.changeset_id = s.id
WHERE s.tenant = %(tenant)s AND s.at >= %(since)s AND c.action <> 'noop' GROUP BY c.action ORDER BY c.action;

-- name: inject
INSERT INTO injections (tenant, at, caller, occasion, memories, tokens)
VALUES (%(tenant)s, %(at)s, %(caller)s, %(occasion)s, %(memories)s, %(tokens)s);

-- name: injection_counts
SELECT
    left(at, 10), count(*) FILTER (WHERE occasion = 'prompt'),
    count(*) FILTER (WHERE occasion = 'prompt' AND tokens > 0), count(*) FILTER (WHERE occasion = 'start'),
    sum(memories), sum(tokens)
FROM injections WHERE tenant = %(tenant)s AND at >= %(since)s GROUP BY 1 ORDER BY 1;

-- name: forget_injections
DELETE FROM injections WHERE tenant = %(tenant)s AND id IN (
    SELECT id FROM injections WHERE tenant = %(tenant)s AND at < %(before)s LIMIT %(limit)s
);

-- name: keepers
SELECT split_part(source, '/', 1), count(*), max(created_at) FROM memories
WHERE tenant = %(tenant)s AND archived_at IS NULL AND source <> '' GROUP BY 1;

-- name: askers
SELECT caller, sum(returned)::bigint, max(at) FROM (
    SELECT caller, count(*) AS returned, max(at) AS at FROM retrievals WHERE tenant = %(tenant)s GROUP BY caller
    UNION ALL -- also callers without results
    SELECT caller, 0, max(at) FROM injections WHERE tenant = %(tenant)s GROUP BY caller
) asked
WHERE caller <> '' GROUP BY caller;

-- name: pulse
SELECT
    coalesce((SELECT max(id) FROM changesets WHERE tenant = %(tenant)s), 0),
    coalesce((SELECT max(id) FROM retrievals WHERE tenant = %(tenant)s), 0)
        + coalesce((SELECT max(id) FROM injections WHERE tenant = %(tenant)s), 0),
    coalesce((SELECT max(id) FROM inbox WHERE tenant = %(tenant)s), 0),
    (SELECT count(*) FROM (SELECT 1 FROM inbox WHERE tenant = %(tenant)s AND state = 'pending' LIMIT 10000) pending),
    (SELECT count(*) FROM (SELECT 1 FROM inbox WHERE tenant = %(tenant)s AND state = 'parked' LIMIT 10000) parked),
    (SELECT max(finished_at) FROM inbox WHERE tenant = %(tenant)s AND finished_at IS NOT NULL AND payload <> '');

-- name: dots
SELECT m.id, left(m.text, %(characters)s), m.category, m.project, m.created_at, vector_send(v.vector)
FROM memories m JOIN vectors v ON v.tenant = m.tenant AND v.memory_id = m.id
WHERE m.tenant = %(tenant)s AND {where}
    AND vector_dims(v.vector) = (SELECT value::integer FROM meta WHERE tenant = %(tenant)s AND name = 'dimension')
    AND vector_norm(v.vector) BETWEEN 0.5 AND 2
ORDER BY m.id DESC LIMIT %(most)s;

-- name: count_dots
SELECT count(*) FROM memories m JOIN vectors v ON v.tenant = m.tenant AND v.memory_id = m.id
WHERE m.tenant = %(tenant)s AND {where};

-- name: token_embeddings
SELECT memory_id, vectors FROM token_embeddings WHERE tenant = %(tenant)s AND memory_id = ANY(%(ids)s)
AND EXISTS (SELECT 1 FROM meta WHERE tenant = %(tenant)s AND name = 'reranker' AND value = %(by)s);

-- name: pending_token_embeddings
SELECT {columns} FROM memories WHERE tenant = %(tenant)s AND id IN (
    SELECT memory_id FROM pending_token_embeddings WHERE tenant = %(tenant)s ORDER BY memory_id DESC LIMIT %(limit)s
) ORDER BY id DESC;

-- name: put_token_embeddings
INSERT INTO token_embeddings (tenant, memory_id, vectors)
SELECT tenant, id, %(vectors)b FROM memories
WHERE tenant = %(tenant)s AND id = %(id)s AND text = %(text)s AND speaker = %(speaker)s AND context = %(context)s
ON CONFLICT (tenant, memory_id) DO UPDATE SET vectors = excluded.vectors;

-- name: dequeue_token_embeddings
DELETE FROM pending_token_embeddings WHERE tenant = %(tenant)s AND memory_id = %(id)s
AND EXISTS (SELECT 1 FROM token_embeddings t WHERE t.tenant = %(tenant)s AND t.memory_id = %(id)s);

-- name: reranker
SELECT coalesce((SELECT value FROM meta WHERE tenant = %(tenant)s AND name = 'reranker'), '');

-- name: drop_token_embeddings
DELETE FROM token_embeddings WHERE tenant = %(tenant)s;

-- name: enqueue_token_embeddings
INSERT INTO pending_token_embeddings (tenant, memory_id)
SELECT tenant, id FROM memories WHERE tenant = %(tenant)s ON CONFLICT DO NOTHING;

-- name: count_token_embeddings
SELECT
    (SELECT count(*) FROM token_embeddings WHERE tenant = %(tenant)s),
    (SELECT count(*) FROM pending_token_embeddings WHERE tenant = %(tenant)s);

-- ── episodes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: capture_to_index
SELECT payload FROM inbox WHERE tenant = %(tenant)s AND id = %(capture)s FOR UPDATE; -- against concurrent amends

-- name: captures_to_index
SELECT u.capture_id FROM unindexed u JOIN inbox i ON i.tenant = u.tenant AND i.id = u.capture_id
WHERE u.tenant = %(tenant)s AND (i.state <> 'pending' OR i.attempts > 0) ORDER BY u.capture_id LIMIT %(limit)s;

-- name: mark_indexed
DELETE FROM unindexed WHERE tenant = %(tenant)s AND capture_id = %(capture)s;

-- name: episode_by_capture
SELECT episode_id FROM passages WHERE tenant = %(tenant)s AND capture_id = %(capture)s LIMIT 1;

-- name: episode_by_memory
SELECT p.episode_id FROM changes c
JOIN inbox i ON i.tenant = c.tenant AND i.changeset_id = c.changeset_id
JOIN passages p ON p.tenant = i.tenant AND p.capture_id = i.id
WHERE c.tenant = %(tenant)s AND c.memory_id = %(memory)s ORDER BY c.id LIMIT 1;

-- name: episode_by_turn
SELECT id FROM episodes
WHERE tenant = %(tenant)s AND client = %(client)s AND session = %(session)s AND turn IN (%(turn)s, %(base)s)
    AND turn <> '' AND (client <> '' OR session <> '')
    AND source = %(source)s AND project = %(project)s AND agent = %(agent)s AND "user" = %(user)s AND team = %(team)s
    AND visibility = %(visibility)s
ORDER BY turn = %(turn)s DESC, id LIMIT 1;

-- name: insert_episode
INSERT INTO episodes (tenant, {columns}) VALUES (%(tenant)s, {places}) RETURNING id;

-- name: save_episode
UPDATE episodes SET
    created_at = %(created_at)s, source = %(source)s, project = %(project)s, client = %(client)s,
    session = %(session)s, turn = %(turn)s, agent = %(agent)s, "user" = %(user)s, team = %(team)s,
    visibility = %(visibility)s, context = %(context)s
WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: count_passages
SELECT count(*) FROM passages WHERE tenant = %(tenant)s AND episode_id = %(episode)s;

-- name: insert_passage
INSERT INTO passages (tenant, episode_id, capture_id, place, size, length, said, text)
VALUES (
    %(tenant)s, %(episode)s, %(capture)s, %(place)s, %(size)s, %(length)s, to_tsvector('cofio', %(said)s), %(text)s
)
RETURNING id;

-- name: drop_passages
DELETE FROM passages WHERE tenant = %(tenant)s AND capture_id = %(capture)s;

-- name: drop_empty_episode
DELETE FROM episodes e WHERE tenant = %(tenant)s AND id = %(episode)s
    AND NOT EXISTS (SELECT 1 FROM passages p WHERE p.tenant = e.tenant AND p.episode_id = e.id);

-- name: get_episodes
SELECT e.id, {columns}, (SELECT min(p.capture_id) FROM passages p WHERE p.tenant = e.tenant AND p.episode_id = e.id)
FROM episodes e WHERE tenant = %(tenant)s AND id = ANY(%(ids)s::bigint[]) ORDER BY id;

-- name: passages_of
SELECT episode_id, id, text FROM passages WHERE tenant = %(tenant)s AND episode_id = ANY(%(ids)s::bigint[])
ORDER BY episode_id, capture_id NULLS FIRST, place;

-- name: get_passages
SELECT p.id, p.episode_id, p.text, e.created_at, e.session, e.project, e.source, p.capture_id
FROM passages p JOIN episodes e ON e.tenant = p.tenant AND e.id = p.episode_id
WHERE p.tenant = %(tenant)s AND p.id = ANY(%(ids)s::bigint[]);

-- name: passage_state
SELECT
    coalesce((SELECT max(id) FROM passages WHERE tenant = %(tenant)s), 0),
    coalesce((SELECT max(id) FROM passages WHERE tenant = %(tenant)s), 0),
    coalesce((SELECT value FROM meta WHERE tenant = %(tenant)s AND name = 'signature'), ''),
    coalesce((SELECT value::integer FROM meta WHERE tenant = %(tenant)s AND name = 'dimension'), 0);

-- name: passage_ids_of
SELECT p.id FROM passages p JOIN episodes e ON e.tenant = p.tenant AND e.id = p.episode_id
WHERE p.tenant = %(tenant)s AND {where} LIMIT %(limit)s;

-- name: passage_are_many_vectors
SELECT count(*) >= %(most)s FROM (SELECT 1 FROM passage_vectors WHERE tenant = %(tenant)s LIMIT %(most)s) first;

-- name: passage_any_vector_of_any
SELECT EXISTS (SELECT 1 FROM passage_vectors);

-- name: passage_has_nearness
SELECT to_regclass('passage_vectors_by_nearness_{dimension}') IS NOT NULL;

-- name: passage_make_nearness
CREATE INDEX IF NOT EXISTS passage_vectors_by_nearness_{dimension} ON passage_vectors
USING hnsw ((vector::halfvec({dimension})) halfvec_ip_ops) WITH (m = 16, ef_construction = 64)
WHERE vector_dims(vector) = {dimension};

-- name: passage_drop_nearness
DROP INDEX IF EXISTS passage_vectors_by_nearness_{dimension};

-- name: passage_nearest_by_index
SELECT passage_id, -(vector <#> %(vector)b::vector) AS cosine
FROM (
    SELECT v.passage_id, v.vector
    FROM passage_vectors v JOIN passages p ON p.tenant = v.tenant AND p.id = v.passage_id
    JOIN episodes e ON e.tenant = p.tenant AND e.id = p.episode_id
    WHERE v.tenant = %(tenant)s AND vector_dims(v.vector) = {dimension} AND {where}
    ORDER BY v.vector::halfvec({dimension}) <#> %(vector)b::vector::halfvec({dimension}) LIMIT %(many)s
) near
WHERE vector_norm(vector) BETWEEN 0.5 AND 2
ORDER BY cosine DESC, passage_id LIMIT %(k)s;

-- name: passage_nearest_of_all
SELECT v.passage_id, -(v.vector <#> %(vector)b::vector) AS cosine
FROM passage_vectors v JOIN passages p ON p.tenant = v.tenant AND p.id = v.passage_id
JOIN episodes e ON e.tenant = p.tenant AND e.id = p.episode_id
WHERE v.tenant = %(tenant)s AND {where}
    AND vector_dims(v.vector) = (SELECT value::integer FROM meta WHERE tenant = %(tenant)s AND name = 'dimension')
    AND vector_norm(v.vector) BETWEEN 0.5 AND 2
ORDER BY cosine DESC, v.passage_id LIMIT %(k)s;

-- name: passage_cosines
SELECT passage_id AS memory_id, -(vector <#> %(vector)b::vector) AS cosine FROM passage_vectors
WHERE tenant = %(tenant)s AND passage_id = ANY(%(ids)s::bigint[])
    AND vector_dims(vector) = (SELECT value::integer FROM meta WHERE tenant = %(tenant)s AND name = 'dimension')
    AND vector_norm(vector) BETWEEN 0.5 AND 2
ORDER BY {order} LIMIT %(k)s;

-- name: passage_lengths
SELECT count(*), coalesce(sum(length), 0)::bigint FROM passages WHERE tenant = %(tenant)s;

-- name: passage_frequency
WITH asked AS MATERIALIZED (
    SELECT word, phraseto_tsquery('cofio', word) AS phrase FROM unnest(%(phrases)s::text[]) AS words (word)
)
SELECT a.word, count(*) FROM asked a JOIN passages p ON p.said @@ a.phrase
WHERE p.tenant = %(tenant)s GROUP BY a.word;

-- name: passage_matching
WITH asked AS MATERIALIZED (
    SELECT phraseto_tsquery('cofio', word) AS phrase, idf
    FROM unnest(%(phrases)s::text[], %(rarity)s::float8[]) AS words (word, idf)
)
SELECT p.id, sum(a.idf / (1 + %(base)s::float8 + %(slope)s::float8 * p.length)) AS score
FROM asked a JOIN passages p ON p.said @@ a.phrase
JOIN episodes e ON e.tenant = p.tenant AND e.id = p.episode_id
WHERE p.tenant = %(tenant)s AND {where}
GROUP BY p.id ORDER BY score DESC, p.id LIMIT %(k)s;

-- name: passage_unembedded
SELECT p.id, p.episode_id, p.text, e.created_at, e.session, e.project, e.source, p.capture_id
FROM passages p JOIN episodes e ON e.tenant = p.tenant AND e.id = p.episode_id
WHERE p.tenant = %(tenant)s AND p.id IN (
    SELECT passage_id FROM unembedded WHERE tenant = %(tenant)s ORDER BY passage_id DESC LIMIT %(limit)s
)
ORDER BY p.id DESC;

-- name: passage_fill_vector
INSERT INTO passage_vectors (tenant, passage_id, vector)
SELECT tenant, id, %(vector)b::vector FROM passages WHERE tenant = %(tenant)s AND id = %(id)s
ON CONFLICT (tenant, passage_id) DO NOTHING;

-- name: drop_passage_vectors
DELETE FROM passage_vectors WHERE tenant = %(tenant)s;

-- name: unembed_passages
INSERT INTO unembedded (tenant, passage_id) SELECT tenant, id FROM passages WHERE tenant = %(tenant)s
ON CONFLICT DO NOTHING;

-- name: drop_passage_vectors_of
DELETE FROM passage_vectors WHERE tenant = %(tenant)s AND passage_id = ANY(%(ids)s::bigint[]);

-- name: unembed_passages_of
INSERT INTO unembedded (tenant, passage_id)
SELECT tenant, id FROM passages WHERE tenant = %(tenant)s AND id = ANY(%(ids)s::bigint[])
ON CONFLICT DO NOTHING;

-- name: passage_damaged_vectors
SELECT passage_id FROM passage_vectors
WHERE tenant = %(tenant)s AND NOT (vector_dims(vector) = %(dimension)s AND vector_norm(vector) BETWEEN 0.5 AND 2)
ORDER BY passage_id;

-- name: episodes_saying
SELECT id FROM episodes e
WHERE tenant = %(tenant)s AND (
    EXISTS (
        SELECT 1 FROM passages p JOIN inbox i ON i.tenant = p.tenant AND i.id = p.capture_id
        JOIN changes c ON c.tenant = i.tenant AND c.changeset_id = i.changeset_id
        WHERE p.tenant = e.tenant AND p.episode_id = e.id AND c.memory_id = %(id)s
    )
    OR EXISTS ( -- in the whole text: a sentence may be split over two passages
        SELECT 1 FROM unnest(%(said)s::text[]) AS words (word) WHERE strpos((
            SELECT string_agg(p.text, '' ORDER BY p.capture_id NULLS FIRST, p.place) FROM passages p
            WHERE p.tenant = e.tenant AND p.episode_id = e.id
        ), word) > 0
    )
);

-- name: remove_episodes
DELETE FROM episodes WHERE tenant = %(tenant)s AND id = ANY(%(ids)s::bigint[]);

-- name: open_captures_of
SELECT DISTINCT p.episode_id FROM passages p JOIN inbox i ON i.tenant = p.tenant AND i.id = p.capture_id
WHERE p.tenant = %(tenant)s AND p.episode_id = ANY(%(ids)s::bigint[]) AND i.state IN ('pending', 'parked');

-- name: erase_captures_of
UPDATE inbox SET payload = '', result = '{}', reason = ''
WHERE tenant = %(tenant)s AND id IN (
    SELECT capture_id FROM passages WHERE tenant = %(tenant)s AND episode_id = ANY(%(ids)s::bigint[])
);

-- name: old_episodes
SELECT id FROM (
    SELECT id, created_at, sum(bytes) OVER (ORDER BY created_at DESC, id DESC) AS total FROM (
        SELECT e.id, e.created_at, coalesce((
            SELECT sum(p.size + %(vector)s::bigint) FROM passages p WHERE p.tenant = e.tenant AND p.episode_id = e.id
        ), 0) AS bytes FROM episodes e WHERE e.tenant = %(tenant)s
    ) held
) totals
WHERE created_at < %(before)s OR total > %(most)s ORDER BY id;

-- name: count_episodes
SELECT
    (SELECT count(*) FROM episodes WHERE tenant = %(tenant)s),
    (SELECT count(*) FROM passages WHERE tenant = %(tenant)s),
    (SELECT count(*) FROM passage_vectors WHERE tenant = %(tenant)s),
    (SELECT coalesce(sum(size), 0)::bigint FROM passages WHERE tenant = %(tenant)s),
    (SELECT count(*) FROM unindexed WHERE tenant = %(tenant)s);

-- name: sessions
SELECT
    client, session, "user", agent, min(created_at), max(created_at), count(*) FILTER (WHERE context = ''),
    count(*) FILTER (WHERE context <> ''), max(created_at || ' ' || project), -- the project of the last turn
    count(*) FILTER (WHERE project = %(project)s OR (%(folder)s <> '' AND right(project, length(%(folder)s)) = %(folder)s))
FROM episodes
WHERE tenant = %(tenant)s AND session >= %(first)s AND session <= %(last)s AND session <> ''
    AND (%(client)s = '' OR client = %(client)s OR substr(client, 1, length(%(client)s) + 1) = %(client)s || '~')
    AND (
        %(own)s = 0 OR ("user" <> '' AND "user" = %(own_user)s)
        OR ("user" = '' AND agent <> '' AND agent = %(own_agent)s)
    )
    AND {where}
GROUP BY session, client, "user", agent
HAVING max(created_at) >= %(since)s AND (
    %(anywhere)s = 1 OR session = ANY (%(also)s)
    OR count(*) FILTER (WHERE project = %(project)s OR (%(folder)s <> '' AND right(project, length(%(folder)s)) = %(folder)s)) > 0
)
ORDER BY max(created_at) DESC, session DESC LIMIT %(limit)s;

-- name: session_clients
SELECT DISTINCT client, "user", agent FROM episodes
WHERE tenant = %(tenant)s AND session = %(session)s AND session <> '';

-- name: session_episodes
SELECT id FROM episodes
WHERE tenant = %(tenant)s AND session = %(session)s AND session <> '' AND client = ANY (%(clients)s) AND "user" = %(user)s AND agent = %(agent)s
    AND (context <> '') = (%(summaries)s = 1) AND {where}
ORDER BY created_at DESC, id DESC LIMIT %(limit)s;

-- name: session_changesets
SELECT i.changeset_id, e."user", e.agent, CASE WHEN e.id IS NULL THEN i.payload ELSE '' END FROM inbox i
LEFT JOIN episodes e ON e.tenant = i.tenant
    AND e.id = (SELECT p.episode_id FROM passages p WHERE p.tenant = i.tenant AND p.capture_id = i.id LIMIT 1)
WHERE i.tenant = %(tenant)s AND i.session = %(session)s AND i.session <> '' AND i.client = ANY (%(clients)s)
    AND i.changeset_id IS NOT NULL
ORDER BY i.id DESC;

-- name: session_given
SELECT memory_id FROM injected_memories
WHERE tenant = %(tenant)s AND session = %(session)s AND client = ANY (%(clients)s) ORDER BY at, memory_id;

-- name: waiting_captures
SELECT i.id, i.payload FROM unindexed u JOIN inbox i ON i.id = u.capture_id AND i.tenant = u.tenant
WHERE u.tenant = %(tenant)s AND i.session <> '' AND i.payload <> '' AND (%(session)s = '' OR i.session = %(session)s)
    AND NOT EXISTS (SELECT 1 FROM passages p WHERE p.tenant = u.tenant AND p.capture_id = i.id)
ORDER BY u.capture_id DESC LIMIT %(limit)s;

-- name: carried_episodes
SELECT e.id, {columns}, NULL FROM episodes e WHERE tenant = %(tenant)s AND id > %(after)s ORDER BY id LIMIT %(limit)s;

-- name: carried_passages
SELECT p.episode_id, p.text, v.vector
FROM passages p LEFT JOIN passage_vectors v ON v.tenant = p.tenant AND v.passage_id = p.id
WHERE p.tenant = %(tenant)s AND p.episode_id = ANY(%(ids)s::bigint[])
ORDER BY p.episode_id, p.capture_id NULLS FIRST, p.place;

-- name: start_llm_call
INSERT INTO llm_calls (
    tenant, at, provider, model, purpose, client, session, project, capture, characters, input_tokens, request
) VALUES (
    %(tenant)s, %(at)s, %(provider)s, %(model)s, %(purpose)s, %(client)s, %(session)s, %(project)s, %(capture)s, %(characters)s, %(input_tokens)s, %(request)s
)
RETURNING id;

-- name: finish_llm_call
UPDATE llm_calls SET
    outcome = %(outcome)s, seconds = %(seconds)s, input_tokens = %(input_tokens)s, output_tokens = %(output_tokens)s,
    reply = CASE request WHEN '' THEN '' ELSE %(reply)s END -- purged meanwhile: stays empty
WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: unfinished_llm_calls
SELECT id FROM llm_calls WHERE tenant = %(tenant)s AND at < %(before)s AND outcome = 'running' LIMIT 1;

-- name: interrupt_llm_calls
UPDATE llm_calls SET outcome = 'interrupted'
WHERE tenant = %(tenant)s AND at < %(before)s AND outcome = 'running' RETURNING id;

-- name: llm_spent
SELECT count(*), coalesce(sum(input_tokens + output_tokens), 0) FROM llm_calls
WHERE tenant = %(tenant)s AND at >= %(since)s AND outcome <> 'failed';

-- name: llm_sums
SELECT
    substr(at, 1, 10), provider, model, client, session, project,
    sum(CASE outcome WHEN 'failed' THEN 0 ELSE 1 END), sum(CASE outcome WHEN 'failed' THEN 1 ELSE 0 END),
    sum(characters), sum(input_tokens), sum(output_tokens)
FROM llm_calls WHERE tenant = %(tenant)s AND at >= %(since)s GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6;

-- name: get_llm_call
SELECT {columns} FROM llm_calls WHERE tenant = %(tenant)s AND id = %(id)s;

-- name: newest_llm_calls
SELECT {columns} FROM llm_calls WHERE tenant = %(tenant)s ORDER BY id DESC LIMIT %(limit)s;

-- name: llm_texts_before
SELECT id FROM llm_calls WHERE tenant = %(tenant)s AND at < %(before)s AND (request <> '' OR reply <> '');

-- name: erase_all_llm_texts
UPDATE llm_calls SET request = '', reply = '' WHERE tenant = %(tenant)s AND (request <> '' OR reply <> '');

-- name: erase_llm_texts
UPDATE llm_calls SET request = '', reply = '' WHERE tenant = %(tenant)s AND id = ANY(%(ids)s);
