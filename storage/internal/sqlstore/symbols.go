package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"example.com/canvasback/storage/internal/paging"
	"example.com/canvasback/symbols"
)

// Symbols has methods of a [symbols.Store].
type Symbols struct {
	DB     DB
	Of     string // tenant
	Prefix string // of the names of its folders, as they are stored

	// Large is held while a large symbol is read, unless it is nil: the driver has a copy
	// of the data in memory that Go does not limit.
	Large chan struct{}
}

func (s Symbols) ListFolders(ctx context.Context, r symbols.Range) (page symbols.FolderPage, err error) {
	index := "" // of other tenants than ""
	if s.Of != "" {
		index = ` AND folder.tenant <> ''`
	}
	list, err := List(ctx, s.DB, func(row Row, folder *symbols.Folder) error {
		err := row.Scan(&page.Version, &folder.ID, &folder.Name, &folder.Version)
		folder.Name = strings.TrimPrefix(folder.Name, s.Prefix)
		return err
	}, `
		SELECT list.version, coalesce(folder.id, 0), coalesce(folder.name, ''), coalesce(folder.version, 0)
		FROM (SELECT `+s.listVersion()+` AS version) AS list
		LEFT JOIN canvasback_folders AS folder ON folder.id > $2 AND folder.tenant = $1`+index+`
		ORDER BY folder.id
		LIMIT CAST($3 AS bigint)`,
		s.Of, r.After, paging.FetchLimit(r.Limit),
	)
	if len(list) == 1 && list[0].ID == 0 { // only the version
		list = nil
	}
	page.Folders, page.More = paging.Cut(list, r.Limit)
	page.Version = s.versionOfList(page.Version)
	return page, err
}

// listVersion selects the version of the folder list of the tenant $1, or 0 if the tenant
// never had a folder.
func (s Symbols) listVersion() string {
	if s.Of == "" {
		return `(SELECT version FROM canvasback_folder_list WHERE CAST($1 AS text) = '')`
	}
	return `coalesce((SELECT version FROM canvasback_tenant_lists WHERE tenant = CAST($1 AS text)), 0)`
}

// versionOfList replaces 0 by a version derived from the tenant.
func (s Symbols) versionOfList(version symbols.Version) symbols.Version {
	return cmp.Or(version, 1<<32+symbols.Version(crc32.ChecksumIEEE([]byte(s.Of))))
}

// selectFolder selects what scanFolder reads, by id and tenant.
const selectFolder = `
	SELECT id, name, version
	FROM canvasback_folders
	WHERE id = $1 AND tenant = $2`

func (s Symbols) scanFolder(row Row, folder *symbols.Folder) error {
	err := row.Scan(&folder.ID, &folder.Name, &folder.Version)
	folder.Name = strings.TrimPrefix(folder.Name, s.Prefix)
	return orMissing(err, symbols.ErrFolderNotFound)
}

// lockFolder returns a folder, and locks it and its symbols.
func (s Symbols) lockFolder(ctx context.Context, tx Tx, id int64) (symbols.Folder, error) {
	return One(tx.QueryRow(ctx, selectFolder+` FOR UPDATE`, id, s.Of), s.scanFolder)
}

func (s Symbols) GetFolder(ctx context.Context, id int64) (symbols.Folder, error) {
	return One(s.DB.QueryRow(ctx, selectFolder, id, s.Of), s.scanFolder)
}

func (s Symbols) InsertFolder(ctx context.Context, folder symbols.Folder) (symbols.Folder, error) {
	err := s.DB.WriteRow(ctx, `
		INSERT INTO canvasback_folders (name, tenant)
		VALUES ($1, $2)
		ON CONFLICT (tenant, name) DO NOTHING
		RETURNING id, version`,
		s.Prefix+folder.Name, s.Of,
	).Scan(&folder.ID, &folder.Version)
	return folder, orMissing(err, symbols.ErrFolderNameTaken)
}

func (s Symbols) UpdateFolder(ctx context.Context, id int64, change func(*symbols.Folder) error) (folder symbols.Folder, err error) {
	err = s.DB.Transact(ctx, func(tx Tx) error {
		// Changing the name takes this lock anyway. Two transactions that
		// both upgraded to it from a weaker lock would deadlock.
		if folder, err = s.lockFolder(ctx, tx, id); err != nil {
			return err
		}
		stored := folder
		if err := change(&folder); err != nil {
			return err
		}
		if folder.Name == stored.Name {
			folder = stored
			return nil
		}
		affected, err := tx.Exec(ctx, `
			UPDATE canvasback_folders
			SET name = $2
			WHERE id = $1
				AND NOT EXISTS (SELECT 1 FROM canvasback_folders WHERE name = $2 AND tenant = $3 AND id <> $1)`,
			id, s.Prefix+folder.Name, s.Of,
		)
		if err := require(affected, err, symbols.ErrFolderNameTaken); err != nil {
			return err
		}
		folder, err = s.lockFolder(ctx, tx, id)
		return err
	})
	return folder, err
}

