package postgres

import (
	"context"
	"crypto/sha256"
	"errors"

	"example.com/canvasback/exports"
	"github.com/jackc/pgx/v5"
)

type exportStore struct{ db *DB }

var _ exports.Store = exportStore{}

// sourceDigest is what a source address is found by.
func sourceDigest(source string) []byte {
	digest := sha256.Sum256([]byte(source))
	return digest[:]
}

func (s exportStore) Put(ctx context.Context, export exports.Export) (stored exports.Export, created bool, err error) {
	// The usual ON CONFLICT DO UPDATE would use up an id each time and not
	// tell what it did.
	put := func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, s.db.sql(`
			WITH replaced AS (
				UPDATE canvasback_exports
				SET exported_url = $3, file_name = $4, updated_at = $6
				WHERE source_digest = $1
				RETURNING id, created_at
			), inserted AS (
				INSERT INTO canvasback_exports (
					source_digest, source_url, exported_url, file_name, created_at, updated_at
				)
				SELECT $1::bytea, $2::text, $3::text, $4::text, $5::timestamptz, $6::timestamptz
				WHERE NOT EXISTS (SELECT FROM replaced)
				ON CONFLICT (source_digest) DO NOTHING
				RETURNING id, created_at
			)
			SELECT id, created_at, false
			FROM replaced
			UNION ALL
			SELECT id, created_at, true
			FROM inserted`),
			sourceDigest(export.SourceURL), export.SourceURL, export.ExportedURL, export.FileName,
			export.CreatedAt, export.UpdatedAt,
		).Scan(&export.ID, &export.CreatedAt, &created)
	}
	err = s.db.write(ctx, put)
	for errors.Is(err, pgx.ErrNoRows) { // somebody has inserted it since the statement began
		err = s.db.write(ctx, put)
	}
	if err != nil {
		return exports.Export{}, false, err
	}
	export.CreatedAt = export.CreatedAt.UTC()
	return export, created, nil
}

func (s exportStore) Find(ctx context.Context, sources ...string) ([]exports.Export, error) {
	digests := make([][]byte, len(sources))
	for i, source := range sources {
		digests[i] = sourceDigest(source)
	}
	return readRows(ctx, s.db, scanExport, `
		SELECT id, source_url, exported_url, file_name, created_at, updated_at
		FROM canvasback_exports
		WHERE source_digest = ANY ($1::bytea[])`,
		digests,
	)
}

func scanExport(row pgx.CollectableRow) (exports.Export, error) {
	var export exports.Export
	err := row.Scan(
		&export.ID, &export.SourceURL, &export.ExportedURL, &export.FileName,
		&export.CreatedAt, &export.UpdatedAt,
	)
	export.CreatedAt, export.UpdatedAt = export.CreatedAt.UTC(), export.UpdatedAt.UTC()
	return export, err
}

func (s exportStore) Delete(ctx context.Context, source string) error {
	met, err := s.db.exec(ctx, `
		DELETE FROM canvasback_exports
		WHERE source_digest = $1`,
		sourceDigest(source),
	)
	if err == nil && met == 0 {
		return exports.ErrNotFound
	}
	return err
}
