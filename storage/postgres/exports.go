package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/sqlstore"
)

type exportStore struct{ sqlstore.Exports }

var _ exports.LinkStore = exportStore{}

// sourceDigest returns the indexed form of a tenant's source URL, as the function
// canvasback_tenant_source of the database does. No source URL begins with a space.
func sourceDigest(tenant, source string) []byte {
	if tenant != "" {
		source = fmt.Sprintf(" %x %s", sha256.Sum256([]byte(tenant)), source)
	}
	digest := sha256.Sum256([]byte(source))
	return digest[:]
}

func (s exportStore) Put(ctx context.Context, export exports.Export, rule exports.PutRule) (stored exports.Export, created bool, err error) {
	// ON CONFLICT DO UPDATE would consume an id for each replacement, and
	// not report whether it inserted or updated. An id of 0 means that the
	// rule is violated.
	put := func() error {
		return s.DB.WriteRow(ctx, `
			WITH replaced AS (
				UPDATE canvasback_exports
				SET
					exported_url = $3, file_name = CASE WHEN $8 THEN file_name ELSE $4 END,
					registered_by = $5, updated_at = $7
				WHERE source_digest = $1 AND (NOT $9 OR registered_by = $5) AND NOT $11
				RETURNING id, exported_url, file_name, registered_by, created_at, updated_at
			), inserted AS (
				INSERT INTO canvasback_exports (
					source_digest, source_url, exported_url, file_name, registered_by, created_at, updated_at, tenant
				)
				SELECT $1::bytea, $2::text, $3::text, $4::text, $5::text, $6::timestamptz, $7::timestamptz, $10::text
				WHERE NOT EXISTS (SELECT FROM replaced)
				ON CONFLICT (source_digest) DO NOTHING
				RETURNING id, exported_url, file_name, registered_by, created_at, updated_at
			)
			SELECT id, exported_url, file_name, registered_by, created_at, updated_at, false
			FROM replaced
			UNION ALL
			SELECT id, exported_url, file_name, registered_by, created_at, updated_at, true
			FROM inserted
			UNION ALL
			SELECT CASE WHEN $11 THEN id ELSE 0 END, exported_url, file_name, registered_by, created_at, updated_at, false
			FROM canvasback_exports
			WHERE source_digest = $1 AND ($11 OR $9 AND registered_by <> $5)`,
			sourceDigest(export.Tenant, export.SourceURL), export.SourceURL, export.ExportedURL, export.FileName,
			export.RegisteredBy, export.CreatedAt, export.UpdatedAt, rule.KeepName, rule.OwnOnly, export.Tenant,
			rule.IfAbsent,
		).Scan(
			&export.ID, &export.ExportedURL, &export.FileName, &export.RegisteredBy,
			(*sqlstore.Time)(&export.CreatedAt), (*sqlstore.Time)(&export.UpdatedAt), &created,
		)
	}
	err = put()
	for errors.Is(err, pgx.ErrNoRows) { // a concurrent call inserted it after the statement began
		err = put()
	}
	if err == nil && export.ID == 0 {
		err = exports.ErrNotOwner
	}
	if err != nil {
		return exports.Export{}, false, err
	}
	return export, created, nil
}

func (s exportStore) Find(ctx context.Context, tenant string, sources ...string) ([]exports.Export, error) {
	digests := make([][]byte, len(sources))
	for i, source := range sources {
		digests[i] = sourceDigest(tenant, source)
	}
	return sqlstore.List(ctx, s.DB, sqlstore.ScanExport, sqlstore.SelectExport+`
		WHERE source_digest = ANY ($1::bytea[])`,
		digests,
	)
}

func (s exportStore) AssignTenant(ctx context.Context, from, to string) error {
	return s.DB.Transact(ctx, func(tx sqlstore.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE canvasback_exports
			SET tenant = $2, source_digest = sha256(convert_to(canvasback_tenant_source($2, source_url), 'UTF8'))
			WHERE tenant = $1`,
			from, to,
		)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE canvasback_links SET tenant = $2 WHERE tenant = $1`, from, to)
		}
		return err
	})
}
