-- canvasback_symbol_segments has versions for each 1,024 ids of symbols. With every
-- change of one of these symbols, one of them is replaced, so that a search reads only
-- the names that have changed since the last one. There are up to eight, by connection,
-- so that writers of different folders rarely wait for each other.
CREATE TABLE canvasback_symbol_segments (
    id      bigint NOT NULL,
    writer  bigint NOT NULL DEFAULT (pg_backend_pid() % 8),
    version bigint NOT NULL DEFAULT (1 + (random() * 2 ^ 62)::bigint),
    CONSTRAINT canvasback_symbol_segments_pkey PRIMARY KEY (id, writer)
);

-- Roles that may read or change symbols need no further GRANT.
DO $$
DECLARE
    privilege text;
    grantee text;
BEGIN
    FOR privilege, grantee IN
        SELECT
            CASE acl.privilege_type WHEN 'SELECT' THEN 'SELECT' ELSE 'SELECT, INSERT, UPDATE, DELETE' END,
            CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END
        FROM pg_class
        CROSS JOIN aclexplode(coalesce(relacl, acldefault('r', relowner))) AS acl
        WHERE
            pg_class.oid = 'canvasback_symbols'::regclass
            AND acl.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE 'GRANT ' || privilege || ' ON canvasback_symbol_segments TO ' || grantee;
    END LOOP;
END
$$;

CREATE FUNCTION canvasback_draw_segment_version() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    changed bigint[];
BEGIN
    CASE TG_OP
    WHEN 'INSERT' THEN
        changed := ARRAY (SELECT DISTINCT id >> 10 FROM after);
    WHEN 'UPDATE' THEN
        changed := ARRAY (
            SELECT DISTINCT id >> 10
            FROM before
            FULL JOIN after USING (id)
            WHERE before.version IS DISTINCT FROM after.version
        );
    WHEN 'DELETE' THEN
        changed := ARRAY (SELECT DISTINCT id >> 10 FROM before);
    ELSE -- TRUNCATE
        DELETE FROM canvasback_symbol_segments;
        RETURN NULL;
    END CASE;

    -- The order prevents deadlocks.
    INSERT INTO canvasback_symbol_segments (id)
    SELECT unnest(changed) AS id
    ORDER BY id
    ON CONFLICT (id, writer) DO UPDATE SET version = EXCLUDED.version;
    RETURN NULL;
END
$$;

-- These triggers run after those that lock the folders, because of their names.
CREATE TRIGGER canvasback_symbols_inserted_segment
AFTER INSERT ON canvasback_symbols
REFERENCING NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_segment_version();

CREATE TRIGGER canvasback_symbols_updated_segment
AFTER UPDATE ON canvasback_symbols
REFERENCING OLD TABLE AS before NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_segment_version();

CREATE TRIGGER canvasback_symbols_deleted_segment
AFTER DELETE ON canvasback_symbols
REFERENCING OLD TABLE AS before
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_segment_version();

CREATE TRIGGER canvasback_symbols_truncated_segment
AFTER TRUNCATE ON canvasback_symbols
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_segment_version();

-- The triggers have locked the table, so that no segment is missing.
INSERT INTO canvasback_symbol_segments (id)
SELECT DISTINCT id >> 10
FROM canvasback_symbols;
