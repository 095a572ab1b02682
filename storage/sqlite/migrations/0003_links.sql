-- canvasback_links are download links. The digest of a link is that of its token;
-- its owner is the digest of a raw key, or 32 zero bytes.
CREATE TABLE canvasback_links (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    digest     BLOB    NOT NULL UNIQUE CHECK (length(digest) = 32),
    owner      BLOB    NOT NULL CHECK (length(owner) = 32),
    version    INTEGER NOT NULL DEFAULT 1,
    served     INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    plan       BLOB    NOT NULL
) STRICT;

CREATE INDEX canvasback_links_owner_id_idx ON canvasback_links (owner);
CREATE INDEX canvasback_links_expires_at_idx ON canvasback_links (expires_at);

-- canvasback_facts are what is known about the files at exported URLs. A fact gets
-- a new id each time it is stored, so the lowest ids are the oldest facts.
CREATE TABLE canvasback_facts (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    url_digest BLOB    NOT NULL UNIQUE CHECK (length(url_digest) = 32),
    validator  TEXT    NOT NULL,
    size       INTEGER NOT NULL,
    crc32      INTEGER,
    type       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    modified   INTEGER,
    seen_at    INTEGER NOT NULL,
    blocks     BLOB    NOT NULL
) STRICT;
