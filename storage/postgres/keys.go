package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/sqlstore"
)

type keyStore struct {
	sqlstore.Keys
	db *database
}

func (s keyStore) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	ids, counts := make([]int64, len(uses)), make([]int64, len(uses))
	created, times := make([]time.Time, len(uses)), make([]time.Time, len(uses))
	publics, todays := make([][]byte, len(uses)), make([]int64, len(uses))
	for i, use := range uses {
		todays[i] = use.Today
		publics[i] = sqlstore.PublicKeyColumn(use.Digest, use.PublicKey)
		ids[i], created[i], times[i], counts[i] = use.ID, use.CreatedAt, use.At, use.Count
	}
	// Rows are locked by ascending id, so concurrent calls cannot deadlock. Those of a key's
	// usage are locked with the key.
	_, err := s.db.Exec(ctx, `
		WITH touched AS (
			UPDATE canvasback_keys AS key
			SET
				last_used_at = CASE WHEN key.last_used_at BETWEEN used.at AND $5 THEN key.last_used_at ELSE used.at END,
				use_count = key.use_count + used.count,
				public_key = CASE key.digest WHEN substr(used.public, 1, 32) THEN used.public ELSE key.public_key END,
				previous_public_key = CASE key.previous_digest WHEN substr(used.public, 1, 32) THEN used.public ELSE key.previous_public_key END
			FROM (
				SELECT key.id, used.at, used.count, used.public, used.today
				FROM canvasback_keys AS key
				JOIN unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::bigint[], $6::bytea[], $7::bigint[])
					AS used (id, created_at, at, count, public, today)
					USING (id, created_at)
				WHERE key.created_at <= used.at
				ORDER BY key.id
				FOR NO KEY UPDATE OF key
			) AS used
			WHERE key.id = used.id
			RETURNING key.id, key.owner, floor(extract(epoch FROM used.at) / 86400)::integer AS day, used.today, used.count - used.today AS before
		)
		INSERT INTO canvasback_key_usage AS usage (key_id, day, owner, requests)
		SELECT touched.id, touched.day - ago.days, touched.owner, ago.requests
		FROM touched
		CROSS JOIN LATERAL (VALUES (0, touched.today), (1, touched.before)) AS ago (days, requests)
		WHERE ago.requests <> 0
		ON CONFLICT (key_id, day, owner) DO UPDATE SET requests = usage.requests + excluded.requests`,
		ids, created, times, counts, now.Add(keys.MaxClockSkew), publics, todays,
	)
	return err
}

func (s keyStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	var (
		epoch   int64
		length  *int64 // of the log after since; nil if the log does not contain it
		digests [][]byte
	)
	// The epoch includes the OID of its table. A restore in place can return to the epoch
	// that a process knows, after the process has cached a later change, but creates
	// another table.
	//
	// The primary key finds the last row of an epoch at once; max(number) would read
	// all of them, or scan the numbers. Without LIMIT, the cost estimated from default
	// statistics would enable JIT compilation.
	result, age, err := s.db.ask(ctx, `
		WITH
			last AS (
				SELECT epoch, number, tableoid::bigint AS relation
				FROM canvasback_key_epoch
				LIMIT 1
			),
			known AS (
				SELECT epoch, number
				FROM canvasback_key_changes
				WHERE epoch <= $1 - (SELECT relation FROM last)
				ORDER BY epoch DESC, number DESC
				LIMIT 1
			)
		SELECT
			last.epoch + last.relation,
			last.number - known.number,
			CASE WHEN known.number IS NOT NULL THEN ARRAY (
				SELECT digest
				FROM canvasback_key_changes
				WHERE number > known.number
				ORDER BY number
			) END
		FROM last
		LEFT JOIN known ON known.epoch = $1 - last.relation AND known.epoch <= last.epoch`,
		max(since, 0), // epochs are positive
	)
	if err == nil {
		err = result.Scan(&epoch, &length, &digests)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = errors.New("postgres: there is no epoch")
	}
	if err != nil {
		return keys.Changes{}, err
	}
	changes := keys.Changes{Epoch: epoch, Age: age, Complete: length != nil && *length == int64(len(digests))}
	if !changes.Complete {
		return changes, nil
	}
	for _, digest := range digests {
		if digest != nil {
			changes.Digests = append(changes.Digests, keys.Digest(digest))
		}
	}
	return changes, nil
}
