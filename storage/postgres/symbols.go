package postgres

import (
	"cmp"
	"context"
	"math"
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
	return symbolStore{sqlstore.Symbols{DB: db, Of: tenant}, db}
}

func (s symbolStore) Tenant(tenant string) symbols.Store { return symbolsOf(s.db, tenant) }

func (s symbolStore) AssignTenant(ctx context.Context, to string) error {
	return s.db.Transact(ctx, func(tx sqlstore.Tx) error {
		for { // until no folder is left: others may move one between the tables meanwhile
			moved, err := tx.Exec(ctx, `SELECT FROM canvasback_trash WHERE tenant = $1 ORDER BY id FOR UPDATE`, s.Of)
			for _, table := range []string{"folders", "trash"} {
				var rows int64
				if err == nil {
					rows, err = tx.Exec(ctx, `UPDATE canvasback_`+table+` SET tenant = $2 WHERE tenant = $1`, s.Of, to)
				}
				moved += rows
			}
			if err != nil || moved == 0 || to == s.Of {
				return err
			}
		}
	})
}

func (s symbolStore) ListSymbols(ctx context.Context, folderID int64, r symbols.Range, size int, details bool) (symbols.Page, error) {
	columns, inner := "", ""
	if details {
		columns, inner = `,
			coalesce(symbol.tags, ''), coalesce(symbol.meta, ''), coalesce(symbol.created_at, 'epoch'),
			coalesce(symbol.updated_at, 'epoch'), coalesce(symbol.updated_by, 0)`, `, tags, meta, created_at, updated_at, updated_by`
	}
	// The size of the next four symbols shows how many the page is likely to have,
	// so that few others are visited. octet_length does not read data that is
	// stored out of line.
	var page symbols.Page
	var last int64
	list, err := sqlstore.List(ctx, s.db, func(row sqlstore.Row, symbol *symbols.Symbol) error {
		symbol.FolderID = folderID
		return sqlstore.ScanSymbol(row, symbol, details,
			&page.Version, &last, // the same in each row
			&symbol.ID, &symbol.Name, &symbol.Type, &symbol.Data, &symbol.Version,
		)
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
		folderID, r.After, max(size, 1), cmp.Or(max(r.Limit, 0), math.MaxInt), symbols.PageOverhead, symbols.LargeSize, s.Of,
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

func (s symbolStore) InsertSymbols(ctx context.Context, folderID int64, given []symbols.Symbol) ([]symbols.Symbol, error) {
	list := slices.Clone(given)
	insertions := make([]*insertion, len(list))
	for i := range list {
		list[i].FolderID = folderID
		insertions[i] = &insertion{Symbol: &list[i]}
	}
	var err error
	switch len(list) {
	case 0:
		return nil, ctx.Err()
	case 1:
		list[0], err = s.db.insert(ctx, s.Of, list[0])
	default:
		var inserted []bool
		inserted, err = s.db.insertSymbols(ctx, queueKey{s.Of, true, folderID}, insertions)
		if err == nil && !inserted[0] {
			err = symbols.ErrFolderNotFound
		}
	}
	return list, err
}

// Changes returns what transactions have changed that had not ended at a position: that is
// the oldest transaction that runs. What has changed since then is returned until the
// position is behind it. The history changes when the server starts, which may be another
// one with other transactions, when it recovers from a crash, which resets its statistics
// (not noticed before PostgreSQL 15, where reading them is slow), and when the tables are
// created again, or copied with the database.
func (s symbolStore) Changes(ctx context.Context, since symbols.Position) (set symbols.ChangeSet, err error) {
	list, err := sqlstore.List(ctx, s.db, func(row sqlstore.Row, changed *symbols.Changed) error {
		return row.Scan(&set.History, &set.Number, &changed.Tenant, &changed.FolderID, &changed.Number)
	}, `
		WITH current AS (
			SELECT
				(extract(epoch FROM greatest(
					pg_postmaster_start_time(),
					CASE WHEN current_setting('server_version_num')::int >= 150000 THEN pg_stat_get_bgwriter_stat_reset_time() END
				)) * 1000000)::bigint + (SELECT list.tableoid::bigint + own.datid::bigint
					FROM canvasback_folder_list AS list, pg_stat_get_activity(pg_backend_pid()) AS own) AS history,
				pg_snapshot_xmin(pg_current_snapshot()) AS oldest,
				pg_snapshot_xmax(pg_current_snapshot()) AS next
		), changed AS (
			SELECT tenant, id, changed FROM canvasback_folders
			UNION ALL
			SELECT '', 0, changed FROM canvasback_folder_list
			UNION ALL
			SELECT tenant, 0, changed FROM canvasback_tenant_lists
		)
		SELECT
			history, oldest::text::bigint, coalesce(tenant, ''), coalesce(id, -1), coalesce(changed::text::bigint, 0)
		FROM current
		LEFT JOIN changed ON history = $1 AND changed >= $2::bigint::text::xid8 AND changed < next`,
		since.History, max(since.Number, 0),
	)
	if len(list) == 1 && list[0].FolderID < 0 { // only the position
		list = nil
	}
	set.Changed = list
	return set, err
}
