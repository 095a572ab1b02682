ALTER TABLE canvasback_exports ADD COLUMN registered_by TEXT NOT NULL DEFAULT '';

-- canvasback_export_chunks is the index of searches: the eight bytes at each offset
-- of a source URL that is a multiple of four, fewer at its end.
CREATE TABLE canvasback_export_chunks (
    chunk     BLOB    NOT NULL,
    export_id INTEGER NOT NULL,
    PRIMARY KEY (chunk, export_id)
) STRICT, WITHOUT ROWID;

-- Triggers cannot count. A URL has up to 32,768 bytes.
CREATE TABLE canvasback_export_offsets (start INTEGER PRIMARY KEY) STRICT;

WITH RECURSIVE counted (start) AS (
    VALUES (1)
    UNION ALL
    SELECT start + 4 FROM counted WHERE start < 32768
)
INSERT INTO canvasback_export_offsets (start)
SELECT start FROM counted;

INSERT OR IGNORE INTO canvasback_export_chunks (chunk, export_id)
SELECT substr(CAST(source_url AS BLOB), start, 8), id
FROM canvasback_exports
JOIN canvasback_export_offsets ON start <= octet_length(source_url)
ORDER BY 1, 2;

CREATE TRIGGER canvasback_exports_inserted
AFTER INSERT ON canvasback_exports
BEGIN
    INSERT OR IGNORE INTO canvasback_export_chunks (chunk, export_id)
    SELECT substr(CAST(NEW.source_url AS BLOB), start, 8), NEW.id
    FROM canvasback_export_offsets
    WHERE start <= octet_length(NEW.source_url);
END;

CREATE TRIGGER canvasback_exports_deleted
AFTER DELETE ON canvasback_exports
BEGIN
    DELETE FROM canvasback_export_chunks
    WHERE export_id = OLD.id AND chunk IN (
        SELECT substr(CAST(OLD.source_url AS BLOB), start, 8)
        FROM canvasback_export_offsets
        WHERE start <= octet_length(OLD.source_url)
    );
END;

CREATE TRIGGER canvasback_exports_updated
AFTER UPDATE OF id, source_url ON canvasback_exports
WHEN NEW.id IS NOT OLD.id OR NEW.source_url IS NOT OLD.source_url
BEGIN
    DELETE FROM canvasback_export_chunks
    WHERE export_id = OLD.id AND chunk IN (
        SELECT substr(CAST(OLD.source_url AS BLOB), start, 8)
        FROM canvasback_export_offsets
        WHERE start <= octet_length(OLD.source_url)
    );

    INSERT OR IGNORE INTO canvasback_export_chunks (chunk, export_id)
    SELECT substr(CAST(NEW.source_url AS BLOB), start, 8), NEW.id
    FROM canvasback_export_offsets
    WHERE start <= octet_length(NEW.source_url);
END;
