-- A restored folder may have had other contents before it was deleted, so its contents
-- have changed, too.
DROP TRIGGER canvasback_folders_inserted;

CREATE TRIGGER canvasback_folders_inserted
AFTER INSERT ON canvasback_folders
BEGIN
    INSERT INTO canvasback_list_change VALUES (NEW.tenant);

    UPDATE canvasback_folders
    SET changed = (SELECT number FROM canvasback_clock)
    WHERE id = NEW.id;
END;
