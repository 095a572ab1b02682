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
		SELECT id, source_url, exported_url, file_name, registered_by, created_at, updated_at
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
		SELECT id, source_url, exported_url, file_name, registered_by, created_at, updated_at
		FROM canvasback_exports
		WHERE id > ? AND instr(source_url, ?) > 0
		ORDER BY id
		LIMIT ?`,
		r.After, filter.Contains, paging.FetchLimit(r.Limit),
	)
	page.Exports, page.More = paging.Cut(list, r.Limit)
	return page, err
}
