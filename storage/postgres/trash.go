package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/storage/internal/paging"
	"example.com/canvasback/symbols"
)

const (
	// trashSize is the size of symbols for the trash.
	trashSize = `coalesce(sum(octet_length(data)::bigint + octet_length(meta) + 1024), 0)`

	// moved inserts the symbols that a DELETE returns as moved. The entry of the trash is t.
	moved = `
		INSERT INTO canvasback_trash_symbols (id, trash_id, folder_id, created_at, name, type, tags, meta, data)
		SELECT moved.id, t.id, moved.folder_id, moved.created_at, moved.name, moved.type, moved.tags, moved.meta, moved.data
		FROM moved
		JOIN canvasback_trash AS t ON `
)

// execTx runs a statement in a transaction.
func (s symbolStore) execTx(ctx context.Context, tx pgx.Tx, statement string, args ...any) error {
	_, err := tx.Exec(ctx, s.db.sql(statement), args...)
	return err
}

// DeleteFolder locks the folder before it reads the symbols: nobody adds one then.
func (s symbolStore) DeleteFolder(ctx context.Context, id int64, d symbols.Deletion) error {
	return s.db.transact(ctx, func(tx pgx.Tx) error {
		folder, err := scanFolder(tx.QueryRow(ctx, s.db.sql(selectFolder+` FOR UPDATE`), id, s.tenant))
		switch {
		case err != nil:
			return err
		case !d.Match.Matches(folder.Version):
			return symbols.ErrChanged
		case d.Final:
			return s.execTx(ctx, tx, `DELETE FROM canvasback_folders WHERE id = $1`, id)
		}
		var entry int64
		err = tx.QueryRow(ctx, s.db.sql(`
			INSERT INTO canvasback_trash (tenant, folder_id, name, symbols, size, deleted_at, deleted_by)
			SELECT $5, $1, $2, count(*), `+trashSize+`, $3, $4
			FROM canvasback_symbols
			WHERE folder_id = $1
			RETURNING id`),
			id, folder.Name, d.At, d.By, s.tenant,
		).Scan(&entry)
		if err == nil {
			err = s.execTx(ctx, tx, `
				WITH moved AS (DELETE FROM canvasback_symbols WHERE folder_id = $1 RETURNING *)`+moved+`t.id = $2`,
				id, entry,
			)
		}
		if err == nil {
			err = s.execTx(ctx, tx, `DELETE FROM canvasback_folders WHERE id = $1`, id)
		}
		return err
	})
}

// errMoved means that a symbol was moved to another folder before its folder was locked.
var errMoved = errors.New("postgres: a symbol was moved")

// lockSymbols calls f in a transaction with the symbols, in the given order. Their folders
// are locked, as every change of a symbol does first.
func (s symbolStore) lockSymbols(ctx context.Context, ids []int64, f func(pgx.Tx, []symbols.SymbolInfo) error) error {
	for {
		err := s.db.transact(ctx, func(tx pgx.Tx) error {
			rows, _ := tx.Query(ctx, s.db.sql(`
				SELECT id
				FROM canvasback_folders
				WHERE tenant = $1 AND id IN (SELECT folder_id FROM canvasback_symbols WHERE id = ANY ($2::bigint[]))
				ORDER BY id
				FOR NO KEY UPDATE`),
				s.tenant, ids,
			)
			locked, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if err != nil {
				return err
			}
			rows, _ = tx.Query(ctx, s.db.sql(selectInfo+` WHERE s.id = ANY ($2::bigint[])`), s.tenant, ids)
			list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (symbols.SymbolInfo, error) { return scanInfo(row) })
			if err != nil {
				return err
			}
			found := make(map[int64]symbols.SymbolInfo, len(list))
			for _, info := range list {
				found[info.ID] = info
			}
			list = list[:0]
			for _, id := range ids {
				info, ok := found[id]
				if !ok {
					return &symbols.MissingError{Err: symbols.ErrSymbolNotFound, ID: id}
				}
				if !slices.Contains(locked, info.FolderID) {
					return errMoved
				}
				list = append(list, info)
			}
			return f(tx, list)
		})
		if !errors.Is(err, errMoved) {
			return err
		}
	}
}

