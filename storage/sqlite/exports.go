package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"example.com/canvasback/exports"
)

type exportStore struct{ db *database }

var _ exports.Store = exportStore{}

func (s exportStore) Put(ctx context.Context, export exports.Export) (stored exports.Export, created bool, err error) {
	err = s.db.write(ctx, func(conn *sql.Conn) error {
		var createdAt sql.NullInt64
		err := conn.QueryRowContext(ctx, `
			UPDATE canvasback_exports
			SET exported_url = ?, file_name = ?, updated_at = ?
			WHERE source_url = ?
			RETURNING id, created_at`,
			export.ExportedURL, export.FileName, toMillis(export.UpdatedAt), export.SourceURL,
		).Scan(&export.ID, &createdAt)
		if err == nil {
			export.CreatedAt = fromMillis(createdAt)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		created = true
		return conn.QueryRowContext(ctx, `
			INSERT INTO canvasback_exports (source_url, exported_url, file_name, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?)
			RETURNING id`,
			export.SourceURL, export.ExportedURL, export.FileName,
			toMillis(export.CreatedAt), toMillis(export.UpdatedAt),
		).Scan(&export.ID)
	})
	if err != nil {
		return exports.Export{}, false, err
	}
	return export, created, nil
}

func (s exportStore) Find(ctx context.Context, sources ...string) ([]exports.Export, error) {
	// SQLite limits the number of parameters, so all URLs are one array.
	array, err := json.Marshal(sources)
	if err != nil {
		return nil, err
	}
	rows, err := s.db.query(ctx, `
		SELECT id, source_url, exported_url, file_name, created_at, updated_at
		FROM canvasback_exports
		WHERE source_url IN (
			SELECT value
			FROM json_each(?)
		)`,
		string(array),
	)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []exports.Export
	for rows.Next() {
		var (
			export           exports.Export
			created, updated sql.NullInt64
		)
		err := rows.Scan(
			&export.ID, &export.SourceURL, &export.ExportedURL, &export.FileName,
			&created, &updated,
		)
		if err != nil {
			return nil, err
		}
		export.CreatedAt, export.UpdatedAt = fromMillis(created), fromMillis(updated)
		list = append(list, export)
	}
	return list, rows.Err()
}

func (s exportStore) Delete(ctx context.Context, source string) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, `
			DELETE FROM canvasback_exports
			WHERE source_url = ?`,
			source,
		)
		return requireRow(result, err, exports.ErrNotFound)
	})
}
