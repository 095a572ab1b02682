package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"

	"example.com/canvasback/exports"
)

func (s exportStore) FindFacts(ctx context.Context, urls ...[32]byte) ([]exports.Fact, error) {
	return queryAll(ctx, s.db, scanFact, `
		SELECT url_digest, validator, size, revision, crc32, type, name, modified, seen_at, blocks
		FROM canvasback_facts
		WHERE url_digest IN (
			SELECT unhex(value)
			FROM json_each(?)
		)`,
		hexArray(urls),
	)
}

func scanFact(rows *sql.Rows) (fact exports.Fact, err error) {
	var (
		url            []byte
		modified, seen sql.NullInt64
	)
	err = rows.Scan(
		&url, &fact.Validator, &fact.Size, &fact.Revision, &fact.CRC32, &fact.Type, &fact.Name, &modified, &seen, &fact.Blocks,
	)
	copy(fact.URL[:], url)
	fact.Modified, fact.SeenAt = fromMillis(modified), fromMillis(seen)
	return fact, err
}

// hexArray returns digests as one parameter, because SQLite limits their number.
func hexArray(digests [][32]byte) string {
	texts := make([]string, len(digests))
	for i, digest := range digests {
		texts[i] = hex.EncodeToString(digest[:])
	}
	array, _ := json.Marshal(texts) // strings always encode
	return string(array)
}

func (s exportStore) PutFacts(ctx context.Context, facts []exports.Fact, limit int) error {
	if len(facts) == 0 {
		return ctx.Err()
	}
	return s.db.write(ctx, func(conn *sql.Conn) error {
		var last int64
		for _, fact := range facts {
			err := conn.QueryRowContext(ctx, `
				REPLACE INTO canvasback_facts (
					url_digest, validator, size, revision, crc32, type, name, modified, seen_at, blocks
				)
				SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
				WHERE NOT EXISTS (
					SELECT * FROM canvasback_facts
					WHERE url_digest = ?1 AND revision > ?4
				)
				RETURNING id`,
				fact.URL[:], fact.Validator, fact.Size, fact.Revision, fact.CRC32, fact.Type, fact.Name,
				toMillis(fact.Modified), toMillis(fact.SeenAt), notNull(fact.Blocks),
			).Scan(&last)
			if err != nil && err != sql.ErrNoRows {
				return err
			}
		}
		_, err := conn.ExecContext(ctx, `
			DELETE FROM canvasback_facts
			WHERE id IN (
				SELECT id FROM canvasback_facts
				WHERE id <= ?
				ORDER BY id
				LIMIT ?
			)`,
			last-int64(limit), exports.PruneStep,
		)
		return err
	})
}
