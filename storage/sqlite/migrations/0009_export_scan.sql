-- Searches scan the source URLs, so a registration writes one row instead of 25.
-- canvasback_export_chunks and canvasback_export_offsets stay for processes of the
-- previous version. These do not find exports that are registered from now on, unless
-- they search for less than four bytes. They ignore the chunks of deleted exports.
DROP TRIGGER canvasback_exports_inserted;
DROP TRIGGER canvasback_exports_deleted;
DROP TRIGGER canvasback_exports_updated;
