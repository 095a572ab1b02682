package sqlite

import (
	"cmp"
	"context"
	"slices"

	"example.com/canvasback/storage/internal/sqlstore"
	"example.com/canvasback/symbols"
)

// symbolStore is the store of a tenant.
type symbolStore struct {
	sqlstore.Symbols
	db *database
}

func symbolsOf(db *database, tenant string) symbolStore {
	return symbolStore{sqlstore.Symbols{DB: db, Of: tenant, Prefix: tenantPrefix(tenant), Large: db.large}, db}
}

func (s symbolStore) Tenant(tenant string) symbols.Store { return symbolsOf(s.db, tenant) }

// ListSymbols reads rows until the page has its size. The last column without details
// shows whether symbols follow, without reading their data.
func (s symbolStore) ListSymbols(ctx context.Context, folderID int64, r symbols.Range, size int, details bool) (symbols.Page, error) {
	columns := ""
	if details {
		columns = `, ifnull(s.tags, ''), ifnull(s.meta, ''), s.created_at, s.updated_at, ifnull(s.updated_by, 0)`
	}
	var page symbols.Page
	found := false
	err := s.db.Query(ctx, func(rows sqlstore.Rows) error {
		for read := 0; read < max(size, 1) && rows.Next(); {
			symbol, last := symbols.Symbol{FolderID: folderID}, int64(0)
			err := sqlstore.ScanSymbol(rows, &symbol, details,
				&page.Version, &symbol.ID, &symbol.Name, &symbol.Type, &symbol.Data, &symbol.Version, &last)
			if err != nil {
				return err
			}
			if found = true; symbol.ID == 0 {
				break // only the version
			}
			page.Symbols, page.More = append(page.Symbols, symbol), symbol.ID < last
			read += len(symbol.Data) + len(symbol.Meta) + symbols.PageOverhead
		}
		return nil
	}, `
		SELECT
			f.contents_version, ifnull(s.id, 0), ifnull(s.name, ''), ifnull(s.type, ''),
			iif(octet_length(s.data) <= ?4, s.data, ''), ifnull(s.version, 0),
			(SELECT ifnull(max(id), 0) FROM canvasback_symbols WHERE folder_id = ?1)`+columns+`
		FROM canvasback_folders AS f
		LEFT JOIN canvasback_symbols AS s
			ON s.folder_id = f.id AND s.id > ?2
		WHERE f.id = ?1 AND f.tenant = ?5
		ORDER BY s.id
		LIMIT iif(?3 > 0, ?3, -1)`,
		folderID, r.After, r.Limit, symbols.LargeSize, s.Of,
	)
	if err == nil && !found {
		err = symbols.ErrFolderNotFound
	}
	return page, err
}

func (s symbolStore) InsertSymbols(ctx context.Context, folderID int64, given []symbols.Symbol) ([]symbols.Symbol, error) {
	list := slices.Clone(given)
	group := make([]*insertion, len(list))
	for i := range list {
		list[i].FolderID = folderID
		group[i] = &insertion{Symbol: &list[i], tenant: s.Of}
	}
	if len(list) == 1 {
		return list, s.db.insert(ctx, group[0])
	}
	err := s.db.write(ctx, func(tx transaction) error {
		err := tx.insert(ctx, group)
		for _, i := range group {
			err = cmp.Or(err, i.err)
		}
		return err
	})
	return list, err
}

// Changes reads the position first: what changes until the second statement is returned
// again.
func (s symbolStore) Changes(ctx context.Context, since symbols.Position) (set symbols.ChangeSet, err error) {
	err = s.db.QueryRow(ctx, `
		SELECT history, number
		FROM canvasback_clock`,
	).Scan(&set.History, &set.Number)
	if err != nil || since.History != set.History || since.Number >= set.Number {
		return set, err
	}
	set.Changed, err = sqlstore.List(ctx, s.db, func(row sqlstore.Row, changed *symbols.Changed) error {
		return row.Scan(&changed.Tenant, &changed.FolderID, &changed.Number)
	}, `
		SELECT tenant, id, changed FROM canvasback_folders WHERE changed > ?1
		UNION ALL
		SELECT '', 0, changed FROM canvasback_folder_list WHERE changed > ?1
		UNION ALL
		SELECT tenant, 0, changed FROM canvasback_tenant_lists WHERE changed > ?1`,
		since.Number,
	)
	return set, err
}
