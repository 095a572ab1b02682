-- A folder that gets another tenant changes the versions of the segments of its symbols, so
-- that searches of both tenants are current.
CREATE FUNCTION canvasback_draw_folder_segments() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    -- The order prevents deadlocks.
    INSERT INTO canvasback_symbol_segments (id)
    SELECT DISTINCT id >> 10
    FROM canvasback_symbols
    WHERE folder_id = NEW.id
    ORDER BY 1
    ON CONFLICT (id, writer) DO UPDATE SET version = EXCLUDED.version;
    RETURN NULL;
END
$$;

CREATE TRIGGER canvasback_folders_segments
AFTER UPDATE ON canvasback_folders
FOR EACH ROW WHEN (OLD.tenant IS DISTINCT FROM NEW.tenant)
EXECUTE FUNCTION canvasback_draw_folder_segments();
