package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/chunk"
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

func (s exportStore) List(ctx context.Context, filter exports.Filter) ([]exports.Export, error) {
	return chunk.List(ctx, exportIndex(s), filter)
}

// exportIndex implements [chunk.Index].
type exportIndex struct{ db *database }

func scanID(rows *sql.Rows) (id int64, err error) {
	err = rows.Scan(&id)
	return id, err
}

// SQLite limits the number of parameters, so lists are one array.

func (x exportIndex) Reach(ctx context.Context, chunks []string, after int64) ([]int64, error) {
	encoded := make([]string, len(chunks))
	for i, c := range chunks {
		encoded[i] = hex.EncodeToString([]byte(c))
	}
	array, err := json.Marshal(encoded)
	if err != nil {
		return nil, err
	}
	return queryAll(ctx, x.db, scanID, `
		SELECT coalesce((
			SELECT export_id
			FROM canvasback_export_chunks
			WHERE chunk = unhex(given.value) AND export_id > ?2
			ORDER BY export_id
			LIMIT 1
			OFFSET ?3 - 1
		), 9223372036854775807)
		FROM json_each(?1) AS given
		ORDER BY given.key`,
		string(array), after, chunk.Probe,
	)
}

func (x exportIndex) IDs(ctx context.Context, chunks [chunk.Step]string, after int64, limit int) ([]int64, error) {
	return queryAll(ctx, x.db, scanID, `
		SELECT export_id FROM canvasback_export_chunks WHERE chunk = ?1 AND export_id > ?5
		UNION
		SELECT export_id FROM canvasback_export_chunks WHERE chunk = ?2 AND export_id > ?5
		UNION
		SELECT export_id FROM canvasback_export_chunks WHERE chunk = ?3 AND export_id > ?5
		UNION
		SELECT export_id FROM canvasback_export_chunks WHERE chunk = ?4 AND export_id > ?5
		ORDER BY export_id
		LIMIT ?6`,
		[]byte(chunks[0]), []byte(chunks[1]), []byte(chunks[2]), []byte(chunks[3]), after, limit,
	)
}

func (x exportIndex) Prefixed(ctx context.Context, bounds [2 * chunk.Step]string, limit int) ([]int64, error) {
	var args []any
	for _, bound := range bounds {
		args = append(args, []byte(bound))
	}
	return queryAll(ctx, x.db, scanID, `
		SELECT export_id FROM canvasback_export_chunks WHERE chunk >= ?1 AND chunk < ?2
		UNION ALL
		SELECT export_id FROM canvasback_export_chunks WHERE chunk >= ?3 AND chunk < ?4
		UNION ALL
		SELECT export_id FROM canvasback_export_chunks WHERE chunk >= ?5 AND chunk < ?6
		UNION ALL
		SELECT export_id FROM canvasback_export_chunks WHERE chunk >= ?7 AND chunk < ?8
		LIMIT ?9`,
		append(args, limit)...,
	)
}

func (x exportIndex) Match(ctx context.Context, ids []int64, text string, limit int) ([]exports.Export, error) {
	array, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return queryExports(ctx, x.db, `
		SELECT e.id, source_url, exported_url, file_name, registered_by, created_at, updated_at
		FROM json_each(?) AS given
		CROSS JOIN canvasback_exports AS e ON e.id = given.value
		WHERE instr(source_url, ?) > 0
		ORDER BY given.key
		LIMIT ?`,
		string(array), text, limit,
	)
}

func (x exportIndex) Scan(ctx context.Context, filter exports.Filter) ([]exports.Export, error) {
	return queryExports(ctx, x.db, `
		SELECT id, source_url, exported_url, file_name, registered_by, created_at, updated_at
		FROM canvasback_exports
		WHERE id > ? AND instr(source_url, ?) > 0
		ORDER BY id
		LIMIT ?`,
		filter.After, filter.Contains, filter.Limit,
	)
}
