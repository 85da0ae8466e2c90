-- Queries: few at night, most in the afternoon. Two in a hundred have a holder of the pool.
INSERT INTO consultas_query (id, partner_id, kind, cpf_index, request, banks, portfolios, fingerprint, authorization_id,
    answers, request_id, takes, created_at, deadline_at, finished_at)
SELECT gen_random_uuid(), p.id, CASE WHEN g %% 20 = 0 THEN 'individual' ELSE 'aggregated' END,
    CASE WHEN random() < 0.02 THEN pool.cpf_index ELSE md5(at::text || g) || md5(g::text) END,
    pool.number, to_jsonb(%(banks)s::text[]), '{}', '', '', pool.number, %(mark)s, 1, at, at + interval '30 seconds',
    at + interval '2 seconds' + random() * interval '9 seconds'
FROM (
    SELECT g, %(start)s::timestamptz + (floor(sqrt(random()) * 18) + 6)::int %% 24 * interval '1 hour'
        + random() * interval '1 hour' AS at, floor(random() * (SELECT count(*) FROM seed_pool))::int AS number,
        floor(power(random(), 2) * (SELECT count(*) FROM seed_partners))::int AS partner
    FROM generate_series(1, %(queries)s) g
) q JOIN seed_pool pool ON pool.number = q.number JOIN seed_partners p ON p.number = q.partner
WHERE at < %(until)s ORDER BY at
---
INSERT INTO consultas_offer (id, partner_id, query_id, provider, cpf_index, identity, native_offer_id, loan_value,
    installment_value, installments, interest_rate, total_amount, table_code, with_insurance, first_due_date,
    employer_cnpj, employer_name, registration, native, quoted_at, created_at, refreshed_at)
SELECT gen_random_uuid(), q.partner_id, q.id, (%(banks)s::text[])[1 + floor(random() * cardinality(%(banks)s::text[]))::int],
    q.cpf_index, md5(q.id::text || g) || md5(g || q.id::text), 'volume-' || q.id || '-' || g,
    round((1000 + random() * 19000)::numeric, 2), round((100 + random() * 900)::numeric, 2),
    (ARRAY[12, 24, 36, 48, 60, 84])[1 + floor(random() * 6)::int], 1.5 + round(random()::numeric, 2), 20000, 'T1', g %% 3 = 0,
    (q.created_at + interval '45 days')::date, '11222333000181', 'Metalúrgica Aurora Ltda', '100200', '{}',
    q.finished_at, q.finished_at, q.finished_at
FROM consultas_query q, generate_series(1, %(each)s * 2) g
WHERE q.created_at >= %(start)s AND q.created_at < %(until)s AND q.request_id = %(mark)s
    AND get_byte(decode(md5(q.id::text), 'hex'), 0) < 128
---
INSERT INTO consultas_step (partner_id, query_id, provider, cpf_index, type, detail, reference, state, opened_at,
    expires_at, checks, closed_at, offers)
SELECT q.partner_id, q.id, (%(banks)s::text[])[1 + floor(random() * cardinality(%(banks)s::text[]))::int], q.cpf_index,
    'dataprev', 'Autorização por SMS.', 'volume-' || q.id,
    (ARRAY['approved', 'approved', 'refused', 'expired'])[1 + floor(random() * 4)::int], q.created_at,
    q.created_at + interval '3 days', 9, least(q.created_at + random() * interval '40 minutes', %(now)s), 0
FROM (SELECT *, row_number() OVER () AS n FROM consultas_query
        WHERE created_at >= %(start)s AND created_at < %(until)s AND request_id = %(mark)s) q
WHERE q.n %% 16 = 1
---
INSERT INTO authorizations_session (authorization_id, partner_id, cpf, cpf_index, name, phone, terms_id, status, created_at,
    expires_at, declined_at, revoked_by, use_count)
SELECT md5('session' || q.id), q.partner_id, pool.number, q.cpf_index, pool.number, pool.number, terms.id,
    'expired', q.created_at - interval '5 minutes',
    q.created_at + interval '3 days', CASE WHEN q.chance > 0.95 THEN q.created_at END, '', 0
