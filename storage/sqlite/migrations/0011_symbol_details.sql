-- Tags are separated by newlines; meta is a JSON object, or empty. Times are Unix
-- milliseconds, NULL for symbols of before: those are of the time of this migration.

ALTER TABLE canvasback_symbols ADD COLUMN tags TEXT NOT NULL DEFAULT '';
ALTER TABLE canvasback_symbols ADD COLUMN meta TEXT NOT NULL DEFAULT '';
ALTER TABLE canvasback_symbols ADD COLUMN created_at INTEGER;
ALTER TABLE canvasback_symbols ADD COLUMN updated_at INTEGER;
ALTER TABLE canvasback_symbols ADD COLUMN updated_by INTEGER NOT NULL DEFAULT 0;

CREATE TABLE canvasback_symbol_details (
    only_row    INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    migrated_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER))
) STRICT;

INSERT INTO canvasback_symbol_details DEFAULT VALUES;

-- Searches read tags without the data, which is before them.
CREATE INDEX canvasback_symbols_tags_idx ON canvasback_symbols (id, tags) WHERE tags <> '';

-- A process of the previous version knows no times.
CREATE TRIGGER canvasback_symbols_dated
AFTER INSERT ON canvasback_symbols
WHEN NEW.created_at IS NULL
BEGIN
    UPDATE canvasback_symbols
    SET created_at = CAST(unixepoch('subsec') * 1000 AS INTEGER),
        updated_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
    WHERE id = NEW.id;
END;

DROP TRIGGER canvasback_symbols_updated;

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
    UPDATE canvasback_folders
    SET contents_version = abs(random() / 2) + 1
    WHERE id IN (OLD.folder_id, NEW.folder_id);
END;
