package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"example.com/canvasback/storage/internal/paging"
	"example.com/canvasback/symbols"
)

// trashSize is the size of symbols s for the trash.
const trashSize = `coalesce(sum(octet_length(s.data) + octet_length(s.meta) + 1024), 0)`

// moveSymbols moves symbols s to the entry of the trash with the id t.id, except for their
// deletion. A condition follows.
const moveSymbols = `
	INSERT INTO canvasback_trash_symbols (id, trash_id, folder_id, created_at, name, type, tags, meta, data)
	SELECT
		s.id, t.id, s.folder_id, coalesce(s.created_at, (SELECT migrated_at FROM canvasback_symbol_details)),
		s.name, s.type, s.tags, s.meta, s.data
	FROM canvasback_symbols AS s `

func (s symbolStore) DeleteFolder(ctx context.Context, id int64, d symbols.Deletion) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		folder, err := s.scanFolder(conn.QueryRowContext(ctx, selectFolder, id, s.tenant))
		switch {
		case err != nil:
			return err
		case !d.Match.Matches(folder.Version):
			return symbols.ErrChanged
		}
		if !d.Final {
			var entry int64
			err := conn.QueryRowContext(ctx, `
				INSERT INTO canvasback_trash (tenant, folder_id, name, symbols, size, deleted_at, deleted_by)
				SELECT ?5, ?1, ?2, count(*), `+trashSize+`, ?3, ?4
				FROM canvasback_symbols AS s
				WHERE s.folder_id = ?1
				RETURNING id`,
				id, folder.Name, d.At.UnixMilli(), d.By, s.tenant,
			).Scan(&entry)
			if err == nil {
				_, err = conn.ExecContext(ctx, moveSymbols+`
					JOIN canvasback_trash AS t ON t.id = ?
					WHERE s.folder_id = ?`,
					entry, id,
				)
			}
			if err != nil {
				return err
			}
		}
		_, err = conn.ExecContext(ctx, `
			DELETE FROM canvasback_folders
			WHERE id = ?`,
			id,
		)
		return err
	})
}

func (s symbolStore) DeleteSymbols(ctx context.Context, ids []int64, d symbols.Deletion) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		found, err := s.findInfos(ctx, conn, ids)
		if err != nil {
			return err
		}
		for _, info := range found {
			if !d.Match.Matches(info.Version) {
				return symbols.ErrChanged
			}
		}
		if !d.Final {
			_, err := conn.ExecContext(ctx, `
				INSERT INTO canvasback_trash (tenant, folder_id, symbol_id, name, symbols, size, deleted_at, deleted_by)
				SELECT ?, s.folder_id, s.id, s.name, 0, `+trashSize+`, ?, ?
				FROM canvasback_symbols AS s
				WHERE s.id IN (SELECT value FROM json_each(?))
				GROUP BY s.id
				ORDER BY s.id`,
				s.tenant, d.At.UnixMilli(), d.By, jsonArray(ids),
			)
			if err == nil {
				_, err = conn.ExecContext(ctx, moveSymbols+`
					JOIN canvasback_trash AS t ON t.symbol_id = s.id
					WHERE s.id IN (SELECT value FROM json_each(?))`,
					jsonArray(ids),
				)
			}
			if err != nil {
				return err
			}
		}
		_, err = conn.ExecContext(ctx, `
			DELETE FROM canvasback_symbols
			WHERE id IN (SELECT value FROM json_each(?))`,
			jsonArray(ids),
		)
		return err
	})
}

