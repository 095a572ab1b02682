-- The public keys that check page tokens. Each stands behind the digest of its raw key:
-- a process of the previous version changes the digests only.
ALTER TABLE canvasback_keys
    ADD COLUMN public_key          bytea,
    ADD COLUMN previous_public_key bytea,
    ADD CONSTRAINT canvasback_keys_public_key_check CHECK (
        octet_length(public_key) = 64 AND octet_length(previous_public_key) = 64
    );
