-- Times are kept to the millisecond, NULL where there is none.
--
-- The epoch and the versions are kept by triggers, so that a statement of an
-- operator moves them as well. The epoch rises by a random step, and versions
-- are drawn at random: none is met again in a database that takes the place of
-- this one, be it a copy of an older day.
--
-- Functions that name tables keep the search path they are created under, for
-- the sessions that have another one.

CREATE TABLE canvasback_keys (
    id           bigint         GENERATED ALWAYS AS IDENTITY,
    name         text           NOT NULL,
    prefix       text           NOT NULL,
    mask         text           NOT NULL,
    digest       bytea          NOT NULL,
    active       boolean        NOT NULL,
    expires_at   timestamptz(3),
    last_used_at timestamptz(3),
    created_at   timestamptz(3) NOT NULL,
    updated_at   timestamptz(3) NOT NULL,
    CONSTRAINT canvasback_keys_pkey PRIMARY KEY (id),
    CONSTRAINT canvasback_keys_digest_key UNIQUE (digest),
    CONSTRAINT canvasback_keys_digest_check CHECK (octet_length(digest) = 32),
    CONSTRAINT canvasback_keys_times_check CHECK (
        isfinite(expires_at) AND isfinite(last_used_at)
        AND isfinite(created_at) AND isfinite(updated_at)
    )
);

CREATE TABLE canvasback_key_epoch (
    only_row boolean NOT NULL DEFAULT true,
    epoch    bigint  NOT NULL DEFAULT (1 + (random() * 2 ^ 62)::bigint),
    CONSTRAINT canvasback_key_epoch_pkey PRIMARY KEY (only_row),
    CONSTRAINT canvasback_key_epoch_only_row_check CHECK (only_row)
);

INSERT INTO canvasback_key_epoch DEFAULT VALUES;

CREATE FUNCTION canvasback_raise_epoch() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    changed boolean := true;
BEGIN
    CASE TG_OP
    WHEN 'INSERT' THEN
        changed := EXISTS (SELECT FROM after);
    WHEN 'UPDATE' THEN
        changed := EXISTS (
            SELECT id, digest, active, expires_at FROM after
            EXCEPT
            SELECT id, digest, active, expires_at FROM before
        );
    WHEN 'DELETE' THEN
        changed := EXISTS (SELECT FROM before);
    ELSE -- TRUNCATE
    END CASE;
    IF changed THEN
        UPDATE canvasback_key_epoch
        SET epoch = epoch + 1 + (random() * 2 ^ 32)::bigint;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER canvasback_keys_inserted
AFTER INSERT ON canvasback_keys
REFERENCING NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_raise_epoch();

CREATE TRIGGER canvasback_keys_updated
AFTER UPDATE ON canvasback_keys
REFERENCING OLD TABLE AS before NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_raise_epoch();

CREATE TRIGGER canvasback_keys_deleted
AFTER DELETE ON canvasback_keys
REFERENCING OLD TABLE AS before
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_raise_epoch();

CREATE TRIGGER canvasback_keys_truncated
AFTER TRUNCATE ON canvasback_keys
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_raise_epoch();

-- Compared by bytes, so that the index outlives a change of the collations.
CREATE TABLE canvasback_folders (
    id               bigint GENERATED ALWAYS AS IDENTITY,
    name             text   COLLATE "C" NOT NULL,
    version          bigint NOT NULL DEFAULT (1 + (random() * 2 ^ 62)::bigint),
    contents_version bigint NOT NULL DEFAULT (1 + (random() * 2 ^ 62)::bigint),
    CONSTRAINT canvasback_folders_pkey PRIMARY KEY (id),
    CONSTRAINT canvasback_folders_name_key UNIQUE (name)
);

CREATE TABLE canvasback_folder_list (
    only_row boolean NOT NULL DEFAULT true,
    version  bigint  NOT NULL DEFAULT (1 + (random() * 2 ^ 62)::bigint),
    CONSTRAINT canvasback_folder_list_pkey PRIMARY KEY (only_row),
    CONSTRAINT canvasback_folder_list_only_row_check CHECK (only_row)
);

INSERT INTO canvasback_folder_list DEFAULT VALUES;

-- Rows of the usual size stay whole: a list then reads 2 to 3 times as fast as
-- from values that are moved out of line.
CREATE TABLE canvasback_symbols (
    id        bigint GENERATED ALWAYS AS IDENTITY,
    folder_id bigint NOT NULL,
    version   bigint NOT NULL DEFAULT (1 + (random() * 2 ^ 62)::bigint),
    name      text   NOT NULL,
    type      text   NOT NULL,
    data      text   NOT NULL,
    CONSTRAINT canvasback_symbols_pkey PRIMARY KEY (id),
    CONSTRAINT canvasback_symbols_folder_id_fkey FOREIGN KEY (folder_id)
        REFERENCES canvasback_folders (id) ON DELETE CASCADE
) WITH (toast_tuple_target = 8160);

CREATE INDEX canvasback_symbols_folder_id_id_idx ON canvasback_symbols (folder_id, id);