func (s symbolStore) DeleteSymbols(ctx context.Context, ids []int64, d symbols.Deletion) error {
	return s.lockSymbols(ctx, ids, func(tx pgx.Tx, list []symbols.SymbolInfo) error {
		for _, info := range list {
			if !d.Match.Matches(info.Version) {
				return symbols.ErrChanged
			}
		}
		if d.Final {
			return s.execTx(ctx, tx, `DELETE FROM canvasback_symbols WHERE id = ANY ($1::bigint[])`, ids)
		}
		err := s.execTx(ctx, tx, `
			INSERT INTO canvasback_trash (tenant, folder_id, symbol_id, name, symbols, size, deleted_at, deleted_by)
			SELECT $4, folder_id, id, name, 0, `+trashSize+`, $2, $3
			FROM canvasback_symbols
			WHERE id = ANY ($1::bigint[])
			GROUP BY id
			ORDER BY id`,
			ids, d.At, d.By, s.tenant,
		)
		if err != nil {
			return err
		}
		return s.execTx(ctx, tx, `
			WITH moved AS (DELETE FROM canvasback_symbols WHERE id = ANY ($1::bigint[]) RETURNING *)`+moved+`t.symbol_id = moved.id`,
			ids,
		)
	})
}

// UpdateSymbols must lock the folders before the symbols, as UpdateSymbol does.
func (s symbolStore) UpdateSymbols(
	ctx context.Context, ids []int64, stamp symbols.Stamp, change func(*symbols.SymbolInfo) error,
) (changed int, err error) {
	for {
		changed, err = s.tryUpdateSymbols(ctx, ids, stamp, change)
		if !errors.Is(err, errMoved) {
			return changed, err
		}
	}
}

// tryUpdateSymbols reads without locks, and writes only if the versions are unchanged.
func (s symbolStore) tryUpdateSymbols(
	ctx context.Context, ids []int64, stamp symbols.Stamp, change func(*symbols.SymbolInfo) error,
) (changed int, err error) {
	list, err := s.FindSymbolInfos(ctx, ids)
	if err != nil {
		return 0, err
	}
	var changedIDs, versions, previous, folderIDs []int64
	var tags []string
	for _, id := range ids {
		i := slices.IndexFunc(list, func(info symbols.SymbolInfo) bool { return info.ID == id })
		if i < 0 {
			return 0, &symbols.MissingError{Err: symbols.ErrSymbolNotFound, ID: id}
		}
		info := list[i]
		if err := change(&info); err != nil {
			return 0, err
		}
		if info != list[i] {
			changedIDs, versions = append(changedIDs, id), append(versions, int64(info.Version))
			previous, folderIDs, tags = append(previous, list[i].FolderID), append(folderIDs, info.FolderID), append(tags, info.Tags.String())
		}
	}
	if len(changedIDs) == 0 {
		return 0, nil
	}
	err = s.db.transact(ctx, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, s.db.sql(`
			SELECT id
			FROM canvasback_folders
			WHERE id = ANY ($1::bigint[]) AND tenant = $2
			ORDER BY id
			FOR NO KEY UPDATE`),
			slices.Concat(previous, folderIDs), s.tenant,
		)
		locked, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		for _, id := range folderIDs {
			if !slices.Contains(locked, id) {
				return symbols.ErrFolderNotFound
			}
		}
		tag, err := tx.Exec(ctx, s.db.sql(`
			UPDATE canvasback_symbols AS s
			SET folder_id = given.folder_id, tags = given.tags, updated_at = $5, updated_by = $6
			FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) AS given (id, version, folder_id, tags)
			WHERE s.id = given.id AND s.version = given.version`),
			changedIDs, versions, folderIDs, tags, stamp.At, stamp.By,
		)
		if err == nil && int(tag.RowsAffected()) < len(changedIDs) {
			err = errMoved
		}
		return err
	})
	return len(changedIDs), err
}

// selectTrash selects what scanTrash reads: entries of a tenant that were deleted after a
// time.
const selectTrash = `
	SELECT id, coalesce(symbol_id, 0), folder_id, name, symbols, deleted_at, deleted_by
	FROM canvasback_trash
	WHERE tenant = $1 AND deleted_at > $2`

func scanTrash(row pgx.Row) (entry symbols.TrashEntry, err error) {
	err = row.Scan(
		&entry.ID, &entry.SymbolID, &entry.FolderID, &entry.Name, &entry.Symbols, &entry.DeletedAt, &entry.DeletedBy,
	)
	entry.DeletedAt = entry.DeletedAt.UTC()
	if errors.Is(err, pgx.ErrNoRows) {
		err = symbols.ErrTrashNotFound
	}
	return entry, err
}

func (s symbolStore) ListTrash(ctx context.Context, oldest time.Time, r symbols.Range) (symbols.TrashPage, error) {
	list, err := readRows(ctx, s.db, func(row pgx.CollectableRow) (symbols.TrashEntry, error) { return scanTrash(row) },
		selectTrash+` AND id > $3 ORDER BY id LIMIT $4::bigint`,
		s.tenant, oldest, r.After, paging.FetchLimit(r.Limit),
	)
	var page symbols.TrashPage
	page.Entries, page.More = paging.Cut(list, r.Limit)
	return page, err
}

