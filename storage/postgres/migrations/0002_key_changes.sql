-- canvasback_key_changes is the log of the digests whose lookup changes of keys
-- may affect. A change raises the epoch and appends its digests under the new
-- epoch, in that order and in one transaction. The row of the epoch stays locked
-- until the transaction ends, so the order of the log is the order of commits.
--
-- Numbers are consecutive. The log after an epoch is therefore complete if it has
-- a row with that epoch, and one for each higher number up to the last.

ALTER TABLE canvasback_keys ADD COLUMN use_count bigint NOT NULL DEFAULT 0;

ALTER TABLE canvasback_key_epoch ADD COLUMN number bigint NOT NULL DEFAULT 1; -- of the last row of the log

-- The epoch in the primary key is random, so rows do not conflict with those that
-- logical replication copies from another database.
CREATE TABLE canvasback_key_changes (
    epoch  bigint NOT NULL,
    number bigint NOT NULL,
    digest bytea, -- NULL in a row that records only the epoch
    CONSTRAINT canvasback_key_changes_pkey PRIMARY KEY (epoch, number)
);

CREATE INDEX canvasback_key_changes_number_idx ON canvasback_key_changes (number);

INSERT INTO canvasback_key_changes (epoch, number)
SELECT epoch, number
FROM canvasback_key_epoch;

-- Roles that may raise the epoch need no further GRANT.
DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END
        FROM pg_class
        CROSS JOIN aclexplode(coalesce(relacl, acldefault('r', relowner))) AS acl
        WHERE pg_class.oid = 'canvasback_key_epoch'::regclass AND acl.privilege_type = 'UPDATE'
    LOOP
        EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON canvasback_key_changes TO ' || grantee;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION canvasback_raise_epoch() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    max_changes CONSTANT integer := 1000;  -- of keys by one statement, to be logged
    max_rows    CONSTANT integer := 10000; -- of the log
    changes     integer;
    digests     bytea[];
    length      integer;
    last        canvasback_key_epoch;
BEGIN
    CASE TG_OP
    WHEN 'INSERT' THEN
        SELECT count(*), array_agg(digest)
        INTO changes, digests
        FROM (SELECT digest FROM after LIMIT max_changes + 1) AS changed;
    WHEN 'UPDATE' THEN
        -- A FULL JOIN is never a nested loop, which could take minutes.
        SELECT
            count(*),
            array_agg(previous) || array_agg(digest) FILTER (WHERE digest IS DISTINCT FROM previous)
        INTO changes, digests
        FROM (
            SELECT before.digest AS previous, after.digest
            FROM before
            FULL JOIN after USING (id)
            WHERE before.digest IS DISTINCT FROM after.digest
                OR before.active IS DISTINCT FROM after.active
                OR before.expires_at IS DISTINCT FROM after.expires_at
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
    IF changes > max_changes THEN
        digests := ARRAY [NULL];
    END IF;
    length := cardinality(digests);

    UPDATE canvasback_key_epoch
    SET epoch = epoch + 1 + (random() * 2 ^ 32)::bigint, number = number + length
    RETURNING * INTO last;
    IF last IS NULL THEN -- deleted by hand
        RETURN NULL;
    END IF;

    IF changes > max_changes THEN
        DELETE FROM canvasback_key_changes;
    ELSE
        DELETE FROM canvasback_key_changes
        WHERE number > last.number - max_rows - 2 * length AND number <= last.number - max_rows;
    END IF;
    INSERT INTO canvasback_key_changes (epoch, number, digest)
    SELECT last.epoch, last.number - length + ordinality, digest
    FROM unnest(digests) WITH ORDINALITY AS changed (digest);
    RETURN NULL;
END
$$;

-- Without an epoch nothing is logged.
CREATE FUNCTION canvasback_clear_key_changes() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM canvasback_key_changes;
    RETURN NULL;
END
$$;

CREATE TRIGGER canvasback_key_epoch_deleted
AFTER DELETE OR TRUNCATE ON canvasback_key_epoch
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_clear_key_changes();

-- Also for sessions with session_replication_role = replica.
ALTER TABLE canvasback_keys ENABLE ALWAYS TRIGGER canvasback_keys_inserted;
ALTER TABLE canvasback_keys ENABLE ALWAYS TRIGGER canvasback_keys_updated;
ALTER TABLE canvasback_keys ENABLE ALWAYS TRIGGER canvasback_keys_deleted;
ALTER TABLE canvasback_keys ENABLE ALWAYS TRIGGER canvasback_keys_truncated;
ALTER TABLE canvasback_key_epoch ENABLE ALWAYS TRIGGER canvasback_key_epoch_deleted;
