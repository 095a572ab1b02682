package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/storage/internal/paging"
	"example.com/canvasback/symbols"
)

// symbolStore is the store of a tenant.
type symbolStore struct {
	db     *database
	tenant string
}

var _ symbols.Store = symbolStore{}

func (s symbolStore) ListFolders(ctx context.Context, r symbols.Range) (symbols.FolderPage, error) {
	index := "" // of other tenants than ""
	if s.tenant != "" {
		index = ` AND folder.tenant <> ''`
	}
	var version symbols.Version // the same in each row
	folders, err := readRows(ctx, s.db, func(row pgx.CollectableRow) (symbols.Folder, error) {
		var folder symbols.Folder
		err := row.Scan(&version, &folder.ID, &folder.Name, &folder.Version)
		return folder, err
	}, `
		SELECT list.version, coalesce(folder.id, 0), coalesce(folder.name, ''), coalesce(folder.version, 0)
		FROM (SELECT `+s.listVersion()+` AS version) AS list
		LEFT JOIN canvasback_folders AS folder ON folder.id > $2 AND folder.tenant = $1`+index+`
		ORDER BY folder.id
		LIMIT $3::bigint`,
		s.tenant, r.After, paging.FetchLimit(r.Limit),
	)
	if err != nil {
		return symbols.FolderPage{}, err
	}
	if len(folders) == 1 && folders[0].ID == 0 { // only the version
		folders = nil
	}
	list := symbols.FolderPage{Version: version}
	list.Folders, list.More = paging.Cut(folders, r.Limit)
	return list, nil
}

func scanFolder(row pgx.Row) (symbols.Folder, error) {
	var folder symbols.Folder
	err := row.Scan(&folder.ID, &folder.Name, &folder.Version)
	if errors.Is(err, pgx.ErrNoRows) {
		return symbols.Folder{}, symbols.ErrFolderNotFound
	}
	return folder, err
}

// selectFolder selects what scanFolder reads, by id and tenant.
const selectFolder = `
	SELECT id, name, version
	FROM canvasback_folders
	WHERE id = $1 AND tenant = $2`

func (s symbolStore) GetFolder(ctx context.Context, id int64) (symbols.Folder, error) {
	return scanFolder(s.db.readRow(ctx, selectFolder, id, s.tenant))
}

func (s symbolStore) InsertFolder(ctx context.Context, folder symbols.Folder) (symbols.Folder, error) {
	err := s.db.writeRow(ctx, `
		INSERT INTO canvasback_folders (name, tenant)
		VALUES ($1, $2)
		RETURNING id, version`,
		folder.Name, s.tenant,
	).Scan(&folder.ID, &folder.Version)
	if err != nil {
		return symbols.Folder{}, err
	}
	return folder, nil
}

func (s symbolStore) UpdateFolder(ctx context.Context, id int64, change func(*symbols.Folder) error) (symbols.Folder, error) {
	var folder symbols.Folder
	err := s.db.transact(ctx, func(tx pgx.Tx) (err error) {
		// Changing the name takes this lock anyway. Two transactions that
		// both upgraded to it from a weaker lock would deadlock.
		folder, err = scanFolder(tx.QueryRow(ctx, s.db.sql(selectFolder+` FOR UPDATE`), id, s.tenant))
		if err != nil {
			return err
		}
		if err := change(&folder); err != nil {
			return err
		}
		folder, err = scanFolder(tx.QueryRow(ctx, s.db.sql(`
			UPDATE canvasback_folders
			SET name = $2
			WHERE id = $1
			RETURNING id, name, version`),
			id, folder.Name,
		))
		return err
	})
	if err != nil {
		return symbols.Folder{}, err
	}
	return folder, nil
}

