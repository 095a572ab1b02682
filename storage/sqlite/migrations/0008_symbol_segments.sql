-- canvasback_symbol_segments has a version for each 1,024 ids of symbols. It is
-- replaced with every change of one of these symbols, so that a search reads only
-- the names that have changed since the last one.
CREATE TABLE canvasback_symbol_segments (
    id      INTEGER PRIMARY KEY,
    version INTEGER NOT NULL DEFAULT (abs(random() / 2) + 1)
) STRICT;

INSERT INTO canvasback_symbol_segments (id)
SELECT DISTINCT id >> 10
FROM canvasback_symbols;

CREATE TRIGGER canvasback_symbols_inserted_segment
AFTER INSERT ON canvasback_symbols
BEGIN
    INSERT INTO canvasback_symbol_segments (id)
    VALUES (NEW.id >> 10)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version;
END;

-- A change of another column also changes the version.
CREATE TRIGGER canvasback_symbols_updated_segment
AFTER UPDATE OF id, version ON canvasback_symbols
BEGIN
    INSERT INTO canvasback_symbol_segments (id)
    VALUES (OLD.id >> 10), (NEW.id >> 10)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version;
END;

CREATE TRIGGER canvasback_symbols_deleted_segment
AFTER DELETE ON canvasback_symbols
BEGIN
    INSERT INTO canvasback_symbol_segments (id)
    VALUES (OLD.id >> 10)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version;
END;