DO $$
BEGIN
    ALTER TABLE canvasback_symbols ALTER COLUMN data SET COMPRESSION lz4;
EXCEPTION
    WHEN feature_not_supported THEN NULL; -- the server is built without LZ4
END
$$;

CREATE FUNCTION canvasback_draw_version() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.version := 1 + (random() * 2 ^ 62)::bigint;
    RETURN NEW;
END
$$;

CREATE TRIGGER canvasback_folders_version
BEFORE UPDATE ON canvasback_folders
FOR EACH ROW WHEN (OLD.name IS DISTINCT FROM NEW.name)
EXECUTE FUNCTION canvasback_draw_version();

-- The data is compared last, and only if all the rest is equal.
CREATE TRIGGER canvasback_symbols_version
BEFORE UPDATE ON canvasback_symbols
FOR EACH ROW WHEN (
    (OLD.folder_id, OLD.name, OLD.type, OLD.data)
    IS DISTINCT FROM
    (NEW.folder_id, NEW.name, NEW.type, NEW.data)
)
EXECUTE FUNCTION canvasback_draw_version();

CREATE FUNCTION canvasback_draw_list_version() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    changed boolean := true;
BEGIN
    CASE TG_OP
    WHEN 'INSERT' THEN
        changed := EXISTS (SELECT FROM after);
    WHEN 'DELETE' THEN
        changed := EXISTS (SELECT FROM before);
    ELSE -- UPDATE that the trigger has looked at, TRUNCATE
    END CASE;
    IF changed THEN
        UPDATE canvasback_folder_list
        SET version = 1 + (random() * 2 ^ 62)::bigint;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER canvasback_folders_inserted
AFTER INSERT ON canvasback_folders
REFERENCING NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_list_version();

-- For each row, because every change of contents updates a folder too.
CREATE TRIGGER canvasback_folders_renamed
AFTER UPDATE ON canvasback_folders
FOR EACH ROW WHEN (OLD.name IS DISTINCT FROM NEW.name)
EXECUTE FUNCTION canvasback_draw_list_version();

CREATE TRIGGER canvasback_folders_deleted
AFTER DELETE ON canvasback_folders
REFERENCING OLD TABLE AS before
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_list_version();

CREATE TRIGGER canvasback_folders_truncated
AFTER TRUNCATE ON canvasback_folders
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_list_version();

CREATE FUNCTION canvasback_draw_contents_version() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    changed bigint[];
BEGIN
    CASE TG_OP
    WHEN 'INSERT' THEN
        changed := ARRAY (SELECT DISTINCT folder_id FROM after);
    WHEN 'UPDATE' THEN
        changed := ARRAY (
            SELECT DISTINCT unnest(ARRAY [before.folder_id, after.folder_id])
            FROM before
            FULL JOIN after USING (id)
            WHERE before.version IS DISTINCT FROM after.version
        );
    WHEN 'DELETE' THEN
        changed := ARRAY (SELECT DISTINCT folder_id FROM before);
    ELSE -- TRUNCATE
        changed := ARRAY (SELECT id FROM canvasback_folders);
    END CASE;

    -- Whoever writes symbols locks folders in this order.
    PERFORM
    FROM canvasback_folders
    WHERE id = ANY (changed)
    ORDER BY id
    FOR NO KEY UPDATE;

    UPDATE canvasback_folders
    SET contents_version = 1 + (random() * 2 ^ 62)::bigint
    WHERE id = ANY (changed);
    RETURN NULL;
END
$$;

CREATE TRIGGER canvasback_symbols_inserted
AFTER INSERT ON canvasback_symbols
REFERENCING NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_contents_version();

CREATE TRIGGER canvasback_symbols_updated
AFTER UPDATE ON canvasback_symbols
REFERENCING OLD TABLE AS before NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_contents_version();

CREATE TRIGGER canvasback_symbols_deleted
AFTER DELETE ON canvasback_symbols
REFERENCING OLD TABLE AS before
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_contents_version();

CREATE TRIGGER canvasback_symbols_truncated
AFTER TRUNCATE ON canvasback_symbols
FOR EACH STATEMENT EXECUTE FUNCTION canvasback_draw_contents_version();

-- Addresses are too long for an index. The check keeps what is put in by hand
-- from being lost under a wrong digest.
CREATE TABLE canvasback_exports (
    id            bigint         GENERATED ALWAYS AS IDENTITY,
    source_digest bytea          NOT NULL,
    source_url    text           NOT NULL,
    exported_url  text           NOT NULL,
    file_name     text           NOT NULL,
    created_at    timestamptz(3) NOT NULL,
    updated_at    timestamptz(3) NOT NULL,
    CONSTRAINT canvasback_exports_pkey PRIMARY KEY (id),
    CONSTRAINT canvasback_exports_source_digest_key UNIQUE (source_digest),
    CONSTRAINT canvasback_exports_source_digest_check CHECK (
        source_digest = sha256(convert_to(source_url, 'UTF8'))
    ),
    CONSTRAINT canvasback_exports_times_check CHECK (
        isfinite(created_at) AND isfinite(updated_at)
    )
);