func (s symbolStore) ListSymbols(ctx context.Context, folderID int64, r symbols.Range, size int, details bool) (symbols.Page, error) {
	columns, inner := "", ""
	if details {
		columns, inner = `,
			coalesce(symbol.tags, ''), coalesce(symbol.meta, ''), coalesce(symbol.created_at, 'epoch'),
			coalesce(symbol.updated_at, 'epoch'), coalesce(symbol.updated_by, 0)`, `, `+detailColumns
	}
	// The size of the next four symbols shows how many the page is likely to have,
	// so that few others are visited. octet_length does not read data that is
	// stored out of line.
	var limit *int
	if r.Limit > 0 {
		limit = &r.Limit
	}
	var page symbols.Page
	var last int64
	list, err := readRows(ctx, s.db, func(row pgx.CollectableRow) (symbols.Symbol, error) {
		symbol := symbols.Symbol{FolderID: folderID}
		dest := []any{
			&page.Version, &last, // the same in each row
			&symbol.ID, &symbol.Name, &symbol.Type, &symbol.Data, &symbol.Version,
		}
		if details {
			return scanDetails(row, &symbol, dest)
		}
		return symbol, row.Scan(dest...)
	}, `
		SELECT
			folder.contents_version,
			coalesce((SELECT max(id) FROM canvasback_symbols WHERE folder_id = $1), 0),
			coalesce(symbol.id, 0), coalesce(symbol.name, ''), coalesce(symbol.type, ''),
			CASE WHEN octet_length(symbol.data) <= $6 THEN symbol.data ELSE '' END, coalesce(symbol.version, 0)`+columns+`
		FROM canvasback_folders AS folder
		LEFT JOIN (
			SELECT *, sum(octet_length(data)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - octet_length(data) AS preceding
			FROM (
				SELECT id, name, type, data, version`+inner+`
				FROM canvasback_symbols
				WHERE folder_id = $1 AND id > $2
				ORDER BY id
				LIMIT least($4::bigint, 1 + $3::bigint / greatest($5::bigint, (
					SELECT avg(octet_length(data))::bigint
					FROM (
						SELECT data
						FROM canvasback_symbols
						WHERE folder_id = $1 AND id > $2
						ORDER BY id
						LIMIT 4
					) AS next
				)))
			) AS candidate
		) AS symbol ON symbol.preceding < $3::bigint
		WHERE folder.id = $1 AND folder.tenant = $7`,
		folderID, r.After, max(size, 1), limit, symbols.PageOverhead, symbols.LargeSize, s.tenant,
	)
	if err != nil {
		return symbols.Page{}, err
	}
	if len(list) == 0 {
		return symbols.Page{}, symbols.ErrFolderNotFound
	}
	if len(list) == 1 && list[0].ID == 0 { // only the version
		return page, nil
	}
	// The rows arrive in order, but only an ORDER BY would guarantee that,
	// and for it the server copies all data.
	slices.SortFunc(list, func(a, b symbols.Symbol) int { return cmp.Compare(a.ID, b.ID) })
	page.Symbols, page.More = list, list[len(list)-1].ID < last
	return page, nil
}

func (s symbolStore) ListSymbolInfos(ctx context.Context, folderID int64, r symbols.Range) (symbols.InfoPage, error) {
	var page symbols.InfoPage
	list, err := readRows(ctx, s.db, func(row pgx.CollectableRow) (symbols.SymbolInfo, error) {
		info := symbols.SymbolInfo{FolderID: folderID}
		var tags string
		err := row.Scan(&page.Version, &info.ID, &info.Name, &info.Type, &info.Version, &info.Size, &tags)
		info.Tags = symbols.ParseTags(tags)
		return info, err
	}, `
		SELECT
			folder.contents_version, coalesce(symbol.id, 0), coalesce(symbol.name, ''),
			coalesce(symbol.type, ''), coalesce(symbol.version, 0), coalesce(octet_length(symbol.data), 0),
			coalesce(symbol.tags, '')
		FROM canvasback_folders AS folder
		LEFT JOIN canvasback_symbols AS symbol
			ON symbol.folder_id = folder.id AND symbol.id > $2
		WHERE folder.id = $1 AND folder.tenant = $4
		ORDER BY symbol.id
		LIMIT $3::bigint`,
		folderID, r.After, paging.FetchLimit(r.Limit), s.tenant,
	)
	if err != nil {
		return symbols.InfoPage{}, err
	}
	if len(list) == 0 {
		return symbols.InfoPage{}, symbols.ErrFolderNotFound
	}
	if len(list) == 1 && list[0].ID == 0 { // only the version
		list = nil
	}
	page.Symbols, page.More = paging.Cut(list, r.Limit)
	return page, nil
}

