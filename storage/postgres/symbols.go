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

type symbolStore struct{ db *database }

var _ symbols.Store = symbolStore{}

func (s symbolStore) ListFolders(ctx context.Context, r symbols.Range) (symbols.FolderPage, error) {
	var version symbols.Version // the same in each row
	folders, err := readRows(ctx, s.db, func(row pgx.CollectableRow) (symbols.Folder, error) {
		var folder symbols.Folder
		err := row.Scan(&version, &folder.ID, &folder.Name, &folder.Version)
		return folder, err
	}, `
		SELECT list.version, coalesce(folder.id, 0), coalesce(folder.name, ''), coalesce(folder.version, 0)
		FROM (SELECT version FROM canvasback_folder_list LIMIT 1) AS list
		LEFT JOIN canvasback_folders AS folder ON folder.id > $1
		ORDER BY folder.id
		LIMIT $2::bigint`,
		r.After, paging.FetchLimit(r.Limit),
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

func (s symbolStore) GetFolder(ctx context.Context, id int64) (symbols.Folder, error) {
	return scanFolder(s.db.readRow(ctx, `
		SELECT id, name, version
		FROM canvasback_folders
		WHERE id = $1`,
		id,
	))
}

func (s symbolStore) InsertFolder(ctx context.Context, folder symbols.Folder) (symbols.Folder, error) {
	err := s.db.write(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, s.db.sql(`
			INSERT INTO canvasback_folders (name)
			VALUES ($1)
			RETURNING id, version`),
			folder.Name,
		).Scan(&folder.ID, &folder.Version)
	})
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
		folder, err = scanFolder(tx.QueryRow(ctx, s.db.sql(`
			SELECT id, name, version
			FROM canvasback_folders
			WHERE id = $1
			FOR UPDATE`),
			id,
		))
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

func (s symbolStore) DeleteFolder(ctx context.Context, id int64, match symbols.Match) error {
	return s.deleteIfMatch(ctx, id, match, s.FolderVersion, `
		DELETE FROM canvasback_folders
		WHERE id = $1 AND ($3::boolean OR version = ANY ($2::bigint[]))`,
	)
}

// deleteIfMatch runs a statement that deletes the row with the id $1 if its version
// is in $2 or $3 is true. The function current reads its version.
func (s symbolStore) deleteIfMatch(
	ctx context.Context, id int64, match symbols.Match,
	current func(context.Context, int64) (symbols.Version, error), statement string,
) error {
	list, all := match.Versions()
	versions := make([]int64, len(list))
	for i, version := range list {
		versions[i] = int64(version)
	}
	for {
		affected, err := s.db.exec(ctx, statement, id, versions, all)
		if err != nil || affected > 0 {
			return err
		}
		version, err := current(ctx, id)
		if err != nil {
			return err
		}
		if !match.Matches(version) {
			return symbols.ErrChanged
		}
		// A concurrent call has moved the symbol to another folder: retry.
	}
}

func (s symbolStore) ListSymbols(ctx context.Context, folderID int64, r symbols.Range, size int) (symbols.Page, error) {
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
		err := row.Scan(
			&page.Version, &last, // the same in each row
			&symbol.ID, &symbol.Name, &symbol.Type, &symbol.Data, &symbol.Version,
		)
		return symbol, err
	}, `
		SELECT
			folder.contents_version,
			coalesce((SELECT max(id) FROM canvasback_symbols WHERE folder_id = $1), 0),
			coalesce(symbol.id, 0), coalesce(symbol.name, ''), coalesce(symbol.type, ''),
			coalesce(symbol.data, ''), coalesce(symbol.version, 0)
		FROM canvasback_folders AS folder
		LEFT JOIN (
			SELECT *, sum(octet_length(data)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - octet_length(data) AS preceding
			FROM (
				SELECT id, name, type, data, version
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
		WHERE folder.id = $1`,
		folderID, r.After, max(size, 1), limit, symbols.PageOverhead,
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
		err := row.Scan(&page.Version, &info.ID, &info.Name, &info.Type, &info.Version, &info.Size)
		return info, err
	}, `
		SELECT
			folder.contents_version, coalesce(symbol.id, 0), coalesce(symbol.name, ''),
			coalesce(symbol.type, ''), coalesce(symbol.version, 0), coalesce(octet_length(symbol.data), 0)
		FROM canvasback_folders AS folder
		LEFT JOIN canvasback_symbols AS symbol
			ON symbol.folder_id = folder.id AND symbol.id > $2
		WHERE folder.id = $1
		ORDER BY symbol.id
		LIMIT $3::bigint`,
		folderID, r.After, paging.FetchLimit(r.Limit),
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

