-- Each record belongs to a tenant, by default '': those of before, and those of a process of
-- the previous version. Names of folders and source URLs are unique for each tenant.
ALTER TABLE canvasback_folders ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE canvasback_trash ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE canvasback_links ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE canvasback_exports ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';

ALTER TABLE canvasback_folders
    DROP CONSTRAINT canvasback_folders_name_key,
    ADD CONSTRAINT canvasback_folders_name_key UNIQUE (tenant, name);

CREATE INDEX canvasback_folders_tenant_id_idx ON canvasback_folders (tenant, id)
WHERE tenant <> '';

-- The source of a tenant is hashed behind the tenant. No source URL begins with a space.
CREATE FUNCTION canvasback_tenant_source(tenant text, source_url text) RETURNS text
LANGUAGE sql
IMMUTABLE
AS $$
    SELECT CASE tenant WHEN '' THEN source_url
        ELSE ' ' || encode(sha256(convert_to(tenant, 'UTF8')), 'hex') || ' ' || source_url END
$$;

ALTER TABLE canvasback_exports
    DROP CONSTRAINT canvasback_exports_source_digest_check,
    ADD CONSTRAINT canvasback_exports_source_digest_check CHECK (
        source_digest = sha256(convert_to(canvasback_tenant_source(tenant, source_url), 'UTF8'))
    );

-- The transaction that changed the list of folders, or the contents of a folder, last; null
-- if it was before this migration.
ALTER TABLE canvasback_folders ADD COLUMN changed xid8;
ALTER TABLE canvasback_folders ALTER COLUMN changed SET DEFAULT pg_current_xact_id();
ALTER TABLE canvasback_folder_list ADD COLUMN changed xid8;

-- canvasback_tenant_lists has the versions of the folder lists of other tenants.
CREATE TABLE canvasback_tenant_lists (
    tenant  text COLLATE "C" NOT NULL,
    version bigint NOT NULL DEFAULT (1 + (random() * 2 ^ 62)::bigint),
    changed xid8   NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT canvasback_tenant_lists_pkey PRIMARY KEY (tenant)
);

-- Roles that may read or change folders need no further GRANT.
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
            pg_class.oid = 'canvasback_folders'::regclass
            AND acl.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE 'GRANT ' || privilege || ' ON canvasback_tenant_lists TO ' || grantee;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION canvasback_draw_list_version() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    tenants text[];
BEGIN
    CASE TG_OP
    WHEN 'INSERT' THEN
        tenants := ARRAY (SELECT DISTINCT tenant FROM after);
    WHEN 'UPDATE' THEN
        tenants := ARRAY [OLD.tenant, NEW.tenant];
    WHEN 'DELETE' THEN
        tenants := ARRAY (SELECT DISTINCT tenant FROM before);
    ELSE -- TRUNCATE
        tenants := array_append(ARRAY (SELECT tenant FROM canvasback_tenant_lists), '');
    END CASE;

    UPDATE canvasback_folder_list
    SET version = 1 + (random() * 2 ^ 62)::bigint, changed = pg_current_xact_id()
    WHERE '' = ANY (tenants);

    -- The order prevents deadlocks.
    INSERT INTO canvasback_tenant_lists (tenant)
    SELECT DISTINCT tenant
    FROM unnest(tenants) AS tenant
    WHERE tenant <> ''
    ORDER BY tenant
    ON CONFLICT (tenant) DO UPDATE SET version = EXCLUDED.version, changed = EXCLUDED.changed;
    RETURN NULL;
END
$$;

DROP TRIGGER canvasback_folders_renamed ON canvasback_folders;

CREATE TRIGGER canvasback_folders_renamed
AFTER UPDATE ON canvasback_folders
FOR EACH ROW WHEN ((OLD.name, OLD.tenant) IS DISTINCT FROM (NEW.name, NEW.tenant))
EXECUTE FUNCTION canvasback_draw_list_version();

DROP TRIGGER canvasback_folders_version ON canvasback_folders;

CREATE TRIGGER canvasback_folders_version
BEFORE UPDATE ON canvasback_folders
FOR EACH ROW WHEN ((OLD.name, OLD.tenant) IS DISTINCT FROM (NEW.name, NEW.tenant))
EXECUTE FUNCTION canvasback_draw_version();

CREATE OR REPLACE FUNCTION canvasback_draw_contents_version() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    folders bigint[];
BEGIN
    CASE TG_OP
    WHEN 'INSERT' THEN
        folders := ARRAY (SELECT DISTINCT folder_id FROM after);
    WHEN 'UPDATE' THEN
        folders := ARRAY (
            SELECT DISTINCT unnest(ARRAY [before.folder_id, after.folder_id])
            FROM before
            FULL JOIN after USING (id)
            WHERE before.version IS DISTINCT FROM after.version
        );
    WHEN 'DELETE' THEN
        folders := ARRAY (SELECT DISTINCT folder_id FROM before);
    ELSE -- TRUNCATE
        folders := ARRAY (SELECT id FROM canvasback_folders);
    END CASE;

    -- Whoever writes symbols locks folders in this order.
    PERFORM
    FROM canvasback_folders
    WHERE id = ANY (folders)
    ORDER BY id
    FOR NO KEY UPDATE;

    UPDATE canvasback_folders
    SET contents_version = 1 + (random() * 2 ^ 62)::bigint, changed = pg_current_xact_id()
    WHERE id = ANY (folders);
    RETURN NULL;
END
$$;
