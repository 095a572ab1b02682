-- The blocks of earlier facts have another length.
DELETE FROM canvasback_facts;

ALTER TABLE canvasback_facts ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