func (s Symbols) ListSymbolInfos(ctx context.Context, folderID int64, r symbols.Range) (page symbols.InfoPage, err error) {
	list, err := List(ctx, s.DB, func(row Row, info *symbols.SymbolInfo) error {
		return scanInfo(row, info, &page.Version)
	}, `
		SELECT
			folder.contents_version, coalesce(s.id, 0), coalesce(s.name, ''), coalesce(s.type, ''), folder.id,
			coalesce(s.version, 0), coalesce(octet_length(s.data), 0), coalesce(s.tags, '')
		FROM canvasback_folders AS folder
		LEFT JOIN canvasback_symbols AS s ON s.folder_id = folder.id AND s.id > $2
		WHERE folder.id = $1 AND folder.tenant = $4
		ORDER BY s.id
		LIMIT CAST($3 AS bigint)`,
		folderID, r.After, paging.FetchLimit(r.Limit), s.Of,
	)
	switch {
	case err != nil:
		return symbols.InfoPage{}, err
	case len(list) == 0:
		return symbols.InfoPage{}, symbols.ErrFolderNotFound
	case list[0].ID == 0: // only the version
		list = nil
	}
	page.Symbols, page.More = paging.Cut(list, r.Limit)
	return page, nil
}

// ofTenant restricts symbols s to those of the tenant $1.
const ofTenant = `
	JOIN canvasback_folders AS f ON f.id = s.folder_id AND f.tenant = $1`

// infoColumns are what scanInfo reads.
const infoColumns = `s.id, s.name, s.type, s.folder_id, s.version, octet_length(s.data), coalesce(s.tags, '')`

const selectInfo = `
	SELECT ` + infoColumns + `
	FROM canvasback_symbols AS s` + ofTenant

func scanInfo(row Row, info *symbols.SymbolInfo, first ...any) error {
	var tags string
	err := row.Scan(append(first, &info.ID, &info.Name, &info.Type, &info.FolderID, &info.Version, &info.Size, &tags)...)
	info.Tags = symbols.ParseTags(tags)
	return err
}

// findInfos returns the symbols with the given ids, in any order.
func (s Symbols) findInfos(ctx context.Context, q querier, ids []int64) ([]symbols.SymbolInfo, error) {
	return List(ctx, q, func(row Row, info *symbols.SymbolInfo) error { return scanInfo(row, info) }, selectInfo+`
		WHERE s.id = ANY ($2::bigint[])
		ORDER BY s.id`,
		s.Of, ids,
	)
}

func (s Symbols) FindSymbolInfos(ctx context.Context, ids []int64) ([]symbols.SymbolInfo, error) {
	return s.findInfos(ctx, s.DB, ids)
}

func (s Symbols) GetSymbolInfo(ctx context.Context, id int64) (symbols.SymbolInfo, error) {
	var info symbols.SymbolInfo
	err := scanInfo(s.DB.QueryRow(ctx, selectInfo+` WHERE s.id = $2`, s.Of, id), &info)
	return info, orMissing(err, symbols.ErrSymbolNotFound)
}

// selectSymbol selects what scanSymbol reads, by tenant and id. Data of more than $3 bytes
// is not read, and empty.
const selectSymbol = `
	SELECT s.id, s.name, s.type, CASE WHEN octet_length(s.data) <= $3 THEN s.data ELSE '' END,
		s.folder_id, s.version, s.tags, s.meta, s.created_at, s.updated_at, s.updated_by
	FROM canvasback_symbols AS s` + ofTenant + `
	WHERE s.id = $2`

func scanSymbol(row Row, symbol *symbols.Symbol) error {
	err := ScanSymbol(row, symbol, true,
		&symbol.ID, &symbol.Name, &symbol.Type, &symbol.Data, &symbol.FolderID, &symbol.Version)
	return orMissing(err, symbols.ErrSymbolNotFound)
}

// ScanSymbol scans a row whose last columns, with details, are those of selectSymbol.
func ScanSymbol(row Row, symbol *symbols.Symbol, details bool, dest ...any) error {
	if !details {
		return row.Scan(dest...)
	}
	var tags string
	err := row.Scan(append(dest, &tags, &symbol.Meta, (*Time)(&symbol.CreatedAt), (*Time)(&symbol.UpdatedAt), &symbol.UpdatedBy)...)
	symbol.Tags = symbols.ParseTags(tags)
	return err
}

