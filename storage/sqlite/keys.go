package sqlite

import (
	"context"
	"database/sql"
	"time"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/sqlstore"
)

type keyStore struct{ sqlstore.Keys }

// Touch counts a use under the condition on which it touches the key.
func (s keyStore) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	latest := now.Add(keys.MaxClockSkew)
	var touches, counts [][]any
	for _, use := range uses {
		public := sqlstore.PublicKeyColumn(use.Digest, use.PublicKey)
		touches = append(touches, []any{use.ID, use.CreatedAt, use.At, latest, use.Count, public})
		for daysAgo, requests := range []int64{use.Today, use.Count - use.Today} {
			if requests != 0 {
				counts = append(counts, []any{use.ID, use.CreatedAt, use.At, daysAgo, requests})
			}
		}
	}
	return s.DB.Transact(ctx, func(tx sqlstore.Tx) error {
		_, err := tx.ExecAll(ctx, `
			UPDATE canvasback_keys
			SET
				last_used_at = CASE WHEN last_used_at BETWEEN ?3 AND ?4 THEN last_used_at ELSE ?3 END,
				use_count = use_count + ?5,
				public_key = CASE digest WHEN substr(?6, 1, 32) THEN ?6 ELSE public_key END,
				previous_public_key = CASE previous_digest WHEN substr(?6, 1, 32) THEN ?6 ELSE previous_public_key END
			WHERE id = ?1 AND created_at = ?2 AND created_at <= ?3`,
			touches,
		)
		if err == nil {
			_, err = tx.ExecAll(ctx, `
				INSERT INTO canvasback_key_usage (key_id, day, owner, requests)
				SELECT id, ?3 / 86400000 - ?4, owner, ?5
				FROM canvasback_keys
				WHERE id = ?1 AND created_at = ?2 AND created_at <= ?3
				ON CONFLICT (key_id, day, owner) DO UPDATE SET requests = requests + excluded.requests`,
				counts,
			)
		}
		return err
	})
}

func (s keyStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	var (
		changes keys.Changes
		length  sql.NullInt64 // of the log after since; NULL if the log does not contain it
		found   int64
	)
	err := s.DB.Query(ctx, func(rows sqlstore.Rows) error {
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
