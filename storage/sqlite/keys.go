package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/keyrecord"
	"example.com/canvasback/storage/internal/paging"
)

type keyStore struct{ db *database }

var _ keys.Store = keyStore{}

// keyColumns are the columns that scanKey reads.
const keyColumns = `
	id, name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
	expires_at, last_used_at, use_count, created_at, updated_at, public_key, previous_public_key`

// keyRow is a row of keyColumns. It can be scanned repeatedly.
type keyRow struct {
	key              keys.Key
	scopes           string
	public, previous publicKey
}

func (r *keyRow) dest() []any {
	k := &r.key
	return []any{
		&k.ID, &k.Name, &k.Prefix, &k.Mask, &k.Owner, &r.scopes,
		(*digest)(&k.Digest), (*digest)(&k.PreviousDigest), (*millis)(&k.PreviousExpiresAt), &k.Active,
		(*millis)(&k.ExpiresAt), (*millis)(&k.LastUsedAt), &k.UseCount, (*millis)(&k.CreatedAt), (*millis)(&k.UpdatedAt),
		&r.public, &r.previous,
	}
}

func (r *keyRow) value() keys.Key {
	r.key.Scopes = keys.ParseScopes(r.scopes)
	r.key.PublicKey = keyrecord.PublicKey(r.public[:], r.key.Digest)
	r.key.PreviousPublicKey = keyrecord.PublicKey(r.previous[:], r.key.PreviousDigest)
	return r.key
}

func scanKey(row *sql.Row) (keys.Key, error) {
	var r keyRow
	err := row.Scan(r.dest()...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return keys.Key{}, keys.ErrNotFound
	case err != nil:
		return keys.Key{}, err
	}
	return r.value(), nil
}

// digest, publicKey and millis implement [sql.Scanner]. NULL is the zero value.
type (
	digest    keys.Digest
	publicKey [keyrecord.PublicKeySize]byte
	millis    time.Time
)

func (d *digest) Scan(column any) error {
	value, err := columnAs[[]byte](column)
	*d = digest{}
	copy(d[:], value)
	return err
}

func (k *publicKey) Scan(column any) error {
	value, err := columnAs[[]byte](column)
	*k = publicKey{}
	copy(k[:], value)
	return err
}

func (m *millis) Scan(column any) error {
	value, err := columnAs[int64](column)
	*m = millis{}
	if column != nil {
		*m = millis(time.UnixMilli(value).UTC())
	}
	return err
}

// columnAs returns the value of a column, or zero if it is NULL.
func columnAs[T any](column any) (value T, err error) {
	value, ok := column.(T)
	if !ok && column != nil {
		err = fmt.Errorf("sqlite: column of type %T, want %T", column, value)
	}
	return value, err
}

// previousDigest returns the column value of PreviousDigest: nil for zero.
func previousDigest(key keys.Key) []byte {
	if key.PreviousDigest == (keys.Digest{}) {
		return nil
	}
	return key.PreviousDigest[:]
}

func (s keyStore) Insert(ctx context.Context, key keys.Key) (keys.Key, error) {
	err := s.db.write(ctx, func(conn *sql.Conn) (err error) {
		key.ID, err = insertKey(ctx, conn, key)
		return err
	})
	if err != nil {
		return keys.Key{}, err
	}
	key.UseCount = 0
	return key, nil
}

func insertKey(ctx context.Context, conn *sql.Conn, key keys.Key) (id int64, err error) {
	err = conn.QueryRowContext(ctx, `
		INSERT INTO canvasback_keys (
			name, prefix, mask, owner, scopes, digest, previous_digest, previous_expires_at, active,
			expires_at, last_used_at, created_at, updated_at, public_key, previous_public_key
		)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		RETURNING id`,
		key.Name, key.Prefix, key.Mask, key.Owner, key.Scopes.String(),
		key.Digest[:], previousDigest(key), toMillis(key.PreviousExpiresAt), key.Active,
		toMillis(key.ExpiresAt), toMillis(key.LastUsedAt), toMillis(key.CreatedAt), toMillis(key.UpdatedAt),
		keyrecord.PublicKeyColumn(key.Digest, key.PublicKey), keyrecord.PublicKeyColumn(key.PreviousDigest, key.PreviousPublicKey),
	).Scan(&id)
	return id, err
}

