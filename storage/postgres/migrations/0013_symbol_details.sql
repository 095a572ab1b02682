-- Tags are separated by newlines; meta is a JSON object, or empty. The times of symbols of
-- before are that of this migration.
ALTER TABLE canvasback_symbols
    ADD COLUMN tags       text           NOT NULL DEFAULT '',
    ADD COLUMN meta       text           NOT NULL DEFAULT '',
    ADD COLUMN created_at timestamptz(3) NOT NULL DEFAULT now(),
    ADD COLUMN updated_at timestamptz(3) NOT NULL DEFAULT now(),
    ADD COLUMN updated_by bigint         NOT NULL DEFAULT 0;

DROP TRIGGER canvasback_symbols_version ON canvasback_symbols;

-- The data is compared last, and only if all the rest is equal.
CREATE TRIGGER canvasback_symbols_version
BEFORE UPDATE ON canvasback_symbols
FOR EACH ROW WHEN (
    (OLD.folder_id, OLD.name, OLD.type, OLD.tags, OLD.meta, OLD.data)
    IS DISTINCT FROM
    (NEW.folder_id, NEW.name, NEW.type, NEW.tags, NEW.meta, NEW.data)
)
EXECUTE FUNCTION canvasback_draw_version();
