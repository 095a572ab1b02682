package postgres

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/exports"
)

func (s exportStore) FindFacts(ctx context.Context, urls ...[32]byte) ([]exports.Fact, error) {
	return readRows(ctx, s.db, scanFact, `
		SELECT url_digest, validator, size, revision, crc32, type, name, modified, seen_at, blocks
		FROM canvasback_facts
		WHERE url_digest = ANY ($1::bytea[])`,
		digestArray(urls),
	)
}

func scanFact(row pgx.CollectableRow) (fact exports.Fact, err error) {
	var (
		url      []byte
		modified *time.Time
	)
	err = row.Scan(
		&url, &fact.Validator, &fact.Size, &fact.Revision, &fact.CRC32, &fact.Type, &fact.Name, &modified, &fact.SeenAt, &fact.Blocks,
	)
	copy(fact.URL[:], url)
	fact.Modified, fact.SeenAt = fromNullTime(modified), fact.SeenAt.UTC()
	return fact, err
}

func digestArray(digests [][32]byte) [][]byte {
	array := make([][]byte, len(digests))
	for i := range digests {
		array[i] = digests[i][:]
	}
	return array
}

func (s exportStore) PutFacts(ctx context.Context, facts []exports.Fact, limit int) error {
	if len(facts) == 0 {
		return ctx.Err()
	}
	// Two calls that locked the same rows in different orders would deadlock.
	facts = slices.SortedFunc(slices.Values(facts), func(a, b exports.Fact) int {
		return bytes.Compare(a.URL[:], b.URL[:])
	})
	return s.db.transact(ctx, func(tx pgx.Tx) error {
		var batch pgx.Batch
		for _, fact := range facts {
			batch.Queue(s.db.sql(`
				INSERT INTO canvasback_facts (
					url_digest, validator, size, revision, crc32, type, name, modified, seen_at, blocks
				)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
				ON CONFLICT (url_digest) DO UPDATE
				SET id = EXCLUDED.id, validator = $2, size = $3, revision = $4, crc32 = $5,
					type = $6, name = $7, modified = $8, seen_at = $9, blocks = $10
				WHERE canvasback_facts.revision <= $4`),
				fact.URL[:], fact.Validator, fact.Size, fact.Revision, fact.CRC32, fact.Type, fact.Name,
				nullTime(fact.Modified), fact.SeenAt, notNull(fact.Blocks),
			)
		}
		batch.Queue(s.db.sql(`
			DELETE FROM canvasback_facts
			WHERE id IN (
				SELECT id
				FROM canvasback_facts
				WHERE id <= (SELECT max(id) FROM canvasback_facts) - $1::bigint
				ORDER BY id
				LIMIT $2
				FOR UPDATE SKIP LOCKED
			)`),
			limit, exports.PruneStep,
		)
		return tx.SendBatch(ctx, &batch).Close()
	})
}
