package sqlite

import (
	"context"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/sqlstore"
)

type exportStore struct{ sqlstore.Exports }

var _ exports.LinkStore = exportStore{}

func (s exportStore) Put(ctx context.Context, export exports.Export, rule exports.PutRule) (stored exports.Export, created bool, err error) {
	source := tenantPrefix(export.Tenant) + export.SourceURL
	err = s.DB.Transact(ctx, func(tx sqlstore.Tx) error {
		previous, err := sqlstore.One(tx.QueryRow(ctx, sqlstore.SelectExport+` WHERE source_url = ?`, source), sqlstore.ScanExport)
		if created = err == exports.ErrNotFound; created {
			return tx.QueryRow(ctx, `
				INSERT INTO canvasback_exports (tenant, source_url, exported_url, file_name, registered_by, created_at, updated_at)
				VALUES (?, ?, ?, ?, ?, ?, ?)
				RETURNING id`,
				export.Tenant, source, export.ExportedURL, export.FileName, export.RegisteredBy, export.CreatedAt, export.UpdatedAt,
			).Scan(&export.ID)
		}
		if err != nil {
			return err
		}
		if export, err = rule.Replace(previous, export); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE canvasback_exports
			SET exported_url = ?, file_name = ?, registered_by = ?, updated_at = ?
			WHERE id = ?`,
			export.ExportedURL, export.FileName, export.RegisteredBy, export.UpdatedAt, export.ID,
		)
		return err
	})
	if err != nil {
		return exports.Export{}, false, err
	}
	return export, created, nil
}

func (s exportStore) Find(ctx context.Context, tenant string, sources ...string) ([]exports.Export, error) {
	prefix, stored := tenantPrefix(tenant), make([]string, len(sources))
	for i, source := range sources {
		stored[i] = prefix + source
	}
	return sqlstore.List(ctx, s.DB, sqlstore.ScanExport, sqlstore.SelectExport+`
		WHERE source_url IN (SELECT value FROM json_each(?))`,
		stored,
	)
}
