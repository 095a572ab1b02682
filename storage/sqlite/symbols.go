package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"example.com/canvasback/storage/internal/paging"
	"example.com/canvasback/symbols"
)

// symbolStore is the store of a tenant.
type symbolStore struct {
	db     *database
	tenant string
	prefix string // see tenantPrefix
}

var _ symbols.Store = symbolStore{}

// Limits of queries are expressions: SQLite prepares a statement again whenever a
// parameter that is a LIMIT by itself is bound.

func (s symbolStore) ListFolders(ctx context.Context, r symbols.Range) (symbols.FolderPage, error) {
	index := "" // of other tenants than ""
	if s.tenant != "" {
		index = ` AND f.tenant <> ''`
	}
	rows, err := s.db.query(ctx, `
		SELECT l.version, f.id, f.name, f.version
		FROM (SELECT `+s.listVersion()+` AS version) AS l
		LEFT JOIN canvasback_folders AS f
			ON f.id > ?2 AND f.tenant = ?1`+index+`
		ORDER BY f.id
		LIMIT ?3 + 0`,
		s.tenant, r.After, paging.FetchLimit(r.Limit),
	)
	if err != nil {
		return symbols.FolderPage{}, err
	}
	defer rows.Close()
	var list symbols.FolderPage
	for rows.Next() {
		var (
			id, version sql.NullInt64
			name        sql.NullString
		)
		if err := rows.Scan(&list.Version, &id, &name, &version); err != nil {
			return symbols.FolderPage{}, err
		}
		if id.Valid {
			list.Folders = append(list.Folders, symbols.Folder{
				ID:      id.Int64,
				Name:    strings.TrimPrefix(name.String, s.prefix),
				Version: symbols.Version(version.Int64),
			})
		}
	}
	if err := rows.Err(); err != nil {
		return symbols.FolderPage{}, err
	}
	list.Folders, list.More = paging.Cut(list.Folders, r.Limit)
	return list, nil
}

// selectFolder selects what scanFolder reads, by id and tenant.
const selectFolder = `
	SELECT id, name, version
	FROM canvasback_folders
	WHERE id = ? AND tenant = ?`

func (s symbolStore) GetFolder(ctx context.Context, id int64) (symbols.Folder, error) {
	return s.scanFolder(s.db.queryRow(ctx, selectFolder, id, s.tenant))
}

func (s symbolStore) InsertFolder(ctx context.Context, folder symbols.Folder) (symbols.Folder, error) {
	err := s.db.write(ctx, func(conn *sql.Conn) error {
		err := conn.QueryRowContext(ctx, `
			INSERT INTO canvasback_folders (name, tenant)
			VALUES (?, ?)
			ON CONFLICT (name) DO NOTHING
			RETURNING id, version`,
			s.prefix+folder.Name, s.tenant,
		).Scan(&folder.ID, &folder.Version)
		if errors.Is(err, sql.ErrNoRows) {
			return symbols.ErrFolderNameTaken
		}
		return err
	})
	if err != nil {
		return symbols.Folder{}, err
	}
	return folder, nil
}

func (s symbolStore) UpdateFolder(ctx context.Context, id int64, change func(*symbols.Folder) error) (symbols.Folder, error) {
	var folder symbols.Folder
	err := s.db.write(ctx, func(conn *sql.Conn) (err error) {
		if folder, err = s.scanFolder(conn.QueryRowContext(ctx, selectFolder, id, s.tenant)); err != nil {
			return err
		}
		if err := change(&folder); err != nil {
			return err
		}
		// The folder exists, so only a taken name prevents the update.
		result, err := conn.ExecContext(ctx, `
			UPDATE OR IGNORE canvasback_folders
			SET name = ?
			WHERE id = ?`,
			s.prefix+folder.Name, id,
		)
		if err := requireRow(result, err, symbols.ErrFolderNameTaken); err != nil {
			return err
		}
		folder, err = s.scanFolder(conn.QueryRowContext(ctx, selectFolder, id, s.tenant))
		return err
	})
	if err != nil {
		return symbols.Folder{}, err
	}
	return folder, nil
}

