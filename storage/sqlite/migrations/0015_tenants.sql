-- Each record belongs to a tenant, by default '': those of before, and those of a process of
-- the previous version. What is unique over all tenants in the first migration, the names
-- of folders and the source URLs, stands behind 257 characters in the rows of other tenants.
ALTER TABLE canvasback_folders ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE canvasback_trash ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE canvasback_exports ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE canvasback_links ADD COLUMN tenant TEXT NOT NULL DEFAULT '';

CREATE INDEX canvasback_folders_tenant_id_idx ON canvasback_folders (tenant)
WHERE tenant <> '';

-- canvasback_tenant_lists has the versions of the folder lists of other tenants.
CREATE TABLE canvasback_tenant_lists (
    tenant  TEXT PRIMARY KEY,
    version INTEGER NOT NULL DEFAULT (abs(random() / 2) + 1)
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
    UPDATE canvasback_folder_list
    SET version = abs(random() / 2) + 1
    WHERE NEW.tenant = '';

    INSERT INTO canvasback_tenant_lists (tenant)
    SELECT NEW.tenant
    WHERE NEW.tenant <> ''
    ON CONFLICT (tenant) DO UPDATE SET version = excluded.version;
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
