-- Scopes are separated by spaces; '*' permits everything. The previous raw key of a
-- rotation with an overlap is valid until previous_expires_at.

ALTER TABLE canvasback_keys
    ADD COLUMN owner               text NOT NULL DEFAULT '',
    ADD COLUMN scopes              text NOT NULL DEFAULT '*',
    ADD COLUMN previous_digest     bytea,
    ADD COLUMN previous_expires_at timestamptz(3),
    ADD CONSTRAINT canvasback_keys_previous_check CHECK (
        octet_length(previous_digest) = 32
        AND isfinite(previous_expires_at)
        AND (previous_digest IS NULL) = (previous_expires_at IS NULL)
    );

CREATE UNIQUE INDEX canvasback_keys_previous_digest_idx ON canvasback_keys (previous_digest)
WHERE previous_digest IS NOT NULL;

CREATE INDEX canvasback_keys_owner_id_idx ON canvasback_keys (owner, id)
WHERE owner <> '';

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
        SELECT
            count(*),
            array_agg(digest) || array_agg(previous_digest) FILTER (WHERE previous_digest IS NOT NULL)
        INTO changes, digests
        FROM (SELECT digest, previous_digest FROM after LIMIT max_changes + 1) AS changed;
    WHEN 'UPDATE' THEN
        -- A FULL JOIN is never a nested loop, which could take minutes.
        SELECT
            count(*),
            array_agg(digest_before)
            || array_agg(digest_after) FILTER (WHERE digest_after IS DISTINCT FROM digest_before)
            || array_agg(previous_before) FILTER (
                WHERE previous_before IS NOT NULL
                    AND previous_before IS DISTINCT FROM digest_before
                    AND previous_before IS DISTINCT FROM digest_after
            )
            || array_agg(previous_after) FILTER (
                WHERE previous_after IS NOT NULL
                    AND previous_after IS DISTINCT FROM digest_before
                    AND previous_after IS DISTINCT FROM digest_after
                    AND previous_after IS DISTINCT FROM previous_before
            )
        INTO changes, digests
        FROM (
            SELECT
                before.digest AS digest_before,
                after.digest AS digest_after,
                before.previous_digest AS previous_before,
                after.previous_digest AS previous_after
            FROM before
            FULL JOIN after USING (id)
            WHERE before.digest IS DISTINCT FROM after.digest
                OR before.previous_digest IS DISTINCT FROM after.previous_digest
                OR before.previous_expires_at IS DISTINCT FROM after.previous_expires_at
                OR before.active IS DISTINCT FROM after.active
                OR before.expires_at IS DISTINCT FROM after.expires_at
                OR before.owner IS DISTINCT FROM after.owner
                OR before.scopes IS DISTINCT FROM after.scopes
            LIMIT max_changes + 1
        ) AS changed;
    WHEN 'DELETE' THEN
        SELECT
            count(*),
            array_agg(digest) || array_agg(previous_digest) FILTER (WHERE previous_digest IS NOT NULL)
        INTO changes, digests
        FROM (SELECT digest, previous_digest FROM before LIMIT max_changes + 1) AS changed;
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
