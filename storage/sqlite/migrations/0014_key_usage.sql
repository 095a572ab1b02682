-- canvasback_key_usage has the accepted requests of each key by UTC day, as days since
-- 1970-01-01, and by the owner that the key had. Rows outlive their key.
CREATE TABLE canvasback_key_usage (
    key_id   INTEGER NOT NULL,
    day      INTEGER NOT NULL,
    owner    TEXT NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (key_id, day, owner)
) STRICT, WITHOUT ROWID;

CREATE INDEX canvasback_key_usage_day_idx ON canvasback_key_usage (day);
