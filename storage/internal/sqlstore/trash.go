package sqlstore

import (
	"context"
	"math"
	"slices"
	"time"

	"example.com/canvasback/storage/internal/paging"
	"example.com/canvasback/symbols"
)

const (
	// trashSize is the size of symbols s for the trash.
	trashSize = `coalesce(sum(octet_length(s.data) + octet_length(s.meta) + octet_length(s.tags) + 1024), 0)`

	// copySymbols copies symbols s to the entry t of the trash. A join and a condition follow.
	copySymbols = `
		INSERT INTO canvasback_trash_symbols (id, trash_id, folder_id, created_at, name, type, tags, meta, data)
		SELECT s.id, t.id, s.folder_id, s.created_at, s.name, s.type, s.tags, s.meta, s.data
		FROM canvasback_symbols AS s
		JOIN canvasback_trash AS t ON `
)

// DeleteFolder locks the folder before it reads the symbols: nobody adds one then.
func (s Symbols) DeleteFolder(ctx context.Context, id int64, d symbols.Deletion) error {
	return s.DB.Transact(ctx, func(tx Tx) error {
		folder, err := s.lockFolder(ctx, tx, id)
		if err == nil && !d.Match.Matches(folder.Version) {
			err = symbols.ErrChanged
		}
		var entry int64
		if err == nil && !d.Final {
			err = tx.QueryRow(ctx, `
				INSERT INTO canvasback_trash (tenant, folder_id, name, symbols, size, deleted_at, deleted_by)
				SELECT $5, $1, $2, count(*), 1024 + `+trashSize+`, $3, $4
				FROM canvasback_symbols AS s
				WHERE s.folder_id = $1
				RETURNING id`,
				id, folder.Name, d.At, d.By, s.Of,
			).Scan(&entry)
		}
		if err == nil && !d.Final {
			_, err = tx.Exec(ctx, copySymbols+`t.id = $1 WHERE s.folder_id = $2`, entry, id)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM canvasback_folders WHERE id = $1`, id)
		}
		return err
	})
}

func (s Symbols) DeleteSymbols(ctx context.Context, ids []int64, d symbols.Deletion) error {
	return retryMoved(func() error {
		return s.DB.Transact(ctx, func(tx Tx) error { return s.tryDeleteSymbols(ctx, tx, ids, d) })
	})
}

// tryDeleteSymbols locks the folders first, as every change of a symbol does.
func (s Symbols) tryDeleteSymbols(ctx context.Context, tx Tx, ids []int64, d symbols.Deletion) error {
	locked, err := s.lockFolders(ctx, tx, `IN (SELECT folder_id FROM canvasback_symbols WHERE id = ANY ($2::bigint[]))`, ids)
	if err != nil {
		return err
	}
	list, err := s.findInOrder(ctx, tx, ids)
	if err != nil {
		return err
	}
	for _, info := range list {
		if !slices.Contains(locked, info.FolderID) {
			return errMoved
		}
		if !d.Match.Matches(info.Version) {
			return symbols.ErrChanged
		}
	}
	if !d.Final {
		_, err := tx.Exec(ctx, `
			INSERT INTO canvasback_trash (tenant, folder_id, symbol_id, name, symbols, size, deleted_at, deleted_by)
			SELECT $4, s.folder_id, s.id, s.name, 0, `+trashSize+`, $2, $3
			FROM canvasback_symbols AS s
			WHERE s.id = ANY ($1::bigint[])
			GROUP BY s.id
			ORDER BY s.id`,
			ids, d.At, d.By, s.Of,
		)
		if err == nil {
			_, err = tx.Exec(ctx, copySymbols+`t.symbol_id = s.id WHERE s.id = ANY ($1::bigint[])`, ids)
		}
		if err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `DELETE FROM canvasback_symbols WHERE id = ANY ($1::bigint[])`, ids)
	return err
}

// selectTrash selects what scanTrash reads: entries of a tenant that were deleted after a
// time.
const selectTrash = `
	SELECT id, coalesce(symbol_id, 0), folder_id, name, symbols, size, deleted_at, deleted_by
	FROM canvasback_trash
	WHERE tenant = $1 AND deleted_at > $2`

func scanTrash(row Row, entry *symbols.TrashEntry) error {
	err := row.Scan(
		&entry.ID, &entry.SymbolID, &entry.FolderID, &entry.Name, &entry.Symbols, &entry.Size, (*Time)(&entry.DeletedAt), &entry.DeletedBy,
	)
	return orMissing(err, symbols.ErrTrashNotFound)
}

func (s Symbols) lockTrash(ctx context.Context, tx Tx, id int64, oldest time.Time) (symbols.TrashEntry, error) {
	return One(tx.QueryRow(ctx, selectTrash+` AND id = $3 FOR UPDATE`, s.Of, oldest, id), scanTrash)
}

func (s Symbols) ListTrash(ctx context.Context, oldest time.Time, r symbols.Range) (page symbols.TrashPage, err error) {
	list, err := List(ctx, s.DB, scanTrash, selectTrash+` AND id > $3 ORDER BY id LIMIT CAST($4 AS bigint)`,
		s.Of, oldest, r.After, paging.FetchLimit(r.Limit),
	)
	page.Entries, page.More = paging.Cut(list, r.Limit)
	return page, err
}

func (s Symbols) RestoreTrash(
	ctx context.Context, id int64, oldest time.Time, stamp symbols.Stamp, target func(symbols.TrashEntry) (int64, error),
) (restored symbols.Restored, err error) {
	err = s.DB.Transact(ctx, func(tx Tx) error {
		entry, err := s.lockTrash(ctx, tx, id, oldest)
		if err != nil {
			return err
		}
		folderID, err := target(entry)
		if err != nil {
			return err
		}
		if entry.SymbolID == 0 {
			affected, err := tx.Exec(ctx, `
				INSERT INTO canvasback_folders (id, name, tenant)
				OVERRIDING SYSTEM VALUE
				VALUES ($1, $2, $3)
				ON CONFLICT (tenant, name) DO NOTHING`,
				folderID, s.Prefix+entry.Name, s.Of,
			)
			if err := require(affected, err, symbols.ErrFolderNameTaken); err != nil {
				return err
			}
		}
		folder, err := One(tx.QueryRow(ctx, selectFolder+` FOR NO KEY UPDATE`, folderID, s.Of), s.scanFolder)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO canvasback_symbols (id, folder_id, name, type, data, tags, meta, created_at, updated_at, updated_by)
			OVERRIDING SYSTEM VALUE
			SELECT id, $2, name, type, CASE WHEN octet_length(data) <= $5 THEN data ELSE '' END,
				tags, meta, created_at, $3, $4
			FROM canvasback_trash_symbols
			WHERE trash_id = $1
			ORDER BY id`,
			id, folderID, stamp.At, stamp.By, symbols.LargeSize,
		)
		if err == nil { // SQLite would have four copies of large data
			_, err = tx.Exec(ctx, `
				UPDATE canvasback_symbols
				SET data = (SELECT t.data FROM canvasback_trash_symbols AS t WHERE t.id = canvasback_symbols.id)
				WHERE id IN (
					SELECT id
					FROM canvasback_trash_symbols
					WHERE trash_id = $1 AND octet_length(data) > $2
				)`,
				id, symbols.LargeSize,
			)
		}
		if err == nil {
			err = removeTrash(ctx, tx, id)
		}
		restored = symbols.Restored{Folder: &folder}
		if err == nil && entry.SymbolID != 0 {
			restored = symbols.Restored{Symbol: new(symbols.Symbol)}
			*restored.Symbol, err = One(tx.QueryRow(ctx, selectSymbol, s.Of, entry.SymbolID, math.MaxInt32), scanSymbol)
		}
		return err
	})
	return restored, err
}

