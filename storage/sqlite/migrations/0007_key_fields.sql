-- Scopes are separated by spaces; '*' permits everything. The previous raw key of a
-- rotation with an overlap is valid until previous_expires_at.

ALTER TABLE canvasback_keys ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE canvasback_keys ADD COLUMN scopes TEXT NOT NULL DEFAULT '*';
ALTER TABLE canvasback_keys ADD COLUMN previous_digest BLOB CHECK (length(previous_digest) = 32);
ALTER TABLE canvasback_keys ADD COLUMN previous_expires_at INTEGER
CHECK ((previous_digest IS NULL) = (previous_expires_at IS NULL));

CREATE UNIQUE INDEX canvasback_keys_previous_digest_idx ON canvasback_keys (previous_digest)
WHERE previous_digest IS NOT NULL;

CREATE INDEX canvasback_keys_owner_id_idx ON canvasback_keys (owner)
WHERE owner <> '';

DROP TRIGGER canvasback_keys_inserted;
DROP TRIGGER canvasback_keys_updated;
DROP TRIGGER canvasback_keys_deleted;
DROP TRIGGER canvasback_keys_replaced;
DROP TRIGGER canvasback_keys_moved;
DROP VIEW canvasback_key_change;

-- An insertion into this view raises the epoch and logs up to four digests.
CREATE VIEW canvasback_key_change (digest, other_digest, previous_digest, other_previous_digest) AS
SELECT NULL, NULL, NULL, NULL;

CREATE TRIGGER canvasback_key_change_logged
INSTEAD OF INSERT ON canvasback_key_change
BEGIN
    UPDATE canvasback_key_epoch SET epoch = epoch + 1 + abs(random() % 4294967296);

    INSERT INTO canvasback_key_changes (epoch, digest)
    SELECT epoch, NEW.digest
    FROM canvasback_key_epoch;

    INSERT INTO canvasback_key_changes (epoch, digest)
    SELECT epoch, NEW.other_digest
    FROM canvasback_key_epoch
    WHERE NEW.other_digest IS NOT NEW.digest;

    INSERT INTO canvasback_key_changes (epoch, digest)
    SELECT epoch, NEW.previous_digest
    FROM canvasback_key_epoch
    WHERE NEW.previous_digest IS NOT NULL
        AND NEW.previous_digest IS NOT NEW.digest
        AND NEW.previous_digest IS NOT NEW.other_digest;

    INSERT INTO canvasback_key_changes (epoch, digest)
    SELECT epoch, NEW.other_previous_digest
    FROM canvasback_key_epoch
    WHERE NEW.other_previous_digest IS NOT NULL
        AND NEW.other_previous_digest IS NOT NEW.digest
        AND NEW.other_previous_digest IS NOT NEW.other_digest
        AND NEW.other_previous_digest IS NOT NEW.previous_digest;

    DELETE FROM canvasback_key_changes
    WHERE number IN (SELECT number FROM canvasback_key_changes ORDER BY number LIMIT 8)
        AND number <= (SELECT max(number) FROM canvasback_key_changes) - 10000;
END;

CREATE TRIGGER canvasback_keys_inserted
AFTER INSERT ON canvasback_keys
BEGIN
    INSERT INTO canvasback_key_change
    VALUES (NEW.digest, NEW.digest, NEW.previous_digest, NEW.previous_digest);
END;

CREATE TRIGGER canvasback_keys_updated
AFTER UPDATE OF digest, previous_digest, previous_expires_at, active, expires_at, owner, scopes ON canvasback_keys
WHEN NEW.digest IS NOT OLD.digest
    OR NEW.previous_digest IS NOT OLD.previous_digest
    OR NEW.previous_expires_at IS NOT OLD.previous_expires_at
    OR NEW.active IS NOT OLD.active
    OR NEW.expires_at IS NOT OLD.expires_at
    OR NEW.owner IS NOT OLD.owner
    OR NEW.scopes IS NOT OLD.scopes
BEGIN
    INSERT INTO canvasback_key_change
    VALUES (OLD.digest, NEW.digest, OLD.previous_digest, NEW.previous_digest);
END;

CREATE TRIGGER canvasback_keys_deleted
AFTER DELETE ON canvasback_keys
BEGIN
    INSERT INTO canvasback_key_change
    VALUES (OLD.digest, OLD.digest, OLD.previous_digest, OLD.previous_digest);
END;

-- REPLACE deletes rows without firing the trigger above unless
-- recursive_triggers is on. A row with a digest of the new one needs no log for it.
CREATE TRIGGER canvasback_keys_replaced
BEFORE INSERT ON canvasback_keys
WHEN EXISTS (
    SELECT 1
    FROM canvasback_keys
    WHERE id = NEW.id OR digest = NEW.digest OR previous_digest = NEW.previous_digest
)
BEGIN
    INSERT INTO canvasback_key_change
    SELECT digest, digest, previous_digest, previous_digest
    FROM canvasback_keys
    WHERE id = NEW.id OR digest = NEW.digest OR previous_digest = NEW.previous_digest;
END;

-- The same for UPDATE OR REPLACE.
CREATE TRIGGER canvasback_keys_moved
BEFORE UPDATE OF id, digest, previous_digest ON canvasback_keys
WHEN NEW.id IS NOT OLD.id
    OR NEW.digest IS NOT OLD.digest
    OR NEW.previous_digest IS NOT OLD.previous_digest
BEGIN
    INSERT INTO canvasback_key_change
    SELECT digest, digest, previous_digest, previous_digest
    FROM canvasback_keys
    WHERE (NEW.id IS NOT OLD.id AND id IN (OLD.id, NEW.id))
        OR (id <> OLD.id AND (digest = NEW.digest OR previous_digest = NEW.previous_digest));
END;
