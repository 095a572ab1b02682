-- Browsers read JSON numbers exactly up to 2^53 - 1, so no record gets a higher id.
-- NOT VALID: checking the existing rows would read all of them under a lock.

ALTER TABLE canvasback_keys ADD CONSTRAINT canvasback_keys_id_check
    CHECK (id <= 9007199254740991) NOT VALID;
ALTER TABLE canvasback_folders ADD CONSTRAINT canvasback_folders_id_check
    CHECK (id <= 9007199254740991) NOT VALID;
ALTER TABLE canvasback_symbols ADD CONSTRAINT canvasback_symbols_id_check
    CHECK (id <= 9007199254740991) NOT VALID;
ALTER TABLE canvasback_exports ADD CONSTRAINT canvasback_exports_id_check
    CHECK (id <= 9007199254740991) NOT VALID;