func (s symbolStore) FindSymbolInfos(ctx context.Context, ids []int64) ([]symbols.SymbolInfo, error) {
	return readRows(ctx, s.db, func(row pgx.CollectableRow) (symbols.SymbolInfo, error) {
		return scanInfo(row)
	}, selectInfo+`
		WHERE s.id = ANY ($2::bigint[])
		ORDER BY s.id`,
		s.tenant, ids,
	)
}

// ofTenant restricts symbols s to those of the tenant $1.
const ofTenant = `
	JOIN canvasback_folders AS f ON f.id = s.folder_id AND f.tenant = $1`

// selectInfo selects what scanInfo reads.
const selectInfo = `
	SELECT s.id, s.name, s.type, s.folder_id, s.version, octet_length(s.data), s.tags
	FROM canvasback_symbols AS s` + ofTenant

func scanInfo(row pgx.Row) (info symbols.SymbolInfo, err error) {
	var tags string
	err = row.Scan(&info.ID, &info.Name, &info.Type, &info.FolderID, &info.Version, &info.Size, &tags)
	info.Tags = symbols.ParseTags(tags)
	return info, err
}

const detailColumns = `tags, meta, created_at, updated_at, updated_by`

// selectSymbol reads a symbol by its id.
const selectSymbol = `
	SELECT s.id, s.name, s.type, s.data, s.folder_id, s.version, ` + detailColumns + `
	FROM canvasback_symbols AS s` + ofTenant + `
	WHERE s.id = $2`

// scanDetails scans a row whose last columns are detailColumns.
func scanDetails(row pgx.Row, symbol *symbols.Symbol, dest []any) (symbols.Symbol, error) {
	var tags string
	err := row.Scan(append(dest, &tags, &symbol.Meta, &symbol.CreatedAt, &symbol.UpdatedAt, &symbol.UpdatedBy)...)
	symbol.Tags = symbols.ParseTags(tags)
	symbol.CreatedAt, symbol.UpdatedAt = symbol.CreatedAt.UTC(), symbol.UpdatedAt.UTC()
	return *symbol, err
}

func scanSymbol(row pgx.Row) (symbols.Symbol, error) {
	var symbol symbols.Symbol
	dest := []any{&symbol.ID, &symbol.Name, &symbol.Type, &symbol.Data, &symbol.FolderID, &symbol.Version}
	symbol, err := scanDetails(row, &symbol, dest)
	if errors.Is(err, pgx.ErrNoRows) {
		return symbols.Symbol{}, symbols.ErrSymbolNotFound
	}
	return symbol, err
}

func (s symbolStore) GetSymbol(ctx context.Context, id int64) (symbols.Symbol, error) {
	return scanSymbol(s.db.readRow(ctx, selectSymbol, s.tenant, id))
}

