-- The client that made a link, and the size of its plan, for the limits of each owner.
-- A process of the previous version makes links of size 0 and of no client.
ALTER TABLE canvasback_links
    ADD COLUMN client bytea  NOT NULL DEFAULT '',
    ADD COLUMN size   bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT canvasback_links_client_check CHECK (octet_length(client) IN (0, 32));
UPDATE canvasback_links SET size = octet_length(plan);