func (s keyStore) Import(ctx context.Context, list []keys.Key) (ids []int64, err error) {
	err = s.db.write(ctx, func(conn *sql.Conn) error {
		ids = make([]int64, len(list))
		for i, key := range list {
			var taken bool
			err := conn.QueryRowContext(ctx, `
				SELECT EXISTS (SELECT 1 FROM canvasback_keys WHERE digest = ?1 OR previous_digest = ?1)`,
				key.Digest[:],
			).Scan(&taken)
			if err != nil {
				return err
			}
			if taken {
				return &keys.TakenError{Index: i}
			}
			if ids[i], err = insertKey(ctx, conn, key); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}

func (s keyStore) Get(ctx context.Context, id int64) (keys.Key, error) {
	return scanKey(s.db.queryRow(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE id = ?`,
		id,
	))
}

func (s keyStore) List(ctx context.Context, filter keys.Filter, r keys.Range) (keys.Page, error) {
	where, args := "id > ?", []any{r.After}
	if filter.Owner != nil {
		where, args = where+" AND owner = ? AND owner <> ''", append(args, *filter.Owner)
	}
	rows, err := s.db.query(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE `+where+`
		ORDER BY id
		LIMIT ? + 0`,
		append(args, paging.FetchLimit(r.Limit))...,
	)
	if err != nil {
		return keys.Page{}, err
	}
	list, err := scanKeys(rows, max(0, min(r.Limit, 1024)+1))
	if err != nil {
		return keys.Page{}, err
	}
	var page keys.Page
	page.Keys, page.More = paging.Cut(list, r.Limit)
	return page, nil
}

// scanKeys returns the keys of rows, about as many as given, and closes rows.
func scanKeys(rows *sql.Rows, about int) ([]keys.Key, error) {
	defer rows.Close()
	list := make([]keys.Key, 0, about)
	var row keyRow
	dest := row.dest()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		list = append(list, row.value())
	}
	return list, rows.Err()
}

// readKeys returns the keys that have the ids, ids ascending.
func readKeys(ctx context.Context, conn *sql.Conn, ids []int64) ([]keys.Key, error) {
	rows, err := conn.QueryContext(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE id IN (SELECT value FROM json_each(?))
		ORDER BY id`,
		jsonArray(ids),
	)
	if err != nil {
		return nil, err
	}
	return scanKeys(rows, len(ids))
}

func (s keyStore) Update(ctx context.Context, ids []int64, change func([]keys.Key) error) (list []keys.Key, err error) {
	err = s.db.write(ctx, func(conn *sql.Conn) error {
		if list, err = readKeys(ctx, conn, ids); err != nil {
			return err
		}
		modified, err := keyrecord.Change(list, change)
		if err != nil {
			return err
		}
		update, err := conn.PrepareContext(ctx, `
			UPDATE canvasback_keys
			SET
				name = ?, prefix = ?, mask = ?, owner = ?, scopes = ?, digest = ?,
				previous_digest = ?, previous_expires_at = ?, active = ?, expires_at = ?, updated_at = ?,
				public_key = ?, previous_public_key = ?
			WHERE id = ?`)
		if err != nil {
			return err
		}
		defer update.Close()
		for _, key := range modified {
			_, err := update.ExecContext(ctx,
				key.Name, key.Prefix, key.Mask, key.Owner, key.Scopes.String(), key.Digest[:],
				previousDigest(key), toMillis(key.PreviousExpiresAt), key.Active, toMillis(key.ExpiresAt), toMillis(key.UpdatedAt),
				keyrecord.PublicKeyColumn(key.Digest, key.PublicKey), keyrecord.PublicKeyColumn(key.PreviousDigest, key.PreviousPublicKey),
				key.ID,
			)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s keyStore) Delete(ctx context.Context, ids []int64, check func([]keys.Key) error) (list []keys.Key, err error) {
	err = s.db.write(ctx, func(conn *sql.Conn) error {
		if list, err = readKeys(ctx, conn, ids); err != nil {
			return err
		}
		if err := check(slices.Clone(list)); err != nil {
			return err
		}
		_, err := conn.ExecContext(ctx, `
			DELETE FROM canvasback_keys
			WHERE id IN (SELECT value FROM json_each(?))`,
			jsonArray(ids),
		)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s keyStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	return scanKey(s.db.queryRow(ctx, `
		SELECT `+keyColumns+`
		FROM canvasback_keys
		WHERE digest = ?1 OR previous_digest = ?1`,
		digest[:],
	))
}

func (s keyStore) FindID(ctx context.Context, id int64) (keys.Key, error) { return s.Get(ctx, id) }

func (s keyStore) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	return s.db.write(ctx, func(conn *sql.Conn) error {
		touch, err := conn.PrepareContext(ctx, `
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
		count, err := conn.PrepareContext(ctx, `
			INSERT INTO canvasback_key_usage (key_id, day, owner, requests)
			SELECT ?1, ?2 / 86400000 - ?3, ?4, ?5
			WHERE ?5 <> 0
			ON CONFLICT (key_id, day, owner) DO UPDATE SET requests = requests + excluded.requests`)
		if err != nil {
			return err
		}
		defer count.Close()
		latest := toMillis(now.Add(keys.MaxClockSkew))
		for _, use := range uses {
			public := keyrecord.PublicKeyColumn(use.Digest, use.PublicKey)
			var owner string
			err := touch.QueryRowContext(ctx, toMillis(use.At), latest, use.Count, use.ID, toMillis(use.CreatedAt), public).Scan(&owner)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			for daysAgo, requests := range []int64{use.Today, use.Count - use.Today} {
				if _, err := count.ExecContext(ctx, use.ID, toMillis(use.At), daysAgo, owner, requests); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (s keyStore) Usage(ctx context.Context, ids []int64, owner *string, since int64) ([]keys.UsageRow, error) {
	columns, where, group, args := "0, day, sum(requests)", "day >= ?", "day", []any{since}
	if ids != nil {
		columns, group = "key_id, day, sum(requests)", "key_id, day"
		where, args = where+" AND key_id IN (SELECT value FROM json_each(?))", append(args, jsonArray(ids))
	}
	if owner != nil {
		where, args = where+" AND owner = ?", append(args, *owner)
	}
	return queryAll(ctx, s.db, func(rows *sql.Rows) (row keys.UsageRow, err error) {
		err = rows.Scan(&row.KeyID, &row.Day, &row.Requests)
		return row, err
	}, `
		SELECT `+columns+`
		FROM canvasback_key_usage
		WHERE `+where+`
		GROUP BY `+group,
		args...,
	)
}

func (s keyStore) PruneUsage(ctx context.Context, before int64, most int) (removed int, err error) {
	err = s.db.write(ctx, func(conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, `
			DELETE FROM canvasback_key_usage
			WHERE (key_id, day, owner) IN (SELECT key_id, day, owner FROM canvasback_key_usage WHERE day < ? LIMIT ?)`,
			before, most,
		)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		removed = int(n)
		return err
	})
	return removed, err
}

func (s keyStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	rows, err := s.db.query(ctx, `
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
	defer rows.Close()
	err = sql.ErrNoRows // there is no epoch
	var (
		changes keys.Changes
		length  sql.NullInt64 // of the log after since; NULL if the log does not contain it
		found   int64
	)
	for rows.Next() {
		var logged bool
		var digest []byte
		if err = rows.Scan(&changes.Epoch, &length, &logged, &digest); err != nil {
			return keys.Changes{}, err
		}
		if logged {
			found++
		}
		if digest != nil {
			changes.Digests = append(changes.Digests, keys.Digest(digest))
		}
	}
	if err = cmp.Or(rows.Err(), err); err != nil {
		return keys.Changes{}, err
	}
	changes.Complete = length.Valid && length.Int64 == found
	if !changes.Complete {
		changes.Digests = nil
	}
	return changes, nil
}

func (keyStore) Shared() bool { return true }
