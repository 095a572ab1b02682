ALTER TABLE canvasback_exports ADD COLUMN registered_by text NOT NULL DEFAULT '';

-- canvasback_export_chunks is the index of searches: the eight bytes at each offset
-- of a source URL that is a multiple of four, fewer at its end.
CREATE TABLE canvasback_export_chunks (
    chunk     bytea  NOT NULL,
    export_id bigint NOT NULL,
    CONSTRAINT canvasback_export_chunks_pkey PRIMARY KEY (chunk, export_id)
);

-- Roles that may register exports need no further GRANT.
DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END
        FROM pg_class
        CROSS JOIN aclexplode(coalesce(relacl, acldefault('r', relowner))) AS acl
        WHERE pg_class.oid = 'canvasback_exports'::regclass AND acl.privilege_type = 'UPDATE'
    LOOP
        EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON canvasback_export_chunks TO ' || grantee;
    END LOOP;
END
$$;

CREATE FUNCTION canvasback_split_source(source_url text) RETURNS SETOF bytea
LANGUAGE sql
IMMUTABLE
AS $$
    SELECT DISTINCT substr(source.bytes, start, 8)
    FROM (SELECT convert_to(source_url, 'UTF8') AS bytes OFFSET 0) AS source
    CROSS JOIN generate_series(1, octet_length(source.bytes), 4) AS start
$$;

INSERT INTO canvasback_export_chunks (chunk, export_id)
SELECT canvasback_split_source(source_url), id
FROM canvasback_exports;

CREATE FUNCTION canvasback_index_export() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM canvasback_export_chunks;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM canvasback_export_chunks
        WHERE export_id = OLD.id AND chunk = ANY (ARRAY (SELECT canvasback_split_source(OLD.source_url)));
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO canvasback_export_chunks (chunk, export_id)
        SELECT canvasback_split_source(NEW.source_url), NEW.id;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER canvasback_exports_changed
AFTER INSERT OR DELETE ON canvasback_exports
FOR EACH ROW EXECUTE FUNCTION canvasback_index_export();

CREATE TRIGGER canvasback_exports_updated
AFTER UPDATE ON canvasback_exports
FOR EACH ROW WHEN ((OLD.id, OLD.source_url) IS DISTINCT FROM (NEW.id, NEW.source_url))
EXECUTE FUNCTION canvasback_index_export();

CREATE TRIGGER canvasback_exports_truncated
AFTER TRUNCATE ON canvasback_exports
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_index_export();
