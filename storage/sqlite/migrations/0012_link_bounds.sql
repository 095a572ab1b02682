-- The client that made a link, and the size of its plan, for the limits of each owner.
-- A process of the previous version makes links of size 0 and of no client.
ALTER TABLE canvasback_links ADD COLUMN client BLOB NOT NULL DEFAULT x'' CHECK (length(client) IN (0, 32));
ALTER TABLE canvasback_links ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
UPDATE canvasback_links SET size = length(plan);

CREATE INDEX canvasback_links_owner_client_size_idx ON canvasback_links (owner, client, size);