func (s symbolStore) InsertSymbols(ctx context.Context, folderID int64, given []symbols.Symbol) ([]symbols.Symbol, error) {
	list := slices.Clone(given)
	insertions := make([]*insertion, len(list))
	for i := range list {
		list[i].FolderID = folderID
		insertions[i] = &insertion{Symbol: list[i], tenant: s.tenant}
	}
	var err error
	switch len(list) {
	case 0:
		return nil, nil
	case 1:
		list[0], err = s.db.inserter.insert(ctx, s.db, insertions[0])
	default:
		err = s.db.insertSymbols(ctx, insertions)
		for i, inserted := range insertions {
			list[i] = inserted.Symbol
		}
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// UpdateSymbol must lock the folder before the symbol, but learns the folder
// from the symbol. So it reads without a lock, and writes only if the version
// is unchanged; otherwise it starts over.
func (s symbolStore) UpdateSymbol(ctx context.Context, id int64, change func(*symbols.Symbol) error) (symbols.Symbol, error) {
	for {
		stored, err := s.GetSymbol(ctx, id)
		if err != nil {
			return symbols.Symbol{}, err
		}
		symbol := stored
		if err := change(&symbol); err != nil {
			return symbols.Symbol{}, err
		}
		symbol.ID, symbol.CreatedAt = id, stored.CreatedAt
		err = s.db.writeRow(ctx, `
			WITH folders AS (
				SELECT id
				FROM canvasback_folders
				WHERE id IN ($3::bigint, $4::bigint) AND tenant = $12
				ORDER BY id
				FOR NO KEY UPDATE
			)
			UPDATE canvasback_symbols
			SET folder_id = $4, name = $5, type = $6, data = $7,
				tags = $8, meta = $9, updated_at = $10, updated_by = $11
			WHERE id = $1
				AND version = $2
				AND ARRAY (SELECT id FROM folders) @> ARRAY [$3::bigint, $4::bigint]
			RETURNING version`,
			id, int64(stored.Version), stored.FolderID, symbol.FolderID,
			symbol.Name, symbol.Type, symbol.Data,
			symbol.Tags.String(), symbol.Meta, symbol.UpdatedAt, symbol.UpdatedBy, s.tenant,
		).Scan(&symbol.Version)
		if !errors.Is(err, pgx.ErrNoRows) {
			return symbol, err
		}
		if symbol.FolderID != stored.FolderID {
			if _, err := s.GetFolder(ctx, symbol.FolderID); err != nil {
				return symbols.Symbol{}, err
			}
		}
	}
}

func (s symbolStore) FolderListVersion(ctx context.Context) (symbols.Version, error) {
	return scanVersion(s.db.readRow(ctx, `SELECT `+s.listVersion(), s.tenant), pgx.ErrNoRows)
}

func (s symbolStore) FolderVersion(ctx context.Context, id int64) (symbols.Version, error) {
	return scanVersion(s.db.readRow(ctx, `
		SELECT version
		FROM canvasback_folders
		WHERE id = $1 AND tenant = $2`,
		id, s.tenant,
	), symbols.ErrFolderNotFound)
}

func (s symbolStore) ContentsVersion(ctx context.Context, folderID int64) (symbols.Version, error) {
	return scanVersion(s.db.readRow(ctx, `
		SELECT contents_version
		FROM canvasback_folders
		WHERE id = $1 AND tenant = $2`,
		folderID, s.tenant,
	), symbols.ErrFolderNotFound)
}

func (s symbolStore) GetSymbolInfo(ctx context.Context, id int64) (symbols.SymbolInfo, error) {
	info, err := scanInfo(s.db.readRow(ctx, selectInfo+` WHERE s.id = $2`, s.tenant, id))
	if errors.Is(err, pgx.ErrNoRows) {
		err = symbols.ErrSymbolNotFound
	}
	return info, err
}

func (s symbolStore) ListSegments(ctx context.Context) ([]symbols.Segment, error) {
	return readRows(ctx, s.db, func(row pgx.CollectableRow) (symbols.Segment, error) {
		var segment symbols.Segment
		err := row.Scan(&segment.ID, &segment.Version)
		return segment, err
	}, `
		SELECT id, bit_xor(version)
		FROM canvasback_symbol_segments
		GROUP BY id
		ORDER BY id`,
	)
}

func (s symbolStore) ListSegment(ctx context.Context, id int64) ([]symbols.SegmentSymbol, error) {
	return readRows(ctx, s.db, func(row pgx.CollectableRow) (symbols.SegmentSymbol, error) {
		var symbol symbols.SegmentSymbol
		var tags string
		err := row.Scan(&symbol.ID, &symbol.Tenant, &symbol.Name, &tags)
		symbol.Tags = symbols.ParseTags(tags)
		return symbol, err
	}, `
		SELECT s.id, f.tenant, s.name, s.tags
		FROM canvasback_symbols AS s
		JOIN canvasback_folders AS f ON f.id = s.folder_id
		WHERE s.id BETWEEN $1 AND $2
		ORDER BY s.id`,
		id*symbols.SegmentSize, (id+1)*symbols.SegmentSize-1,
	)
}

// scanVersion returns the error missing if there is no row.
func scanVersion(row pgx.Row, missing error) (symbols.Version, error) {
	var version symbols.Version
	err := row.Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, missing
	}
	return version, err
}
