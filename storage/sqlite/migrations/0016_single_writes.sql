-- A statement that changes a symbol sets another version itself, because a trigger that
-- does has to write the row again. Nor does the trigger compare the data, for which SQLite
-- would have to read what was stored.
DROP TRIGGER canvasback_symbols_updated;

CREATE TRIGGER canvasback_symbols_updated
AFTER UPDATE OF folder_id, name, type, data, tags, meta ON canvasback_symbols
BEGIN
    UPDATE canvasback_symbols
    SET version = abs(random() / 2) + 1
    WHERE id = NEW.id AND NEW.version = OLD.version;
    UPDATE canvasback_clock
    SET number = max(number + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
    UPDATE canvasback_folders
    SET contents_version = abs(random() / 2) + 1, changed = (SELECT number FROM canvasback_clock)
    WHERE id IN (OLD.folder_id, NEW.folder_id);
END;