func (s Symbols) GetSymbol(ctx context.Context, id int64) (symbols.Symbol, error) {
	if s.Large != nil {
		symbol, err := One(s.DB.QueryRow(ctx, selectSymbol, s.Of, id, symbols.LargeSize), scanSymbol)
		if err != nil || symbol.Data != "" {
			return symbol, err
		}
		select {
		case s.Large <- struct{}{}:
			defer func() { <-s.Large }()
		case <-ctx.Done():
			return symbols.Symbol{}, ctx.Err()
		}
	}
	return One(s.DB.QueryRow(ctx, selectSymbol, s.Of, id, math.MaxInt32), scanSymbol)
}

// errMoved means that a symbol was changed before its folder was locked.
var errMoved = errors.New("storage: a symbol was moved")

// retryMoved calls try again while symbols are moved. A change must lock the folders before
// the symbols, but learns the folders from the symbols. So it reads without locks, and writes
// only if the versions are unchanged; otherwise it starts over. UpdateSymbol first reads again
// with the lock, and starts over if the folder is another one.
func retryMoved(try func() error) error {
	err := try()
	for errors.Is(err, errMoved) {
		err = try()
	}
	return err
}

// update calls write, which returns how many symbols it has changed, in a transaction that
// has locked the folders that the symbols leave and those that they enter.
func (s Symbols) update(ctx context.Context, left, entered []int64, write func(Tx) (int64, error)) error {
	return s.DB.Transact(ctx, func(tx Tx) error {
		locked, err := s.lockFolders(ctx, tx, `= ANY ($2::bigint[])`, slices.Concat(left, entered))
		if err != nil {
			return err
		}
		for _, id := range entered {
			if !slices.Contains(locked, id) {
				if slices.Contains(left, id) { // the folder was deleted after they were moved
					return errMoved
				}
				return symbols.ErrFolderNotFound
			}
		}
		affected, err := write(tx)
		if err == nil && affected < int64(len(entered)) {
			err = errMoved
		}
		return err
	})
}

func (s Symbols) UpdateSymbol(ctx context.Context, id int64, change func(*symbols.Symbol) error) (symbol symbols.Symbol, err error) {
	err = retryMoved(func() error {
		stored, err := s.GetSymbol(ctx, id)
		if err == nil {
			symbol, err = changed(stored, change)
		}
		if err != nil || symbol == stored {
			return cmp.Or(s.confirm(ctx, s.DB.QueryCurrent, []int64{id}, []symbols.SymbolInfo{stored.Info()}), err)
		}
		left, entered := stored.FolderID, symbol.FolderID
		return s.update(ctx, []int64{left}, []int64{entered}, func(tx Tx) (int64, error) {
			affected, err := s.store(ctx, tx, &symbol)
			if err != nil || affected > 0 {
				return affected, err
			}
			// Others have changed it since. If it is in the same folder, none can now.
			symbol = symbols.Symbol{} // frees the data
			current, err := One(tx.QueryRow(ctx, selectSymbol, s.Of, id, math.MaxInt32), scanSymbol)
			if err != nil || current.FolderID != left {
				return 0, err
			}
			next, err := changed(current, change)
			if err != nil || next.FolderID != entered {
				return 0, err
			}
			if symbol = next; symbol == current {
				return 1, nil
			}
			return s.store(ctx, tx, &symbol)
		})
	})
	return symbol, err
}

// confirm returns errMoved if the symbols are not as they were read. Without a change, the
// server may have been a primary that has lost its standby.
func (s Symbols) confirm(
	ctx context.Context, query func(context.Context, string, ...any) Row, ids []int64, read []symbols.SymbolInfo,
) error {
	const modulus = 1 << 32 // the sum does not overflow
	var sum symbols.Version
	err := query(ctx, `
		SELECT CAST(coalesce(sum(s.version % $3), 0) AS bigint)
		FROM canvasback_symbols AS s`+ofTenant+`
		WHERE s.id = ANY ($2::bigint[])`,
		s.Of, ids, int64(modulus),
	).Scan(&sum)
	for _, info := range read {
		sum -= info.Version % modulus
	}
	if err == nil && sum != 0 {
		return errMoved
	}
	return err
}

// changed returns a stored symbol with the fields that change sets.
func changed(stored symbols.Symbol, change func(*symbols.Symbol) error) (symbols.Symbol, error) {
	symbol := stored
	err := change(&symbol)
	symbol.ID, symbol.Version, symbol.CreatedAt = stored.ID, stored.Version, stored.CreatedAt
	return symbol, err
}

