-- canvasback_key_changes is the log of the digests whose lookup changes of keys
-- may affect. A change raises the epoch and appends its digests under the new
-- epoch, in that order and in one transaction, so the order of the log is the
-- order of commits.
--
-- Numbers are consecutive. The log after an epoch is therefore complete if it has
-- a row with that epoch, and one for each higher number up to the last, which has
-- the current epoch.

ALTER TABLE canvasback_keys ADD COLUMN use_count INTEGER NOT NULL DEFAULT 0;

CREATE TABLE canvasback_key_changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch  INTEGER NOT NULL,
    digest BLOB -- NULL in a row that records only the epoch
) STRICT;

CREATE INDEX canvasback_key_changes_epoch_idx ON canvasback_key_changes (epoch);

INSERT INTO canvasback_key_changes (epoch)
SELECT epoch
FROM canvasback_key_epoch;

DROP TRIGGER canvasback_keys_inserted;
DROP TRIGGER canvasback_keys_updated;
DROP TRIGGER canvasback_keys_deleted;

-- An insertion into this view raises the epoch and logs a digest, or two.
CREATE VIEW canvasback_key_change (digest, other_digest) AS
SELECT NULL, NULL;

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

    DELETE FROM canvasback_key_changes
    WHERE number IN (SELECT number FROM canvasback_key_changes ORDER BY number LIMIT 4)
        AND number <= (SELECT max(number) FROM canvasback_key_changes) - 10000;
END;

-- Without an epoch nothing is logged.
CREATE TRIGGER canvasback_key_epoch_deleted
AFTER DELETE ON canvasback_key_epoch
BEGIN
    DELETE FROM canvasback_key_changes;
END;

CREATE TRIGGER canvasback_keys_inserted
AFTER INSERT ON canvasback_keys
BEGIN
    INSERT INTO canvasback_key_change VALUES (NEW.digest, NEW.digest);
END;

CREATE TRIGGER canvasback_keys_updated
AFTER UPDATE OF digest, active, expires_at ON canvasback_keys
WHEN NEW.digest IS NOT OLD.digest
    OR NEW.active IS NOT OLD.active
    OR NEW.expires_at IS NOT OLD.expires_at
BEGIN
    INSERT INTO canvasback_key_change VALUES (OLD.digest, NEW.digest);
END;

CREATE TRIGGER canvasback_keys_deleted
AFTER DELETE ON canvasback_keys
BEGIN
    INSERT INTO canvasback_key_change VALUES (OLD.digest, OLD.digest);
END;

-- REPLACE deletes rows without firing the trigger above unless
-- recursive_triggers is on. A row with the digest of the new one needs no log.
CREATE TRIGGER canvasback_keys_replaced
BEFORE INSERT ON canvasback_keys
WHEN EXISTS (SELECT 1 FROM canvasback_keys WHERE id = NEW.id)
BEGIN
    INSERT INTO canvasback_key_change
    SELECT digest, digest
    FROM canvasback_keys
    WHERE id = NEW.id;
END;

CREATE TRIGGER canvasback_keys_moved
BEFORE UPDATE OF id ON canvasback_keys
WHEN NEW.id IS NOT OLD.id
BEGIN
    INSERT INTO canvasback_key_change
    VALUES (OLD.digest, (SELECT digest FROM canvasback_keys WHERE id = NEW.id));
END;
