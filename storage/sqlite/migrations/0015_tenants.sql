-- Each record belongs to a tenant, by default '': those of before, and those of a process of
-- the previous version. What is unique over all tenants in the first migration, the names
-- of folders and the source URLs, stands behind 257 characters in the rows of other tenants.
ALTER TABLE canvasback_folders ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE canvasback_trash ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE canvasback_exports ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE canvasback_links ADD COLUMN tenant TEXT NOT NULL DEFAULT '';

CREATE INDEX canvasback_folders_tenant_id_idx ON canvasback_folders (tenant)
WHERE tenant <> '';

-- canvasback_clock numbers the changes of this history: of folder lists, and of the
-- contents of folders. The numbers ascend, also if an older copy of this database is put
-- in its place, because they are microseconds since 1970 unless changes are faster.
CREATE TABLE canvasback_clock (
    only_row INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    history  INTEGER NOT NULL DEFAULT (abs(random() / 2) + 1),
    number   INTEGER NOT NULL DEFAULT 1
) STRICT;

INSERT INTO canvasback_clock DEFAULT VALUES;

ALTER TABLE canvasback_folders ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE canvasback_folder_list ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;

-- canvasback_tenant_lists has the versions of the folder lists of other tenants.
CREATE TABLE canvasback_tenant_lists (
    tenant  TEXT PRIMARY KEY,
    version INTEGER NOT NULL DEFAULT (abs(random() / 2) + 1),
    changed INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

DROP TRIGGER canvasback_folders_inserted;
DROP TRIGGER canvasback_folders_updated;
DROP TRIGGER canvasback_folders_deleted;

-- An insertion into this view changes the version of a tenant's folder list.
CREATE VIEW canvasback_list_change (tenant) AS
SELECT NULL;

CREATE TRIGGER canvasback_list_change_applied
INSTEAD OF INSERT ON canvasback_list_change
BEGIN
    UPDATE canvasback_clock
    SET number = max(number + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));

    UPDATE canvasback_folder_list
    SET version = abs(random() / 2) + 1, changed = (SELECT number FROM canvasback_clock)
    WHERE NEW.tenant = '';

    INSERT INTO canvasback_tenant_lists (tenant, changed)
    SELECT NEW.tenant, number
    FROM canvasback_clock
    WHERE NEW.tenant <> ''
    ON CONFLICT (tenant) DO UPDATE SET version = excluded.version, changed = excluded.changed;
END;

CREATE TRIGGER canvasback_folders_inserted
AFTER INSERT ON canvasback_folders
BEGIN
    INSERT INTO canvasback_list_change VALUES (NEW.tenant);
END;

CREATE TRIGGER canvasback_folders_updated
AFTER UPDATE OF name, tenant ON canvasback_folders
WHEN NEW.name IS NOT OLD.name OR NEW.tenant IS NOT OLD.tenant
BEGIN
    UPDATE canvasback_folders SET version = abs(random() / 2) + 1 WHERE id = NEW.id;
    INSERT INTO canvasback_list_change VALUES (OLD.tenant), (NEW.tenant);
END;

CREATE TRIGGER canvasback_folders_deleted
AFTER DELETE ON canvasback_folders
BEGIN
    INSERT INTO canvasback_list_change VALUES (OLD.tenant);
END;

DROP TRIGGER canvasback_symbols_inserted;
DROP TRIGGER canvasback_symbols_updated;
DROP TRIGGER canvasback_symbols_deleted;

CREATE TRIGGER canvasback_symbols_inserted
AFTER INSERT ON canvasback_symbols
BEGIN
    UPDATE canvasback_clock
    SET number = max(number + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
    UPDATE canvasback_folders
    SET contents_version = abs(random() / 2) + 1, changed = (SELECT number FROM canvasback_clock)
    WHERE id = NEW.folder_id;
END;

CREATE TRIGGER canvasback_symbols_updated
AFTER UPDATE OF folder_id, name, type, data, tags, meta ON canvasback_symbols
WHEN NEW.folder_id IS NOT OLD.folder_id
    OR NEW.name IS NOT OLD.name
    OR NEW.type IS NOT OLD.type
    OR NEW.data IS NOT OLD.data
    OR NEW.tags IS NOT OLD.tags
    OR NEW.meta IS NOT OLD.meta
BEGIN
    UPDATE canvasback_symbols SET version = abs(random() / 2) + 1 WHERE id = NEW.id;
    UPDATE canvasback_clock
    SET number = max(number + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
    UPDATE canvasback_folders
    SET contents_version = abs(random() / 2) + 1, changed = (SELECT number FROM canvasback_clock)
    WHERE id IN (OLD.folder_id, NEW.folder_id);
END;

CREATE TRIGGER canvasback_symbols_deleted
AFTER DELETE ON canvasback_symbols
BEGIN
    UPDATE canvasback_clock
    SET number = max(number + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
    UPDATE canvasback_folders
    SET contents_version = abs(random() / 2) + 1, changed = (SELECT number FROM canvasback_clock)
    WHERE id = OLD.folder_id;
END;