FROM (SELECT *, random() AS chance FROM consultas_query WHERE created_at >= %(start)s AND created_at < %(until)s
        AND request_id = %(mark)s) q
    JOIN seed_pool pool ON pool.number = get_byte(decode(md5(q.id::text), 'hex'), 1) %% (SELECT count(*) FROM seed_pool),
    (SELECT max(id) AS id FROM authorizations_terms) terms
WHERE get_byte(decode(md5(q.id::text), 'hex'), 2) < 110
---
INSERT INTO proposals_proposal (id, partner_id, offer_id, origin_query_id, provider, cpf_index, reference, dataset, terms, status,
    submission, native_id, native_status, data, channel, attempts, reconciles, moved_at, request_id, created_at, updated_at)
SELECT gen_random_uuid(), o.partner_id, o.id, o.query_id, o.provider, o.cpf_index, md5(o.id::text), pool.number, pool.number,
    (ARRAY['disbursed', 'disbursed', 'disbursed', 'rejected', 'expired', 'cancelled', 'awaiting_signature', 'signed'])
        [1 + floor(random() * 8)::int],
    'accepted', 'V' || left(md5(o.id::text), 12), '', pool.number, '', 1, 0, o.created_at + interval '10 minutes', %(mark)s,
    o.created_at + interval '10 minutes', o.created_at + interval '10 minutes'
FROM consultas_query q JOIN consultas_offer o ON o.query_id = q.id
    JOIN seed_pool pool ON pool.number = get_byte(decode(md5(o.id::text), 'hex'), 0) %% (SELECT count(*) FROM seed_pool)
WHERE q.created_at >= %(start)s AND q.created_at < %(until)s AND q.request_id = %(mark)s
    AND q.created_at < %(now)s::timestamptz - interval '11 minutes' AND random() < %(sold)s
---
-- The moves that lead to each status, one every two hours.
INSERT INTO proposals_move (proposal_id, from_status, to_status, cause, native_word, at)
SELECT p.id, coalesce(lag(step.status) OVER way, ''), step.status, CASE WHEN step.n = 1 THEN 'submit' ELSE 'refresh' END, '',
    p.created_at + (step.n - 1) * interval '2 hours' + interval '1 second'
FROM proposals_proposal p, LATERAL unnest(CASE p.status
    WHEN 'disbursed' THEN ARRAY['created', 'awaiting_signature', 'signed', 'disbursed']
    WHEN 'signed' THEN ARRAY['created', 'awaiting_signature', 'signed']
    WHEN 'awaiting_signature' THEN ARRAY['created', 'awaiting_signature']
    WHEN 'expired' THEN ARRAY['created', 'awaiting_signature', 'expired']
    WHEN 'cancelled' THEN ARRAY['created', 'in_analysis', 'cancelled']
    ELSE ARRAY['created', 'rejected'] END) WITH ORDINALITY AS step (status, n)
WHERE p.created_at >= %(start)s AND p.created_at < %(until)s::timestamptz + interval '11 minutes' AND p.request_id = %(mark)s
    AND p.created_at + (step.n - 1) * interval '2 hours' + interval '1 second' < %(now)s
    AND NOT EXISTS (SELECT FROM proposals_move m WHERE m.proposal_id = p.id)
WINDOW way AS (PARTITION BY p.id ORDER BY step.n)
---
-- A proposal whose later moves lie in the future has the status of its last move.
UPDATE proposals_proposal p SET status = last.to_status FROM (
    SELECT DISTINCT ON (m.proposal_id) m.proposal_id, m.to_status FROM proposals_move m
    WHERE m.at >= %(start)s ORDER BY m.proposal_id, m.at DESC
) last
WHERE last.proposal_id = p.id AND p.status <> last.to_status AND p.request_id = %(mark)s
    AND p.created_at >= %(start)s
---
INSERT INTO webhooks_event (id, partner_id, name, reference_index, state, attempts, failures, fault, created_at,
    delivered_at, purged_at)
SELECT 'evt_' || md5('volume' || m.id), p.partner_id, 'proposal.' || m.to_status, '', 'delivered', 1, 0, '', m.at,
    m.at + interval '1 second', m.at + interval '2 seconds'
FROM proposals_move m JOIN proposals_proposal p ON p.id = m.proposal_id
WHERE p.created_at >= %(start)s AND p.created_at < %(until)s::timestamptz + interval '11 minutes' AND p.request_id = %(mark)s
ON CONFLICT DO NOTHING
