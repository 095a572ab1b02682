-- Searches scan the source URLs, so a registration writes one row instead of 25.
-- canvasback_export_chunks stays for processes of the previous version. These do not find
-- exports that are registered from now on, unless they search for less than four bytes.
-- They ignore the chunks of deleted exports.
DROP TRIGGER canvasback_exports_changed ON canvasback_exports;
DROP TRIGGER canvasback_exports_updated ON canvasback_exports;
DROP TRIGGER canvasback_exports_truncated ON canvasback_exports;