func (s symbolStore) ListSymbols(ctx context.Context, folderID int64, r symbols.Range, size int, details bool) (symbols.Page, error) {
	columns := ""
	if details {
		columns = ", " + detailColumns
	}
	// The last column without details shows whether symbols follow, without
	// reading their data.
	rows, err := s.db.query(ctx, `
		SELECT
			f.contents_version, s.id, s.name, s.type, iif(octet_length(s.data) > ?4, '', s.data), s.version,
			(SELECT max(id) FROM canvasback_symbols WHERE folder_id = ?1)`+columns+`
		FROM canvasback_folders AS f
		LEFT JOIN canvasback_symbols AS s
			ON s.folder_id = f.id AND s.id > ?2
		WHERE f.id = ?1 AND f.tenant = ?5
		ORDER BY s.id
		LIMIT iif(?3 > 0, ?3, -1)`,
		folderID, r.After, r.Limit, symbols.LargeSize, s.tenant,
	)
	if err != nil {
		return symbols.Page{}, err
	}
	defer rows.Close()
	var page symbols.Page
	found := false
	for read := 0; rows.Next(); {
		var (
			id, version, last    sql.NullInt64
			name, mimeType, data sql.NullString
			detail               detailRow
		)
		dest := []any{&page.Version, &id, &name, &mimeType, &data, &version, &last}
		if details {
			dest = append(dest, detail.dest()...)
		}
		if err := rows.Scan(dest...); err != nil {
			return symbols.Page{}, err
		}
		found = true
		if !id.Valid {
			break // no symbols after the given id
		}
		symbol := symbols.Symbol{
			ID:       id.Int64,
			Name:     name.String,
			Type:     mimeType.String,
			Data:     data.String,
			FolderID: folderID,
			Version:  symbols.Version(version.Int64),
		}
		if details {
			detail.set(&symbol)
		}
		page.Symbols = append(page.Symbols, symbol)
		page.More = id.Int64 < last.Int64
		if read += len(symbol.Data) + len(symbol.Meta) + symbols.PageOverhead; read >= size {
			break
		}
	}
	if err := rows.Err(); err != nil {
		return symbols.Page{}, err
	}
	if !found {
		return symbols.Page{}, symbols.ErrFolderNotFound
	}
	return page, nil
}

func (s symbolStore) ListSymbolInfos(ctx context.Context, folderID int64, r symbols.Range) (symbols.InfoPage, error) {
	// octet_length does not read the data.
	rows, err := s.db.query(ctx, `
		SELECT f.contents_version, s.id, s.name, s.type, s.version, octet_length(s.data), `+tagsColumn+`
		FROM canvasback_folders AS f
		LEFT JOIN canvasback_symbols AS s
			ON s.folder_id = f.id AND s.id > ?2
		WHERE f.id = ?1 AND f.tenant = ?4
		ORDER BY s.id
		LIMIT ?3 + 0`,
		folderID, r.After, paging.FetchLimit(r.Limit), s.tenant,
	)
	if err != nil {
		return symbols.InfoPage{}, err
	}
	defer rows.Close()
	var page symbols.InfoPage
	found := false
	for rows.Next() {
		var (
			id, version, size sql.NullInt64
			name, mimeType    sql.NullString
			tags              string
		)
		if err := rows.Scan(&page.Version, &id, &name, &mimeType, &version, &size, &tags); err != nil {
			return symbols.InfoPage{}, err
		}
		found = true
		if id.Valid {
			page.Symbols = append(page.Symbols, symbols.SymbolInfo{
				ID:       id.Int64,
				Name:     name.String,
				Type:     mimeType.String,
				FolderID: folderID,
				Version:  symbols.Version(version.Int64),
				Size:     size.Int64,
				Tags:     symbols.ParseTags(tags),
			})
		}
	}
	if err := rows.Err(); err != nil {
		return symbols.InfoPage{}, err
	}
	if !found {
		return symbols.InfoPage{}, symbols.ErrFolderNotFound
	}
	page.Symbols, page.More = paging.Cut(page.Symbols, r.Limit)
	return page, nil
}

func (s symbolStore) FindSymbolInfos(ctx context.Context, ids []int64) ([]symbols.SymbolInfo, error) {
	return queryAll(ctx, s.db, func(rows *sql.Rows) (symbols.SymbolInfo, error) {
		return scanInfo(rows)
	}, selectInfo+`
		WHERE s.id IN (SELECT value FROM json_each(?))
		ORDER BY s.id`,
		s.tenant, jsonArray(ids),
	)
}