func (s symbolStore) RestoreTrash(
	ctx context.Context, id int64, oldest time.Time, stamp symbols.Stamp, target func(symbols.TrashEntry) (int64, error),
) (restored symbols.Restored, err error) {
	err = s.db.transact(ctx, func(tx pgx.Tx) error {
		entry, err := scanTrash(tx.QueryRow(ctx, s.db.sql(selectTrash+` AND id = $3 FOR UPDATE`), s.tenant, oldest, id))
		if err != nil {
			return err
		}
		folderID, err := target(entry)
		if err != nil {
			return err
		}
		if entry.SymbolID == 0 {
			err := s.execTx(ctx, tx, `
				INSERT INTO canvasback_folders (id, name, tenant)
				OVERRIDING SYSTEM VALUE
				VALUES ($1, $2, $3)`,
				folderID, entry.Name, s.tenant,
			)
			if err != nil {
				return err
			}
		}
		folder, err := scanFolder(tx.QueryRow(ctx, s.db.sql(selectFolder+` FOR NO KEY UPDATE`), folderID, s.tenant))
		if err != nil {
			return err
		}
		err = s.execTx(ctx, tx, `
			WITH restored AS (DELETE FROM canvasback_trash_symbols WHERE trash_id = $1 RETURNING *)
			INSERT INTO canvasback_symbols (id, folder_id, name, type, data, `+detailColumns+`)
			OVERRIDING SYSTEM VALUE
			SELECT id, $2, name, type, data, tags, meta, created_at, $3, $4
			FROM restored`,
			id, folderID, stamp.At, stamp.By,
		)
		if err == nil {
			err = s.execTx(ctx, tx, `DELETE FROM canvasback_trash WHERE id = $1`, id)
		}
		restored = symbols.Restored{Folder: &folder}
		if err == nil && entry.SymbolID != 0 {
			symbol, err := scanSymbol(tx.QueryRow(ctx, s.db.sql(selectSymbol), s.tenant, entry.SymbolID))
			restored = symbols.Restored{Symbol: &symbol}
			return err
		}
		return err
	})
	if err != nil {
		return symbols.Restored{}, err
	}
	return restored, nil
}

func (s symbolStore) DeleteTrash(ctx context.Context, id int64, oldest time.Time) error {
	return s.db.transact(ctx, func(tx pgx.Tx) error {
		_, err := scanTrash(tx.QueryRow(ctx, s.db.sql(selectTrash+` AND id = $3 FOR UPDATE`), s.tenant, oldest, id))
		if err == nil {
			err = s.execTx(ctx, tx, `DELETE FROM canvasback_trash_symbols WHERE trash_id = $1`, id)
		}
		if err == nil {
			err = s.execTx(ctx, tx, `DELETE FROM canvasback_trash WHERE id = $1`, id)
		}
		return err
	})
}

// PruneTrash removes the symbols of an entry before it. Nobody restores it meanwhile,
// because it is marked as expired.
func (s symbolStore) PruneTrash(ctx context.Context, oldest time.Time, size int64) (more bool, err error) {
	const step = 200 // rows
	var last int64
	err = s.db.readRow(ctx, `
		SELECT coalesce(max(id), 0)
		FROM (
			SELECT id, deleted_at, sum(size) OVER (ORDER BY id DESC) AS total
			FROM canvasback_trash
			WHERE tenant = $1
		) AS entry
		WHERE deleted_at <= $2 OR total > $3`,
		s.tenant, oldest, size,
	).Scan(&last)
	if err != nil || last == 0 {
		return false, err
	}
	const oldestEntries = ` IN (SELECT id FROM canvasback_trash WHERE tenant = $1 AND id <= $2 ORDER BY id LIMIT $3)`
	_, err = s.db.exec(ctx, `UPDATE canvasback_trash SET deleted_at = 'epoch' WHERE id`+oldestEntries, s.tenant, last, step)
	if err != nil {
		return false, err
	}
	rows, err := s.db.exec(ctx, `
		DELETE FROM canvasback_trash_symbols
		WHERE id IN (SELECT id FROM canvasback_trash_symbols WHERE trash_id`+oldestEntries+` LIMIT $3)`,
		s.tenant, last, step,
	)
	if err != nil {
		return false, err
	}
	entries, err := s.db.exec(ctx, `
		DELETE FROM canvasback_trash AS t
		WHERE t.id`+oldestEntries+` AND NOT EXISTS (SELECT FROM canvasback_trash_symbols WHERE trash_id = t.id)`,
		s.tenant, last, step,
	)
	return entries == step || rows == step, err
}
