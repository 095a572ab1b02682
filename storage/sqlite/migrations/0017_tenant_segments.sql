-- A folder that gets another tenant changes the versions of the segments of its symbols, so
-- that searches of both tenants are current.
CREATE TRIGGER canvasback_folders_segments
AFTER UPDATE OF tenant ON canvasback_folders
WHEN NEW.tenant IS NOT OLD.tenant
BEGIN
    INSERT INTO canvasback_symbol_segments (id)
    SELECT DISTINCT id >> 10
    FROM canvasback_symbols
    WHERE folder_id = NEW.id
    ON CONFLICT (id) DO UPDATE SET version = excluded.version;
END;
