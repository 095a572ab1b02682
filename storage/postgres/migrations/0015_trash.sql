-- canvasback_trash has an entry for each deleted folder and each deleted symbol.
-- symbol_id is null for a folder; size counts the symbols' data, meta, and 1 KiB each.
CREATE TABLE canvasback_trash (
    id         bigint         GENERATED ALWAYS AS IDENTITY,
    folder_id  bigint         NOT NULL,
    symbol_id  bigint,
    name       text           NOT NULL,
    symbols    bigint         NOT NULL,
    size       bigint         NOT NULL,
    deleted_at timestamptz(3) NOT NULL,
    deleted_by bigint         NOT NULL,
    CONSTRAINT canvasback_trash_pkey PRIMARY KEY (id),
    CONSTRAINT canvasback_trash_symbol_id_key UNIQUE (symbol_id)
);

-- canvasback_trash_symbols has the symbols of the entries. Those of pruned entries, which
-- are the oldest, are removed later.
CREATE TABLE canvasback_trash_symbols (
    id         bigint         NOT NULL,
    trash_id   bigint         NOT NULL,
    folder_id  bigint         NOT NULL,
    created_at timestamptz(3) NOT NULL,
    name       text           NOT NULL,
    type       text           NOT NULL,
    tags       text           NOT NULL,
    meta       text           NOT NULL,
    data       text           NOT NULL,
    CONSTRAINT canvasback_trash_symbols_pkey PRIMARY KEY (id)
) WITH (toast_tuple_target = 8160);

CREATE INDEX canvasback_trash_symbols_trash_id_idx ON canvasback_trash_symbols (trash_id);

-- Roles that may delete symbols need no further GRANT.
DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END
        FROM pg_class
        CROSS JOIN aclexplode(coalesce(relacl, acldefault('r', relowner))) AS acl
        WHERE pg_class.oid = 'canvasback_symbols'::regclass AND acl.privilege_type = 'DELETE'
    LOOP
        EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON canvasback_trash, canvasback_trash_symbols TO ' || grantee;
    END LOOP;
END
$$;
