-- canvasback_key_changes logs the digests whose lookup a change of keys may
-- affect. A change raises the epoch and adds its digests under the new epoch, in
-- that order and in one transaction. The row of the epoch stays locked until the
-- transaction ends, so the order of the log is the order of commits.
--
-- The log is pruned from its lowest epoch upward. Digests changed after an epoch
-- are therefore known as long as the log has a row of that epoch. A row without
-- a digest only records that the epoch existed.

ALTER TABLE canvasback_keys ADD COLUMN use_count bigint NOT NULL DEFAULT 0;

-- The primary key has the epoch, which is random, so that rows do not conflict
-- with those of another database.
CREATE TABLE canvasback_key_changes (
    epoch  bigint NOT NULL,
    number bigint NOT NULL, -- consecutive
    digest bytea,
    CONSTRAINT canvasback_key_changes_pkey PRIMARY KEY (epoch, number)
);

INSERT INTO canvasback_key_changes (epoch, number)
SELECT epoch, 1
FROM canvasback_key_epoch;

-- Roles that may change keys continue to do so without another GRANT.
DO $$
DECLARE
    role text;
BEGIN
    FOR role IN
        SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END
        FROM pg_class
        CROSS JOIN aclexplode(coalesce(relacl, acldefault('r', relowner))) AS acl
        WHERE pg_class.oid = 'canvasback_key_epoch'::regclass AND acl.privilege_type = 'UPDATE'
    LOOP
        EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON canvasback_key_changes TO ' || role;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION canvasback_raise_epoch() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    max_changes CONSTANT integer := 1000;  -- of keys, to be logged
    max_rows    CONSTANT integer := 10000; -- of the log
    changes     integer;
    digests     bytea[];
    raised      bigint; -- the new epoch
    first       canvasback_key_changes;
    last        canvasback_key_changes;
    excess      bigint; -- rows of the log
BEGIN
    CASE TG_OP
    WHEN 'INSERT' THEN
        SELECT count(*), array_agg(digest)
        INTO changes, digests
        FROM (SELECT digest FROM after LIMIT max_changes + 1) AS changed;
    WHEN 'UPDATE' THEN
        SELECT count(*), array_agg(old_digest) || array_agg(new_digest) FILTER (WHERE new_digest IS DISTINCT FROM old_digest)
        INTO changes, digests
        FROM (
            SELECT before.digest AS old_digest, after.digest AS new_digest
            FROM before
            FULL JOIN after USING (id)
            WHERE (before.digest, before.active, before.expires_at)
                IS DISTINCT FROM (after.digest, after.active, after.expires_at)
            LIMIT max_changes + 1
        ) AS changed;
    WHEN 'DELETE' THEN
        SELECT count(*), array_agg(digest)
        INTO changes, digests
        FROM (SELECT digest FROM before LIMIT max_changes + 1) AS changed;
    ELSE -- TRUNCATE
        changes := max_changes + 1;
    END CASE;
    IF changes = 0 THEN
        RETURN NULL;
    END IF;

    UPDATE canvasback_key_epoch
    SET epoch = epoch + 1 + (random() * 2 ^ 32)::bigint
    RETURNING epoch INTO raised;
    SELECT * INTO last FROM canvasback_key_changes ORDER BY epoch DESC, number DESC LIMIT 1;
    IF last.epoch >= raised THEN -- the epoch was set back by hand
        UPDATE canvasback_key_epoch
        SET epoch = last.epoch + 1 + (random() * 2 ^ 32)::bigint
        RETURNING epoch INTO raised;
    END IF;

    IF raised IS NULL OR changes > max_changes THEN
        DELETE FROM canvasback_key_changes;
        INSERT INTO canvasback_key_changes (epoch, number)
        SELECT raised, 1
        WHERE raised IS NOT NULL;
        RETURN NULL;
    END IF;

    INSERT INTO canvasback_key_changes (epoch, number, digest)
    SELECT raised, coalesce(last.number, 0) + ordinality, digest
    FROM unnest(digests) WITH ORDINALITY AS changed (digest);

    -- A log that is too long, because max_rows was larger, shrinks by degrees.
    SELECT * INTO first FROM canvasback_key_changes ORDER BY epoch, number LIMIT 1;
    excess := last.number + cardinality(digests) - first.number + 1 - max_rows;
    IF excess > 0 THEN
        DELETE FROM canvasback_key_changes AS pruned
        USING (
            SELECT epoch, number
            FROM canvasback_key_changes
            ORDER BY epoch, number
            LIMIT least(excess, 2 * cardinality(digests))
        ) AS oldest
        WHERE pruned.epoch = oldest.epoch AND pruned.number = oldest.number;
    END IF;
    RETURN NULL;
END
$$;

-- Also for sessions with session_replication_role = replica.
ALTER TABLE canvasback_keys ENABLE ALWAYS TRIGGER canvasback_keys_inserted;
ALTER TABLE canvasback_keys ENABLE ALWAYS TRIGGER canvasback_keys_updated;
ALTER TABLE canvasback_keys ENABLE ALWAYS TRIGGER canvasback_keys_deleted;
ALTER TABLE canvasback_keys ENABLE ALWAYS TRIGGER canvasback_keys_truncated;