func scanSymbol(row pgx.Row) (symbols.Symbol, error) {
	var symbol symbols.Symbol
	err := row.Scan(&symbol.ID, &symbol.Name, &symbol.Type, &symbol.Data, &symbol.FolderID, &symbol.Version)
	if errors.Is(err, pgx.ErrNoRows) {
		return symbols.Symbol{}, symbols.ErrSymbolNotFound
	}
	return symbol, err
}

func (s symbolStore) GetSymbol(ctx context.Context, id int64) (symbols.Symbol, error) {
	return scanSymbol(s.db.readRow(ctx, `
		SELECT id, name, type, data, folder_id, version
		FROM canvasback_symbols
		WHERE id = $1`,
		id,
	))
}

func (s symbolStore) InsertSymbols(ctx context.Context, folderID int64, given []symbols.Symbol) ([]symbols.Symbol, error) {
	list := slices.Clone(given)
	insertions := make([]*insertion, len(list))
	for i := range list {
		list[i].FolderID = folderID
		insertions[i] = &insertion{Symbol: list[i]}
	}
	var err error
	switch len(list) {
	case 0:
		return nil, nil
	case 1:
		list[0], err = s.db.inserter.insert(ctx, s.db, list[0])
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
		symbol.ID = id
		err = s.db.write(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, s.db.sql(`
				WITH folders AS (
					SELECT id
					FROM canvasback_folders
					WHERE id IN ($3::bigint, $4::bigint)
					ORDER BY id
					FOR NO KEY UPDATE
				)
				UPDATE canvasback_symbols
				SET folder_id = $4, name = $5, type = $6, data = $7
				WHERE id = $1
					AND version = $2
					AND ARRAY (SELECT id FROM folders) @> ARRAY [$3::bigint, $4::bigint]
				RETURNING version`),
				id, int64(stored.Version), stored.FolderID, symbol.FolderID,
				symbol.Name, symbol.Type, symbol.Data,
			).Scan(&symbol.Version)
		})
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

func (s symbolStore) DeleteSymbol(ctx context.Context, id int64, match symbols.Match) error {
	return s.deleteIfMatch(ctx, id, match, s.SymbolVersion, `
		WITH folder AS (
			SELECT id
			FROM canvasback_folders
			WHERE id = (SELECT folder_id FROM canvasback_symbols WHERE id = $1)
			FOR NO KEY UPDATE
		)
		DELETE FROM canvasback_symbols AS symbol
		USING folder
		WHERE symbol.id = $1
			AND symbol.folder_id = folder.id
			AND ($3::boolean OR symbol.version = ANY ($2::bigint[]))`,
	)
}

func (s symbolStore) FolderListVersion(ctx context.Context) (symbols.Version, error) {
	return scanVersion(s.db.readRow(ctx, `
		SELECT version
		FROM canvasback_folder_list`,
	), pgx.ErrNoRows)
}

func (s symbolStore) FolderVersion(ctx context.Context, id int64) (symbols.Version, error) {
	return s.version(ctx, `SELECT version FROM canvasback_folders WHERE id = $1`, id, symbols.ErrFolderNotFound)
}

func (s symbolStore) ContentsVersion(ctx context.Context, folderID int64) (symbols.Version, error) {
	return s.version(ctx, `SELECT contents_version FROM canvasback_folders WHERE id = $1`, folderID, symbols.ErrFolderNotFound)
}

func (s symbolStore) SymbolVersion(ctx context.Context, id int64) (symbols.Version, error) {
	return s.version(ctx, `SELECT version FROM canvasback_symbols WHERE id = $1`, id, symbols.ErrSymbolNotFound)
}

// version returns the version that a query selects by id, or the error missing.
func (s symbolStore) version(ctx context.Context, query string, id int64, missing error) (symbols.Version, error) {
	return scanVersion(s.db.readRow(ctx, query, id), missing)
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

func (s symbolStore) ListSegment(ctx context.Context, id int64) ([]symbols.SymbolInfo, error) {
	return readRows(ctx, s.db, func(row pgx.CollectableRow) (symbols.SymbolInfo, error) {
		var info symbols.SymbolInfo
		err := row.Scan(&info.ID, &info.Name, &info.Type, &info.FolderID, &info.Version, &info.Size)
		return info, err
	}, `
		SELECT id, name, type, folder_id, version, octet_length(data)
		FROM canvasback_symbols
		WHERE id BETWEEN $1 AND $2
		ORDER BY id`,
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
