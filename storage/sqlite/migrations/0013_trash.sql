-- canvasback_trash has an entry for each deleted folder and each deleted symbol.
-- symbol_id is NULL for a folder; size counts the symbols' data, meta, and 1 KiB each.
CREATE TABLE canvasback_trash (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    folder_id  INTEGER NOT NULL,
    symbol_id  INTEGER UNIQUE,
    name       TEXT    NOT NULL,
    symbols    INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    deleted_at INTEGER NOT NULL,
    deleted_by INTEGER NOT NULL
) STRICT;

-- canvasback_trash_symbols has the symbols of the entries. Those of pruned entries, which
-- are the oldest, are removed later.
CREATE TABLE canvasback_trash_symbols (
    id         INTEGER PRIMARY KEY,
    trash_id   INTEGER NOT NULL,
    folder_id  INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    tags       TEXT    NOT NULL,
    meta       TEXT    NOT NULL,
    data       TEXT    NOT NULL
) STRICT;

CREATE INDEX canvasback_trash_symbols_trash_id_idx ON canvasback_trash_symbols (trash_id);
