package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/paging"
)

func (s exportStore) Get(ctx context.Context, id int64) (exports.Export, error) {
	export, err := scanExport(s.db.readRow(ctx, `
		SELECT id, source_url, exported_url, file_name, registered_by, created_at, updated_at
		FROM canvasback_exports
		WHERE id = $1`,
		id,
	))
	if errors.Is(err, pgx.ErrNoRows) {
		return exports.Export{}, exports.ErrNotFound
	}
	return export, err
}

func (s exportStore) Delete(ctx context.Context, id int64) error {
	affected, err := s.db.exec(ctx, `
		DELETE FROM canvasback_exports
		WHERE id = $1`,
		id,
	)
	if err == nil && affected == 0 {
		return exports.ErrNotFound
	}
	return err
}

func (s exportStore) List(ctx context.Context, filter exports.Filter, r exports.Range) (page exports.Page, err error) {
	list, err := readRows(ctx, s.db, scanExportRow, `
		SELECT id, source_url, exported_url, file_name, registered_by, created_at, updated_at
		FROM canvasback_exports
		WHERE id > $1 AND strpos(source_url, $2) > 0
		ORDER BY id
		LIMIT $3`,
		r.After, filter.Contains, paging.FetchLimit(r.Limit),
	)
	page.Exports, page.More = paging.Cut(list, r.Limit)
	return page, err
}
