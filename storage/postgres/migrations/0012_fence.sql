-- canvasback_fence is one row: the last message in the WAL whose commit the standby has
-- confirmed, so that processes can share the confirmation. A position is an offset in the
-- WAL of the server process that started at the given time, and means nothing elsewhere.
CREATE TABLE canvasback_fence (
    only_row     boolean     NOT NULL DEFAULT true,
    started      timestamptz NOT NULL DEFAULT '-infinity',
    confirmed    bigint      NOT NULL DEFAULT 0,
    publisher    bigint      NOT NULL DEFAULT 0, -- number of a process
    published_at timestamptz NOT NULL DEFAULT '-infinity',
    CONSTRAINT canvasback_fence_pkey PRIMARY KEY (only_row),
    CONSTRAINT canvasback_fence_only_row_check CHECK (only_row)
);

INSERT INTO canvasback_fence DEFAULT VALUES;

-- Roles that may use keys need no further GRANT.
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
        EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON canvasback_fence TO ' || grantee;
    END LOOP;
END
$$;
