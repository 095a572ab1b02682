-- Browsers read JSON numbers exactly up to 2^53 - 1, so no record gets a higher id.
-- A CHECK cannot be added to a table, and a trigger before the insertion does not
-- know the id.

CREATE TRIGGER canvasback_keys_id_checked
AFTER INSERT ON canvasback_keys
WHEN NEW.id > 9007199254740991
BEGIN
    SELECT RAISE(ABORT, 'id exceeds 2^53 - 1');
END;

CREATE TRIGGER canvasback_folders_id_checked
AFTER INSERT ON canvasback_folders
WHEN NEW.id > 9007199254740991
BEGIN
    SELECT RAISE(ABORT, 'id exceeds 2^53 - 1');
END;

CREATE TRIGGER canvasback_symbols_id_checked
AFTER INSERT ON canvasback_symbols
WHEN NEW.id > 9007199254740991
BEGIN
    SELECT RAISE(ABORT, 'id exceeds 2^53 - 1');
END;

CREATE TRIGGER canvasback_exports_id_checked
AFTER INSERT ON canvasback_exports
WHEN NEW.id > 9007199254740991
BEGIN
    SELECT RAISE(ABORT, 'id exceeds 2^53 - 1');
END;
