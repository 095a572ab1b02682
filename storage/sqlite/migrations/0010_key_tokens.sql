-- The public keys that check page tokens. Each stands behind the digest of its raw key:
-- a process of the previous version changes the digests only.
ALTER TABLE canvasback_keys ADD COLUMN public_key BLOB CHECK (length(public_key) = 64);
ALTER TABLE canvasback_keys ADD COLUMN previous_public_key BLOB CHECK (length(previous_public_key) = 64);