// tagsColumn reads the tags of a symbol s from an index: they are behind the data, which
// SQLite would have to read.
const tagsColumn = `
	coalesce((
		SELECT t.tags
		FROM canvasback_symbols AS t INDEXED BY canvasback_symbols_tags_idx
		WHERE t.id = s.id AND t.tags <> ''
	), '')`

// ofTenant restricts symbols s to those of a tenant.
const ofTenant = `
	JOIN canvasback_folders AS f ON f.id = s.folder_id AND f.tenant = ?`

// selectInfo selects what scanInfo reads, of a tenant.
const selectInfo = `
	SELECT s.id, s.name, s.type, s.folder_id, s.version, octet_length(s.data), ` + tagsColumn + `
	FROM canvasback_symbols AS s` + ofTenant

// scanner is a row or rows.
type scanner interface{ Scan(dest ...any) error }

func scanInfo(row scanner) (info symbols.SymbolInfo, err error) {
	var tags string
	err = row.Scan(&info.ID, &info.Name, &info.Type, &info.FolderID, &info.Version, &info.Size, &tags)
	info.Tags = symbols.ParseTags(tags)
	return info, err
}

// detailColumns are the columns of a symbol s that a detailRow reads. Symbols of before have
// the time of the migration.
const detailColumns = `
	s.tags, s.meta,
	coalesce(s.created_at, (SELECT migrated_at FROM canvasback_symbol_details)),
	coalesce(s.updated_at, (SELECT migrated_at FROM canvasback_symbol_details)),
	s.updated_by`

type detailRow struct {
	tags, meta                      sql.NullString
	createdAt, updatedAt, updatedBy sql.NullInt64
}

func (d *detailRow) dest() []any {
	return []any{&d.tags, &d.meta, &d.createdAt, &d.updatedAt, &d.updatedBy}
}

func (d *detailRow) set(symbol *symbols.Symbol) {
	symbol.Tags, symbol.Meta = symbols.ParseTags(d.tags.String), d.meta.String
	symbol.CreatedAt, symbol.UpdatedAt = fromMillis(d.createdAt), fromMillis(d.updatedAt)
	symbol.UpdatedBy = d.updatedBy.Int64
}

// selectSymbol reads a symbol by its tenant and id.
const selectSymbol = `
	SELECT s.id, s.name, s.type, s.data, s.folder_id, s.version, ` + detailColumns + `
	FROM canvasback_symbols AS s` + ofTenant + `
	WHERE s.id = ?`

func scanSymbol(row *sql.Row) (symbols.Symbol, error) {
	var symbol symbols.Symbol
	var detail detailRow
	dest := []any{&symbol.ID, &symbol.Name, &symbol.Type, &symbol.Data, &symbol.FolderID, &symbol.Version}
	err := row.Scan(append(dest, detail.dest()...)...)
	detail.set(&symbol)
	if errors.Is(err, sql.ErrNoRows) {
		return symbols.Symbol{}, symbols.ErrSymbolNotFound
	}
	return symbol, err
}

func (s symbolStore) GetSymbol(ctx context.Context, id int64) (symbols.Symbol, error) {
	return scanSymbol(s.db.queryRow(ctx, selectSymbol, s.tenant, id))
}