func (s Symbols) DeleteTrash(ctx context.Context, id int64, oldest time.Time) error {
	return s.DB.Transact(ctx, func(tx Tx) error {
		_, err := s.lockTrash(ctx, tx, id, oldest)
		if err == nil {
			err = removeTrash(ctx, tx, id)
		}
		return err
	})
}

func removeTrash(ctx context.Context, tx Tx, id int64) error {
	_, err := tx.Exec(ctx, `DELETE FROM canvasback_trash_symbols WHERE trash_id = $1`, id)
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM canvasback_trash WHERE id = $1`, id)
	}
	return err
}

// PruneTrash first looks whether there is something to do, which does not wait for
// writers. Only if there is, it computes running totals, which takes four times as long. It
// removes the symbols of an entry before it. Nobody restores it meanwhile, because it is
// marked as expired. The entries are chosen once, because each statement of a transaction
// may see another state.
func (s Symbols) PruneTrash(ctx context.Context, oldest time.Time, size int64) (more bool, err error) {
	const step = 200 // rows
	ids, err := List(ctx, s.DB, scanID, `
		SELECT id
		FROM (
			SELECT id, deleted_at, sum(size) OVER (ORDER BY id DESC) AS total
			FROM canvasback_trash
			WHERE tenant = $1
				AND (SELECT sum(size) > $3 OR min(deleted_at) <= $2 FROM canvasback_trash WHERE tenant = $1)
		) AS entry
		WHERE deleted_at <= $2 OR total > $3
		ORDER BY id
		LIMIT CAST($4 AS bigint)`,
		s.Of, oldest, size, step,
	)
	if err != nil || len(ids) == 0 {
		return false, err
	}
	expired := time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC) // for any lifetime
	err = s.DB.Transact(ctx, func(tx Tx) error {
		_, err := tx.Exec(ctx, `UPDATE canvasback_trash SET deleted_at = $2 WHERE id = ANY ($1::bigint[])`, ids, expired)
		if err != nil {
			return err
		}
		rows, err := tx.Exec(ctx, `
			DELETE FROM canvasback_trash_symbols
			WHERE id IN (
				SELECT id
				FROM canvasback_trash_symbols
				WHERE trash_id = ANY ($1::bigint[])
				LIMIT CAST($2 AS bigint)
			)`,
			ids, step,
		)
		if err != nil {
			return err
		}
		entries, err := tx.Exec(ctx, `
			DELETE FROM canvasback_trash
			WHERE id = ANY ($1::bigint[])
				AND NOT EXISTS (SELECT 1 FROM canvasback_trash_symbols WHERE trash_id = canvasback_trash.id)`,
			ids,
		)
		more = entries == step || rows == step
		return err
	})
	return more, err
}
