package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/sqlstore"
)

type keyStore struct {
	sqlstore.Keys
	db *database
}

var _ keys.Store = keyStore{}

func (s keyStore) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	return s.db.write(ctx, func(tx transaction) error {
		touch, err := tx.conn.PrepareContext(ctx, `
			UPDATE canvasback_keys
			SET
				last_used_at = CASE WHEN last_used_at BETWEEN ?1 AND ?2 THEN last_used_at ELSE ?1 END,
				use_count = use_count + ?3,
				public_key = CASE digest WHEN substr(?6, 1, 32) THEN ?6 ELSE public_key END,
				previous_public_key = CASE previous_digest WHEN substr(?6, 1, 32) THEN ?6 ELSE previous_public_key END
			WHERE id = ?4 AND created_at = ?5 AND created_at <= ?1
			RETURNING owner`)
		if err != nil {
			return err
		}
		defer touch.Close()
		count, err := tx.conn.PrepareContext(ctx, `
			INSERT INTO canvasback_key_usage (key_id, day, owner, requests)
			SELECT ?1, ?2 / 86400000 - ?3, ?4, ?5
			WHERE ?5 <> 0
			ON CONFLICT (key_id, day, owner) DO UPDATE SET requests = requests + excluded.requests`)
		if err != nil {
			return err
		}
		defer count.Close()
		latest := now.Add(keys.MaxClockSkew).UnixMilli()
		for _, use := range uses {
			public := sqlstore.PublicKeyColumn(use.Digest, use.PublicKey)
			var owner string
			err := touch.QueryRowContext(ctx, use.At.UnixMilli(), latest, use.Count, use.ID, use.CreatedAt.UnixMilli(), public).Scan(&owner)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			for daysAgo, requests := range []int64{use.Today, use.Count - use.Today} {
				if _, err := count.ExecContext(ctx, use.ID, use.At.UnixMilli(), daysAgo, owner, requests); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (s keyStore) PruneUsage(ctx context.Context, before int64, most int) (int, error) {
	removed, err := s.db.Exec(ctx, `
		DELETE FROM canvasback_key_usage
		WHERE (key_id, day, owner) IN (SELECT key_id, day, owner FROM canvasback_key_usage WHERE day < ? LIMIT ?)`,
		before, most,
	)
	return int(removed), err
}

func (s keyStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	var (
		changes keys.Changes
		length  sql.NullInt64 // of the log after since; NULL if the log does not contain it
		found   int64
	)
	err := s.db.Query(ctx, func(rows sqlstore.Rows) error {
		err := sql.ErrNoRows // there is no epoch
		for rows.Next() {
			var logged bool
			var digest []byte
			if err = rows.Scan(&changes.Epoch, &length, &logged, &digest); err != nil {
				return err
			}
			if logged {
				found++
			}
			if digest != nil {
				changes.Digests = append(changes.Digests, keys.Digest(digest))
			}
		}
		return err
	}, `
		SELECT current.epoch, current.number - known.number, change.number IS NOT NULL, change.digest
		FROM (
			SELECT epoch, number
			FROM canvasback_key_epoch
			LEFT JOIN (
				SELECT epoch, number
				FROM canvasback_key_changes
				ORDER BY number DESC
				LIMIT 1
			) USING (epoch)
		) AS current
		LEFT JOIN (
			SELECT max(number) AS number
			FROM canvasback_key_changes
			WHERE epoch = ?1
		) AS known ON ?1 <= current.epoch
		LEFT JOIN canvasback_key_changes AS change
			ON change.number > known.number AND current.number IS NOT NULL
		ORDER BY change.number`,
		since,
	)
	if err != nil {
		return keys.Changes{}, err
	}
	changes.Complete = length.Valid && length.Int64 == found
	if !changes.Complete {
		changes.Digests = nil
	}
	return changes, nil
}
