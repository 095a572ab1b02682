package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/paging"
)

func (s exportStore) Get(ctx context.Context, id int64) (exports.Export, error) {
	export, err := scanExport(s.db.queryRow(ctx, `
		SELECT `+exportColumns+`
		FROM canvasback_exports
		WHERE id = ?`,
		id,
	))
	if errors.Is(err, sql.ErrNoRows) {
		return exports.Export{}, exports.ErrNotFound
	}
	return export, err
}

func (s exportStore) Delete(ctx context.Context, id int64) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, `
			DELETE FROM canvasback_exports
			WHERE id = ?`,
			id,
		)
		return requireRow(result, err, exports.ErrNotFound)
	})
}

func (s exportStore) List(ctx context.Context, filter exports.Filter, r exports.Range) (page exports.Page, err error) {
	list, err := queryExports(ctx, s.db, `
		SELECT `+exportColumns+`
		FROM canvasback_exports
		WHERE id > ?1 AND instr(substr(source_url, iif(tenant = '', 1, ?2)), ?3) > 0 AND (?4 IS NULL OR tenant = ?4)
		ORDER BY id
		LIMIT ?5`,
		r.After, tenantPrefixSize+1, filter.Contains, filter.Tenant, paging.FetchLimit(r.Limit),
	)
	page.Exports, page.More = paging.Cut(list, r.Limit)
	return page, err
}

func (s exportStore) AssignTenant(ctx context.Context, from, to string) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		start := len(tenantPrefix(from)) + 1
		var taken bool
		err := conn.QueryRowContext(ctx, `
			SELECT EXISTS (
				SELECT 1
				FROM canvasback_exports AS e
				JOIN canvasback_exports AS other ON other.source_url = ?1 || substr(e.source_url, ?2)
				WHERE e.tenant = ?3
			)`,
			tenantPrefix(to), start, from,
		).Scan(&taken)
		if err == nil && taken {
			err = exports.ErrTaken
		}
		if err == nil {
			_, err = conn.ExecContext(ctx, `
				UPDATE canvasback_exports
				SET tenant = ?, source_url = ? || substr(source_url, ?)
				WHERE tenant = ?`,
				to, tenantPrefix(to), start, from,
			)
		}
		if err == nil {
			_, err = conn.ExecContext(ctx, `UPDATE canvasback_links SET tenant = ? WHERE tenant = ?`, to, from)
		}
		return err
	})
}