func (s symbolStore) InsertSymbols(ctx context.Context, folderID int64, given []symbols.Symbol) ([]symbols.Symbol, error) {
	list := slices.Clone(given)
	for i := range list {
		list[i].FolderID = folderID
	}
	if len(list) == 1 {
		if err := s.db.insert(ctx, s.tenant, &list[0]); err != nil {
			return nil, err
		}
		return list, nil
	}
	err := s.db.write(ctx, func(conn *sql.Conn) error {
		if err := s.requireFolder(ctx, conn, folderID); err != nil {
			return err
		}
		insert, err := conn.PrepareContext(ctx, insertSymbol)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := range list {
			if err := execInsert(ctx, insert, s.tenant, &list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s symbolStore) UpdateSymbol(ctx context.Context, id int64, change func(*symbols.Symbol) error) (symbols.Symbol, error) {
	var symbol symbols.Symbol
	err := s.db.write(ctx, func(conn *sql.Conn) error {
		stored, err := scanSymbol(conn.QueryRowContext(ctx, selectSymbol, s.tenant, id))
		if err != nil {
			return err
		}
		symbol = stored
		if err := change(&symbol); err != nil {
			return err
		}
		symbol.ID, symbol.Version, symbol.CreatedAt = stored.ID, stored.Version, stored.CreatedAt
		if symbol == stored {
			return nil
		}
		if err := s.requireFolder(ctx, conn, symbol.FolderID); err != nil {
			return err
		}
		_, err = conn.ExecContext(ctx, `
			UPDATE canvasback_symbols
			SET name = ?, type = ?, data = ?, folder_id = ?, tags = ?, meta = ?, updated_at = ?, updated_by = ?
			WHERE id = ?`,
			symbol.Name, symbol.Type, symbol.Data, symbol.FolderID, symbol.Tags.String(), symbol.Meta,
			symbol.UpdatedAt.UnixMilli(), symbol.UpdatedBy, id,
		)
		if err != nil {
			return err
		}
		// RETURNING would not include the changes made by triggers.
		symbol.Version, err = scanVersion(conn.QueryRowContext(ctx, `
			SELECT version
			FROM canvasback_symbols
			WHERE id = ?`,
			id,
		), symbols.ErrSymbolNotFound)
		return err
	})
	if err != nil {
		return symbols.Symbol{}, err
	}
	return symbol, nil
}

func (s symbolStore) FolderListVersion(ctx context.Context) (symbols.Version, error) {
	return scanVersion(s.db.queryRow(ctx, `SELECT `+s.listVersion(), s.tenant), sql.ErrNoRows)
}

func (s symbolStore) FolderVersion(ctx context.Context, id int64) (symbols.Version, error) {
	return scanVersion(s.db.queryRow(ctx, `
		SELECT version
		FROM canvasback_folders
		WHERE id = ? AND tenant = ?`,
		id, s.tenant,
	), symbols.ErrFolderNotFound)
}

func (s symbolStore) ContentsVersion(ctx context.Context, folderID int64) (symbols.Version, error) {
	return scanVersion(s.db.queryRow(ctx, `
		SELECT contents_version
		FROM canvasback_folders
		WHERE id = ? AND tenant = ?`,
		folderID, s.tenant,
	), symbols.ErrFolderNotFound)
}

func (s symbolStore) GetSymbolInfo(ctx context.Context, id int64) (symbols.SymbolInfo, error) {
	info, err := scanInfo(s.db.queryRow(ctx, selectInfo+` WHERE s.id = ?`, s.tenant, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = symbols.ErrSymbolNotFound
	}
	return info, err
}

func (s symbolStore) ListSegments(ctx context.Context) ([]symbols.Segment, error) {
	return queryAll(ctx, s.db, func(rows *sql.Rows) (symbols.Segment, error) {
		var segment symbols.Segment
		err := rows.Scan(&segment.ID, &segment.Version)
		return segment, err
	}, `
		SELECT id, version
		FROM canvasback_symbol_segments
		ORDER BY id`,
	)
}

func (s symbolStore) ListSegment(ctx context.Context, id int64) ([]symbols.SegmentSymbol, error) {
	return queryAll(ctx, s.db, func(rows *sql.Rows) (symbols.SegmentSymbol, error) {
		var symbol symbols.SegmentSymbol
		var tags string
		err := rows.Scan(&symbol.ID, &symbol.Tenant, &symbol.Name, &tags)
		symbol.Tags = symbols.ParseTags(tags)
		return symbol, err
	}, `
		SELECT s.id, f.tenant, s.name, `+tagsColumn+`
		FROM canvasback_symbols AS s
		JOIN canvasback_folders AS f ON f.id = s.folder_id
		WHERE s.id BETWEEN ? AND ?
		ORDER BY s.id`,
		id*symbols.SegmentSize, (id+1)*symbols.SegmentSize-1,
	)
}

// scanVersion returns the error missing if there is no row.
func scanVersion(row *sql.Row, missing error) (symbols.Version, error) {
	var version symbols.Version
	err := row.Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, missing
	}
	return version, err
}

// requireFolder returns ErrFolderNotFound unless the folder exists.
func (s symbolStore) requireFolder(ctx context.Context, conn *sql.Conn, id int64) error {
	_, err := s.scanFolder(conn.QueryRowContext(ctx, selectFolder, id, s.tenant))
	return err
}
