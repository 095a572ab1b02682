-- Times are Unix milliseconds, NULL where there is none.
--
-- The epoch and the versions are kept by triggers, so that a statement of an
-- operator moves them as well. The epoch rises by a random step, and versions
-- are drawn at random: none is met again in a database that takes the place of
-- this one, be it a copy of an older day.

CREATE TABLE canvasback_keys (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT    NOT NULL,
    prefix       TEXT    NOT NULL,
    mask         TEXT    NOT NULL,
    digest       BLOB    NOT NULL UNIQUE CHECK (length(digest) = 32),
    active       INTEGER NOT NULL CHECK (active IN (0, 1)),
    expires_at   INTEGER,
    last_used_at INTEGER,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE canvasback_key_epoch (
    only_row INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    epoch    INTEGER NOT NULL DEFAULT (abs(random() / 2) + 1)
) STRICT;

INSERT INTO canvasback_key_epoch DEFAULT VALUES;

CREATE TRIGGER canvasback_keys_inserted
AFTER INSERT ON canvasback_keys
BEGIN
    UPDATE canvasback_key_epoch SET epoch = epoch + 1 + abs(random() % 4294967296);
END;

CREATE TRIGGER canvasback_keys_updated
AFTER UPDATE OF digest, active, expires_at ON canvasback_keys
WHEN NEW.digest IS NOT OLD.digest
    OR NEW.active IS NOT OLD.active
    OR NEW.expires_at IS NOT OLD.expires_at
BEGIN
    UPDATE canvasback_key_epoch SET epoch = epoch + 1 + abs(random() % 4294967296);
END;

CREATE TRIGGER canvasback_keys_deleted
AFTER DELETE ON canvasback_keys
BEGIN
    UPDATE canvasback_key_epoch SET epoch = epoch + 1 + abs(random() % 4294967296);
END;

CREATE TABLE canvasback_folders (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    name             TEXT    NOT NULL UNIQUE,
    version          INTEGER NOT NULL DEFAULT (abs(random() / 2) + 1),
    contents_version INTEGER NOT NULL DEFAULT (abs(random() / 2) + 1)
) STRICT;

CREATE TABLE canvasback_folder_list (
    only_row INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    version  INTEGER NOT NULL DEFAULT (abs(random() / 2) + 1)
) STRICT;

INSERT INTO canvasback_folder_list DEFAULT VALUES;

CREATE TRIGGER canvasback_folders_inserted
AFTER INSERT ON canvasback_folders
BEGIN
    UPDATE canvasback_folder_list SET version = abs(random() / 2) + 1;
END;

CREATE TRIGGER canvasback_folders_updated
AFTER UPDATE OF name ON canvasback_folders
WHEN NEW.name IS NOT OLD.name
BEGIN
    UPDATE canvasback_folders SET version = abs(random() / 2) + 1 WHERE id = NEW.id;
    UPDATE canvasback_folder_list SET version = abs(random() / 2) + 1;
END;

CREATE TRIGGER canvasback_folders_deleted
AFTER DELETE ON canvasback_folders
BEGIN
    UPDATE canvasback_folder_list SET version = abs(random() / 2) + 1;
END;

-- The data comes last: what stands before it is read without it.
CREATE TABLE canvasback_symbols (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    folder_id INTEGER NOT NULL REFERENCES canvasback_folders (id) ON DELETE CASCADE,
    version   INTEGER NOT NULL DEFAULT (abs(random() / 2) + 1),
    name      TEXT    NOT NULL,
    type      TEXT    NOT NULL,
    data      TEXT    NOT NULL
) STRICT;

CREATE INDEX canvasback_symbols_folder_id_id_idx ON canvasback_symbols (folder_id);

CREATE TRIGGER canvasback_symbols_inserted
AFTER INSERT ON canvasback_symbols
BEGIN
    UPDATE canvasback_folders
    SET contents_version = abs(random() / 2) + 1
    WHERE id = NEW.folder_id;
END;

CREATE TRIGGER canvasback_symbols_updated
AFTER UPDATE OF folder_id, name, type, data ON canvasback_symbols
WHEN NEW.folder_id IS NOT OLD.folder_id
    OR NEW.name IS NOT OLD.name
    OR NEW.type IS NOT OLD.type
    OR NEW.data IS NOT OLD.data
BEGIN
    UPDATE canvasback_symbols SET version = abs(random() / 2) + 1 WHERE id = NEW.id;
    UPDATE canvasback_folders
    SET contents_version = abs(random() / 2) + 1
    WHERE id IN (OLD.folder_id, NEW.folder_id);
END;

CREATE TRIGGER canvasback_symbols_deleted
AFTER DELETE ON canvasback_symbols
BEGIN
    UPDATE canvasback_folders
    SET contents_version = abs(random() / 2) + 1
    WHERE id = OLD.folder_id;
END;

CREATE TABLE canvasback_exports (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    source_url   TEXT    NOT NULL UNIQUE,
    exported_url TEXT    NOT NULL,
    file_name    TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
) STRICT;
