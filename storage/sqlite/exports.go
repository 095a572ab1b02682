package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"example.com/canvasback/exports"
)

type exportStore struct{ db *database }

var (
	_ exports.Store     = exportStore{}
	_ exports.LinkStore = exportStore{}
)

func (s exportStore) Put(ctx context.Context, export exports.Export, rule exports.PutRule) (stored exports.Export, created bool, err error) {
	err = s.db.write(ctx, func(conn *sql.Conn) error {
		var previous exports.Export
		previous, err := scanExport(conn.QueryRowContext(ctx, `
			SELECT `+exportColumns+`
			FROM canvasback_exports
			WHERE source_url = ?`,
			tenantPrefix(export.Tenant)+export.SourceURL,
		))
		if created = errors.Is(err, sql.ErrNoRows); created {
			return conn.QueryRowContext(ctx, `
				INSERT INTO canvasback_exports (tenant, source_url, exported_url, file_name, registered_by, created_at, updated_at)
				VALUES (?, ?, ?, ?, ?, ?, ?)
				RETURNING id`,
				export.Tenant, tenantPrefix(export.Tenant)+export.SourceURL, export.ExportedURL, export.FileName, export.RegisteredBy,
				toMillis(export.CreatedAt), toMillis(export.UpdatedAt),
			).Scan(&export.ID)
		}
		if err != nil {
			return err
		}
		if export, err = rule.Replace(previous, export); err != nil {
			return err
		}
		_, err = conn.ExecContext(ctx, `
			UPDATE canvasback_exports
			SET exported_url = ?, file_name = ?, registered_by = ?, updated_at = ?
			WHERE id = ?`,
			export.ExportedURL, export.FileName, export.RegisteredBy, toMillis(export.UpdatedAt), export.ID,
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
	// SQLite limits the number of parameters, so all URLs are one array.
	array, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	return queryExports(ctx, s.db, `
		SELECT `+exportColumns+`
		FROM canvasback_exports
		WHERE source_url IN (
			SELECT value
			FROM json_each(?)
		)`,
		string(array),
	)
}

// queryExports returns the exports of a query.
func queryExports(ctx context.Context, db *database, statement string, args ...any) ([]exports.Export, error) {
	return queryAll(ctx, db, func(rows *sql.Rows) (exports.Export, error) { return scanExport(rows) }, statement, args...)
}

// exportColumns are what scanExport reads.
const exportColumns = `id, tenant, source_url, exported_url, file_name, registered_by, created_at, updated_at`

func scanExport(row interface{ Scan(dest ...any) error }) (exports.Export, error) {
	var (
		export           exports.Export
		created, updated sql.NullInt64
	)
	err := row.Scan(
		&export.ID, &export.Tenant, &export.SourceURL, &export.ExportedURL, &export.FileName, &export.RegisteredBy,
		&created, &updated,
	)
	if export.Tenant != "" {
		export.SourceURL = export.SourceURL[tenantPrefixSize:]
	}
	export.CreatedAt, export.UpdatedAt = fromMillis(created), fromMillis(updated)
	return export, err
}
