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
		SELECT `+exportColumns+`
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
		SELECT `+exportColumns+`
		FROM canvasback_exports
		WHERE id > $1 AND strpos(source_url, $2) > 0 AND ($4::text IS NULL OR tenant = $4)
		ORDER BY id
		LIMIT $3`,
		r.After, filter.Contains, paging.FetchLimit(r.Limit), filter.Tenant,
	)
	page.Exports, page.More = paging.Cut(list, r.Limit)
	return page, err
}

func (s exportStore) AssignTenant(ctx context.Context, from, to string) error {
	return s.db.transact(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.db.sql(`
			UPDATE canvasback_exports
			SET tenant = $2, source_digest = sha256(convert_to(canvasback_tenant_source($2, source_url), 'UTF8'))
			WHERE tenant = $1`),
			from, to,
		)
		if err == nil {
			_, err = tx.Exec(ctx, s.db.sql(`UPDATE canvasback_links SET tenant = $2 WHERE tenant = $1`), from, to)
		}
		return err
	})
}
