-- canvasback_key_usage has the accepted requests of each key by UTC day, as days since
-- 1970-01-01, and by the owner that the key had. Rows outlive their key.
CREATE TABLE canvasback_key_usage (
    key_id   bigint  NOT NULL,
    day      integer NOT NULL,
    owner    text    NOT NULL,
    requests bigint  NOT NULL,
    CONSTRAINT canvasback_key_usage_pkey PRIMARY KEY (key_id, day, owner)
);

CREATE INDEX canvasback_key_usage_day_idx ON canvasback_key_usage (day);

-- Roles that may use keys need no further GRANT.
DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END
        FROM pg_class
        CROSS JOIN aclexplode(coalesce(relacl, acldefault('r', relowner))) AS acl
        WHERE pg_class.oid = 'canvasback_keys'::regclass AND acl.privilege_type = 'UPDATE'
    LOOP
        EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON canvasback_key_usage TO ' || grantee;
    END LOOP;
END
$$;