// store stores a symbol unless it was changed since it was read, and sets its version.
func (s Symbols) store(ctx context.Context, tx Tx, symbol *symbols.Symbol) (affected int64, err error) {
	affected, err = tx.Exec(ctx, `
		UPDATE canvasback_symbols
		SET folder_id = $3, name = $4, type = $5, data = $6,
			tags = $7, meta = $8, updated_at = $9, updated_by = $10
		WHERE id = $1 AND version = $2`,
		symbol.ID, int64(symbol.Version), symbol.FolderID, symbol.Name, symbol.Type, symbol.Data,
		symbol.Tags.String(), symbol.Meta, symbol.UpdatedAt, symbol.UpdatedBy,
	)
	if err == nil && affected > 0 { // a trigger has changed the version
		err = tx.QueryRow(ctx, `SELECT version FROM canvasback_symbols WHERE id = $1`, symbol.ID).Scan(&symbol.Version)
	}
	return affected, err
}

func (s Symbols) UpdateSymbols(
	ctx context.Context, ids []int64, stamp symbols.Stamp, change func(*symbols.SymbolInfo) error,
) (changed int, err error) {
	err = retryMoved(func() error {
		list, err := s.findInOrder(ctx, s.DB, ids)
		var updates [][]any
		var left, entered []int64
		for _, stored := range list {
			if err != nil {
				break
			}
			left = append(left, stored.FolderID)
			info := stored
			if err = change(&info); err == nil && info != stored {
				updates = append(updates, []any{info.ID, int64(info.Version), info.FolderID, info.Tags.String(), stamp.At, stamp.By})
				entered = append(entered, info.FolderID)
			}
		}
		if changed = len(updates); err != nil || changed == 0 {
			return cmp.Or(s.confirm(ctx, s.DB.QueryCurrent, ids, list), err)
		}
		return s.update(ctx, left, entered, func(tx Tx) (int64, error) {
			if err := s.confirm(ctx, tx.QueryRow, ids, list); err != nil { // also those that do not change
				return 0, err
			}
			return tx.ExecAll(ctx, `
				UPDATE canvasback_symbols
				SET folder_id = $3, tags = $4, updated_at = $5, updated_by = $6
				WHERE id = $1 AND version = $2`,
				updates,
			)
		})
	})
	return changed, err
}

// lockFolders locks the folders whose id fulfills a condition over $2, against changes of
// their symbols, and returns their ids.
func (s Symbols) lockFolders(ctx context.Context, tx Tx, condition string, ids []int64) ([]int64, error) {
	return List(ctx, tx, scanID, `
		SELECT id
		FROM canvasback_folders
		WHERE tenant = $1 AND id `+condition+`
		ORDER BY id
		FOR NO KEY UPDATE`,
		s.Of, ids,
	)
}

// findInOrder returns the symbols in the order of the ids, or those that it has found with a
// MissingError for the first one that is missing.
func (s Symbols) findInOrder(ctx context.Context, q querier, ids []int64) (ordered []symbols.SymbolInfo, err error) {
	list, err := s.findInfos(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	found := make(map[int64]symbols.SymbolInfo, len(list))
	for _, info := range list {
		found[info.ID] = info
	}
	for _, id := range ids {
		info, ok := found[id]
		if !ok {
			return list, &symbols.MissingError{Err: symbols.ErrSymbolNotFound, ID: id}
		}
		ordered = append(ordered, info)
	}
	return ordered, nil
}

func (s Symbols) FolderListVersion(ctx context.Context) (version symbols.Version, err error) {
	err = s.DB.QueryRow(ctx, `SELECT `+s.listVersion(), s.Of).Scan(&version)
	return s.versionOfList(version), err
}

func (s Symbols) ContentsVersion(ctx context.Context, folderID int64) (version symbols.Version, err error) {
	err = s.DB.QueryRow(ctx, `
		SELECT contents_version
		FROM canvasback_folders
		WHERE id = $1 AND tenant = $2`,
		folderID, s.Of,
	).Scan(&version)
	return version, orMissing(err, symbols.ErrFolderNotFound)
}

func (s Symbols) ListSegments(ctx context.Context) ([]symbols.Segment, error) {
	return List(ctx, s.DB, func(row Row, segment *symbols.Segment) error {
		return row.Scan(&segment.ID, &segment.Version)
	}, `SELECT id, bit_xor(version) FROM canvasback_symbol_segments GROUP BY id ORDER BY id`)
}

func (s Symbols) ListSegment(ctx context.Context, id int64) ([]symbols.SegmentSymbol, error) {
	return List(ctx, s.DB, func(row Row, symbol *symbols.SegmentSymbol) error {
		return scanInfo(row, &symbol.SymbolInfo, &symbol.Tenant)
	}, `
		SELECT f.tenant, `+infoColumns+`
		FROM canvasback_symbols AS s
		JOIN canvasback_folders AS f ON f.id = s.folder_id
		WHERE s.id BETWEEN $1 AND $2
		ORDER BY s.id`,
		id*symbols.SegmentSize, (id+1)*symbols.SegmentSize-1,
	)
}