// findInfos returns the symbols with the given ids, in this order, or a MissingError.
func (s symbolStore) findInfos(ctx context.Context, conn *sql.Conn, ids []int64) ([]symbols.SymbolInfo, error) {
	statement, err := conn.PrepareContext(ctx, selectInfo+` WHERE s.id = ?`)
	if err != nil {
		return nil, err
	}
	defer statement.Close()
	list := make([]symbols.SymbolInfo, len(ids))
	for i, id := range ids {
		list[i], err = scanInfo(statement.QueryRowContext(ctx, s.tenant, id))
		if errors.Is(err, sql.ErrNoRows) {
			err = &symbols.MissingError{Err: symbols.ErrSymbolNotFound, ID: id}
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (s symbolStore) UpdateSymbols(
	ctx context.Context, ids []int64, stamp symbols.Stamp, change func(*symbols.SymbolInfo) error,
) (changed int, err error) {
	err = s.db.write(ctx, func(conn *sql.Conn) error {
		list, err := s.findInfos(ctx, conn, ids)
		if err != nil {
			return err
		}
		update, err := conn.PrepareContext(ctx, `
			UPDATE canvasback_symbols
			SET folder_id = ?, tags = ?, updated_at = ?, updated_by = ?
			WHERE id = ?`)
		if err != nil {
			return err
		}
		defer update.Close()
		for _, stored := range list {
			info := stored
			if err := change(&info); err != nil {
				return err
			}
			if info == stored {
				continue
			}
			if err := s.requireFolder(ctx, conn, info.FolderID); err != nil {
				return err
			}
			_, err := update.ExecContext(ctx, info.FolderID, info.Tags.String(), stamp.At.UnixMilli(), stamp.By, info.ID)
			if err != nil {
				return err
			}
			changed++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

// selectTrash selects what scanTrash reads: entries of a tenant that were deleted after a
// time.
const selectTrash = `
	SELECT id, coalesce(symbol_id, 0), folder_id, name, symbols, deleted_at, deleted_by
	FROM canvasback_trash
	WHERE tenant = ? AND deleted_at > ?`

func scanTrash(row scanner) (entry symbols.TrashEntry, err error) {
	var deletedAt sql.NullInt64
	err = row.Scan(
		&entry.ID, &entry.SymbolID, &entry.FolderID, &entry.Name, &entry.Symbols, &deletedAt, &entry.DeletedBy,
	)
	entry.DeletedAt = fromMillis(deletedAt)
	if errors.Is(err, sql.ErrNoRows) {
		err = symbols.ErrTrashNotFound
	}
	return entry, err
}

func (s symbolStore) ListTrash(ctx context.Context, oldest time.Time, r symbols.Range) (symbols.TrashPage, error) {
	list, err := queryAll(ctx, s.db, func(rows *sql.Rows) (symbols.TrashEntry, error) { return scanTrash(rows) },
		selectTrash+` AND id > ? ORDER BY id LIMIT ? + 0`,
		s.tenant, oldest.UnixMilli(), r.After, paging.FetchLimit(r.Limit),
	)
	var page symbols.TrashPage
	page.Entries, page.More = paging.Cut(list, r.Limit)
	return page, err
}

func (s symbolStore) RestoreTrash(
	ctx context.Context, id int64, oldest time.Time, stamp symbols.Stamp, target func(symbols.TrashEntry) (int64, error),
) (restored symbols.Restored, err error) {
	err = s.db.write(ctx, func(conn *sql.Conn) error {
		entry, err := scanTrash(conn.QueryRowContext(ctx, selectTrash+` AND id = ?`, s.tenant, oldest.UnixMilli(), id))
		if err != nil {
			return err
		}
		folderID, err := target(entry)
		if err != nil {
			return err
		}
		if entry.SymbolID == 0 {
			result, err := conn.ExecContext(ctx, `
				INSERT INTO canvasback_folders (id, name, tenant)
				VALUES (?, ?, ?)
				ON CONFLICT (name) DO NOTHING`,
				folderID, s.prefix+entry.Name, s.tenant,
			)
			if err := requireRow(result, err, symbols.ErrFolderNameTaken); err != nil {
				return err
			}
		}
		if err := s.requireFolder(ctx, conn, folderID); err != nil {
			return err
		}
		_, err = conn.ExecContext(ctx, `
			INSERT INTO canvasback_symbols (id, folder_id, name, type, data, tags, meta, created_at, updated_at, updated_by)
			SELECT id, ?, name, type, data, tags, meta, created_at, ?, ?
			FROM canvasback_trash_symbols
			WHERE trash_id = ?
			ORDER BY id`,
			folderID, stamp.At.UnixMilli(), stamp.By, id,
		)
		if err == nil {
			err = deleteTrash(ctx, conn, id)
		}
		if err != nil {
			return err
		}
		if entry.SymbolID != 0 {
			symbol, err := scanSymbol(conn.QueryRowContext(ctx, selectSymbol, s.tenant, entry.SymbolID))
			restored.Symbol = &symbol
			return err
		}
		folder, err := s.scanFolder(conn.QueryRowContext(ctx, selectFolder, folderID, s.tenant))
		restored.Folder = &folder
		return err
	})
	if err != nil {
		return symbols.Restored{}, err
	}
	return restored, nil
}

func deleteTrash(ctx context.Context, conn *sql.Conn, id int64) error {
	_, err := conn.ExecContext(ctx, `DELETE FROM canvasback_trash_symbols WHERE trash_id = ?`, id)
	if err == nil {
		_, err = conn.ExecContext(ctx, `DELETE FROM canvasback_trash WHERE id = ?`, id)
	}
	return err
}

func (s symbolStore) DeleteTrash(ctx context.Context, id int64, oldest time.Time) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		_, err := scanTrash(conn.QueryRowContext(ctx, selectTrash+` AND id = ?`, s.tenant, oldest.UnixMilli(), id))
		if err != nil {
			return err
		}
		return deleteTrash(ctx, conn, id)
	})
}

// PruneTrash first looks whether there is something to do, which does not wait for
// writers.
func (s symbolStore) PruneTrash(ctx context.Context, oldest time.Time, size int64) (more bool, err error) {
	const step = 200 // rows
	var last int64
	err = s.db.queryRow(ctx, `
		SELECT coalesce(max(id), 0)
		FROM (
			SELECT id, deleted_at, sum(size) OVER (ORDER BY id DESC) AS total
			FROM canvasback_trash
			WHERE tenant = ?
		)
		WHERE deleted_at <= ? OR total > ?`,
		s.tenant, oldest.UnixMilli(), size,
	).Scan(&last)
	if err != nil || last == 0 {
		return false, err
	}
	// The symbols of an entry are removed before it, and nobody restores it meanwhile.
	const oldestEntries = ` IN (SELECT id FROM canvasback_trash WHERE tenant = ?1 AND id <= ?2 ORDER BY id LIMIT ?3)`
	err = s.db.write(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, `UPDATE canvasback_trash SET deleted_at = 0 WHERE id`+oldestEntries, s.tenant, last, step)
		if err != nil {
			return err
		}
		rows, err := affected(conn.ExecContext(ctx, `
			DELETE FROM canvasback_trash_symbols
			WHERE id IN (SELECT id FROM canvasback_trash_symbols WHERE trash_id`+oldestEntries+` LIMIT ?3)`,
			s.tenant, last, step,
		))
		if err != nil {
			return err
		}
		entries, err := affected(conn.ExecContext(ctx, `
			DELETE FROM canvasback_trash
			WHERE id`+oldestEntries+`
				AND NOT EXISTS (SELECT 1 FROM canvasback_trash_symbols WHERE trash_id = canvasback_trash.id)`,
			s.tenant, last, step,
		))
		more = entries == step || rows == step
		return err
	})
	return more, err
}

func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
