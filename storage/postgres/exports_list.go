package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/internal/chunk"
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

func (s exportStore) List(ctx context.Context, filter exports.Filter) ([]exports.Export, error) {
	return chunk.List(ctx, exportIndex(s), filter)
}

// exportIndex implements [chunk.Index].
type exportIndex struct{ db *database }

func (x exportIndex) Reach(ctx context.Context, chunks []string, after int64) ([]int64, error) {
	given := make([][]byte, len(chunks))
	for i, c := range chunks {
		given[i] = []byte(c)
	}
	return readRows(ctx, x.db, pgx.RowTo[int64], `
		SELECT coalesce((
			SELECT export_id
			FROM canvasback_export_chunks
			WHERE chunk = given.chunk AND export_id > $2
			ORDER BY export_id
			LIMIT 1
			OFFSET $3 - 1
		), 9223372036854775807)
		FROM unnest($1::bytea[]) WITH ORDINALITY AS given (chunk, number)
		ORDER BY given.number`,
		given, after, chunk.Probe,
	)
}

func (x exportIndex) IDs(ctx context.Context, chunks [chunk.Step]string, after int64, limit int) ([]int64, error) {
	// Each subquery is limited, so that the planner cannot prefer to read all
	// candidates.
	return readRows(ctx, x.db, pgx.RowTo[int64], `
		SELECT DISTINCT export_id
		FROM (
			(SELECT export_id FROM canvasback_export_chunks WHERE chunk = $1 AND export_id > $5 ORDER BY export_id LIMIT $6)
			UNION ALL
			(SELECT export_id FROM canvasback_export_chunks WHERE chunk = $2 AND export_id > $5 ORDER BY export_id LIMIT $6)
			UNION ALL
			(SELECT export_id FROM canvasback_export_chunks WHERE chunk = $3 AND export_id > $5 ORDER BY export_id LIMIT $6)
			UNION ALL
			(SELECT export_id FROM canvasback_export_chunks WHERE chunk = $4 AND export_id > $5 ORDER BY export_id LIMIT $6)
		) AS candidates
		ORDER BY export_id
		LIMIT $6`,
		[]byte(chunks[0]), []byte(chunks[1]), []byte(chunks[2]), []byte(chunks[3]), after, limit,
	)
}

func (x exportIndex) Prefixed(ctx context.Context, bounds [2 * chunk.Step]string, limit int) ([]int64, error) {
	var args []any
	for _, bound := range bounds {
		args = append(args, []byte(bound))
	}
	return readRows(ctx, x.db, pgx.RowTo[int64], `
		SELECT export_id FROM canvasback_export_chunks WHERE chunk >= $1 AND chunk < $2
		UNION ALL
		SELECT export_id FROM canvasback_export_chunks WHERE chunk >= $3 AND chunk < $4
		UNION ALL
		SELECT export_id FROM canvasback_export_chunks WHERE chunk >= $5 AND chunk < $6
		UNION ALL
		SELECT export_id FROM canvasback_export_chunks WHERE chunk >= $7 AND chunk < $8
		LIMIT $9`,
		append(args, limit)...,
	)
}

func (x exportIndex) Match(ctx context.Context, ids []int64, text string, limit int) ([]exports.Export, error) {
	return readRows(ctx, x.db, scanExportRow, `
		SELECT id, source_url, exported_url, file_name, registered_by, created_at, updated_at
		FROM canvasback_exports
		WHERE id = ANY ($1::bigint[]) AND strpos(source_url, $2) > 0
		ORDER BY id
		LIMIT $3`,
		ids, text, limit,
	)
}

func (x exportIndex) Scan(ctx context.Context, filter exports.Filter) ([]exports.Export, error) {
	return readRows(ctx, x.db, scanExportRow, `
		SELECT id, source_url, exported_url, file_name, registered_by, created_at, updated_at
		FROM canvasback_exports
		WHERE id > $1 AND strpos(source_url, $2) > 0
		ORDER BY id
		LIMIT $3`,
		filter.After, filter.Contains, filter.Limit,
	)
}
